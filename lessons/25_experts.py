# %% [markdown]
# # 25 Experts
#
# In a feed-forward layer, every token uses every weight. A **mixture of experts** has many small feed-forward layers,
# its experts, and a **router** that chooses a few of them for each token. The model can then have many more weights
# without more work per token. Mixtral (2024) computes with two of eight experts in each layer, DeepSeek-V3 (2024) with
# 8 of 256, and one more that all tokens share.
#
# This lesson builds a router and a mixture with their backward, shows how experts stay unused, trains two remedies, and
# compares experts with a dense layer that does the same work. After it you will be able to derive the gradients of
# the gates, to dispatch tokens without dropping any, and to write a loss that balances the use. Sources: Shazeer et
# al. 2017; Lepikhin et al. 2020 (GShard); Fedus et al. 2021 (Switch); Wang et al. 2024 (balancing without a loss);
# Jiang et al. 2024 (Mixtral); DeepSeek-AI 2024 (DeepSeek-V3).

# %% Imports
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source, slopes
from numpy_transformer.data import CharTokenizer, TextWindows, builtin_text

lesson.start(__name__)
rng = np.random.default_rng(25)


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


# %% [markdown]
# ## 1. The router
#
# In this lesson N is the number of tokens, E of experts, and k of experts per token. A linear layer gives each token
# one logit z per expert. The token keeps the k experts with the largest logits. Its **gates** g are the softmax over
# these k, and exactly 0 for all other experts. The output is the sum of g_e times the output of expert e, so experts
# with gate 0 need not be computed.
#
# **Backward.** Among the chosen experts, this is the softmax backward of lesson 01:
#
#     dz_e = g_e (dg_e - sum over j of g_j dg_j)
#
# The sum is there because the gates add up to 1: if one grows, the others shrink. For an expert that was not chosen,
# g_e = 0 and so dz_e = 0. The choice itself has no gradient: it does not change when a logit moves a little. From
# this token, the router does not learn whether another expert would have been better.

# %% Gates and their backward
drawing("experts")
predict("The logits of a token are 1, 3, -2 and 3, and k = 2. What is the gate of the first expert, with logit 1?", 0,
        why="The two experts with logit 3 are chosen, and each has the gate 0.5.")
N, D, E, k = 9, 6, 5, 2
x, dg, W = rng.standard_normal((N, D)), rng.standard_normal((N, E)), rng.standard_normal((D, E))


def gates(z):
    """Softmax over the k largest logits of each row, and 0 elsewhere."""
    chosen = (-z.real).argsort(-1)[:, :k]
    g = np.zeros_like(z)
    picked = np.exp(np.take_along_axis(z, chosen, -1))              # of small logits, so exp cannot overflow
    np.put_along_axis(g, chosen, picked / picked.sum(-1, keepdims=True), -1)
    return g, chosen


g, chosen = gates(x @ W)
dz = g * (dg - (g * dg).sum(-1, keepdims=True))
show(g=g[:3], dz=dz[:3])
numeric = slopes(lambda z: (gates(z)[0] * dg).sum(), x @ W)
claim("dz agrees with the complex step", relative_error(dz, numeric) < 1e-13)
claim("without the sum over the gates it does not", relative_error(g * dg, numeric) > 0.1)
claim("logits that were not chosen have a gradient of exactly 0", not dz[g == 0].any() and not numeric[g == 0].any())
router = nt.Router(D, E, k).astype(np.float64)
router.linear.weight.data = W
claim("nt.Router returns these gates and this gradient of x",
      relative_error(router(x), g) < 1e-14 and relative_error(router.backward(dg), dz @ W.T) < 1e-14)
show_source(nt.Router.forward, nt.Router.choose)

# %% [markdown]
# ## 2. The mixture
#
# A loop over tokens would be slow, so the tokens are **dispatched**: the N k pairs of a token and an expert are sorted
# by expert. Then each expert is called once, with exactly the tokens that have chosen it. Let h_e be its output.
# Backward goes the same way, with y = sum over e of g_e h_e:
#
#     dh_e = g_e dy            dg_e = dy · h_e
#
# for the tokens of expert e, and their gradients of x are added up.
#
# One trap: `y[tokens] += ...` writes each row once. Within one expert no token occurs twice, so adding expert by expert
# is right. With all pairs at once, each token occurs k times, and only the last addition would stay.

