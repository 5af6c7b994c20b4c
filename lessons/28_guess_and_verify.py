# %% [markdown]
# # 28 Guess and verify
#
# A model writes one token per call, because each token depends on those before it. In training, one call reads a whole
# text and predicts what follows each of its tokens. Speculative decoding uses this. A cheap **draft** guesses the next
# k tokens, and one call of the model **verifies** all of them. If the guesses are good, one call gives several tokens.
# The text is still the model's: greedy text is the same token for token, and sampled text has exactly the same
# distribution.
#
# After this lesson you will be able to prove that, to compute how many tokens one call gives, to train heads that
# guess several tokens, and to say when guesses do not pay. Sources: Leviathan, Kalman and Matias 2023; Chen et al. 2023
# (both: speculative decoding); Gloeckle et al. 2024 (several heads).

# %% The distributions of a model and of a draft
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source
from numpy_transformer.data import CharTokenizer, TextWindows, builtin_text

lesson.start(__name__)
rng = np.random.default_rng(28)
p = np.array([0.30, 0.20, 0.15, 0.10, 0.10, 0.07, 0.05, 0.03])      # the model's distribution of the next token
q = np.array([0.15, 0.30, 0.05, 0.20, 0.10, 0.02, 0.13, 0.05])      # the draft's
drawing("guess_and_verify")


def chi_squared(counts, p):
    """The distance of counts from their expected values, and the limit that one run in 1,000 exceeds by chance."""
    expected = p.ravel() * counts.sum()
    df = counts.size - 1
    limit = df * (1 - 2 / (9 * df) + 3.09 * np.sqrt(2 / (9 * df))) ** 3          # Wilson and Hilferty 1931
    return np.sum((counts.ravel() - expected) ** 2 / expected), limit


# %% [markdown]
# ## 1. One guess
#
# The draft draws a token x from its distribution q, and the model has the distribution p. If q(x) ≤ p(x), the draft
# does not guess x too often, and we accept it. If q(x) > p(x), we accept it only with probability p(x) / q(x). A guess
# x is thus made and accepted with probability
#
#     q(x) min(1, p(x) / q(x)) = min(p(x), q(x))
#
# What is missing from p(x) is p(x) - min(p(x), q(x)) = max(0, p(x) - q(x)). So after a rejection, a token is drawn from
#
#     r(x) = max(0, p(x) - q(x)) / Σ max(0, p - q)
#
# The sum of what is missing is 1 - Σ min(p, q), which is the probability of a rejection. It cancels:
#
#     P(x) = min(p(x), q(x)) + P(rejection) r(x) = min(p(x), q(x)) + max(0, p(x) - q(x)) = p(x)
#
# No property of q was used. A bad draft is rejected often, but it cannot change the distribution.
#
# Drawing from p itself after a rejection looks natural, but it is wrong: tokens that the draft guesses too often
# already have their full p(x), and would get more.

# %% 50,000 guesses, with the right rule and with two wrong ones
predict("p = (0.5, 0.5) and q = (0.9, 0.1): with which probability is a guess accepted?", 0.6,
        why="The sum of min(p, q) is 0.5 + 0.1.")
DRAWS = 50_000
guesses = rng.choice(8, DRAWS, p=q)
accepted = rng.random(DRAWS) < p[guesses] / q[guesses]
missing = np.maximum(p - q, 0)
claim("the sum of what is missing is the probability of a rejection",
      [abs(missing.sum() - (1 - np.minimum(p, q).sum())) < 1e-15, abs(np.mean(~accepted) - missing.sum()) < 0.01],
      f"{missing.sum():.2f}; measured {np.mean(~accepted):.3f}")
r = missing / missing.sum()
RULES = {"accept, or draw from max(0, p - q)": np.where(accepted, guesses, rng.choice(8, DRAWS, p=r)),
         "accept, or draw from p": np.where(accepted, guesses, rng.choice(8, DRAWS, p=p)),
         "accept always": guesses}
for name, tokens in RULES.items():
    distance, limit = chi_squared(np.bincount(tokens, minlength=8), p)
    right = name.endswith("q)")
    claim(f"{name}: the tokens are {'' if right else 'not '}distributed as p",
          distance < limit if right else distance > 10 * limit, f"chi-squared {distance:.1f}, limit {limit:.1f}")
