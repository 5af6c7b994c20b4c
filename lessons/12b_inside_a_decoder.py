# %% [markdown]
# # 12b Inside a decoder: cache and heads
#
# The loop of lesson 12 passes the whole text through the model again for each new token. This lesson keeps what can be
# kept, the keys and the values, and counts what that saves. Then it looks at the choice of the next token once more:
# greedy decoding, top-k and top-p.
#
# The second half asks what the heads of a trained decoder do. We train a small one on a task that can be solved by two
# heads working together, measure where each head attends, and switch the heads off one by one.
#
# After the lesson you will be able to write a key-value cache, recognize a previous-token head and an induction head,
# and say what an attention weight does not tell you.

# %% One head of attention, computed token by token
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source
from numpy_transformer.decoding.sampling import next_token_probabilities

lesson.start(__name__)
drawing("cache")
rng = np.random.default_rng(12)
T, d = 6, 4
q, k, v = rng.standard_normal((3, T, d))


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


keys, values = np.zeros((0, d)), np.zeros((0, d))           # the cache
rows = []
for t in range(T):
    keys = np.concatenate([keys, k[t:t + 1]])               # append the key and the value of the new token
    values = np.concatenate([values, v[t:t + 1]])
    A = q[t:t + 1] @ keys.T / math.sqrt(d)                  # (1, t + 1): one query, all keys so far
    rows.append(softmax(A) @ values)
y = nt.ScaledDotProductAttention().eval()(q, k, v, nt.causal_mask(T)[0, 0])
show(keys=keys, values=values)
claim("token by token, attention gives the rows of one pass with the causal mask",
      np.abs(np.concatenate(rows) - y).max() < 1e-15)

# %% [markdown]
# ## 1. The key-value cache
#
# Why may the keys and values be kept? The causal mask lets token t see only the tokens 0 to t. So nothing that is
# appended later changes its vectors, in any block. The mask itself is not needed in the loop, because the later keys do
# not exist yet. The queries are not kept, because no later token asks for them.
#
# Everything else in a block, the norms and the feed-forward layer, works on each token alone. With a cache, T tokens
# therefore cost T rows in each block. Without it the first token passes T times, the second T - 1 times, and so on,
# which makes T (T + 1) / 2 rows. The price is memory: for each token, each block keeps D numbers of keys and D numbers
# of values. In training a cache would save nothing, because one forward pass makes all T predictions anyway.
#
# `nt.KeyValueCache` does this for every block of a model. Its main method appends, as our loop does.

# %% A whole model with a cache
show_source(nt.KeyValueCache.extend)
B, V, D, N = 3, 11, 12, 2
model = nt.CausalLanguageModel(V, D, num_heads=3, num_layers=N, max_len=7, rng=rng).astype(np.float64).eval()
ids = rng.integers(0, V, (B, 7))
predict("a model writes 7 tokens: how many rows pass through each block, with a cache and without?", "7 and 28",
        why="With a cache each token passes once. Without it, 1 + 2 + ... + 7 = 28.")
whole = model(ids)
cache = nt.KeyValueCache()
passed = {}
for name in ("with a cache", "without"):
    with nt.record(model) as tape:
        if name == "without":
            steps = [model(ids[:, :t + 1])[:, -1] for t in range(7)]
        else:
            steps = [model(ids[:, t:t + 1], cache=cache)[:, -1] for t in range(7)]
    passed[name] = sum(call.inputs[0].shape[1] for call in tape.calls if call.name == "decoder.blocks.0.norm1")
    claim(f"{name}: the logits of one forward pass over the whole text",
          np.abs(np.stack(steps, 1) - whole).max() < 1e-13)
claim("7 rows with a cache, 28 without", passed == {"with a cache": 7, "without": 28}, str(passed))
kept = sum(growing.array.size for growing in cache.arrays.values())
claim("the cache holds 2 D numbers for each token and block", kept == B * 7 * N * 2 * D, f"{kept} numbers")

# %% [markdown]
# ## 2. Greedy, top-k and top-p
#
# Lesson 12 drew from softmax(z / τ). Three other choices are common:
#
# * **Greedy** decoding takes the most likely token. In open-ended writing, it tends to repeat itself (Holtzman et al.
#   2020).
# * **Top-k** draws among the k most likely tokens.
# * **Top-p**, or nucleus sampling, draws among the smallest set of most likely tokens whose probabilities sum to a
#   given number or more (Holtzman et al. 2020). The set is small where the model is sure, and large where it is not.
#
# Both cut off the many unlikely tokens, each of which is a possible fault, and keep the ratios of the others.

# %% The three choices by hand
p = np.array([0.5, 0.3, 0.1, 0.06, 0.04])                   # most likely token first


def keep(p, count):
    kept = np.where(np.arange(len(p)) < count, p, 0)
    return kept / kept.sum()


