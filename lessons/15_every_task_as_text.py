# %% [markdown]
# # 15 Every task as text
#
# A classifier has one output per class, a tagger has one output per tag, and a translator writes text. T5, the
# "text-to-text transfer Transformer" (Raffel et al. 2020), treats all of these tasks alike: the input is a text, the
# output is a text, and the first words of the input, the prefix, say which task is meant. So there is one
# encoder-decoder, one vocabulary, one loss, one way of decoding and one metric, exact match: is the answer right from
# the first token to the last?
#
# This lesson asks three questions. What does the prefix do, forward and backward? How do the tasks of a mixed batch
# share its gradient? And how often should each task be drawn? Then one small model learns four tasks at once, and we
# compare its cross-attention under different prefixes. The lesson ends with the task on which T5 was trained first,
# filling gaps in plain text.
#
# After this lesson you will be able to put a task into text-to-text form, mix several tasks, and say what exact match
# measures. Lessons 12 and 13 come first. About 15 minutes.

# %% Four tasks in one form
import itertools
import math
from collections import Counter

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.course import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(15)
PAD, BOS, EOS = data.PAD, data.BOS, data.EOS
LETTERS = "abcdefgh"
TASKS = {"copy": lambda word: word,
         "reverse": lambda word: word[::-1],
         "sort": lambda word: "".join(sorted(word)),
         "first": lambda word: word[0]}
tokenizer = data.MixedTokenizer([*(f"{name}: " for name in TASKS), *LETTERS])   # each prefix and each letter is a token
V = tokenizer.vocab_size + 3                # the ids 0 to 2 are PAD, BOS and EOS
prefixes = {name: 3 + i for i, name in enumerate(TASKS)}
letters = {letter: 7 + i for i, letter in enumerate(LETTERS)}


def relative_difference(a, b):
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def pairs(words, names=TASKS):
    """(source text, target text) of each word under each of these tasks."""
    return [(f"{name}: {word}", TASKS[name](word)) for word in words for name in names]


def batch(texts):
    """All texts in one batch, in this order: ((source, target_in), target_out)."""
    return data.Pairs(texts, tokenizer, tokenizer, len(texts), seed=15).assemble(np.arange(len(texts)))


texts = pairs(["fed"], ["copy"]) + pairs(["badge"])
for text in texts:
    print("  {!r} -> {!r}".format(*text))
(source, target_in), target_out = batch(texts)
show(source=source)
claim("a source consists of BOS, the prefix, the word, EOS and PAD", [
    [*row] == [BOS, prefixes[name], *map(letters.get, word), EOS, PAD, PAD][:8]
    for row, (name, word) in zip(source, (text.split(": ") for text, _ in texts))])

# %% [markdown]
# ## 1. One form for every task
#
# Copying, reversing and sorting naturally turn one text into another. The fourth task, finding the first letter, is a
# classification. An encoder with eight outputs could do it (lesson 11). Here the model writes the class instead: one
# token and EOS. It has to learn that only eight answers make sense, since any other answer is just a wrong one. T5
# even writes numbers as text: a similarity between 1 and 5 is rounded to the nearest 0.2 and becomes "3.8" (section
# 2.4 of the paper).
#
# The advantage is that a new task needs data and a prefix, but no new layer, no new loss and no new program. The price
# is that an answer is written token by token, where a classifier needs a single forward pass.
#
# ## 2. Teacher forcing
#
# During training the decoder reads the right answer, shifted by one position, and predicts the next token at each
# position:
#
#     target             BOS  b    a    d    EOS
#     decoder reads      BOS  b    a    d
#     decoder predicts   b    a    d    EOS
#
# What the decoder reads is called `target_in`, the target without its last column. What it predicts is `target_out`,
# the target without its first column.
#
# By the chain rule of probability, the answer y has log P(y) = sum over t of log P(y_t | y_0 .. y_(t-1), source), with
# one term per token, including EOS. Thanks to the causal mask, one forward pass computes all of these terms. The loss
# is the mean over the N tokens of all answers, not counting PAD:
#
#     L = -(1 / N) (sum over the answers of log P(y))
#     dz = (p - onehot) / N,  and 0 where the target is PAD
#
# When the trained model is used, the decoder reads its own tokens instead. As long as these are right, they are the
# same tokens that teacher forcing feeds in. So greedy decoding writes the right answer **if and only if**, under
# teacher forcing, the right token is the most probable one at every position: up to the first wrong token, the decoder
# reads the same tokens either way. This makes exact match cheap to measure, with one forward pass.

