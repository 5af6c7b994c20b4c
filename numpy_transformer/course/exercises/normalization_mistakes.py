"""The known mistakes of LayerNorm, which the exercises on it and on RMSNorm share."""

from .definition import Mistake

MEAN_OF_G = " - g.mean(-1, keepdims=True)"
COUPLING = " - x_hat * (g * x_hat).mean(-1, keepdims=True)"


def without_keepdims(where="", what="means"):
    return (f"keepdims=True is missing{where}, so NumPy aligns the {what} of the rows with the features. If there are as "
            "many rows as features, this causes no error.")


KEEPDIMS = without_keepdims()


def in_dx(names, gamma, std, word):
    """Returns the mistakes in dx that both norms share.

    Parameters:
        names : names of the mistakes, in this order
        gamma, std : how the solution writes gamma and the divisor
        word : what the divisor is called, such as "standard deviation"
    """
    whole = "True)) / " + std
    term = f"The term of the {word} in your dx"
    explained = (
        ({COUPLING: ""},
         f"Your dx lacks the path through the {word}, which depends on x too, or the term of this path is always 0."),
        ({f"g = {gamma} * dy": "g = dy"},
         "gamma is missing in your dx: dy must first be multiplied by gamma. The initial value of gamma is 1, so this "
         "mistake has no effect before training."),
        ({f"g = {gamma} * dy": "g = dy", whole: f"True)) * {gamma} / {std}"},
         "You multiply by gamma outside the mean. It belongs inside, because each feature has its own gamma. Outside "
         "is correct only while all entries of gamma are equal, as before training."),
        ({"(g * x_hat)": "(dy * x_hat)"},
         f"{term} lacks gamma. Inside its mean, dy must be multiplied by gamma, too."),
        ({"x_hat).mean(": "x_hat).sum("},
         f"{term} contains a sum where a mean belongs. Divide it by the number of features D."),
        ({COUPLING: COUPLING.replace("- ", "- 2 * ")},
         f"{term} is twice as large as it should be. The derivative of a square is 2 x, but the root "
         "contributes a factor 1/2."),
        ({COUPLING: COUPLING.replace("- ", "- 0.5 * ")},
         f"{term} is half as large as it should be. The root contributes a factor 1/2, but the derivative of "
         "a square is 2 x."),
        ({whole: "True))"},
         f"You do not divide dx by the {word}, although forward divides x by it."),
        ({whole: f"{whole} ** 2"},
         f"You divide dx by the {word} twice, although forward divides x by it once."),
        ({" - x_hat * (g": " + x_hat * (g"},
         f"{term} has the wrong sign. A larger {word} makes x_hat smaller, so the term is subtracted."),
        ({" - x_hat * (g": " - (g"},
         f"{term} is the same for all features of a row. Its mean must be multiplied by x_hat, because a feature far "
         f"from the others affects the {word} most."),
        ({"(g * x_hat).mean(": "g.mean("},
         f"{term} lacks x_hat inside its mean. The {word} affects each y through its x_hat."),
        ({COUPLING: f"{COUPLING} * {std}"},
         f"{term} has the wrong power of the {word}. The derivative of 1 / sqrt(v) is -1/2 v^(-3/2)."),
        ({COUPLING: f"{COUPLING} / {std}"},
         f"{term} is divided by the {word} once too often."),
        ({whole: f"True)) * {std}"},
         f"You multiply dx by the {word}. forward divides x by it, and so does backward."),
        ({"(g - ": "g - ", whole: f"True) / {std}"},
         f"Only the last term of your dx is divided by the {word}. Parentheses are missing: the whole difference is "
         "divided."),
        ({whole: f"True)) * {gamma} / {std}"},
         "Your dx is multiplied by gamma twice, inside the means and once more outside. Inside is enough."),
        ({f"g = {gamma} * dy": f"g = dy / {gamma}"},
         "You divide dy by gamma. forward multiplies by gamma, and backward does too: it is the slope."),
        ({f"g = {gamma} * dy": f"dy *= {gamma}; g = dy"},
         "dy *= ... changes the caller's array. Make a new array."),
    )
    return tuple(Mistake(name, *mistake) for name, mistake in zip(names, explained))


STD = "standard deviation"
IN_DX = ("LN-3", "LN-4a", "LN-4b", "LN-4c", "LN-5b", "LN-6a", "LN-6b", "LN-7a", "LN-7b", "LN-10",
         "LN-3a", "LN-3b", "LN-6c", "LN-6d", "LN-7c", "LN-7d", "LN-4d", "LN-4e", "LN-4f")
