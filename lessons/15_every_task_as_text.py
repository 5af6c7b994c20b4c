# %% [markdown]
# # 15 Every task as text
#
# A model that classifies has an output for classes, a tagger one for tags, a translator writes. T5, the "text-to-text
# transfer Transformer" (Raffel et al. 2020), makes all of them one: every task is a text that comes in and a text that
# goes out, and the first words of the input, the prefix, say what is wanted. One encoder-decoder, one vocabulary, one
# loss, one way of decoding, one measure: is the answer right, from the first token to the last?
#
# This lesson asks what the prefix does, forward and backward, which task the gradient of a mixed batch serves, and how
# often to draw from each. Then one small model learns four tasks at once, and its cross-attention is looked at under
# two prefixes. At the end is the task on which T5 was trained first: to fill gaps.
#
# Afterwards you can put a task into this form, mix several, and say what exact match measures. Lessons 12 and 13 come
# first. About 15 minutes.

# %% Four tasks in one form
import itertools
import math
from collections import Counter

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.classroom import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(15)
PAD, BOS, EOS, LETTERS = data.PAD, data.BOS, data.EOS, "abcdefgh"
TASKS = {"copy": lambda word: word, "reverse": lambda word: word[::-1], "sort": lambda word: "".join(sorted(word)),
         "first": lambda word: word[0]}
tokens = data.MixedTokenizer([*(f"{name}: " for name in TASKS), *LETTERS])  # a prefix is one token, a letter another
V = tokens.vocab_size + 3                   # the ids 0 to 2 are PAD, BOS and EOS
prefixes = {name: 3 + i for i, name in enumerate(TASKS)}
letters = {letter: 7 + i for i, letter in enumerate(LETTERS)}


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def pairs(words, names=TASKS):              # (source text, target text)
    return [(f"{name}: {word}", TASKS[name](word)) for word in words for name in names]


def batch(texts):                           # all of them in one batch, in this order: ((source, target_in), target_out)
    return data.Pairs(texts, tokens, tokens, len(texts), seed=15).assemble(np.arange(len(texts)))


texts = pairs(["fed"], ["copy"]) + pairs(["badge"])
for text in texts:
    print("  {!r} -> {!r}".format(*text))
(source, target_in), target_out = batch(texts)
show(source=source)
claim("a source is BOS, the prefix, the word, EOS and PAD", [
    [*row] == [BOS, prefixes[name], *map(letters.get, word), EOS, PAD, PAD][:8]
    for row, (name, word) in zip(source, (text.split(": ") for text, _ in texts))])

# %% [markdown]
# ## 1. One form
#
# Copying, reversing and sorting are naturally texts. The fourth task, the first letter, is a classification. An encoder
# with eight outputs would do it (lesson 11). Here the class is written out, one token and EOS, and nobody tells the
# model that only eight answers make sense: any other is just wrong. T5 writes numbers as text, too: a similarity
# between 1 and 5 is rounded to the nearest 0.2 and becomes "3.8" (section 2.4 of the paper).
#
# What is won: a new task needs data and a prefix, but no new layer, no new loss and no new program. What is paid: an
# answer is written token by token, where a classifier needs one forward.
#
# ## 2. Teacher forcing
#
# In training the decoder reads the right answer, shifted by one: at each token it is asked for the next one.
#
#     target        BOS  b    a    d    EOS
#     it reads      BOS  b    a    d             target_in: without the last column
#     it should say b    a    d    EOS           target_out: without the first
#
# By the chain rule of probability the answer y has log P(y) = sum over t of log P(y_t | y_0 .. y_(t-1), source), one
# term for each token, EOS too. The causal mask makes one forward compute all of them. The loss is the mean over the N
# tokens of all answers that are not PAD:
#
#     L = -(1 / N) (sum over the answers of log P(y)),      dz = (p - onehot) / N,  and 0 where the target is PAD
#
# A decoder that is used reads its own tokens instead. As long as they are right, both are the same. So greedy decoding
# writes the right answer **exactly if** under teacher forcing the right token is the likeliest at every place: up to
# the first wrong token both have read the same. That makes exact match cheap to measure, in one forward.

