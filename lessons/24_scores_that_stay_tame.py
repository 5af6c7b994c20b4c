# %% [markdown]
# # 24 Scores that stay tame
#
# A score is q · k / √d, and nothing limits it. In training, queries and keys can grow until softmax puts all weight
# on one token and no gradient passes through it. The same can happen to the logits of the output. Today's models have
# four remedies:
#
#     remedy          what it limits                 for example in
#     QK-norm         the lengths of q and k         Qwen3, Gemma 3, OLMo 2
#     soft cap        each score, each logit         Gemma 2
#     z-loss          log Z of the output's softmax  PaLM
#     gate            what each head adds            Qwen3-Next
#
# You will derive the backward of each, and find out which of them helps against what. Sources: Henry et al. 2020
# (QK-norm to length 1, with a learned scale), Dehghani et al. 2023 (QK-norm with LayerNorm; here it is RMSNorm),
# Riviere et al. 2024 (Gemma 2, section 2), Chowdhery et al. 2022 (PaLM, section 5), Qiu et al. 2025 (gates), Wortsman
# et al. 2023 (small models with high learning rates fail like large ones).

# %% The four places
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show_source
from numpy_transformer.layers.attention import with_score_changes
from numpy_transformer.layers.gated_attention import gate_heads
from numpy_transformer.layers.normed_linear import norm_queries_and_keys

lesson.start(__name__)
rng = np.random.default_rng(24)
drawing("tame_scores")


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def softmax(A):
    P = np.exp(A - A.max(-1, keepdims=True))
    return P / P.sum(-1, keepdims=True)


# %% [markdown]
# ## 1. What large scores do
#
# If queries and keys both grow by a factor a, the scores grow by a². Lesson 05 derived the gradient of the scores A
# from that of the weights P, dP:
#
#     dA_j = P_j (dP_j - sum_i P_i dP_i) = P_j sum_i P_i (dP_j - dP_i)
#
# Let p be the largest weight of a row and δ the largest |dP_i|. For the token with weight p, the term i = j is 0, and
# the other weights add up to 1 - p. Every other token has a weight of at most 1 - p. So each |dA_j| is at most
# **2 δ (1 - p)**: as p approaches 1, the gradient of all scores vanishes, and queries and keys that have grown too far
# stay where they are.

# %% The same scores, enlarged
predict("Queries and keys are both enlarged by a factor of 3. By what factor do the scores grow?", 9,
        why="A score is a sum of products of an entry of q and an entry of k, and both factors grow by 3.")
T, d = 6, 8
A = np.array([1.0, 0.5, 0.2, -0.3, -1.0])                           # the scores of one query for five keys
dP = rng.standard_normal(5)
gradients = []
for a in (1, 2, 4, 8):
    P = softmax(a * a * A)
    dA = P * (dP - P @ dP)
    bound = 2 * abs(dP).max() * (1 - P.max())
    gradients.append(abs(dA).max())
    print(f"  a = {a}: largest weight {P.max():.6f}, largest |dA| {gradients[-1]:.1e}, bound {bound:.1e}")
    claim(f"a = {a}: each |dA| is at most 2 δ (1 - p)", gradients[-1] <= bound + 1e-15)
claim("at a = 8, less than a millionth of the gradient is left", gradients[-1] < 1e-6 * gradients[0])

# %% [markdown]
# ## 2. QK-norm
#
# Divide each query and key of a head by its root mean square, and multiply by a learned γ (lesson 08). With γ = 1 the
# length of each is then √d. By the inequality of Cauchy and Schwarz, |q · k| is at most the product of the lengths:
#
#     |q · k| / √d <= √d √d / √d = √d
#
# With a learned γ, the bound is √d max|γ_q| max|γ_k|. **Backward** is that of RMSNorm, with q̂ = q / rms, dq̂ = γ dy:
#
#     dq = (dq̂ - q̂ mean(dq̂ q̂)) / rms
#
# The gradient is orthogonal to q: lengthening q changes nothing. And dq is divided by rms, so a longer q has a
# smaller gradient. (Adam's steps stay the same.)
#
# **Two conventions.** The norm of Qwen3 and Gemma 3 is of each head, that of OLMo 2 of all heads together. Then one
# head can take the length of all, and its scores can reach H √d. The norm comes before the rotation of lesson 16. A
# rotation preserves the length, so the order matters only with a learned γ.