# %% The shift, the loss token by token, and the gradient at padding tokens
D = 12
criterion = nt.CrossEntropyLoss(ignore_id=PAD)
model = nt.EncoderDecoder(V, V, D, num_heads=2, num_layers=1, d_ff=16, max_len=20, rng=rng).astype(np.float64)
model.eval(remember=True)                   # no dropout
for parameter in model.parameters():        # random values, so that no gamma is 1 and no bias is 0
    parameter.data = (parameter.data == 1) + rng.standard_normal(parameter.data.shape) / math.sqrt(D)
answers = [[letters[letter] for letter in answer] for _, answer in texts]
claim("the decoder reads BOS and the answer, and has to predict the answer and EOS",
      [[*row_in[:len(answer) + 1]] == [BOS, *answer] and [*row_out[:len(answer) + 1]] == [*answer, EOS]
       for row_in, row_out, answer in zip(target_in, target_out, answers)])
predict("The answers have 3, 5, 5, 5 and 1 letters. Over how many tokens does the loss average?", 24,
        why="Each answer ends with EOS, which has to be predicted as well: 19 letters and 5 EOS.")
with nt.record(model) as tape:
    loss = criterion(model(source, target_in), target_out)
    model.backward(criterion.backward())
z, dz = tape["output"].output, tape["output"].dy
N = criterion.count


def log_probability(source_row, answer):
    """log P(answer), token by token, with a separate forward pass for each token."""
    unpadded = source_row[source_row > PAD][None]
    total = 0
    for t, token in enumerate([*answer, EOS]):
        logits = model(unpadded, np.array([[BOS, *answer[:t]]]))[0, -1]
        total += logits[token] - math.log(sum(math.exp(logit) for logit in logits))
    return total


claim("the loss is the sum of -log P(answer), divided by the 24 tokens",
      abs(loss + sum(map(log_probability, source, answers)) / 24) < 1e-12 and N == 24, f"{loss:.3f}")
p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
claim("dz = (p - onehot) / N where the target is a token",
      [np.allclose(dz[b, t, v], (p[b, t, v] - (v == y)) / N, rtol=1e-11, atol=1e-15)
       for (b, t), y in np.ndenumerate(target_out) if y != PAD for v in range(V)])
claim("dz is exactly 0 where the target is PAD", dz[target_out == PAD] == 0, f"{(target_out == PAD).sum()} positions")
longer_source, longer_in, longer_out = [np.pad(ids, ((0, 0), (0, 3))) for ids in (source, target_in, target_out)]
claim("three more columns of PAD in source and target leave the loss unchanged",
      abs(criterion(model(longer_source, longer_in), longer_out) - loss) < 1e-13)
model.forget()
criterion.forget()
report = nt.gradcheck(model, source, target_in, directions=2)               # two random directions in each array
claim("finite differences and the complex step confirm all gradients", report.ok, f"{len(report.rows)} arrays")

# %% [markdown]
# ## 3. What the prefix does
#
# **Forward.** The prefix is one token of the source. The encoder has no causal mask, so every row of the memory (the
# encoder's output) depends on the prefix, and through cross-attention every logit does. The letters of the source are
# the same under each prefix, but the decoder makes different use of them.
#
# **Backward.** The embedding of a prefix is a row of E. Row v collects the gradients of all positions whose id is v
# (lesson 03). A prefix stands at position 1 of the sources of its own task and nowhere else, so
#
#     dE_prefix = sqrt(D) (sum of dx_b1 over its sources b)
#
# It is exactly 0 if the batch has no such source. All other parameters are shared. The row of the letter a, for
# example, receives the sum of the gradients from all tasks. (In this model, source and target have separate embedding
# matrices, so that their roles can be told apart. In T5, and in section 6, there is only one.)
#
# **Without a prefix**, the model cannot know which of the four answers to a word is wanted. Suppose a word has k
# different answers with frequencies f_1 .. f_k. The best that a model can do is to learn these frequencies, and then
# its loss is -(sum of f log f) for each answer, however long it trains. For "badge" all four answers differ, so the
# loss of an answer is at least log 4 = 1.39. For "aaa" the answer is "aaa" in three tasks and "a" in one, so it is
# 0.56. And the model can be right only as often as the most frequent answer.