predict("how many of the probabilities 0.5, 0.3, 0.1, 0.06 and 0.04 does top-p with 0.75 keep?", 2,
        why="0.5 is less than 0.75, and 0.5 + 0.3 = 0.8 is at least 0.75.")
count = int((np.cumsum(p) < 0.75).sum()) + 1
print(f"  greedy {keep(p, 1)}\n  top-k, k = 3 {keep(p, 3).round(3)}\n  top-p, 0.75 {keep(p, count)}")
claim("the package's function gives the same", [
    np.allclose(next_token_probabilities(np.log(p), **options), keep(p, kept), atol=1e-12)
    for options, kept in (({"temperature": 0}, 1), ({"top_k": 3}, 3), ({"top_p": 0.75}, count))])

# %% [markdown]
# ## 3. A task for two heads
#
# A text names people, and after each of them the thing that this person has: "Ada kite Ben drum Ada kite Cleo lamp".
# Who has what is drawn again for each text. So the thing after "Ada" cannot be learned by heart. But if Ada occurred
# before, the text itself says it: find the earlier "Ada", and repeat the token that followed. Only these predictions
# count in the loss.
#
# A single head cannot look up "the token after the earlier Ada" directly: the key of "kite" is made of the word "kite"
# and its position, and neither says that Ada stands before it. Two heads in two blocks can do it together:
#
# 1. In block 0, a **previous-token head** attends from each thing to the token before it. Then the vector of "kite"
#    also contains "Ada".
# 2. In block 1, an **induction head** attends from the second "Ada" to the token whose vector says "comes after Ada",
#    and copies it.
#
# Elhage et al. (2021) found such pairs of heads in small language models, and Olsson et al. (2022) in larger ones. They
# appear suddenly: the loss stays on a plateau, and then falls within a few steps. Some initial weights leave the
# plateau late. The loop below then starts again with another seed.

# %% Training until the plateau is left
people, things = "Ada Ben Cleo Dan".split(), "drum kite lamp map".split()
words = people + things
n, T, BATCH = len(people), 16, 64