THROUGH_MEAN = (
    Mistake("LN-1", {MEAN_OF_G + COUPLING: ""},
            "You treat the mean and the standard deviation as constants. Both depend on x, so two terms are missing."),
    Mistake("LN-2", {MEAN_OF_G: ""},
            "Your dx lacks the path through the mean. A larger x raises the mean of its row, which lowers every x_hat "
            "of the row."),
    Mistake("LN-5a", {"g.mean(": "g.sum(", "x_hat).mean(": "x_hat).sum("},
            "Your dx contains sums where means belong. Divide both by the number of features D."),
    Mistake("LN-5c", {"g.mean(": "g.sum("},
            "The term of the mean in your dx contains a sum where a mean belongs. Divide it by the number of features "
            "D."),
    Mistake("LN-8a", {"g.mean(-1": "g.mean(-2", "x_hat).mean(-1": "x_hat).mean(-2"},
            "The means in your dx run over the rows. Each row was normalized separately, so they must run over its "
            "features."),
    Mistake("LN-8b", {"g.mean(-1, keepdims=True)": "g.mean()", "x_hat).mean(-1, keepdims=True)": "x_hat).mean()"},
            "The means in your dx run over the whole array. Each row was normalized separately, so it has its own "
            "means."),
    Mistake("LN-8c", {"g.mean(-1": "g.mean(0", "x_hat).mean(-1": "x_hat).mean(0"},
            "The means in your dx run over the first axis. Each row was normalized separately, so they must run over "
            "its features."),
    Mistake("LN-10a", {" - g.mean(": " + g.mean("},
            "The term of the mean in your dx has the wrong sign. A larger mean makes every x_hat of the row smaller, "
            "so the term is subtracted."),
    Mistake("LN-5d", {"g.mean(-1, keepdims=True)": "g.sum(-1, keepdims=True) / len(dy)",
                      "(g * x_hat).mean(-1, keepdims=True)": "(g * x_hat).sum(-1, keepdims=True) / len(dy)"},
            "You divide the sums in your dx by the length of the first axis. They run over the features, so divide by "
            "the number of features D."),
    Mistake("LN-5e", {"True)) / std": "True)) / std * dy.shape[-1]"},
            "Your dx is D times too large. In the form with sums, D dy - sum(dy) - ..., the whole must be divided by "
            "D as well."),
    Mistake("LN-4g", {" - g.mean(": " - dy.mean("},
            "The term of the mean in your dx lacks gamma. Inside its mean, dy must be multiplied by gamma, too."),
    Mistake("LN-19a", {"g.mean(-1, keepdims=True)": "g.mean(-1)"},
            without_keepdims(" in the first mean of your dx")),
    Mistake("LN-19b", {"x_hat).mean(-1, keepdims=True)": "x_hat).mean(-1)"},
            without_keepdims(" in the second mean of your dx")),
)
MEAN_X, VAR_X = "x.mean(-1, keepdims=True)", "x.var(-1, keepdims=True)"