# %% Forward and backward of a norm of each head
H = 3
x, dy = rng.standard_normal((2, T, H * d))
gamma = rng.uniform(0.5, 1.5, d)
heads = 40 * x.reshape(T, H, d)                                     # large queries
rms = np.sqrt((heads ** 2).mean(-1, keepdims=True) + 1e-6)
y = gamma * heads / rms
dnormed = gamma * dy.reshape(T, H, d)
dheads = (dnormed - heads / rms * (dnormed * heads / rms).mean(-1, keepdims=True)) / rms
show_source(nt.PerHead.forward, nt.PerHead.backward, nt.NormedLinear.forward, nt.NormedLinear.backward)
per_head = nt.PerHead(nt.RMSNorm(d)).astype(np.float64)
per_head.norm.gamma.data = gamma
claim("nt.PerHead returns this y and this dx",
      [relative_error(per_head(40 * x), y.reshape(T, H * d)) < 1e-15,
       relative_error(per_head.backward(dy), dheads.reshape(T, H * d)) < 1e-14])
claim("the gradient is orthogonal to each query",
      abs((dheads * heads).sum(-1)).max() < 1e-6 * abs(dheads * heads).max())
first = 1000 * x * (np.arange(H * d) < d) + x                       # the first head is a thousand times as large
for norm, text, least, most in ((nt.PerHead(nt.RMSNorm(d)), "norms of each head keep all scores within √d", 0, 1),
                                (nt.RMSNorm(H * d), "norms of all heads together only within H √d", 1, H)):
    normed = norm.astype(np.float64)(first).reshape(T, H, d).swapaxes(0, 1)
    largest = abs(normed @ normed.mT / math.sqrt(d)).max()
    claim(text, least * math.sqrt(d) < largest <= most * math.sqrt(d) + 1e-9,
          f"the largest is {largest:.2f}, √d = {math.sqrt(d):.2f}")
rope = nt.RotaryEmbedding(d).astype(np.float64).eval()
for g, text, same in ((np.ones(d), "with γ = 1, norm and rotation can change places", True),
                      (gamma, "with another γ they cannot", False)):
    per_head.norm.gamma.data = g
    before, after = rope(per_head.norm(x[:, :d])), per_head.norm(rope(x[:, :d]))
    claim(text, (relative_error(before, after) < 1e-6) == same)

# %% [markdown]
# ## 3. Soft caps
#
# The cap of Gemma 2 is y = c tanh(x / c), with c = 50 for scores and c = 30 for logits. **Backward**: dx = dy (1 -
# (y / c)²). With u = x / c >= 0, the derivative of u - tanh u is tanh² u, which is at most u². So u - tanh u is at
# most u³ / 3, and
#
#     |x - y| <= |x|³ / (3 c²)
#
# A score of 5 loses at most 0.017. A score of 50 becomes 38, with 0.42 of its gradient, and one of 500 has almost none
# left. The cap bounds the scores, but does not lead them back.
#
# **The cap comes before the mask.** Otherwise a hidden score of -∞ becomes -c, and the token is visible again. ONNX,
# the standard for exchanging models, had this wrong until 2026.

# %% What the cap does to numbers, to gradients, and to a mask
predict("A cap of 50 is applied to the score 10. What is the smallest result that the bound allows (two decimals)?",
        round(10 - 1000 / 7500, 2),
        why="It loses at most 10³ / (3 · 50²) = 0.13, so at least 9.87 remain. The true value is 9.87, too.")
x = np.array([0.5, 2.0, 5.0, 10.0, 50.0, 500.0])
cap = nt.SoftCap(50.0)
y = 50 * np.tanh(x / 50)
dx = 1 - (y / 50) ** 2
claim("nt.SoftCap returns this y and this dx", [np.allclose(cap(x), y), np.allclose(cap.backward(np.ones(6)), dx)])
claim("a cap of 50 changes x by at most |x|³ / 7500", np.all(x - y <= x ** 3 / 7500), f"y = {np.round(y, 3)}")
claim("0.42 of the gradient passes at x = c, and less than 1e-8 at x = 10 c",
      [abs(dx[4] - 0.42) < 0.01, dx[5] < 1e-8])
A = np.array([-9.0, -8.0, 3.0])             # the last token is hidden
hidden = np.array([False, False, True])
right = softmax(np.where(hidden, -np.inf, 5 * np.tanh(A / 5)))
wrong = softmax(5 * np.tanh(np.where(hidden, -np.inf, A) / 5))
claim("the cap before the mask: no weight on a hidden token", right[2] == 0)
claim("the cap after the mask: the hidden token has weight", wrong[2] > 0.2, f"{wrong[2]:.2f}")