# %% One word under four prefixes, and the rows of E
model.eval()
decoder_input = data.frame(tokenizer, "badge")[None, :-1]
sources = {name: data.frame(tokenizer, f"{name}: badge")[None] for name in TASKS}
logits = {name: model(ids, decoder_input)[0] for name, ids in sources.items()}
claim("changing the prefix changes all logits at every position",
      [np.abs(logits[a] - logits[b]) > 0 for a, b in itertools.combinations(TASKS, 2)])
influences = nt.influence(model, sources["sort"], decoder_input, of="encoder", directions=4)
claim("every position of the answer depends on the embedding of the prefix", influences[:, 1] > 1e-3)
x = model.source_positions(model.source_embedding(sources["sort"]))
claim("and so does every row of the memory", nt.influence(model.encoder, x, directions=4)[:, 1] > 1e-3)
model.eval(remember=True).zero_grad()
(source, target_in), target_out = batch(pairs(["badge", "fed", "dead"], ["copy", "reverse", "first"]))
with nt.record(model) as tape:
    criterion(model(source, target_in), target_out)
    model.backward(criterion.backward())
dx = tape["source_embedding"].dy
dE = model.source_embedding.weight.grad
prefix_ids = source[:, 1]
claim("dE of a prefix is sqrt(D) times the sum of dx over the sources of its task", [
    relative_difference(dE[i], math.sqrt(D) * sum(dx[b, 1] for b in range(len(source)) if prefix_ids[b] == i)) < 1e-13
    for name, i in prefixes.items() if name != "sort"])
claim("the batch has no \"sort: \", so the gradient of its row is exactly 0", dE[prefixes["sort"]] == 0)
a = letters["a"]
contributions = {name: math.sqrt(D) * sum(dx[b, s] for b, s in np.argwhere(source == a) if prefix_ids[b] == i)
                 for name, i in prefixes.items() if name != "sort"}
claim("the row of the letter a receives a gradient from every task in which the letter occurs",
      relative_difference(dE[a], sum(contributions.values())) < 1e-13
      and min(map(np.linalg.norm, contributions.values())) > 1e-3)

# %% What no model can do without a prefix
words = ["".join(word) for n in (3, 4, 5) for word in itertools.product(LETTERS, repeat=n)]
words = [words[i] for i in rng.permutation(len(words))]
test_words, training_words = words[:200], words[200:12000]
answer_counts = [Counter(answer for _, answer in pairs([word])) for word in test_words]
nats = -sum(count * math.log(count / 4) for counts in answer_counts for count in counts.values())
lowest_loss = nats / sum(len(answer) + 1 for _, answer in pairs(test_words))        # per token, EOS included
highest_match = np.mean([max(counts.values()) / 4 for counts in answer_counts])
print(f"  without a prefix, the loss is at least {lowest_loss:.3f}, and exact match at most {highest_match:.1%}")
claim("\"badge\" has four different answers; \"aaa\" has two, one of them in three of the four tasks",
      [sorted(Counter(text for _, text in pairs([word])).values()) for word in ("badge", "aaa")] == [[1] * 4, [1, 3]])

# %% [markdown]
# ## 4. Mixing tasks
#
# A batch may contain examples of several tasks. Let task m have n_m target tokens in the batch, let N be the sum of all
# n_m, and let L_m be the mean loss over the tokens of task m. Then
#
#     L      = (1 / N) (sum of the loss over all tokens)
#            = sum over m of (n_m / N) L_m
#     grad L = sum over m of (n_m / N) grad L_m
#
# So the gradient of a mixed batch is the **token-weighted mean** of the tasks' gradients. The weight of a task is its
# share of the target tokens: it grows with the number of examples and with the length of the answers. The tokens of
# the sources do not count, and neither does PAD.

