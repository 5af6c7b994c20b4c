"""The known mistakes in beam search."""

from .definition import Mistake

LOG_P = "log_softmax(model(ids)[-1])"
PENALTY = "((5 + length) / 6) ** alpha"
LAST = f"last = [(ids[1:], total / {PENALTY}) for ids, total in candidates[:beam]]\n    "

MISTAKES = (
    Mistake("BEAM-1", {LOG_P: f"np.exp({LOG_P})"},
            "You add probabilities. The probability of a text is the product of its tokens' probabilities, so "
            "you must add their logarithms."),
    Mistake("BEAM-2", {LOG_P: "model(ids)[-1]"},
            "You add logits. They are not log probabilities: each row differs from them by a constant of its "
            "own, so the sums of different texts cannot be compared. log_softmax is missing."),
    Mistake("BEAM-3a", {f" / {PENALTY}": ""},
            "Your score is log P itself. It decreases with each token, so short texts win. The score must "
            "account for the length."),
    Mistake("BEAM-3e", {PENALTY: "length"},
            "You divide log P by the length. Here the divisor is ((5 + length) / 6)^alpha."),
    Mistake("BEAM-3f", {f" / {PENALTY}": f" * {PENALTY}"},
            "You multiply log P by the length penalty. log P is negative, so this makes long texts even "
            "worse. Divide by it."),
    Mistake("BEAM-3g", {PENALTY: "(5 + length / 6) ** alpha"},
            "Parentheses are missing in your divisor: the sum 5 + length as a whole is divided by 6."),
    Mistake("BEAM-3h", {PENALTY: "((5 + length) / 6 * alpha)"},
            "You multiply by alpha. It is an exponent."),
    Mistake("BEAM-3i", {PENALTY: "((5 + length - (ids[-1] == eos)) / 6) ** alpha"},
            "Your length does not count eos. It counts every token after bos, including eos."),
    Mistake("BEAM-3j", {PENALTY: "((5 + max_len) / 6) ** alpha"},
            "You use max_len in the divisor, which is the same for all texts. The length is that of the text "
            "itself."),
    Mistake("BEAM-3k", {"np.array(ids), score": "np.array(ids), score * ((5 + len(ids)) / 6) ** alpha"},
            "Your text is right, but you return its log P. The score is log P divided by "
            "((5 + length) / 6)^alpha."),
    Mistake("BEAM-3b", {PENALTY: "length ** alpha"},
            "You divide log P by length^alpha. Here the divisor is ((5 + length) / 6)^alpha, which favors long "
            "texts less."),
    Mistake("BEAM-3c", {PENALTY: "((6 + length) / 6) ** alpha"},
            "Your length is too large by one, because it counts bos."),
    Mistake("BEAM-3d", {"key=lambda hypothesis: hypothesis[1]":
                        "key=lambda hypothesis: hypothesis[1] * ((5 + len(hypothesis[0])) / 6) ** alpha",
                        f"total / {PENALTY}": f"total / {PENALTY}"},     # not together with another divisor
            "You compare the finished texts by log P, and account for the length only in the score that you "
            "return. The best text is the one with the highest score.",
            context="/ ((5 + length) / 6) ** alpha"),
    Mistake("BEAM-4a", {"ids[-1] == eos or length": "length"},
            "You lose the finished texts. A text that ends in eos is not extended, but it must be kept, "
            "together with its score."),
    Mistake("BEAM-4b", {" or length == max_len": ""},
            "You lose the texts that are unfinished after max_len tokens. At that step, all of the `beam` best "
            "candidates count as finished."),
    Mistake("BEAM-4c", {" or length == max_len": "", "ids, score = max(finished,": LAST +
                        "ids, score = max(finished or last,"},
            "You consider the texts that are unfinished after max_len tokens only if no text has finished. At "
            "that step, all of the `beam` best candidates always count as finished."),
    Mistake("BEAM-4d", {" or length == max_len": "", "ids, score = max(finished,": LAST +
                        "ids, score = max(finished + last if len(finished) < beam else finished,"},
            "You consider the texts that are unfinished after max_len tokens only if fewer than `beam` texts "
            "have finished. At that step, all of the `beam` best candidates always count as finished."),
    Mistake("BEAM-5", {"][:beam]": "][:1]"},
            "You keep one unfinished text at each step, as greedy decoding does. Keep `beam` of them."),
    Mistake("BEAM-6", {"candidates if ids[-1] != eos": "candidates"},
            "You extend texts after their eos. Those texts are finished; extend only the others."),
    Mistake("BEAM-7", {"candidates if ids[-1] != eos][:beam]": "candidates[:beam] if ids[-1] != eos]"},
            "Each finished text leaves a gap in your beam. The next best unfinished candidates must fill it, "
            "so that there are `beam` of them again."),
    Mistake("BEAM-8", {"candidates[:beam] if": "candidates if"},
            "You finish every candidate that ends in eos, no matter how unlikely it is. It has to be among the "
            "`beam` best candidates of its step."),
    Mistake("BEAM-10a", {"len(finished) >= beam": "finished"},
            "You return the first finished text, or end the search with it. Continue until there are `beam` of "
            "them, because a later one may have a higher score."),
    Mistake("BEAM-10b", {"len(finished) >= beam": "False"},
            "You always continue to max_len. The search ends after the step at which there are `beam` or more "
            "finished texts."),
    Mistake("BEAM-10c", {"len(finished) >= beam": "len(finished) == beam"},
            "Your search ends only if exactly `beam` texts are finished. Several texts may finish at one step, "
            "so there can be more."),
    Mistake("BEAM-10d", {"len(finished) >= beam": "len(ended) >= beam"},
            "You end the search only if `beam` texts finish at the same step. All finished texts count, "
            "including those of earlier steps.", context="ended = "),
    Mistake("BEAM-10e", {"len(finished) >= beam": "len(finished) > beam"},
            "You end the search only if more than `beam` texts are finished. `beam` of them are enough."),
    Mistake("BEAM-10f", {"len(finished) >= beam": "candidates[0][0][-1] == eos"},
            "You end the search when the best candidate of a step ends in eos. It ends when there are `beam` "
            "or more finished texts."),
    Mistake("BEAM-10g", {"len(finished) >= beam": "length >= beam"},
            "You count steps. The search ends when `beam` or more texts are finished, however many steps that "
            "takes."),
    Mistake("BEAM-11a", {"max(finished, key=lambda hypothesis: hypothesis[1])": "finished[-1]"},
            "You return the text that was finished last. The best one has the highest score, whenever it was "
            "finished."),
    Mistake("BEAM-11b", {"max(finished": "min(finished"},
            "You return the text with the lowest score. Scores are negative, and the best one is closest to "
            "0."),
    Mistake("BEAM-14", {"-candidate[1]": "candidate[1]"},
            "You sort in the wrong order, so you keep the least likely candidates."),
    Mistake("BEAM-15", {"range(len(log_p))": "[log_p.argmax()]"},
            "You extend each hypothesis by its most likely token only, so there is never more than one "
            "hypothesis. Extend it by every token.", twin="BEAM-26"),
    Mistake("BEAM-16", {"][:beam]": "][:beam - len(finished)]"},
            "You keep fewer unfinished texts once others are finished. Finished texts take no place in the "
            "beam."),
    Mistake("BEAM-17", {"finished += [(ids[1:]": "finished += [(ids"},
            "Your text begins with bos, which does not belong to the result."),
    Mistake("BEAM-18", {"return np.array(ids), score": "return np.array(ids if ids[-1] != eos else ids[:-1]), "
                        "score"},
            "You cut off eos. It belongs to the result if it was generated."),
    Mistake("BEAM-19a", {"max_len + 1)": "max_len)"},
            "Your loop ends one step too early: range(1, n) stops at n - 1. Step max_len is never made, so "
            "texts that are unfinished there are lost."),
    Mistake("BEAM-19b", {"max_len + 1)": "max_len + 2)", "length == max_len": "length == max_len + 1"},
            "You write one token more than max_len."),
    Mistake("BEAM-19c", {"max_len + 1)": "max_len)", "length == max_len": "length == max_len - 1"},
            "You write at most max_len - 1 tokens. max_len does not count bos."),
    Mistake("BEAM-19d", {"range(1, max_len + 1)": "range(max_len)", "length == max_len": "length == max_len - "
                         "1"},
            "Your length is too small by one, because your steps count from 0. A text that is finished at the "
            "first step has length 1."),
    Mistake("BEAM-19e", {"max_len + 1)": "max_len + 2)"},
            "Your loop makes one step too many if fewer than `beam` texts are finished after step max_len. The "
            "search always ends there."),
    Mistake("BEAM-20", {"model(ids)[-1]": "model(ids)[0]"},
            "You take the logits from row 0 at every step. That row scores the token after bos; the next token "
            "is scored in the row of the latest one."),
    Mistake("BEAM-21", {"model(ids)": "model(ids[-1:])"},
            "You give the model the latest token only. The next token depends on all tokens of the "
            "hypothesis."),
    Mistake("BEAM-22", {"log_softmax(model(ids)[-1])": "log_softmax(model(ids))[-1]"},
            "You apply log_softmax to all rows at once. The given function normalizes one row of logits (V,), "
            "so select the last row first."),
    Mistake("BEAM-23", {"candidates[:beam] if": "candidates[:2 * beam] if"},
            "You finish texts among the 2 `beam` best candidates. Only the `beam` best of a step can "
            "finish."),
    Mistake("BEAM-24", {"return np.array(ids), score": "return np.array(ids), np.exp(score)"},
            "You return exp of the score. The score is log P, divided by the length penalty."),
    Mistake("BEAM-25", {"return np.array(ids), score": "return score, np.array(ids)"},
            "You return the two in the wrong order. The ids come first, then the score."),
    Mistake("BEAM-26", {"    unfinished = [([bos], 0.0)]": "    beam = 1\n    unfinished = [([bos], 0.0)]"},
            "This is greedy decoding: you keep the one best token at each step. Keep `beam` hypotheses.",
            twin="BEAM-15"),
    Mistake("BEAM-27", {
                "            log_p = ": "            if ids[-1] == eos:\n                candidates.append((ids, "
                                        "total))\n                continue\n            log_p = ",
                f"finished += [(ids[1:], total / {PENALTY}) for ids, total in ended]":
                "finished = [(ids[1:], total / ((4 + len(ids)) / 6) ** alpha) for ids, total in "
                "candidates[:beam]]",
                "len(finished) >= beam": "all(ids[-1] == eos for ids, _ in candidates[:beam])",
                "[(ids, total) for ids, total in candidates if ids[-1] != eos][:beam]": "candidates[:beam]"},
            "Your finished texts stay in the beam, where they take the places of unfinished ones and can be "
            "lost again. Here they leave the beam when they finish, and are kept apart."),
    Mistake("BEAM-28", {"    ids, score = max(finished,":
                        f"    left = [(ids[1:], total / {PENALTY}) for ids, total in candidates if ids[-1] != "
                        "eos][:beam]\n    ids, score = max(finished + left,"},
            "You also consider texts that are unfinished when the search ends. They count only at step "
            "max_len; before it, a text must have finished."),
    Mistake("BEAM-29", {"total + log_p[token]": f"(total + log_p[token]) / {PENALTY}",
                        f"total / {PENALTY}": "total"},
            "You divide by the length penalty at each step, so a text is divided again and again. Add up the "
            "log probabilities, and divide the sum once, when the text has finished."),
    Mistake("BEAM-30", {"range(len(log_p))": "np.argsort(-log_p)[:beam]"},
            "You extend each hypothesis by its `beam` best tokens only. If eos is one of them, there may be "
            "too few candidates that stay unfinished."),
    Mistake("BEAM-12", {"total + log_p[token]": "log_p[token]"},
            "Your candidate has the log probability of its last token only. Add it to log P of the hypothesis "
            "that you extend."),
    Mistake("BEAM-13", {"finished = []": "finished, beam = [], 2"},
            "Your code does not use the argument beam: it always keeps two hypotheses."),
)