wrong = np.bincount(RULES["accept, or draw from p"], minlength=8) / DRAWS
claim("drawing from p after a rejection gives min(p, q) + P(rejection) p",
      abs(wrong - np.minimum(p, q) - missing.sum() * p).max() < 0.01)

# %% [markdown]
# ## 2. How many tokens does one call give?
#
# Let each guess be accepted with probability a. A call gives the accepted guesses before the first rejection, and one
# token more: the one drawn in its place or, if all k are accepted, a token that the call has predicted after the last
# guess. There is a token number i + 1 if the first i guesses were accepted, so
#
#     E = 1 + a + a² + ... + a^k = (1 - a^(k+1)) / (1 - a)
#
# Longer guesses help less and less: E never exceeds 1 / (1 - a).

# %% The formula, and 20,000 calls
predict("A guess is accepted with probability 0.5. How many tokens does a call give on average, with k = 2?", 1.75,
        why="1 + 0.5 + 0.25.")


def tokens_per_call(a, k):
    return (1 - a ** (k + 1)) / (1 - a)


for a, k in ((0.5, 2), (0.6, 4), (0.9, 8)):
    hits = rng.random((20_000, k)) < a
    tokens = 1 + np.cumprod(hits, axis=1).sum(1)        # the product is 0 from the first rejection on
    E = tokens_per_call(a, k)
    claim(f"a = {a}, k = {k}: a call gives (1 - a^(k+1)) / (1 - a) tokens", abs(tokens.mean() / E - 1) < 0.03,
          f"{tokens.mean():.2f}, formula {E:.2f}")

# %% [markdown]
# ## 3. Heads that look further ahead
#
# The draft may be a smaller model, or even no model: text often repeats itself, and an **n-gram** draft copies what
# followed the latest tokens when they last occurred. A third way trains the model to guess. The blocks of the model are
# its trunk. On top of the trunk stand n heads, one block each, and all share the output layer. Head i learns the token
# i + 1 places later:
#
#     z = trunk(x)        y_i = head_i(z)        dz = Σ_i head_i.backward(dy_i)        dx = trunk.backward(dz)
#
# Because z is used n times, its gradient is a sum. Head 0 predicts the next token and, with the trunk, is an ordinary
# model. The other heads are its draft, and need no call of their own. They do not know which token head 0 draws, so
# they guess less well the further ahead they look.

# %% Three heads on a trunk of one block, forward and backward
blocks = [nt.DecoderBlock(12, 2, 20, 0.0, rng=rng).astype(np.float64) for _ in range(4)]
x, dy, mask = rng.standard_normal((2, 5, 12)), rng.standard_normal((2, 3, 5, 12)), nt.causal_mask(5)
trunk, *heads = blocks
z = trunk(x, mask)
y = np.stack([head(z, mask) for head in heads], axis=1)
# y = np.stack([head(z, mask) for head in heads], axis=1)
dz = sum(head.backward(dy[:, i]) for i, head in enumerate(heads))
# z = trunk(x, mask)
dx = trunk.backward(dz)
show_source(nt.MultiTokenStack.forward, nt.MultiTokenStack.backward)
stack = nt.MultiTokenStack(trunk, heads)
claim("nt.MultiTokenStack returns this y and this dx",
      [np.allclose(stack(x, mask), y, 1e-12, 1e-12), np.allclose(stack.backward(dy), dx, 1e-12, 1e-12)])
claim("finite differences and the complex step confirm it", nt.gradcheck(stack, x, mask, directions=2).ok)

# %% A model with three heads and a small model learn the same text
WIDTH, HEADS = 64, 3
tokenizer = CharTokenizer(builtin_text())
windows = TextWindows(tokenizer.encode(builtin_text()), WIDTH, batch_size=8, seed=28)
V, held_out = tokenizer.vocab_size, windows.held_out


def ordinary(d_model, blocks):
    return nt.CausalLanguageModel(V, d_model, 4, blocks, max_len=256, positions="rotary", norm_layer="rms", rng=28)


def with_heads():
    model = ordinary(48, 1 + HEADS)
    trunk, *heads = model.decoder.blocks
    model.decoder = nt.MultiTokenStack(nt.Stack([trunk]), heads, model.decoder.norm)
    return model