# %% The gradient of a mixed batch
def gradient(texts):
    """The gradients of all parameters in one vector, and the number of tokens that the loss counted."""
    model.zero_grad()
    inputs, targets = batch(texts)
    criterion(model(*inputs), targets)
    model.backward(criterion.backward())
    return np.concatenate([parameter.grad.ravel() for parameter in model.parameters()]), criterion.count


predict("A batch holds 8 words of five letters, each under \"first: \" and under \"reverse: \". "
        "What is the weight of \"first\"?", 0.25,
        why="With EOS, an answer of \"first\" has 2 tokens and one of \"reverse\" has 6. So \"first\" has 16 of the "
            "64 target tokens.")
five_letters = [word for word in training_words if len(word) == 5][:8]
mixed, N = gradient(pairs(five_letters, ["first", "reverse"]))
of_first, n_first = gradient(pairs(five_letters, ["first"]))
of_reverse, n_reverse = gradient(pairs(five_letters, ["reverse"]))
claim("\"first\" has 16 of the 64 target tokens", (n_first, n_reverse, N) == (16, 48, 64))
claim("the gradient of the batch is the token-weighted mean",
      relative_difference(mixed, n_first / N * of_first + n_reverse / N * of_reverse) < 1e-12)
claim("it is not the plain mean of the two gradients", relative_difference(mixed, (of_first + of_reverse) / 2) > 0.05)
three_to_one, _ = gradient(pairs(five_letters * 3, ["first"]) + pairs(five_letters, ["reverse"]))
claim("with three times as many examples, \"first\" has a weight of one half",
      relative_difference(three_to_one, (of_first + of_reverse) / 2) < 1e-12)

# %% [markdown]
# How often should each task be drawn? Let task m have e_m examples. T5 compares three rules (section 3.5.2):
#
# * **Proportional**: r_m = e_m / (sum of all e). A large task crowds out the small ones, which a limit K prevents:
#   min(e_m, K) takes the place of e_m.
# * **Equal**: all r_m are the same. The examples of a small task are then repeated so often that the model memorizes
#   them.
# * **Temperature** τ, in between: r_m^(1/τ), divided by their sum. τ = 1 is proportional, and a large τ gives
#   nearly equal shares.
#
# The temperature works as in lesson 12, where it changed the probabilities of the next token: the ratio of two shares
# is raised to the power 1 / τ, which is the same as softmax(log(e) / τ).

# %% The shares, computed
def shares(sizes, temperature=1.0, limit=math.inf):
    r = np.minimum(sizes, limit) ** (1 / temperature)
    return r / r.sum()


sizes = np.array([1_000_000, 50_000, 1_000.0])
draws = 1_000_000
predict("Two tasks have 1,000,000 and 10,000 examples, and τ = 2. How many times as often is the large task drawn?", 10,
        why="The sizes are in the ratio 100 to 1. With τ = 2, the ratio is raised to the power 1/2, and sqrt(100) is "
            "10.")
equal = np.full(3, 1 / 3)
claim("at τ = 2, the ratio of two shares is the square root of the ratio of the sizes",
      abs(np.divide(*shares([1_000_000.0, 10_000.0], 2)) - 10) < 1e-12)
claim("τ = 1 without a limit is proportional", np.allclose(shares(sizes), sizes / sizes.sum(), rtol=1e-14))
claim("τ = 2 is softmax(log(e) / 2)", np.allclose(shares(sizes, 2), nt.Softmax().eval()(np.log(sizes) / 2), rtol=1e-13))
claim("a limit as small as the smallest task, or a very high τ, gives equal shares",
      np.allclose(shares(sizes, limit=1_000), equal) and np.allclose(shares(sizes, 1e9), equal))
temperatures = np.geomspace(1, 30, 60)
curves = np.array([shares(sizes, temperature) for temperature in temperatures])
picture = Figure(figsize=(11, 4.4), layout="constrained")
for axes, lines in zip(picture.subplots(1, 2), (curves, draws * curves / sizes)):
    for size, line, style in zip(sizes, lines.T, ("C0-", "C1--", "C2-.")):
        axes.plot(temperatures, line, style, linewidth=2, label=f"task with {size:,.0f} examples")
    axes.set(xscale="log", xlabel="temperature τ")
    axes.set_xticks([1, 2, 5, 10, 20], [1, 2, 5, 10, 20])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