# %% [markdown]
# ## 4. Z-loss
#
# Cross-entropy is log Z - z_target with Z = sum_v exp(z_v). Adding a number to all logits of a row does not change
# it, so nothing holds the logits in place, and in 16-bit arithmetic large ones are coarse. PaLM adds 1e-4 log² Z.
# **Backward**: the derivative of log Z by z_v is the probability p_v, so
#
#     dz_v = 2e-4 log Z p_v
#
# Z-loss acts on the logits of the output, not on the scores of attention.

# %% Cross-entropy cannot see a shift; z-loss can
z, targets = rng.standard_normal((T, 11)) + 3, rng.integers(0, 11, T)
log_Z = np.log(np.exp(z).sum(-1))
loss = (log_Z - z[np.arange(T), targets]).mean() + 0.1 * (log_Z ** 2).mean()
dz = (softmax(z) - np.eye(11)[targets]) / T + 2 * 0.1 * log_Z[:, None] * softmax(z) / T
cross_entropy, z_loss = nt.CrossEntropyLoss(), nt.ZLoss(nt.CrossEntropyLoss(), 0.1)
show_source(nt.ZLoss.forward, nt.ZLoss.backward)
claim("nt.ZLoss returns this loss and this gradient",
      [abs(z_loss(z, targets) - loss) < 1e-14, relative_error(z_loss.backward(), dz) < 1e-14])
claim("finite differences confirm it", nt.gradcheck(z_loss, z, targets).ok)


class Without2(nt.ZLoss):
    def backward(self, dy=1.0):
        p, log_Z, count = self.recall()
        return self.criterion.backward(dy) + self.coefficient * dy / count * log_Z * p


claim("and notice a forgotten 2", not nt.gradcheck(Without2(nt.CrossEntropyLoss(), 0.1), z, targets).ok)
claim("logits shifted by 10 have the same cross-entropy, but another z-loss",
      [abs(cross_entropy(z + 10, targets) - cross_entropy(z, targets)) < 1e-12,
       z_loss(z + 10, targets) - z_loss(z, targets) > 1])

# %% [markdown]
# ## 5. Gates
#
# Softmax makes each head distribute a weight of 1, even if no token has what it looks for. A gate lets a token
# decline the result: y = (h * g) W_O with g = σ(x W_G), where h are the outputs of all heads. **Backward** is the
# product rule, with dhg = dy W_Oᵀ:
#
#     dh = dhg * g     da = dhg * h * g * (1 - g)     dW_G = xᵀ da
#
# The gate adds da W_Gᵀ to dx.

# %% The gradient of W_G, and a closed gate
attention = gate_heads(nt.SelfAttention(d, 2, rng=rng), rng).astype(np.float64)
x, dy = rng.standard_normal((2, T, d))
attention(x)
attention.backward(dy)
h = attention.eval().attention(x)
g = 1 / (1 + np.exp(-x @ attention.gate.weight.data))
dhg = dy @ attention.output.weight.data.T
show_source(nt.GatedSelfAttention.forward, nt.GatedSelfAttention.backward)
claim("nt.GatedSelfAttention has this gradient of W_G",
      relative_error(attention.gate.weight.grad, x.T @ (dhg * h * g * (1 - g))) < 1e-13)
claim("finite differences confirm all gradients", nt.gradcheck(attention.train(), x).ok)
attention.eval().gate.weight.data = -1000 * np.sign(x[2])[:, None] * np.ones(d)
claim("a token can close its gates: its attention adds only the bias of W_O",
      abs(attention(x)[2] - attention.output.bias.data).max() < 1e-12)

# %% [markdown]
# ## 6. Too high a learning rate
#
# A model with one block reads eight random letters and then the same letters again. Only attention can predict the
# second half. Guessing has the loss log 8 = 2.08. We train with Adam for 200 steps, with three learning rates: without
# a remedy, and with each of the four, five times each. The cap is 10, and z-loss has the factor 1e-3. We also record
# the largest score and its bound.

# %% 75 short trainings
LETTERS, HALF, WIDTH, HEADS, STEPS, SEEDS = 8, 8, 32, 4, 200, range(1, 6)
RATES = [0.01, 0.05, 0.1]
REMEDIES = ["none", "QK-norm", "soft cap", "z-loss", "gate"]