# %% The shift, the loss token by token, and what PAD gets
D, criterion = 12, nt.CrossEntropyLoss(ignore_id=PAD)
model = nt.EncoderDecoder(V, V, D, num_heads=2, num_layers=1, d_ff=16, max_len=20, rng=rng)
for parameter in model.astype(np.float64).eval(remember=True).parameters():     # no dropout; no gamma is 1, no bias 0
    parameter.data = (parameter.data == 1) + rng.standard_normal(parameter.data.shape) / math.sqrt(D)
answers = [[letters[letter] for letter in answer] for _, answer in texts]
ends = [len(answer) for answer in answers]
claim("the decoder reads BOS and the answer, and should say the answer and EOS",
      [[*read[:n + 1]] == [BOS, *y] and [*say[:n + 1]] == [*y, EOS]
       for read, say, y, n in zip(target_in, target_out, answers, ends)])
predict("The answers have 3, 5, 5, 5 and 1 letters. Over how many tokens does the loss average?", 24)
with nt.record(model) as tape:
    loss = criterion(model(source, target_in), target_out)
    model.backward(criterion.backward())
z, dz, N = tape["output"].output, tape["output"].dy, criterion.count


def log_p(row, answer):                     # of one answer, token by token, each from a forward of its own
    alone, total = row[row > PAD][None], 0
    for t, token in enumerate([*answer, EOS]):
        scores = model(alone, np.array([[BOS, *answer[:t]]]))[0, -1]
        total += scores[token] - math.log(sum(math.exp(score) for score in scores))
    return total


claim("the loss is the sum of -log P(answer), divided by the 24 tokens",
      abs(loss + sum(map(log_p, source, answers)) / 24) < 1e-12 and N == 24, f"{loss:.3f}")
p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
claim("dz = (p - onehot) / N where a token is wanted",
      [np.allclose(dz[b, t, v], (p[b, t, v] - (v == y)) / N, rtol=1e-11, atol=1e-15)
       for (b, t), y in np.ndenumerate(target_out) if y != PAD for v in range(V)])
claim("dz is 0 where PAD is wanted, exactly", dz[target_out == PAD] == 0, f"{(target_out == PAD).sum()} places")
longer = [np.pad(ids, ((0, 0), (0, 3))) for ids in (source, target_in, target_out)]         # PAD is 0
claim("more PAD on both sides leaves the loss as it is", abs(criterion(model(*longer[:2]), longer[2]) - loss) < 1e-13)
model.forget(), criterion.forget()
report = nt.gradcheck(model, source, target_in, directions=2)               # two random directions in each array
claim("finite differences and the complex step confirm all gradients", report.ok, f"{len(report.rows)} arrays")

# %% [markdown]
# ## 3. What the prefix does
#
# **Forward.** The prefix is one token of the source. The encoder has no causal mask, so every row of the memory follows
# it, and through cross-attention every logit. The letters stay the same; what the decoder reads of them does not.
#
# **Backward.** The embedding of a prefix is a row of E. Row v collects the gradients of all places where the id is v
# (lesson 03). A prefix stands at place 1 of the sources of its own task, so
#
#     dE_prefix = sqrt(D) (sum over the sources b of this task of dx_b1),      exactly 0 if the batch has none.
#
# Everything else is shared: the row of the letter a is the sum of what all tasks say. (Source and target have matrices
# of their own in this model, so that the roles can be told apart. In T5, and in section 6, there is one.)
#
# **Without it** a word has four right answers, and the model has no way to know which one is meant. For a word with k
# different answers of frequencies f_1 .. f_k the best it can do is to know these frequencies: a loss of
# -(sum of f log f) for each answer, however long one trains. And it can be right only as often as the commonest answer.

# %% One word under four prefixes, and the rows of E
model.eval()
wanted = data.frame(tokens, "badge")[None, :-1]
asked = {name: data.frame(tokens, f"{name}: badge")[None] for name in TASKS}
said = {name: model(ids, wanted)[0] for name, ids in asked.items()}
claim("another prefix moves all logits at every place",
      [np.abs(said[a] - said[b]) > 0 for a, b in itertools.combinations(TASKS, 2)])