left, right = picture.axes
left.axhline(1 / 3, color="0.4", linestyle=":", label="equal shares")
left.set(ylim=(0, 1), ylabel="share", title="Share of each task in the mixture")
left.legend()
right.set(yscale="log", ylabel="times", title="How often one example is seen in a million draws")
figure("mixing", picture)

# %% [markdown]
# ## 5. Exact match
#
# One metric serves all tasks: exact match, the share of answers that are right from the first token to the last. It is
# strict. If each token is right with probability p, independently of the others, then an answer of n tokens is right
# with probability p^n. Errors need not be independent, though. If they occur together, several in the same answer, more
# answers are right than p^n; if they are spread out, one to an answer, fewer are. Whatever the dependence, for answers
# of n tokens
#
#     1 - n (1 - p) <= exact match <= p
#
# because there cannot be more wrong answers than wrong tokens, and each wrong answer has at least one wrong token. With
# n = 6 and p = 0.9, for example, exact match lies between 0.4 and 0.9, and independent errors would give 0.53.

# %% From right tokens to right answers
predict("Each token is right with probability 0.99, independently of the others. "
        "What share of the answers of 12 tokens is right?", 0.886,
        why="An answer is right only if all 12 tokens are, and 0.99 to the power 12 is 0.886.")
for n, p in ((2, 0.9), (12, 0.99)):
    share = np.mean((rng.random((100_000, n)) < p).all(1))
    claim(f"n = {n:2}, p = {p}: independent errors give an exact match of p^n",
          abs(share - p ** n) < 4 * math.sqrt(0.25 / 100_000), f"counted {share:.3f}, p^n = {p ** n:.3f}")

# %% [markdown]
# ## 6. One model, four tasks
#
# The words have three to five letters. Each batch mixes the four tasks in equal parts. We hold out 200 words with all
# their tasks. One matrix serves as source embedding, target embedding and output, as in T5. Every 40 steps we measure
# the exact match of each task on the held-out words, by teacher forcing.

# %% Training
STEPS = 480
held_out_inputs, held_out_targets = batch(pairs(test_words))
held_out_sources = held_out_inputs[0]
held_out_tasks = held_out_sources[:, 1]


def evaluate():
    """The loss, and which tokens are right; PAD counts as right."""
    logits = model.eval()(*held_out_inputs)
    right = (logits.argmax(-1) == held_out_targets) | (held_out_targets == PAD)
    return criterion(logits, held_out_targets), right


def measure():
    loss, right = evaluate()
    six_tokens = (held_out_targets > PAD).sum(1) == 6           # the answers of five letters and EOS
    token_and_answer_shares.append((right[six_tokens].mean(), right[six_tokens].all(1).mean()))
    matches = {name: right[held_out_tasks == prefix].all(1).mean() for name, prefix in prefixes.items()}
    return {"validation": loss, **matches}