def train(make, heads, steps, lr):
    """Trains a model; head i has no target for the last i tokens of a window. Returns the model in float64."""
    model, criterion = make(), nt.CrossEntropyLoss(ignore_id=-1)
    optimizer = nt.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(steps):
        (ids,), following = windows.batch(step)
        targets = np.full((len(ids), heads, WIDTH), -1)
        for i in range(heads):
            targets[:, i, :WIDTH - i] = following[:, i:]
        optimizer.lr = lr * min(1, (step + 1) / 30, 2 * (steps - step) / steps)
        model.zero_grad()
        logits = model(ids)
        criterion(logits, targets.reshape(logits.shape[:-1]))
        model.backward(criterion.backward())
        optimizer.step()
    return make().astype(np.float64).load_state_dict(model.state_dict()).eval()


several, small = train(with_heads, HEADS, 900, 0.003), train(lambda: ordinary(24, 1), 1, 300, 0.01)
first = nt.Stack(several.decoder.blocks[:2], several.decoder.norm)              # the trunk and head 0
model = nt.LanguageModel(several.embedding, first, several.output, max_len=256).eval()
(ids,), following = windows.validation()[0]
log_p = nt.LogSoftmax().eval()(several(ids))
losses = [-np.take_along_axis(log_p[:, i, :WIDTH - i], following[:, i:, None], -1).mean() for i in range(HEADS)]
small_loss = nt.CrossEntropyLoss()(small(ids), following)
print("  validation loss of the heads:", *(f"{loss:.2f}" for loss in losses), f"small model {small_loss:.2f}")
claim("head 0 on the trunk is an ordinary model", np.allclose(model(ids), several(ids)[:, 0], 1e-9, 1e-9))
claim("each head predicts less well than the one before it", np.diff(losses) > 0.1)
claim("the small model predicts the next token less well than head 0", small_loss > losses[0])

# %% [markdown]
# ## 4. The whole loop
#
# Each call reads the guesses after the text, and has k + 1 distributions of the model. The guesses are verified from
# left to right. What follows a rejection is dropped. Each kept token has the distribution p given the tokens before it,
# be it a guess, a replacement or the extra token. So the product of these probabilities is that of the model.
#
# With a cache (lesson 12b), a call reads only what is new: the latest token and the guesses. Afterwards the cache holds
# keys and values of rejected guesses, and has to go back to the tokens that remain. Otherwise later tokens attend to
# guesses that are not in the text, and their positions are too large. Both mistakes have been published
# (`numpy-transformer zoo rejected-tokens-stay` and `rejected-tokens-count-as-positions`).
#
# In greedy decoding, p has a single 1, and a guess is accepted if it is the model's most likely token.

# %% Our loop without a cache, and the package's with one
def distributions(model, ids, temperature):
    z = model(np.array(ids)[None])[0]
    if temperature == 0:
        return np.eye(V)[z.argmax(-1)]
    return nt.Softmax().eval()(z / temperature)


def verify(guesses, p, q, rng):
    """Returns the accepted guesses and one more token."""
    for n, x in enumerate(guesses):
        if rng.random() >= p[n, x] / q[n][x]:
            missing = np.maximum(p[n] - q[n], 0)
            return guesses[:n] + [int(rng.choice(V, p=missing / missing.sum()))]
    return guesses + [int(rng.choice(V, p=p[-1] / p[-1].sum()))]


def speculate(model, draft, ids, count, k, temperature, rng):
    ids, end = list(ids), len(ids) + count
    while len(ids) < end:
        guesses, q = [], []
        for _ in range(min(k, end - len(ids) - 1)):
            q.append(distributions(draft, ids + guesses, temperature)[-1])
            guesses.append(int(rng.choice(V, p=q[-1] / q[-1].sum())))
        p = distributions(model, ids + guesses, temperature)[-len(guesses) - 1:]
        ids += verify(guesses, p, q, rng)
    return ids


own = nt.MultiTokenDraft(several)
small_draft = nt.ModelDraft(small)
DRAFTS = {"small model": (model, small_draft), "n-grams": (model, nt.NGramDraft(V)), "further heads": (own, own)}
prompts = [held_out[start:start + 40].tolist() for start in range(0, 6000, 1000)]
show_source(nt.KeyValueCache.shorten)
for temperature in (0, 1):
    ours = speculate(model, small, prompts[0], 60, 4, temperature, np.random.default_rng(1))
    theirs = nt.speculative_decode(model, small_draft, prompts[0], 60, 4, temperature, rng=np.random.default_rng(1))
    claim(f"temperature {temperature}: nt.speculative_decode writes the text of our loop", theirs.ids == ours)