xray = nt.influence(model, asked["sort"], wanted, of="encoder", directions=4)
claim("every place of the answer follows the embedding of the prefix", xray[:, 1] > 1e-3)
x = model.source_positions(model.source_embedding(asked["sort"]))
claim("and so does every row of the memory", nt.influence(model.encoder, x, directions=4)[:, 1] > 1e-3)
model.eval(remember=True).zero_grad()
(source, target_in), target_out = batch(pairs(["badge", "fed", "dead"], ["copy", "reverse", "first"]))
with nt.record(model) as tape:
    criterion(model(source, target_in), target_out)
    model.backward(criterion.backward())
dx, dE, task = tape["source_embedding"].dy, model.source_embedding.weight.grad, source[:, 1]
claim("dE of a prefix: the sum over the sources of its task", [apart(dE[i], math.sqrt(D) * sum(
    dx[b, 1] for b in range(len(source)) if task[b] == i)) < 1e-13 for name, i in prefixes.items() if name != "sort"])
claim("no sort in the batch: the row of \"sort: \" gets exactly 0", dE[prefixes["sort"]] == 0)
a = letters["a"]
parts = {name: math.sqrt(D) * sum(dx[b, s] for b, s in np.argwhere(source == a) if task[b] == prefixes[name])
         for name in ("copy", "reverse", "first")}
claim("the row of the letter a hears of every task in which it stands", apart(dE[a], sum(parts.values())) < 1e-13
      and min(map(np.linalg.norm, parts.values())) > 1e-3)

# %% What no model can do without it
words = ["".join(word) for n in (3, 4, 5) for word in itertools.product(LETTERS, repeat=n)]
words = [words[i] for i in rng.permutation(len(words))]
unseen, known = words[:200], words[200:12000]
right = [Counter(answer for _, answer in pairs([word])) for word in unseen]         # how often which answer is right
nats = -sum(count * math.log(count / 4) for answers in right for count in answers.values())
floor = nats / sum(len(answer) + 1 for _, answer in pairs(unseen))                  # for each token, EOS too
ceiling = np.mean([max(answers.values()) / 4 for answers in right])
print(f"  without a prefix: a loss of at least {floor:.3f}, at most {ceiling:.1%} of the answers right")
claim("\"badge\" has four right answers; \"aaa\" has two, one of them three times as often",
      [sorted(Counter(text for _, text in pairs([word])).values()) for word in ("badge", "aaa")] == [[1] * 4, [1, 3]])

# %% [markdown]
# ## 4. Mixing
#
# A batch may hold examples of several tasks. Let task m have n_m target tokens in it, N in all, and let L_m be the mean
# over its own tokens. Then
#
#     L = (1 / N) (sum over all tokens) = sum over m of (n_m / N) L_m
#     grad L = sum over m of (n_m / N) grad L_m
#
# The gradient of a mixed batch is the **token-weighted mean** of the tasks' gradients. A task has the share that its
# target tokens have: more examples or longer answers weigh more. The sources do not count, nor does PAD.

# %% The gradient of a mixed batch
def gradient(texts):                        # all gradients in one row, and the tokens that were counted
    model.zero_grad()
    inputs, targets = batch(texts)
    criterion(model(*inputs), targets)
    model.backward(criterion.backward())
    return np.concatenate([parameter.grad.ravel() for parameter in model.parameters()]), criterion.count


predict("8 words of five letters, once under \"first: \" and once under \"reverse: \". The share of \"first\"?", 0.25)
five = [word for word in known if len(word) == 5][:8]
(mixed, N), (first, n_first), (backwards, n_back) = map(gradient, (
    pairs(five, ["first", "reverse"]), pairs(five, ["first"]), pairs(five, ["reverse"])))
claim("\"first\" has 16 of the 64 tokens", (n_first, n_back, N) == (16, 48, 64))
claim("the gradient is the token-weighted mean", apart(mixed, n_first / N * first + n_back / N * backwards) < 1e-12)
claim("it is not the plain mean of the two", apart(mixed, (first + backwards) / 2) > 0.05)
thrice, N = gradient(pairs(five * 3, ["first"]) + pairs(five, ["reverse"]))
claim("with three times the examples, \"first\" has half of it", apart(thrice, (first + backwards) / 2) < 1e-12)