model = nt.make_model(V, V, N=1, d_model=48, d_ff=96, h=4, dropout=0.0, max_len=12, tie_weights=True, rng=15)
optimizer = nt.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=1.0, decay=lambda p: p.data.ndim > 1)
trainer = nt.Trainer(model, nt.CrossEntropyLoss(ignore_id=PAD), optimizer,
                     nt.CosineSchedule(optimizer, 8e-3, 4e-4, warmup=STEPS // 10, steps=STEPS), clip=1.0, workers=1)
criterion = nt.CrossEntropyLoss(ignore_id=PAD).eval()
token_and_answer_shares = []
untrained = measure()
training_set = data.Pairs(pairs(training_words), tokenizer, tokenizer, 64, seed=15, pool=4)
history = trainer.fit(training_set, STEPS, measure, every=40)
model.eval()
measured = [{"step": 0, **untrained}, *(row for row in history if "validation" in row)]
final = measured[-1]
print("  exact match: " + ", ".join(f"{name} {final[name]:.1%}" for name in TASKS))
claim("on held-out words, exact match is above 85 % for each task", [final[name] > 0.85 for name in TASKS])
claim("the loss is far below the lowest loss without a prefix", final["validation"] < lowest_loss / 5,
      f"{final['validation']:.3f}, without a prefix at least {lowest_loss:.3f}")
claim("answers of six tokens: 1 - 6 (1 - p) <= exact match <= p at every measurement",
      [1 - 6 * (1 - p) - 1e-9 <= share <= p for p, share in token_and_answer_shares])
distance = max(abs(share - p ** 6) for p, share in token_and_answer_shares)
claim("and exact match is near p^6, as if the errors were independent", distance < 0.15,
      f"at most {distance:.2f} away")
written = [data.unframe(tokenizer, row) for row in nt.greedy_decode(model, held_out_sources, BOS, EOS, max_len=8)]
claim("greedy decoding writes the right text exactly where all tokens are right under teacher forcing",
      np.array_equal([text == answer for text, (_, answer) in zip(written, pairs(test_words))], evaluate()[1].all(1)))
copy_sources = held_out_sources[held_out_tasks == prefixes["copy"]]
with_new_prefix = np.where(copy_sources == prefixes["copy"], prefixes["reverse"], copy_sources)
written = [data.unframe(tokenizer, row) for row in nt.greedy_decode(model, with_new_prefix, BOS, EOS, max_len=8)]
claim("if \"reverse: \" replaces \"copy: \", the model writes the words backward",
      np.mean([text == word[::-1] for text, word in zip(written, test_words)]) > 0.85)
picture = Figure(figsize=(12, 4.6), layout="constrained")
left, right = picture.subplots(1, 2, width_ratios=(3, 2))
for name, style in zip(TASKS, ("C0o-", "C1s--", "C2^-.", "C3d:")):
    left.plot([row["step"] for row in measured], [row[name] for row in measured], style, label=name)
left.set(xlabel="training step", ylabel="exact match", title="One model learns four tasks (held-out words)")
left.legend(loc="lower right")
grid = np.linspace(0.5, 1, 100)
right.plot(grid, grid ** 6, "0.3", linestyle="--", label="independent errors: p⁶")
right.fill_between(grid, np.maximum(0, 1 - 6 * (1 - grid)), grid, color="C0", alpha=0.15, label="possible")
right.plot(*zip(*token_and_answer_shares), "C3o", label="measured")
right.set(xlabel="share p of right tokens", ylabel="exact match", title="Answers of six tokens", xlim=(0.5, 1.01))
right.legend(loc="upper left")
for axes in (left, right):
    axes.grid(alpha=0.3)
figure("exact_match", picture)

# %% [markdown]
# ## 7. The same word under different prefixes
#
# A map of cross-attention has one row for each position of the decoder and one column for each source token. The label
# of a row gives the token that the decoder reads at this position, and after the arrow the token that it has to
# predict. Under "copy: ", predicting letter t of the answer requires letter t of the word. Under "reverse: " it
# requires letter n - 1 - t. So we expect a falling diagonal and a rising one, although nothing in the model prescribes
# them.
#
# An attention weight tells where a head looks, but not what it finds there (lesson 12): each row of the memory is a
# mixture, and the encoder may already have moved letters. So the lower maps show what the answer depends on. They
# replace one letter of the word by every other letter, or the prefix by every other prefix, and measure how much
# probability moves to other tokens at each position of the answer, on average. (The decoder reads the original right
# answer throughout.)

# %% Weights and effects
def weights_and_effects(name, word):
    """Two maps (T, S): the mean cross-attention weights of all heads, and the effect of replacing a source token."""
    ids = data.frame(tokenizer, f"{name}: {word}")
    target = data.frame(tokenizer, TASKS[name](word))
    p = nt.Softmax().eval()(model(ids[None], target[None, :-1]))
    weights = model.decoder.blocks[0].cross_attention.weights[0].mean(0)
    effects = np.full(weights.shape, np.nan)                        # BOS and EOS are not replaced
    for s in range(1, len(ids) - 1):
        candidates = prefixes if s == 1 else letters
        replaced = np.array([[*ids[:s], other, *ids[s + 1:]] for other in candidates.values() if other != ids[s]])
        new_p = nt.Softmax().eval()(model(replaced, np.tile(target[:-1], (len(replaced), 1))))
        effects[:, s] = np.abs(new_p - p).sum(-1).mean(0) / 2
    return weights, effects


needed_letters = {"copy": lambda n: np.arange(n), "reverse": lambda n: np.arange(n)[::-1],
                  "first": lambda n: np.array([0])}
for name, needed in needed_letters.items():
    largest_there, effect_there = [], []
    for word in test_words[:30]:
        weights, effects = weights_and_effects(name, word)
        columns = 2 + needed(len(word))     # the columns 0 and 1 are BOS and the prefix
        largest_there += [weights[t].argmax() == s for t, s in enumerate(columns)]
        effect_there += [effects[t, s] for t, s in enumerate(columns)]
    claim(f"{name}: each letter of the answer depends on the letter that it requires", np.mean(effect_there) > 0.8,
          f"effect {np.mean(effect_there):.2f}; the largest weight is on this letter in {np.mean(largest_there):.0%}")
    if name != "first":
        claim(f"{name}: in most cases the largest weight is on this letter", np.mean(largest_there) > 0.6)
word = "badge"
picture = Figure(figsize=(15, 7.4), layout="constrained")
panels = picture.subplots(2, 4, subplot_kw={"facecolor": "0.9"})
for column, name in zip(panels.T, TASKS):
    answer = TASKS[name](word)
    row_labels = [f"{read} → {predicted}" for read, predicted in zip(["BOS", *answer], [*answer, "EOS"])]
    for axes, values in zip(column, weights_and_effects(name, word)):
        image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(word) + 3), ["BOS", f"{name}:", *word, "EOS"], rotation=90)
        axes.set_yticks(range(len(values)), row_labels)
    column[0].set_title(f"{name}: {word}")
    column[0].set_xticks([])