plain, greedy = [nt.generate(model, prompt, 120, temperature=0) for prompt in prompts], {}
for name, (target, draft) in DRAFTS.items():
    results = [nt.speculative_decode(target, draft, prompt, 120, temperature=0) for prompt in prompts]
    greedy[name] = 120 * len(results) / sum(result.calls for result in results)
    claim(f"{name}: greedy text is the same, token for token", [result.ids for result in results] == plain,
          f"{greedy[name]:.1f} tokens per call")

# %% [markdown]
# Sampled texts use other random numbers than `nt.generate`, so we compare distributions. A model with four tokens and
# random weights has 64 continuations of three tokens. We write 2,000 of them. The control is a draft that misreports
# its q.

# %% Three tokens in a row have the distribution of the model
def random_model(seed):
    model, rng = nt.CausalLanguageModel(4, 8, 2, 1, max_len=8).astype(np.float64), np.random.default_rng(seed)
    for parameter in model.parameters():
        parameter.data = 0.4 * rng.standard_normal(parameter.data.shape)
    return model.eval()


class WrongDraft(nt.ModelDraft):
    def propose(self, *arguments):
        guesses, q = super().propose(*arguments)
        return guesses, np.full_like(q, 1 / 4)


tiny, tiny_draft = random_model(1), random_model(8)
texts = np.array([[1, 2, a, b, c] for a in range(4) for b in range(4) for c in range(4)])
after = nt.Softmax().eval()(tiny(texts))[:, 1:-1]
exact = np.take_along_axis(after, texts[:, 2:, None], -1).prod((1, 2))
for draft in (nt.ModelDraft(tiny_draft), WrongDraft(tiny_draft)):
    rng = np.random.default_rng(28)
    results = [nt.speculative_decode(tiny, draft, [1, 2], 3, 2, rng=rng) for _ in range(2000)]
    counts = np.bincount([np.array(result.ids[2:]) @ [16, 4, 1] for result in results], minlength=64)
    distance, limit = chi_squared(counts, exact)
    accepted = sum(sum(result.accepted) for result in results) / sum(sum(result.proposed) for result in results)
    right = type(draft) is nt.ModelDraft
    claim(f"{type(draft).__name__}: three tokens are {'' if right else 'not '}distributed as by the model",
          distance < limit if right else distance > 2 * limit,
          f"chi-squared {distance:.0f}, limit {limit:.0f}; {accepted:.0%} of the guesses accepted")

# %% [markdown]
# ## 5. When do guesses pay?
#
# **In multiply-adds, never.** A call reads k + 1 tokens and gives E ≤ k + 1 of them. The products with the matrices
# are computed for rejected guesses, too, and the draft has its own.
#
# **In calls, nearly always.** For a large model on a GPU, the time of a call with few tokens is that of reading all
# weights from memory once, however many tokens share them. If a step of the draft takes c times as long as a call of
# the model, then
#
#     speedup = E / (1 + k c) = (1 - a^(k+1)) / ((1 - a) (1 + k c))
#
# For k = 1 this is (1 + a) / (1 + c): guessing pays if a > c. If a < c, no k pays, as E ≤ 1 + k a < 1 + k c. With
# larger k, E approaches its limit while the costs grow, so there is a best k.

# %% Tokens per call of the three drafts, the formula, and multiply-adds
predict("a = 0.8, and the draft is free (c = 0). What is the limit of the speedup for large k?", 5,
        why="1 / (1 - 0.8).")


def speedup(a, k, c):
    return tokens_per_call(a, k) / (1 + k * c)


best = {(a, c): max(range(1, 40), key=lambda k: speedup(a, k, c)) for a in (0.6, 0.8) for c in (0.05, 0.2)}
print("  best k:", *(f"{k} for a = {a}, c = {c};" for (a, c), k in best.items()))
claim("a better draft may guess more, and a more expensive one less",
      [best[0.8, c] > best[0.6, c] for c in (0.05, 0.2)] + [best[a, 0.05] > best[a, 0.2] for a in (0.6, 0.8)])
claim("with a < c, no k pays", [speedup(a, k, 1.1 * a) < 1 for a in (0.2, 0.8) for k in range(1, 40)])