# %% [markdown]
# How often should each task be drawn? Let task m have e_m examples. T5 compares (section 3.5.2):
#
# * **proportional**: r_m = e_m / sum of e. A large task drowns the small ones. A limit K helps: min(e_m, K) for e_m.
# * **equal**: all r_m alike. The examples of a small task come again and again, and are learned by heart.
# * **temperature** τ, in between: r_m^(1/τ), divided by their sum. τ = 1 is proportional, τ towards infinity equal.
#
# As in lesson 12, where τ drew the next token: the ratio of two shares becomes its power 1 / τ, and it is the same as
# softmax(log(e) / τ).

# %% Shares by formula
def shares(sizes, temperature=1.0, limit=math.inf):
    r = np.minimum(sizes, limit) ** (1 / temperature)
    return r / r.sum()


sizes, draws = np.array([1_000_000, 50_000, 1_000.0]), 1_000_000
predict("1,000,000 and 10,000 examples, τ = 2. How many times as often is the large task drawn?", 10)
even = np.full(3, 1 / 3)
claim("two shares a : b become a^(1/2) : b^(1/2)", abs(np.divide(*shares([1_000_000.0, 10_000.0], 2)) - 10) < 1e-12)
claim("τ = 1 without a limit is proportional", np.allclose(shares(sizes), sizes / sizes.sum(), rtol=1e-14))
claim("τ = 2: softmax(log(e) / 2)", np.allclose(shares(sizes, 2), nt.Softmax().eval()(np.log(sizes) / 2), rtol=1e-13))
claim("both ends are equal: a limit no task is below, a high τ",
      np.allclose(shares(sizes, limit=1_000), even) and np.allclose(shares(sizes, 1e9), even))
temperatures = np.geomspace(1, 30, 60)
curves = np.array([shares(sizes, temperature) for temperature in temperatures])
picture = Figure(figsize=(11, 4.4), layout="constrained")
for axes, lines in zip(picture.subplots(1, 2), (curves, draws * curves / sizes)):
    for size, line, style in zip(sizes, lines.T, ("C0-", "C1--", "C2-.")):
        axes.plot(temperatures, line, style, linewidth=2, label=f"{size:,.0f} examples")
    axes.set(xscale="log", xlabel="temperature τ")
    axes.set_xticks([1, 2, 5, 10, 20], [1, 2, 5, 10, 20])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
picture.axes[0].axhline(1 / 3, color="0.4", linestyle=":")
picture.axes[0].set(ylim=(0, 1), title="Share of each task in the mixture")
picture.axes[0].legend()
picture.axes[1].set(yscale="log", title="A million draws: how often is an example seen?")
figure("mixing", picture)

# %% [markdown]
# ## 5. Exact match
#
# One measure serves all tasks: the share of answers that are right from the first token to the last. It is strict. If
# each token is right with probability p, independently of the others, an answer of n tokens is right with p^n. They
# need not be independent: where mistakes come together, several in one answer, more answers are right; where each
# answer has one, fewer are. Whatever the dependence, for answers of n tokens
#
#     1 - n (1 - p) <= exact match <= p:
#
# the wrong answers cannot be more than the wrong tokens, and each of them has at least one.

# %% From tokens to answers
predict("Each token is right with probability 0.99, independently. The share of right answers of 12 tokens?", 0.886)
for n, p in ((2, 0.9), (12, 0.99)):
    share = np.mean((rng.random((100_000, n)) < p).all(1))
    claim(f"n = {n:2}, p = {p}: independent tokens give p^n", abs(share - p ** n) < 4 * math.sqrt(0.25 / 100_000),
          f"{share:.3f}, {p ** n:.3f}")

# %% [markdown]
# ## 6. One model, four tasks
#
# Words of three to five letters. The batches mix the four tasks in equal parts; 200 words are kept for the test, with
# all their tasks. One matrix serves source, target and output, as in T5. Every 40 steps exact match is measured for
# each task, by teacher forcing.

# %% Training
exam, STEPS = batch(pairs(unseen)), 480
exam_task = exam[0][0][:, 1]


def judge():                                # the loss, and which tokens are right; PAD counts as right
    logits = model.eval()(*exam[0])
    return criterion(logits, exam[1]), (logits.argmax(-1) == exam[1]) | (exam[1] == PAD)