panels[0, 0].set_ylabel("attention weights")
panels[1, 0].set_ylabel("effects")
picture.supxlabel("source token (key)")
picture.supylabel("decoder reads → has to predict")
picture.colorbar(image, ax=panels, label="attention weight, or effect of replacing the source token")
figure("two_prefixes", picture)

# %% [markdown]
# The lower maps show that under "copy: " and "reverse: " each token of the answer depends on one letter and on the
# prefix. It depends less on the prefix where the tasks agree, in the middle of the word and at EOS. Under "sort: " each
# row has a letter of its own and some weaker effects, because another letter in the word may push this one to another
# position. (The gray columns, BOS and EOS, were not replaced.)
#
# The attention weights in the upper maps are less clear-cut. For some letters, the largest weight is elsewhere (the
# share is printed above), and the answer depends on the letter all the same: the encoder can carry a letter to another
# row.
#
# ## 8. Gaps as text
#
# Before its tasks, T5 learns from plain text, and this training has text-to-text form, too. It is called **span
# corruption** (sections 3.1.4 and 3.3.4): 15 % of the tokens are removed, in spans of three on average. In the input,
# each span is replaced by a sentinel, a token that is used for nothing else: <X>, <Y>, and so on. The target repeats
# each sentinel followed by the words that it replaced, and ends with one more sentinel:
#
#     text      one encoder reads the source and one decoder
#               writes the answer
#     inputs    one encoder <X> source and one decoder
#               <Y> answer
#     targets   <X> reads the <Y> writes the <Z>
#
# If k of n words are removed in g spans, the encoder reads n - k + g tokens and the decoder writes k + g + 1. In this
# example n = 11, k = 4 and g = 2: the encoder reads 9 tokens and the decoder writes 7. BERT (lesson 14) reads all n
# tokens and predicts all masked words at once, each without knowing the other answers. T5's decoder predicts each word
# of a span after it has read the words before it, and it also has to find out how long the span is.

# %% Removing spans and putting them back
def random_parts(total, count):
    """Splits total into this many random positive integers."""
    return np.diff([0, *np.sort(rng.permutation(total - 1)[:count - 1]) + 1, total])


def corrupt(words, share=0.15, length=3):
    """Inputs and targets of span corruption. Spans do not touch, and the first and last word always stay."""
    num_removed = max(1, round(share * len(words)))
    num_spans = max(1, round(num_removed / length))
    *kept_lengths, _ = random_parts(len(words) - num_removed, num_spans + 1)
    span_lengths = random_parts(num_removed, num_spans)
    rest = iter(words)
    inputs, targets = [], []
    for n, (kept_length, span_length) in enumerate(zip(kept_lengths, span_lengths)):
        inputs += [*itertools.islice(rest, kept_length), f"<{n}>"]
        targets += [f"<{n}>", *itertools.islice(rest, span_length)]
    return inputs + list(rest), [*targets, f"<{num_spans}>"]