# %% Dispatch by sorting, forward and backward
experts = [nt.SwiGLU(D, 7, rng=rng).astype(np.float64) for _ in range(E)]
dy = rng.standard_normal((N, D))
order = chosen.ravel().argsort(kind="stable")                       # the pairs, sorted by expert
counts = np.bincount(chosen.ravel(), minlength=E)                   # tokens per expert
tokens_of = np.split(order // k, counts.cumsum()[:-1])              # pair n belongs to token n // k
h = [experts[e](x[tokens]) for e, tokens in enumerate(tokens_of)]
y = np.zeros((N, D))
for e, tokens in enumerate(tokens_of):
    y[tokens] += g[tokens, e, None] * h[e]
dg, dx = np.zeros((N, E)), np.zeros((N, D))
for e, tokens in enumerate(tokens_of):
    dg[tokens, e] = (dy[tokens] * h[e]).sum(-1)
    dx[tokens] += experts[e].backward(g[tokens, e, None] * dy[tokens])
dx += g * (dg - (g * dg).sum(-1, keepdims=True)) @ W.T              # through the gates
show(counts=counts, tokens_of_expert_0=tokens_of[0])
dense = sum(g[:, e, None] * expert.eval()(x) for e, expert in enumerate(experts))
claim("sorting gives the sum over all experts, most of which are multiplied by 0", relative_error(y, dense) < 1e-14)
at_once = np.zeros((N, D))
at_once[np.concatenate(tokens_of)] += np.concatenate([g[tokens, e, None] * h[e] for e, tokens in enumerate(tokens_of)])
claim("adding all pairs at once loses some", relative_error(at_once, dense) > 0.1)
mixture = nt.MixtureOfExperts(router, [expert.train() for expert in experts])
claim("nt.MixtureOfExperts returns this y and this dx",
      relative_error(mixture(x), y) < 1e-14 and relative_error(mixture.backward(dy), dx) < 1e-14)
claim("finite differences and the complex step confirm all gradients", nt.gradcheck(mixture, x).ok)
alone = x[g[:, 0] == 0]                     # tokens that have not chosen expert 0
mixture.zero_grad()
mixture(alone)
mixture.backward(rng.standard_normal(alone.shape))
largest = [max(abs(p.grad).max() for p in expert.parameters()) for expert in experts]
claim("an expert that no token has chosen has a gradient of exactly 0", largest[0] == 0 and min(largest[1:]) > 0)
shared = nt.SwiGLU(D, 7, rng=rng).astype(np.float64)
claim("a shared expert adds its output for every token",
      relative_error(nt.MixtureOfExperts(router, experts, shared)(x), y + shared(x)) < 1e-14)

# %% [markdown]
# A **shared** expert serves every token in addition to the chosen ones. What all tokens need is then learned once and
# not in every expert. It has no gate, so `nt.MixtureOfExperts(router, experts, shared)` simply adds its output.
#
# Earlier systems gave each expert a fixed number of places, its **capacity**: a **capacity factor**, such as 1.25,
# times the N k / E pairs that an equal use would bring. Pairs beyond it are dropped, and only the residual connection
# carries such tokens on. Sorting needs no capacity. But on several machines the step takes as long as the busiest
# expert, so balance matters there.
#
# ## 3. A loss for balance
#
# Let f_e be the share of all choices that fall on expert e. It is a count and has no gradient. Let P_e be the
# mean over the tokens of p_e, the softmax of *all* logits, which has one. The loss
#
#     L = coefficient E sum over e of f_e P_e
#
# multiplies each probability by how busy the expert is. Where f is large, gradient descent lowers the logits. With an
# equal use, L is the coefficient. With the softmax backward and dL/dp_e = coefficient E f_e / N,
#
#     dz_e = coefficient E / N · p_e (f_e - sum over j of f_j p_j)
#
# Here every logit has a gradient, even that of an expert that no token chooses.

# %% The gradient of the balancing loss
predict("E = 8 and k = 1. All tokens choose the same expert, with probability 1. What is L / coefficient?", 8,
        why="f and P are 1 for this expert and 0 for the others, so L = coefficient · 8 · 1.")
coefficient = 0.3
f = np.bincount(chosen.ravel(), minlength=E) / chosen.size


def balancing_loss(z):
    return coefficient * E * f @ nt.Softmax().eval()(z).mean(0)


p = nt.Softmax().eval()(x @ W)
dz = coefficient * E / N * p * (f - p @ f[:, None])
numeric = slopes(balancing_loss, x @ W)
claim("dz agrees with the complex step", relative_error(dz, numeric) < 1e-13)
swapped = coefficient * E / N * p * (p.mean(0) - p @ p.mean(0)[:, None])
claim("with f and P swapped it does not", relative_error(swapped, numeric) > 0.1)
balanced = nt.BalancedRouter(router, coefficient)
claim("nt.BalancedRouter returns the same gates, and keeps this loss",
      np.array_equal(balanced(x), router(x)) and math.isclose(balanced.auxiliary_loss, balancing_loss(x @ W)))
balanced.forget()(x)
claim("with dg = 0, its backward is the gradient of this loss alone",
      relative_error(balanced.backward(np.zeros((N, E))), dz @ W.T) < 1e-14)
claim("nt.gradcheck adds the loss to what it differentiates",
      nt.gradcheck(nt.MixtureOfExperts(balanced, experts), x).ok)
show_source(nt.BalancedRouter.forward, nt.BalancedRouter.backward)

# %% [markdown]
# ## 4. Experts that stay out of use
#
# A task that suits experts: there are 8 kinds of tokens, and each kind has a map of its own from token to label. But
# all tokens share a large vector, so most of them choose the same few experts from the start, and nothing corrects
# this. Only these experts learn, and the others stay behind. We have put this vector in: without it, the experts of a
# task this small stay in use (exercise 3).
#
# We measure the use by its entropy divided by log E (`nt.balance_of`): 1 means that all experts get equally many
# tokens, and b corresponds to E^b experts in equal use.
#
# The first remedy is the loss of section 3. The second needs no loss (Wang et al. 2024). The router's scores are the
# sigmoids s of the logits, and a number c_e is added to s_e *for the choice alone*. After each step, c rises by a fixed
# rate for experts with fewer tokens than the mean, and falls for those with more. The gates are s_e divided by the sum
# of the chosen s, without c, so no gradient is disturbed.

# %% Five runs each: nothing done, the loss, and the correction
D, E, KINDS, LABELS, SEEDS, STEPS = 16, 8, 8, 8, range(5), 400


class Task:
    """Tokens of 8 kinds. The label depends on what is a token's own, by a map that belongs to its kind."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.seed = seed
        self.centers = rng.standard_normal((KINDS, D)) + 2 * rng.standard_normal(D)         # what they share is large
        self.maps = rng.standard_normal((KINDS, D, LABELS))

    def batch(self, step, count=128):
        rng = np.random.default_rng([self.seed, step])
        kind, own = rng.integers(0, KINDS, count), 0.7 * rng.standard_normal((count, D))
        return np.float32(self.centers[kind] + own), (own[:, None] @ self.maps[kind])[:, 0].argmax(-1)


def run(seed, router_class=None, coefficient=0.0, rate=0.0):
    """Trains, and returns the loss on 4,000 new tokens, the balance after each step, and the last counts."""
    rng = np.random.default_rng([seed, 1])
    layer = nt.SwiGLU(D, 35, rng=rng)                               # at least as many multiply-adds as two experts
    if router_class:
        router = router_class(D, E, 2, rng=rng)
        router = nt.BalancedRouter(router, coefficient) if coefficient else router
        layer = nt.MixtureOfExperts(router, [nt.SwiGLU(D, 16, rng=rng) for _ in range(E)])
    output, criterion, task = nt.Linear(D, LABELS, rng=rng), nt.CrossEntropyLoss(), Task(seed)
    optimizer = nt.Adam(layer.parameters() + output.parameters(), 0.01)
    balance = []
    for step in range(STEPS):
        x, labels = task.batch(step)
        layer.zero_grad()
        output.zero_grad()
        criterion(output(x + layer(x)), labels)
        layer.backward(output.backward(criterion.backward()))
        optimizer.step()
        counts = nt.tokens_per_expert(router) if router_class else np.ones(E)
        balance.append(nt.balance_of(counts))
        if rate:
            router.correction.data += rate * np.sign(counts.mean() - counts)
    x, labels = task.batch(STEPS, 4000)
    loss = criterion(output.eval()(x + layer.eval()(x)), labels)
    return loss, balance, nt.tokens_per_expert(router) if router_class else None


SETUPS = {"softmax, nothing done": {"router_class": nt.Router},
          "softmax, balancing loss": {"router_class": nt.Router, "coefficient": 0.1},
          "sigmoid, nothing done": {"router_class": nt.SigmoidRouter},
          "sigmoid, correction": {"router_class": nt.SigmoidRouter, "rate": 0.01}, "dense": {}}
runs = {name: [run(seed, **setup) for seed in SEEDS] for name, setup in SETUPS.items()}
losses = {name: np.array([loss for loss, *_ in results]) for name, results in runs.items()}
*with_experts, _ = SETUPS
final = {name: np.array([np.mean(balance[-20:]) for _, balance, _ in runs[name]]) for name in with_experts}
dropped = {name: np.mean([np.maximum(counts - counts.sum() / E * 1.25, 0).sum() / counts.sum()
                          for *_, counts in runs[name]]) for name in with_experts}
for name in with_experts:
    print(f"  {name:24} balance at the end", *(f"{b:.2f}" for b in final[name]),
          f" a capacity factor of 1.25 would drop {dropped[name]:.0%}")


def paired(first, second):
    """The mean of second - first over the seeds, with its standard error, in words."""
    difference = losses[second] - losses[first]
    error = difference.std(ddof=1) / math.sqrt(len(difference))
    return difference.mean(), f"{second}: {difference.mean():+.3f} ± {error:.3f} against {first}"


claim("with nothing done, the use stays uneven: fewer than 5 of 8 experts on average",
      [8 ** final[name].mean() < 5 for name in with_experts if "nothing" in name])
claim("with the loss or the correction, every run ends with a balance above 0.85",
      [(final[name] > 0.85).all() for name in with_experts if "nothing" not in name])
claim("a capacity factor of 1.25 would drop over a quarter of the pairs without balance, and less than a tenth with it",
      [dropped[name] > 0.25 if "nothing" in name else dropped[name] < 0.1 for name in with_experts])
for n in (0, 2):
    difference, words = paired(with_experts[n], with_experts[n + 1])
    claim("balance lowers the mean loss", difference < 0, words)
router = nt.SigmoidRouter(D, E, 2, rng=rng)
router.chosen = np.array([[0, 1], [0, 2], [0, 2]])                  # counts 3, 1, 2 and 0, with a mean below 1
nt.BiasBalancing(router, rate=0.01).step()
claim("nt.BiasBalancing takes the same step", np.allclose(router.correction.data, 0.01 * np.array([-1] * 3 + [1] * 5)))
picture = Figure(figsize=(9, 4), layout="constrained")
axes = picture.subplots(1, 2, sharey=True)
for name in with_experts:
    panel, color = axes[0 if "softmax" in name else 1], "C1" if "nothing" in name else "C0"
    for n, (_, balance, _) in enumerate(runs[name]):
        panel.plot(np.convolve(balance, np.full(20, 1 / 20), "valid"), color, label=None if n else name.split(", ")[1])
for panel, title in zip(axes, ("softmax router", "sigmoid router")):
    panel.set(title=title, xlabel="step (means over 20)", ylim=(0, 1.05))
    panel.legend(loc="lower right")
axes[0].set_ylabel("balance: entropy of the use / log 8")
figure("balance", picture)

# %% [markdown]
# ## 5. The same work, with and without experts
#
# Two experts of width 16 and the router take 1,664 multiply-adds per token. The dense layer of width 35 takes 1,680.
# Both see the same tokens, so we compare them seed by seed. On the task of section 4, which is made for experts, they
# win clearly.
#
# And on text? The last cell trains a language model of one block on Python's language reference, character by
# character, with a dense SwiGLU and with two of eight experts that take the same work. Such comparisons go wrong
# easily. A third model has the same dense layer with GPT-2's small initial weights, which the experts do not have.
# Compared with this model, the same experts seem to gain several times as much.

# %% Paired differences on five seeds
_, words = paired("dense", "softmax, balancing loss")
claim("on the eight kinds of tokens, experts lower the loss on every seed",
      losses["softmax, balancing loss"] < losses["dense"], words)
text = builtin_text()
tokenizer = CharTokenizer(text)


def train_on_text(seed, replaces):
    """Returns the loss on held-out text of a model whose feed-forward layer `replaces`, a function of rng, replaces."""
    windows = TextWindows(tokenizer.encode(text), 32, batch_size=16, seed=seed)
    model = nt.CausalLanguageModel(tokenizer.vocab_size, 32, 4, 1, d_ff=83, max_len=32, positions="rotary",
                                   activation="swiglu", rng=seed)
    if replaces:
        model.decoder.blocks[0].feed_forward = replaces(np.random.default_rng([seed, 1]))
    optimizer, criterion = nt.Adam(model.parameters(), 0.01, betas=(0.9, 0.98)), nt.CrossEntropyLoss()
    for step in range(300):
        (ids,), targets = windows.batch(step)
        model.zero_grad()
        criterion(model(ids), targets)
        model.backward(criterion.backward())
        optimizer.lr = 0.01 * min(1, (step + 1) / 30, (300 - step) / 100)
        optimizer.step()
    held_out = windows.held_out[:400 * 33].reshape(400, 33)
    return criterion(model.eval()(held_out[:, :-1]), held_out[:, 1:])


LAYERS = {"text, dense": lambda rng: nt.SwiGLU(32, 83, rng=rng),
          "text, experts": lambda rng: nt.MixtureOfExperts(nt.BalancedRouter(nt.Router(32, 8, 2, rng=rng), 0.02),
                                                           [nt.SwiGLU(32, 40, rng=rng) for _ in range(8)]),
          "text, dense, small initial weights": None}
for name, layer in LAYERS.items():
    losses[name] = np.array([train_on_text(seed, layer) for seed in SEEDS])
    print(f"  {name:34} loss", *(f"{loss:.2f}" for loss in losses[name]))
gain_on_text, words = paired("text, dense", "text, experts")
claim("on text, experts lower the mean loss, too", gain_on_text < 0, words)
seeming, words = paired("text, dense, small initial weights", "text, experts")
claim("compared with small initial weights, they seem to gain over 3 times as much", seeming < 3 * gain_on_text, words)

# %% [markdown]
# Experts save work, but not memory: all of them have to be stored, with the states of the optimizer.
#
# `numpy-transformer explore --lesson 25` opens the gradients of a router's logits in a trained model.
#
# ## Exercises
#
# 1. A token has the logits 2, 0, 1 and 2, and k = 2. Give the gates and, for dg = (1, 5, 2, 3), the gradient dz.
# 2. Compare `nt.Router` (softmax over the chosen) with `nt.SoftmaxRouter` (softmax over all, then the choice). What do
#    the gates of a token sum to? What gradient does the router get for k = 1?
# 3. In `Task`, replace the factor 2 of the shared vector with 0. Do experts still stay out of use?
# 4. Set the coefficient of the balancing loss to 0.01 and to 1. What happens to the balance, and to the loss?
# 5. Mixtral has 8 experts of width 14,336 in each of 32 layers, d_model = 4,096, and chooses 2. How many weights do all
#    its experts have, and how many does a token use? (SwiGLU, three matrices)
#
# With a checker (`numpy-transformer exercise start my-exercises 25`): 25.1, 25.2, 25.3.