def in_statistics(eps, divisor):
    """Returns the mistakes in mean, variance and x_hat.

    Parameters:
        eps : how the solution writes eps
        divisor : how the solution writes the standard deviation
    """
    quotient = f"(x - mean) / {divisor}"
    own = " Each row has its own mean and variance."
    return (
        Mistake("LN-14", {"x.var(-1, keep": "x.var(-1, ddof=1, keep"},
                "Your variance divides by D - 1. Layer normalization divides by D, as np.var does by default."),
        Mistake("LN-15a", {"np.sqrt(var +": "(np.sqrt(var) +"},
                "You add eps to the standard deviation, after the root. It must be added to the variance, under the "
                "root. For rows that are almost constant, the difference is large."),
        Mistake("LN-15b", {f"np.sqrt(var + {eps})": "np.sqrt(var)"},
                "eps is missing. A row of equal numbers has variance 0, and 0 / 0 is NaN."),
        Mistake("LN-15c", {f"var + {eps}": "var + 1e-5"},
                "Your eps is always 1e-5. It is a number that the caller chooses."),
        Mistake("LN-15d", {f"var + {eps}": f"var + {eps} ** 2"},
                "You square eps. It is added to the variance as it is."),
        Mistake("LN-16a", {f"np.sqrt(var + {eps})": f"(var + {eps})"},
                "You divide the rows by their variance. The root is missing."),
        Mistake("LN-16b", {"x.mean(-1": "x.mean(0", "x.var(-1": "x.var(0"},
                "You compute mean and variance over the first axis." + own),
        Mistake("LN-16c", {"x.mean(-1": "x.mean((-2, -1)", "x.var(-1": "x.var((-2, -1)"},
                "You compute mean and variance over the last two axes at once, so a token depends on its neighbors."
                + own),
        Mistake("LN-16d", {quotient: f"x / {divisor}"}, "Your code does not subtract the mean."),
        Mistake("LN-16e", {MEAN_X: "x.mean()", VAR_X: "x.var()"},
                "You compute one mean and one variance for the whole array." + own),
        Mistake("LN-16f", {"x.mean(-1": "x.mean(-2", "x.var(-1": "x.var(-2"},
                "You compute mean and variance over the rows. Each row has its own, over its features."),
        Mistake("LN-16g", {"x.var(": "(x ** 2).mean("},
                "The mean of x^2 equals the variance only for rows whose mean is 0. Subtract the mean before "
                "squaring."),
        Mistake("LN-16h", {"x.var(": "x.std("},
                "You take the root twice. np.std is already a root, and eps belongs to the variance."),
        Mistake("LN-16i", {VAR_X: "((x - mean) ** 2).sum(-1, keepdims=True)"},
                "Your variance is the sum of the squares. It must be their mean, so divide by D."),
        Mistake("LN-16j", {quotient: f"(x + mean) / {divisor}"},
                "You add the mean. It must be subtracted, so that each row has mean 0."),
        Mistake("LN-16k", {quotient: f"(mean - x) / {divisor}"},
                "You subtract x from the mean, so that x_hat has the wrong sign."),
        Mistake("LN-16l", {"x.mean(-1": "x.mean(tuple(range(1, x.ndim))", "x.var(-1": "x.var(tuple(range(1, x.ndim))"},
                "You compute mean and variance over all axes except the first, so a token depends on its neighbors."
                + own),
        Mistake("LN-16m", {"x.mean(-1": "x.mean(tuple(range(x.ndim - 1))",
                           "x.var(-1": "x.var(tuple(range(x.ndim - 1))"},
                "You compute mean and variance of each feature over all rows, as in batch normalization." + own),
        Mistake("LN-16n", {MEAN_X: "x.sum(-1, keepdims=True) / len(x)",
                           VAR_X: "((x - x.sum(-1, keepdims=True) / len(x)) ** 2).sum(-1, keepdims=True) / len(x)"},
                "You divide the sums over the features by the length of the first axis, len(x). Divide by the number "
                "of features D."),
        Mistake("LN-16o", {VAR_X: f"((x - {MEAN_X}) ** 2).sum(-1, keepdims=True) / len(x)"},
                "Your variance divides by the length of the first axis, len(x). Divide by the number of features D."),
        Mistake("LN-16p", {MEAN_X: "x.mean()"},
                "You subtract the mean of the whole array. Each row has its own mean."),
        Mistake("LN-16q", {VAR_X: "x.var()"},
                "You use the variance of the whole array. Each row has its own variance."),
        Mistake("LN-16r", {VAR_X: f"(x ** 2).mean(-1, keepdims=True) - {MEAN_X}"},
                "The variance is the mean of the squares minus the square of the mean. Your mean is not squared."),
        Mistake("LN-16s", {VAR_X: f"abs(x - {MEAN_X}).mean(-1, keepdims=True)"},
                "You use the mean distance from the mean. The variance is the mean of its square."),
        Mistake("LN-16t", {"x.mean(-1": "x.mean(1", "x.var(-1": "x.var(1"},
                "You compute mean and variance over axis 1. These are the features only if x has two axes; the last "
                "axis is -1."),
        Mistake("LN-16u", {MEAN_X: "x.sum(-1, keepdims=True)"},
                "You subtract the sum of the features. It must be their mean, so divide by D."),
        Mistake("LN-16v", {quotient: f"(x - mean) * {divisor}"},
                "You multiply x - mean by the standard deviation. Divide by it, so that the variance becomes 1."),
        Mistake("LN-16w", {quotient: "x - mean"},
                "Your x_hat is only centered. It is also divided by the standard deviation, so that its variance "
                "becomes 1."),
        Mistake("LN-19c", {MEAN_X: "x.mean(-1)", VAR_X: "x.var(-1)"}, KEEPDIMS),
        Mistake("LN-19d", {VAR_X: "x.var(-1)"},
                without_keepdims(" in the variance", "variances")),
        Mistake("LN-19e", {MEAN_X: "x.mean(-1)"}, without_keepdims(" in the mean")),
    )


SUMMED = "All rows share gamma and beta, so their gradients are sums over every axis except the last."