def restore(inputs, targets):
    """Replaces each sentinel of the inputs by the words that follow it in the targets."""
    spans = {}
    for word in targets:
        if word.startswith("<"):
            sentinel = word
            spans[sentinel] = []
        else:
            spans[sentinel].append(word)
    return [restored for word in inputs for restored in spans.get(word, [word])]


text = [word for word in data.builtin_text().split() if word.isalpha()]
for side, line in zip(("inputs ", "targets"), corrupt(text[:20], share=0.25)):
    print(f"  {side} {' '.join(line)}")
predict("30 of 200 words are removed, in 10 spans. How many tokens does the decoder write, with the last sentinel?", 41,
        why="The decoder writes the 30 words, a sentinel before each of the 10 spans, and one more at the end.")
pieces = [text[start:start + length] for start, length in rng.integers((0, 20), (len(text) - 300, 300), (500, 2))]
corrupted = [corrupt(piece) for piece in pieces]
claim("inputs and targets together restore each of 500 texts",
      [restore(*sides) == piece for sides, piece in zip(corrupted, pieces)])
counts = [(len(piece), round(0.15 * len(piece)), sum(word[0] == "<" for word in inputs))
          for piece, (inputs, _) in zip(pieces, corrupted)]
claim("their lengths are n - k + g and k + g + 1, where k is 15 % of n, rounded",
      [(len(inputs), len(targets)) == (n - k + g, k + g + 1)
       for (inputs, targets), (n, k, g) in zip(corrupted, counts)])
written_share = sum(len(targets) for _, targets in corrupted) / sum(map(len, pieces))
claim("the decoder writes about a fifth as many tokens as the text has", 0.18 < written_share < 0.24,
      f"{written_share:.1%}")
as_texts = [(" ".join(inputs), " ".join(targets)) for inputs, targets in corrupted]
word_tokenizer = data.WordTokenizer.train(" ".join(source + " " + target for source, target in as_texts), 5000)
(source, target_in), target_out = data.Pairs(as_texts, word_tokenizer, word_tokenizer, 8, 15)(0)
claim("written as texts, they form batches like any other pairs",
      np.array_equal(target_in[:, 1:], target_out[:, :-1]), f"{source.shape}")

# %% [markdown]
# ## 9. The rest of T5
#
# The full-size run of this lesson is `numpy-transformer train text2text`. One model learns to reverse words, sort
# words, read dates and summarize texts, and reaches 99 % exact match in each task. T5 also has parts that neither this
# lesson nor that run uses:
#
# * **Relative positions.** No sinusoid is added to the embeddings. Instead, each head adds a learned number to the
#   score of a query and a key, depending on their distance. There are 32 such numbers: each small distance has its own,
#   and larger distances share theirs, in ranges that grow logarithmically up to 128.
# * **Normalization** without a bias and without subtracting the mean, called RMSNorm in lessons 08 and 16.
# * **Size and data**: 60 million to 11 billion parameters, 32,000 word pieces, and 750 GB of text for span corruption.
#   The tasks follow after this training, or are part of the mixture from the start.
#
# ## Exercises
#
# 1. Put three tasks into this form: whether a sentence is grammatical, whether review A is kinder than review B, and
#    which words of a text are names. What are source and target? Which outputs would not be valid answers?
# 2. By mistake, target_in and target_out are the same. What happens to the loss, and what to greedy decoding?
# 3. Each batch contains one task only, and the tasks take turns. Which weights do the tasks of section 4 then have over
#    four steps?
# 4. Suppose that in section 6 "first: " is drawn nine times as often as each other task. Predict its weight in the
#    gradient for words of four letters, and then try it.
# 5. Train with the prefixes "sort: " and "reverse: " only, and then ask for "copy: ". What does the model write, and
#    why?
# 6. Suppose the targets of span corruption were written without sentinels. Find two texts that give the same inputs
#    and targets.
#
# With a checker (`numpy-transformer exercise check 15.1` and so on): 15.1, 15.2.