def measure():
    loss, right = judge()
    same = (exam[1] > PAD).sum(1) == 6      # the answers of five letters and EOS
    tokens_and_answers.append((right[same].mean(), right[same].all(1).mean()))
    return {"validation": loss, **{name: right[exam_task == prefix].all(1).mean() for name, prefix in prefixes.items()}}


model = nt.make_model(V, V, N=1, d_model=48, d_ff=96, h=4, dropout=0.0, max_len=12, tie_weights=True, rng=15)
optimizer = nt.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=1.0, decay=lambda p: p.data.ndim > 1)
trainer = nt.Trainer(model, nt.CrossEntropyLoss(ignore_id=PAD), optimizer,
                     nt.CosineSchedule(optimizer, 8e-3, 4e-4, warmup=STEPS // 10, steps=STEPS), clip=1.0, workers=1)
criterion, tokens_and_answers = nt.CrossEntropyLoss(ignore_id=PAD).eval(), []
untrained = measure()
history = trainer.fit(data.Pairs(pairs(known), tokens, tokens, 64, seed=15, pool=4), STEPS, measure, every=40)
model.eval()
measured = [{"step": 0, **untrained}, *(row for row in history if "validation" in row)]
final = measured[-1]
print("  exact match: " + ", ".join(f"{name} {final[name]:.1%}" for name in TASKS))
claim("words it has never seen: above 85 % for each task", [final[name] > 0.85 for name in TASKS])
claim("the loss is far below the floor without a prefix", final["validation"] < floor / 5,
      f"{final['validation']:.3f}, floor {floor:.3f}")
claim("answers of six tokens: 1 - 6 (1 - p) <= exact match <= p at every measurement",
      [1 - 6 * (1 - p) - 1e-9 <= share <= p for p, share in tokens_and_answers])
apart_from_p6 = max(abs(share - p ** 6) for p, share in tokens_and_answers)
claim("and near p^6, as if tokens were independent", apart_from_p6 < 0.15, f"at most {apart_from_p6:.2f} away")
written = [data.unframe(tokens, row) for row in nt.greedy_decode(model, exam[0][0], BOS, EOS, max_len=8)]
claim("greedy decoding writes the right text exactly where teacher forcing finds all tokens right",
      np.array_equal([text == answer for text, (_, answer) in zip(written, pairs(unseen))], judge()[1].all(1)))
turned = np.where(exam[0][0] == prefixes["copy"], prefixes["reverse"], exam[0][0])[exam_task == prefixes["copy"]]
written = [data.unframe(tokens, row) for row in nt.greedy_decode(model, turned, BOS, EOS, max_len=8)]
claim("\"reverse: \" in place of \"copy: \", and the words are written backwards",
      np.mean([text == word[::-1] for text, word in zip(written, unseen)]) > 0.85)
picture = Figure(figsize=(12, 4.6), layout="constrained")
left, right = picture.subplots(1, 2, width_ratios=(3, 2))
for name, style in zip(TASKS, ("C0o-", "C1s--", "C2^-.", "C3d:")):
    left.plot([row["step"] for row in measured], [row[name] for row in measured], style, label=name)
left.set(xlabel="step", ylabel="exact match", title="One model, four tasks, new words")
left.legend(loc="lower right")
grid = np.linspace(0.5, 1, 100)
right.plot(grid, grid ** 6, "0.3", linestyle="--", label="p⁶: independent")
right.fill_between(grid, np.maximum(0, 1 - 6 * (1 - grid)), grid, color="C0", alpha=0.15, label="possible")
right.plot(*zip(*tokens_and_answers), "C3o", label="measured")
right.set(xlabel="tokens right (p)", ylabel="answers right", title="Answers of six tokens", xlim=(0.5, 1.01))
right.legend(loc="upper left")
for axes in (left, right):
    axes.grid(alpha=0.3)
figure("exact_match", picture)

# %% [markdown]
# ## 7. The same word under two prefixes
#
# A map of cross-attention has a row for each token of the answer, and a column for each of the source. Under "copy: "
# letter t of the answer needs letter t of the word, under "reverse: " letter n - 1 - t: two diagonals. Nobody told the
# model so.
#
# A weight tells where a head looks, not what is found there (lesson 12): the rows of the memory are mixtures, and the
# encoder may have moved letters already. So below the maps stands what the answer follows: replace one letter of the
# word by each of the others, or the prefix by another, and see which share of the probability of each token of the
# answer moves, on average. (The decoder goes on reading the right answer meanwhile.)

# %% Weights and effects
def look(name, word):                       # two maps (T, S): cross-attention, mean over the heads; effects
    ids, answer = data.frame(tokens, f"{name}: {word}"), data.frame(tokens, TASKS[name](word))
    p = nt.Softmax().eval()(model(ids[None], answer[None, :-1]))
    weights = model.decoder.blocks[0].cross_attention.weights[0].mean(0)
    effects = np.full(weights.shape, np.nan)                        # BOS and EOS are not replaced
    for s in range(1, len(ids) - 1):
        sort = prefixes if s == 1 else letters
        others = np.array([[*ids[:s], other, *ids[s + 1:]] for other in sort.values() if other != ids[s]])
        new = nt.Softmax().eval()(model(others, np.tile(answer[:-1], (len(others), 1))))
        effects[:, s] = np.abs(new - p).sum(-1).mean(0) / 2
    return weights, effects


needed = {"copy": lambda n: np.arange(n), "reverse": lambda n: np.arange(n)[::-1], "first": lambda n: np.array([0])}
for name, place in needed.items():
    seen, followed = [], []
    for word in unseen[:30]:
        weights, effects = look(name, word)
        seen += [weights[t].argmax() == s for t, s in enumerate(2 + place(len(word)))]
        followed += [effects[t, s] for t, s in enumerate(2 + place(len(word)))]
    claim(f"{name}: a letter of the answer follows the letter that it needs", np.mean(followed) > 0.8,
          f"effect {np.mean(followed):.2f}; the largest weight lies there for {np.mean(seen):.0%}")
    if name != "first":
        claim(f"{name}: and mostly has its largest weight there", np.mean(seen) > 0.6)
word, picture = "badge", Figure(figsize=(14, 7.2), layout="constrained")
panels = picture.subplots(2, 4, subplot_kw={"facecolor": "0.9"})
for column, name in zip(panels.T, TASKS):
    for axes, values in zip(column, look(name, word)):
        image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(word) + 3), ["BOS", f"{name}:", *word, "EOS"], rotation=90)
        axes.set_yticks(range(len(values)), [*TASKS[name](word), "EOS"])
    column[0].set_title(f"{name}: {word}")
    column[0].set_xticks([])