class Seen(nt.Module):                      # a score change that changes nothing, and keeps the visible |scores|
    def forward(self, scores):
        self.scores = abs(scores[..., np.tri(*scores.shape[-2:], dtype=bool)])
        return scores

    def backward(self, dscores):
        return dscores


def block_of(model):
    return model.decoder.blocks[0]


def make(remedy, seed):
    model = nt.CausalLanguageModel(LETTERS, WIDTH, HEADS, 1, max_len=2 * HALF, norm_layer="rms", bias=False,
                                   tie_weights=False, rng=seed)
    block, seen, norms = block_of(model), Seen(), [nt.PerHead(nt.RMSNorm(WIDTH // HEADS)) for _ in range(2)]
    if remedy == "QK-norm":
        norm_queries_and_keys(block.attention, *norms)
    changes = [nt.SoftCap(10.0), seen] if remedy == "soft cap" else [seen]
    with_score_changes(block.attention.attention, *changes)
    if remedy == "gate":
        block.attention = gate_heads(block.attention, seed)
    return model, seen, norms


def bound_of(remedy, norms):                # what no score can exceed
    if remedy == "QK-norm":
        return math.sqrt(WIDTH // HEADS) * math.prod(abs(norm.norm.gamma.data).max() for norm in norms)
    return 10.0 if remedy == "soft cap" else math.inf


def train(remedy, rate, seed):
    """Returns the mean loss of the last 20 steps, the largest score and the bound of each step, and at the end the
    means of the largest attention weight and of |log Z| and the share of scores beyond 9.9."""
    model, seen, norms = make(remedy, seed)
    cross_entropy = nt.CrossEntropyLoss(ignore_id=-1)
    criterion = nt.ZLoss(cross_entropy, 1e-3) if remedy == "z-loss" else cross_entropy
    optimizer, losses, scores, bounds = nt.Adam(model.parameters(), rate, betas=(0.9, 0.98)), [], [], []
    for step in range(STEPS):
        half = np.random.default_rng([seed, step]).integers(0, LETTERS, (16, HALF))
        ids = np.concatenate([half, half], axis=1)
        targets = np.where(np.arange(2 * HALF - 1) < HALF - 1, -1, ids[:, 1:])
        model.zero_grad()
        logits = model(ids[:, :-1])
        criterion(logits, targets)
        losses.append(nt.CrossEntropyLoss(ignore_id=-1).eval()(logits, targets))
        scores.append(seen.scores.max())
        bounds.append(bound_of(remedy, norms))
        model.backward(criterion.backward())
        optimizer.lr = rate * min(1, (step + 1) / 10)
        optimizer.step()
    log_Z = np.log(np.exp(logits[:, HALF - 1:].astype(np.float64)).sum(-1))
    return (np.mean(losses[-20:]), np.array(scores), np.array(bounds), block_of(model).attention.weights.max(-1).mean(),
            abs(log_Z).mean(), (seen.scores > 9.9).mean())


runs = {(remedy, rate): [train(remedy, rate, seed) for seed in SEEDS] for remedy in REMEDIES for rate in RATES}
loss = {key: np.array([run[0] for run in five]) for key, five in runs.items()}
largest, bound = ({key: np.array([run[n].max() for run in five]) for key, five in runs.items()} for n in (1, 2))
weight, log_Z, beyond = ({key: np.mean([run[n] for run in five]) for key, five in runs.items()} for n in (3, 4, 5))
print("  rate  remedy     loss of five seeds             largest score   bound  largest weight  |log Z|")
for remedy, rate in sorted(runs, key=lambda key: key[1]):
    losses = " ".join(f"{one:5.2f}" for one in loss[remedy, rate])
    print(f"  {rate:4}  {remedy:9} {losses}  {largest[remedy, rate].max():13,.0f}  {bound[remedy, rate].max():6.0f}  "
          f"{weight[remedy, rate]:14.2f}  {log_Z[remedy, rate]:7.1f}")
claim("rate 0.01: every model learns, with every seed", [loss[remedy, 0.01].max() < 0.1 for remedy in REMEDIES])
claim("rate 0.1, no remedy: every seed ends near guessing, 2.08", loss["none", 0.1].min() > 1.8)
claim("its scores exceed 1,000, and softmax is almost one-hot",
      [largest["none", 0.1].min() > 1000, weight["none", 0.1] > 0.95])
claim("QK-norm learns with every rate and seed", [loss["QK-norm", rate].max() < 0.4 for rate in RATES])
claim("with rate 0.1 the learned γ raise the bound to more than 5 √d", bound["QK-norm", 0.1].min() > 5 * math.sqrt(8))
claim("at each step, the scores of QK-norm and of the soft cap are within their bounds",
      [np.all(run[1] <= run[2] * 1.00001) for remedy in REMEDIES for rate in RATES for run in runs[remedy, rate]])
claim("with rate 0.05 the cap lowers the mean loss", loss["soft cap", 0.05].mean() < loss["none", 0.05].mean() - 0.3)
claim("but with rate 0.1 the mean loss remains above 1, scores are near 10 or -10, and several tokens share the weight",
      [loss["soft cap", 0.1].mean() > 1, beyond["soft cap", 0.1] > 0.9, weight["soft cap", 0.1] < 0.6],
      f"{beyond['soft cap', 0.1]:.0%} beyond 9.9")
claim("z-loss and gates let scores exceed 1,000, and do not learn with rate 0.1: their softmax is almost one-hot, too",
      [loss[remedy, 0.1].mean() > 1.8 and largest[remedy, 0.1].min() > 1000 and weight[remedy, 0.1] > 0.95
       for remedy in ("z-loss", "gate")])
claim("z-loss at least halves |log Z| with rate 0.01", 2 * log_Z["z-loss", 0.01] < log_Z["none", 0.01])
picture = Figure(figsize=(12, 4.5), layout="constrained")
left, right = picture.subplots(1, 2)
handles = []
for n, (remedy, marker) in enumerate(zip(REMEDIES, "os^vd")):
    places = np.repeat(np.arange(3), 5) + 0.14 * (n - 2)            # beside each other at each rate
    points, = left.plot(places, np.ravel([loss[remedy, rate] for rate in RATES]), marker, alpha=0.7)
    line, = right.plot(range(1, STEPS + 1), runs[remedy, 0.1][0][1], "--" if remedy == "z-loss" else "-")
    handles.append((points, line))
handles.append(left.axhline(math.log(LETTERS), color="0.6", linestyle=":"))
left.set(xticks=range(3), xticklabels=RATES, xlabel="learning rate", ylabel="loss of each seed",
         title="Only QK-norm learns with the highest rate")
right.set(yscale="log", xlabel="training step", ylabel="largest |score|", title="Rate 0.1, the first seed")
picture.legend(handles, [*REMEDIES, "guessing a letter"], loc="outside center right", handlelength=3)
figure("rates_and_scores", picture)

# %% [markdown]
# The loss of the failed runs is not infinite: softmax subtracts the largest score, so nothing overflows. Where nothing
# bounds the scores, attention weights become almost one-hot, and learning stops as in section 1.
#
# - **QK-norm** is the only remedy here that learns with the highest rate. Its learned γ raise the bound to more than
#   5 √d. Dehghani et al. used it in a model of 22 billion weights.
# - **The soft cap** helps up to a point, and fails differently: with the highest rate, almost all scores end near 10 or
#   -10, where many are equal, and where the cap lets almost no gradient pass. Gemma 3 replaced it with QK-norm.
# - **Z-loss** holds the logits in place. This model did not need that, and its scores grow as before.
# - **Gates** do not help here. Qiu et al. report that models with gates have no attention sinks and tolerate higher
#   rates. The latter did not reproduce at this size.
#
# `numpy-transformer explore --lesson 24` opens the gradient of a query before its norm.
#
# ## Exercises
#
# 1. With QK-norm, d = 64 and γ = 1, what is the largest possible score? With 1,000 visible tokens, what is the largest
#    possible weight? What follows for a γ that is not trained?
# 2. Write the derivative of a hard cap, min(max(x, -c), c). What happens in training to a score that has exceeded c,
#    and what with the soft cap?
# 3. A model has log Z = 12 in every row. What does z-loss add with the factor 1e-4? By how much would all logits have
#    to be shifted so that it adds nothing, and does the cross-entropy change?
# 4. In section 6, use a cap of 50, and norms of all heads together (`nt.RMSNorm(WIDTH)` without `nt.PerHead`). What
#    happens at the three rates?
#
# With a checker (`numpy-transformer exercise start my-exercises 24`): 24.1, 24.2, 24.3, 24.4.