def texts(count, rng):
    owned = rng.permuted(np.tile(np.arange(n), (count, 1)), axis=1)         # which thing each person has
    who = rng.integers(0, n, (count, T // 2))
    return np.stack([who, n + np.take_along_axis(owned, who, 1)], -1).reshape(count, T)


def follows_copy(ids):                      # [b, t, s]: token t is a person, and token s follows an earlier copy of it
    before = np.pad(ids[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
    return (ids[:, :, None] == before[:, None]) & np.tri(ids.shape[1], dtype=bool) & (ids < n)[:, :, None]


def batch(count, rng):
    ids = texts(count, rng)
    x = ids[:, :-1]
    return x, np.where(follows_copy(x).any(-1), ids[:, 1:], -1)


def train(seed, steps=350, rate=4e-3):
    rng = np.random.default_rng(seed)
    model = nt.CausalLanguageModel(2 * n, 64, num_heads=2, num_layers=2, d_ff=128, max_len=T, activation="relu",
                                   positions="sinusoidal", scale_embedding=True, init="xavier", rng=rng)
    optimizer = nt.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    criterion = nt.CrossEntropyLoss(ignore_id=-1)
    losses = []
    for step in range(steps):
        x, y = batch(BATCH, rng)
        model.zero_grad()
        losses.append(float(criterion(model(x), y)))
        model.backward(criterion.backward())
        optimizer.lr = rate * min(1, (step + 1) / 50)
        optimizer.step()
    return model.eval(), losses


for seed in range(1, 13):
    model, losses = train(seed)
    print(f"  seed {seed}: loss {np.mean(losses[-20:]):.3f}")
    if np.mean(losses[-20:]) < 0.1:
        break
x, y = batch(500, np.random.default_rng(0))
copies = follows_copy(x)
counted = y >= 0
accuracy = np.mean(model(x).argmax(-1)[counted] == y[counted])
print("  " + " ".join(words[i] for i in x[0]))
claim("the model names the thing that a person has", accuracy > 0.97, f"{accuracy:.1%}")

# %% [markdown]
# ## 4. What the heads attend to
#
# Two numbers for each head, as means over 500 new texts: the weight that a thing gives to the token before it, and the
# weight that a person gives to the tokens that followed earlier copies of this person. A head that spreads its weight
# evenly over the tokens that it sees has the value in the last row.

# %% The mean weights of each head
def measure_heads(model):
    model(x)
    weights = np.stack([block.attention.weights for block in model.decoder.blocks])             # (N, B, H, T, T)
    previous = np.mean([weights[:, :, :, t, t - 1] for t in range(1, T - 1, 2)], (0, 2))        # (N, H)
    induction = np.einsum("nbhts,bts->nht", weights, copies * counted[..., None]).sum(-1) / counted.sum()
    return previous, induction, weights


previous, induction, weights = measure_heads(model)
even = 1 / np.arange(1, T)
print("                     previous token   after an earlier copy")
for block, head in np.ndindex(2, 2):
    print(f"  block {block}, head {head}    {previous[block, head]:14.2f}   {induction[block, head]:21.2f}")
print("  evenly             {:14.2f}   {:21.2f}".format(
    even[1::2].mean(), (copies * even[:, None])[counted].sum(-1).mean()))
first, second = int(previous[0].argmax()), int(induction[1].argmax())
claim("block 0 has a previous-token head", previous[0, first] > 0.6, f"head {first}, weight {previous[0, first]:.2f}")
claim("block 1 has an induction head", induction[1, second] > 0.6, f"head {second}, weight {induction[1, second]:.2f}")
picture = Figure(figsize=(12, 5.6), layout="constrained")
labels = [words[i] for i in x[0]]
for axes, block, head, title in zip(picture.subplots(1, 2), (0, 1), (first, second), ("previous token", "induction")):
    image = axes.imshow(weights[block, 0, head], cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(T - 1), labels, rotation=90)
    axes.set(yticks=range(T - 1), yticklabels=labels, title=f"block {block}, head {head}: {title}", xlabel="key token")
picture.axes[0].set_ylabel("query token")
picture.colorbar(image, ax=picture.axes, label="attention weight")
figure("heads", picture)

# %% [markdown]
# ## 5. Switching heads off
#
# A pattern of weights does not show that the model uses the head. To find that out, we remove the head and look at the
# loss. This is called ablation. The output projection of attention multiplies the d outputs of each head by d rows of
# its matrix, so we set these rows to zero. A head whose removal changes little may still matter: another head can do
# the same work, and then only the removal of both shows it. Below, all previous-token heads are removed together, too.

# %% The loss without each head
def without(block, heads, measure):
    weight = model.decoder.blocks[block].attention.output.weight
    full = weight.data.copy()
    d = len(full) // 2
    for head in heads:
        weight.data[head * d:(head + 1) * d] = 0
    result = measure()
    weight.data = full
    return result


def loss():
    return float(nt.CrossEntropyLoss(ignore_id=-1).eval()(model(x), y))


predict("which weights change if the heads of block 0 are switched off: those of block 0 or of block 1?", "block 1",
        why="Block 0 computes its weights before a head's output is removed. Block 1 reads what is left.")
full = loss()
print(f"  all heads: loss {full:.3f}")
for block, head in np.ndindex(2, 2):
    print(f"  without block {block}, head {head}: loss {without(block, [head], loss):.3f}")
copying = [head for head in range(2) if previous[0, head] > 0.5]
ablated = without(0, copying, loss)
_, disturbed, _ = without(0, copying, lambda: measure_heads(model))
claim("without the previous-token heads the loss rises", ablated > full + 0.3, f"{ablated:.2f} instead of {full:.2f}")
claim("and the induction head no longer finds its target", disturbed[1, second] < 0.8 * induction[1, second],
      f"mean weight {disturbed[1, second]:.2f} instead of {induction[1, second]:.2f}")
claim("restored, the model is what it was", loss() == full)

# %% [markdown]
# So the induction head depends on block 0: it compares a name with what a previous-token head has written into the
# vectors of the things. Yet its own weights show only an arrow from a person to a thing. They do not say that the
# name is what was compared.
#
# This is why attention weights are no explanation by themselves. A weight says how much of a value vector enters the
# output of a head. It does not say what that vector contains, which after block 0 is a mixture of tokens, and it does
# not say whether the output matters, because another head may do the same work. Jain and Wallace (2019) replaced the
# attention weights of trained text classifiers by quite different ones that gave nearly the same predictions. Wiegreffe
# and Pinter (2019) answered that such weights, found for each example, do not show that the trained ones mean nothing,
# and proposed tests for when they can serve as an explanation. Both use recurrent networks with attention. What holds
# for either side is the method of section 5: change something, and measure what happens.
#
# ## Exercises
#
# 1. A cache works, except that each new token is given position 0. Which claim of section 1 fails, and which token is
#    still right?
# 2. How many bytes does the cache of GPT-2 small need for 1,024 tokens in float32? It has 12 blocks and D = 768.
# 3. The most likely token has p = 0.6. How many tokens does top-p with p = 0.5 keep? Which other settings give the same
#    texts?
# 4. Why can a model with a single block of attention not solve the task of section 3 with an induction head?
# 5. Two heads do the same work. What does the ablation of each of them show, and how would you find out?
#
# Lesson 12 names the exercises that have a checker; `numpy-transformer exercise check 12.2` is a step with a cache.