panels[0, 0].set_ylabel("answer: it looks at")
panels[1, 0].set_ylabel("answer: it follows")
picture.colorbar(image, ax=panels, label="weight, or effect")
figure("two_prefixes", picture)

# %% [markdown]
# In the lower row the answer to "copy: " and to "reverse: " follows one letter at a time, and the prefix, less so where
# the tasks agree: in the middle of the word and at EOS. "sort: " has its own letter in each row and pale others, since
# another letter in the word may push this one to another place. (Grey: not replaced.)
#
# The upper row is paler, and less certain. In one of eight seeds tried, "first: " never had its largest weight on the
# first letter, and the answer followed it all the same: the encoder can carry a letter to another row.
#
# ## 8. Gaps as text
#
# Before its tasks T5 learns from plain text, and that, too, is text to text: **span corruption** (sections 3.1.4 and
# 3.3.4). 15 % of the tokens are taken out, in spans of three on average. In the input one token that stands nowhere
# else, a sentinel, takes the place of each span: <X>, <Y>, and so on. The target names each sentinel and then what was
# there; a last sentinel ends it:
#
#     text      one encoder reads the source and one decoder writes the answer
#     inputs    one encoder <X> source and one decoder <Y> answer
#     targets   <X> reads the <Y> writes the <Z>
#
# Of n words with g gaps, k words lost, the encoder reads n - k + g tokens, and the decoder writes k + g + 1. BERT
# (lesson 14) reads n tokens and answers at the masked places all at once, each without knowing the other answers. Here
# a word of a span is written after those before it, and how long the span is has to be found out as well.

# %% Taking out and putting back
def parts(total, count):                    # `total` as a sum of so many numbers, each at least 1
    return np.diff([0, *np.sort(rng.permutation(total - 1)[:count - 1]) + 1, total])