def matrices(model):                        # multiply-adds per token: one for each entry of a matrix
    return sum(parameter.data.size for parameter in model.parameters() if parameter.data.ndim == 2)


alone, draft_cost = matrices(model), {"small model": matrices(small), "n-grams": 0, "further heads": 0}
GUESSES = (1, 2, 4, 8)
picture = Figure(figsize=(10, 4.5), layout="constrained")
left, right = picture.subplots(1, 2)
measured_by = {name: [] for name in DRAFTS}
for name, (target, draft) in DRAFTS.items():
    measured, cost = measured_by[name], []
    for k in GUESSES[:2] if target is own else GUESSES:
        results = [nt.speculative_decode(target, draft, prompt, 120, k, rng=28) for prompt in prompts]
        calls = [pair for result in results for pair in zip(result.proposed, result.accepted)]
        proposed, accepted = np.sum(calls, 0)
        measured.append(120 * len(prompts) / len(calls))
        per_token = alone if target is model else matrices(several) + (HEADS - 1) * V * 48      # and further outputs
        cost.append((per_token * (proposed + len(calls)) + draft_cost[name] * proposed) / (alone * 120 * len(prompts)))
    a = accepted / sum(m + (m < n) for n, m in calls)                   # of the guesses that were verified
    print(f"  {name}, a = {a:.2f}: for k = {GUESSES[:len(measured)]}", *(f"{x:.2f}" for x in measured), "per call")
    print("    multiply-adds per token, relative to plain decoding:", *(f"{x:.2f}" for x in cost))
    claim(f"{name}: fewer calls than tokens, but more multiply-adds", [min(measured) > 1, min(cost) > 1])
    line, = left.plot(GUESSES[:len(measured)], measured, "o", label=f"{name}, a = {a:.2f}")
    if name == "small model":
        left.plot(range(1, 9), [tokens_per_call(a, k) for k in range(1, 9)], color=line.get_color(), label="formula")
        expected = [tokens_per_call(a, k) for k in GUESSES]
        claim("the formula is right within 15% for the small model", abs(np.array(measured) / expected - 1) < 0.15)
        for c in (0.02, 0.1, 0.3, 0.8):
            right.plot(range(1, 17), [speedup(a, k, c) for k in range(1, 17)], label=f"c = {c}")
        right.set(title=f"Speedup by the formula for a = {a:.2f}", xlabel="guesses k", ylabel="speedup",
                  ylim=(0, 2.9), xticks=range(1, 17, 3))
left.set(title="Tokens per call of the model, sampled text", xlabel="guesses k", ylabel="tokens per call")
right.axhline(1, color="0.6", linestyle=":")
left.legend(), right.legend(ncols=2, loc="upper right")
figure("tokens_per_call", picture)
claim("n-grams: greedy text takes fewer calls than sampled text", greedy["n-grams"] > 1.2 * measured_by["n-grams"][2])

# %% [markdown]
# The formula assumes that each guess is accepted with the same probability a. In a text, easy and difficult places
# alternate, so it is only about right. The n-grams are rarely right in sampled text of such a small model. Its greedy
# text soon repeats itself, so there they are right more often. This says little about large models, or about texts that
# copy part of the prompt. The multiply-adds leave out attention and the prompt.
#
# DeepSeek-V3 has one such head, which also sees the token just before the one that it predicts
# (`nt.SequentialTokenBlock`). `numpy-transformer generate RUN --draft ngram` or `--draft RUN` says how many tokens each
# call gives.
#
# ## Exercises
#
# 1. p = (0.5, 0.3, 0.2) and q = (0.2, 0.2, 0.6). What is the probability of a rejection, and what is r?
# 2. Someone draws from p after a rejection, and finds greedy text correct in all tests. Why do these tests not show
#    the mistake?
# 3. An n-gram draft is certain of its guess x: q(x) = 1. With which probability is x accepted, and what is r then?
# 4. A call of the model takes 10 ms, a step of the draft 1 ms, and a = 0.7. How long does a token take with k = 1, 4
#    and 20? What is the best k?
# 5. Why is a model useless as its own draft (c = 1)? Why are its further heads useful?
#
# With a checker (`numpy-transformer exercise start my-exercises 28`): 28.1, 28.2, 28.3, 28.4.