def corrupt(words, share=0.15, length=3):   # the text begins and ends with words that stay; spans do not touch
    lost = max(1, round(share * len(words)))
    spans, rest = max(1, round(lost / length)), iter(words)
    inputs, targets, (*kept, tail) = [], [], parts(len(words) - lost, spans + 1)
    for n, (stay, go) in enumerate(zip(kept, parts(lost, spans))):
        inputs += [*itertools.islice(rest, stay), f"<{n}>"]
        targets += [f"<{n}>", *itertools.islice(rest, go)]
    return inputs + list(rest), [*targets, f"<{spans}>"]


def restore(inputs, targets):               # each sentinel of the inputs, replaced by what follows it in the targets
    sentinel, gaps = None, {}
    for word in targets:
        if word.startswith("<"):
            sentinel, gaps[word] = word, []
        else:
            gaps[sentinel].append(word)
    return [found for word in inputs for found in gaps.get(word, [word])]


text = [word for word in data.builtin_text().split() if word.isalpha()]
for side, line in zip(("inputs ", "targets"), corrupt(text[:20], share=0.25)):
    print(f"  {side} {' '.join(line)}")
predict("200 words, 30 of them in 10 spans. How many tokens does the decoder write, the last sentinel included?", 41)
pieces = [text[start:start + length] for start, length in rng.integers((0, 20), (len(text) - 300, 300), (500, 2))]
for_t5 = [corrupt(piece) for piece in pieces]
claim("inputs and targets together restore each of 500 texts", [restore(*sides) == piece for sides, piece in zip(
    for_t5, pieces)])
sizes = [(len(piece), round(0.15 * len(piece)), sum(word[0] == "<" for word in inputs))
         for piece, (inputs, _) in zip(pieces, for_t5)]
claim("lengths n - k + g and k + g + 1, with k the nearest to 15 %",
      [(len(a), len(b)) == (n - k + g, k + g + 1) for (a, b), (n, k, g) in zip(for_t5, sizes)])
claim("the decoder writes a fifth of the text", 0.18 < sum(len(b) for _, b in for_t5) / sum(map(len, pieces)) < 0.24,
      f"{sum(len(b) for _, b in for_t5) / sum(map(len, pieces)):.1%}")
a_word = data.WordTokenizer.train(" ".join(" ".join(a + b) for a, b in for_t5), 5000)
(gaps, target_in), target_out = data.Pairs([(" ".join(a), " ".join(b)) for a, b in for_t5], a_word, a_word, 8, 15)(0)
claim("as texts they are pairs as any others", np.array_equal(target_in[:, 1:], target_out[:, :-1]), f"{gaps.shape}")

# %% [markdown]
# ## 9. The rest of T5
#
# The full-size run of this lesson is `numpy-transformer train text2text`: words to reverse and to sort, dates to read,
# texts to summarize, one model, 99 % exact match in each. What T5 has besides, and neither of the two has:
#
# * **Relative positions.** No sinusoid is added to the embeddings. Instead each head adds a learned number to the score
#   of a query and a key, one for each distance between them. There are 32 such numbers: small distances have one each,
#   larger ones share theirs, in ranges that grow logarithmically up to 128.
# * **Norms** without bias and without mean: what is called RMSNorm in lessons 08 and 16.
# * **Size and data**: 60 million to 11 billion parameters, 32,000 word pieces, 750 GB of text for the gaps. The tasks
#   come afterwards, or in the mixture from the start.
#
# ## Exercises
#
# 1. Put three tasks into this form: is a sentence grammatical, is review A kinder than review B, which words are
#    names. What are source and target, and which answers would be no answer at all?
# 2. target_in and target_out are the same by mistake. What becomes of the loss, what of greedy decoding?
# 3. Each batch holds one task only, and the tasks take turns. Which weights does section 4 then have, over four steps?
# 4. Predict: in section 6, "first: " is drawn nine times as often as each other task. Which share of the gradient has
#    it, for words of four letters? Try it.
# 5. Train with a prefix for "sort: " and "reverse: " only, and ask for "copy: ". What is written, and why?
# 6. A text has gaps, but its targets are written without sentinels. Find two texts that give the same inputs and
#    targets.
#
# With a checker (`numpy-transformer exercise check NN`): 15.1, 15.2.
