# %% [markdown]
# # 14c Answers from a text
#
# Someone who has read a text can answer questions about it. A simple form of this task asks for a **span**: the answer
# stands in the text word by word, and the model has to say where it begins and where it ends. This is how BERT was
# tested on the questions of SQuAD (Devlin et al. 2019, section 4.2). Question and text form one input, and all that is
# added to the encoder are two vectors, one for the start of the answer and one for its end.
#
# In this lesson you build this output with its backward, choose the best span, and train a small encoder to answer
# questions about stories that it has never seen. You need the encoder (lesson 11) and segments (lesson 14).

# %% Stories, questions and answers
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, slopes

lesson.start(__name__)
drawing("span")
names, things = "Ann Ben Kim Leo Mia".split(), "book drum key lamp ring".split()
places = ["in the park", "in the old mill", "on the hill", "on the old wall", "near the lake", "near the old oak",
          "under the bridge", "behind the barn"]
words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *names, *things, *sorted({*" ".join(places).split()}),
         *"where did find found ? .".split()]
PAD, V, T = 0, len(words), 37


def story(rng):
    """Draws a story of three sentences, and a question about each: its words, and where the answer starts and ends."""
    text, questions = [], []
    for name, thing, place in zip(*(rng.permutation(options)[:3].tolist() for options in (names, things, places))):
        text += [name, "found", "the", thing]
        question = f"where did {name} find the {thing} ?".split()
        questions.append((question, len(text), len(text) + len(place.split()) - 1))
        text += [*place.split(), "."]
    return text, questions


def encode(examples):
    """Returns ids, segments and answers of [CLS] question [SEP] text [SEP], padded to T."""
    rows = [["[CLS]", *question, "[SEP]", *text, "[SEP]"] for text, (question, _, _) in examples]
    ids = np.array([[words.index(word) for word in row] + [PAD] * (T - len(row)) for row in rows])
    first = np.array([len(question) + 2 for _, (question, _, _) in examples])[:, None]      # where the text begins
    answers = first + np.array([[start, end] for _, (_, start, end) in examples])
    return ids, ((np.arange(T) >= first) & (ids != PAD)).astype(int), answers


text, questions = story(np.random.default_rng(3))
print("  " + " ".join(text))
for question, start, end in questions:
    print(f"  {' '.join(question):<32} {' '.join(text[start:end + 1])}")

# %% [markdown]
# Each story names three people, three things and three places, in random order. So a model that only knows that the
# answer to "where" is a place, or that only knows at which positions places stand, can do no better than choose one of
# three. It has to find the name or the thing of the question in the text, and then the place in the same sentence.
#
# ## 1. Start and end
#
# Let h be the encoder's output, (B, T, D), and W a matrix of two columns, the start vector and the end vector. Then
# each token gets two scores:
#
#     z = h W                            (B, T, 2)
#     p = softmax of z over the tokens   each column sums to 1
#     L = -mean of log p at the right start and the right end
#
# In earlier lessons the softmax of a classifier ran over classes. Here it runs over the **tokens**, because the
# question is which of them is the start. Tokens outside the text, such as those of the question, get the score -inf,
# and so the probability 0.
#
# Backward is that of cross-entropy (lesson 01): dz = (p - onehot) / (2 B), since L is a mean over 2 B terms. Each token
# of the text receives a gradient, the wrong ones because their probability has to fall.

# %% Each line of backward under its line of forward
rng = np.random.default_rng(14)
D = 6
ids, segments, answers = encode([(text, question) for question in questions[:2]])
h = rng.standard_normal((2, T, D))          # stands for the encoder's output in this cell
W = rng.standard_normal((D, 2))
in_text = segments[..., None] == 1
rows, sides = np.arange(2)[:, None], np.arange(2)
# forward
z = np.where(in_text, h @ W, -np.inf)
p = np.exp(z - z.max(1, keepdims=True))
p = p / p.sum(1, keepdims=True)
L = -np.log(p[rows, answers, sides]).mean()
# backward, from the last line to the first
dz = p.copy()
dz[rows, answers, sides] -= 1
dz = dz / answers.size
# z = np.where(in_text, h @ W, -np.inf)
dh = dz @ W.T
dW = h.reshape(-1, D).T @ dz.reshape(-1, 2)
show(dW=dW)
predict("do all tokens of the text get a gradient, or only the right start and the right end? (all or two)", "all",
        why="Softmax gives each token of the text a probability above 0, so each has a nonzero dz.")
claim("dh is nonzero in exactly the rows of the text", np.array_equal((dh != 0).any(-1), segments == 1))
criterion = nt.CrossEntropyLoss()
claim("nt.CrossEntropyLoss with the tokens as classes gives the same loss",
      np.isclose(criterion(z.swapaxes(1, 2), answers), L, rtol=1e-14))
claim("and the same dz", np.allclose(criterion.backward().swapaxes(1, 2), dz, rtol=1e-13, atol=1e-16))


def loss(h, W):
    e = np.exp(h @ W) * in_text
    return -np.log((e / e.sum(1, keepdims=True))[rows, answers, sides]).mean()


claim("the complex step confirms dW and dh", [
    np.allclose(slopes(lambda W: loss(h, W), W), dW, rtol=1e-12, atol=1e-15),
    np.allclose(slopes(lambda h: loss(h, W), h), dh, rtol=1e-12, atol=1e-15)])

# %% [markdown]
# ## 2. The best span
#
# The score of the span from i to j is z_i of the start plus z_j of the end, which is log p_i + log p_j up to a
# constant. The model answers with the span of the highest score **with i <= j**. The most probable start and the most
# probable end, taken separately, can contradict each other: if the model hesitates between two places, it may take the
# start of one and the end of the other.

# %% Two places in one text
def best_span(z):
    """Returns start and end of the best span in each text, from scores (B, T, 2)."""
    length = z.shape[1]
    total = z[:, :, None, 0] + z[:, None, :, 1]                     # (B, start, end)
    total = np.where(np.triu(np.ones((length, length), bool)), total, -np.inf)
    return np.stack(np.divmod(total.reshape(len(z), -1).argmax(1), length), 1)


example = "the key lay in the park near the lake".split()
scores = np.array([[0, 0, 0, 2, 0, 0, 3, 0, 0], [0, 0, 0, 0, 0, 4, 0, 0, 2.5]]).T
start, end = scores.argmax(0)
predict(f"The best start is {example[start]!r}, token {start}, and the best end is {example[end]!r}, token {end}. The "
        "starts of the two places have the scores 2 and 3, their ends 4 and 2.5. What is the best span's score?", 6,
        why="\"in the park\" has 2 + 4 = 6, \"near the lake\" has 3 + 2.5 = 5.5, and \"in the park near the lake\" "
            "has 4.5.")
(i, j), = best_span(scores[None])
claim("the best span is \"in the park\"", " ".join(example[i:j + 1]) == "in the park" and start > end)
by_loops = [max((z[i, 0] + z[j, 1], -i, -j) for i in range(T) for j in range(i, T)) for z in h @ W]
claim("loops over all pairs find the same spans",
      np.array_equal([(-i, -j) for _, i, j in by_loops], best_span(h @ W)))

# %% [markdown]
# ## 3. Training
#
# The model is `nt.TextEncoder`, with segments (lesson 14), sinusoidal positions and three pre-norm blocks (lesson 10).
# At the start we set the weights of the keys in the first block to those of the queries. So each token has its highest
# scores with itself and with equal words, and can find the name of the question in the text. All weights are free to
# change from there.
#
# The loss first falls to log 3 = 1.10, the value for a guess among three places, and stays there for many steps. Then
# it falls quickly. Finding the name is of no use before a later block passes it on to the place in the same sentence,
# and the other way round.

# %% An encoder with two vectors
class SpanReader(nt.Module):
    def __init__(self, d_model, rng):
        self.encoder = nt.TextEncoder(V, d_model, num_heads=4, num_layers=3, d_ff=2 * d_model, max_len=T, dropout=0.0,
                                      norm="pre", activation="gelu", num_segments=2, rng=rng)
        self.ends = nt.Linear(d_model, 2, bias=False, rng=rng)
        first = self.encoder.encoder.blocks[0].attention
        first.key.weight.data = first.query.weight.data

    def forward(self, ids, segments):
        z = self.ends(self.encoder(ids, None, segments))
        return np.where(segments[..., None] == 1, z, -np.inf)

    def backward(self, dz):                 # dz is 0 outside of the text
        self.encoder.backward(self.ends.backward(dz))


def examples(rng, count):
    """Returns `count` new stories, each with one of its questions."""
    drawn = (story(rng) for _ in range(count))
    return [(text, questions[rng.integers(3)]) for text, questions in drawn]


STEPS = 1000
model = SpanReader(64, np.random.default_rng(1))
optimizer = nt.Adam(model.parameters(), betas=(0.9, 0.98))
rng = np.random.default_rng(1)
seen, losses = set(), []
for step in range(1, STEPS + 1):
    drawn = examples(rng, 32)
    seen.update(" ".join(text) for text, _ in drawn)
    ids, segments, answers = encode(drawn)
    optimizer.lr = 2e-3 * min(step / 80, 1, 2 * (1 - (step - 1) / STEPS))       # up, then down from the middle on
    model.zero_grad()
    losses.append(criterion(model(ids, segments).swapaxes(1, 2), answers))
    model.backward(criterion.backward().swapaxes(1, 2))
    optimizer.step()
model.eval()
early, late = np.mean(losses[100:150]), np.mean(losses[-50:])
claim("after 100 steps the model still guesses among three places, and in the end it does not",
      [abs(early - np.log(3)) < 0.1, late < 0.3], f"loss {early:.2f} and {late:.3f}, log 3 = {np.log(3):.2f}")

# %% [markdown]
# ## 4. New stories
#
# We ask all three questions about each of 200 stories that training has not seen. **Exact match** is the share of
# questions whose span is right at both ends. The baselines answer with the first place, with the last place, or with a
# random one of the three.

# %% Exact match and baselines
test = [(text, questions) for text, questions in (story(rng) for _ in range(400)) if " ".join(text) not in seen][:200]
ids, segments, answers = encode([(text, question) for text, questions in test for question in questions])
z = model(ids, segments)
right = (best_span(z) == answers).all(1).reshape(200, 3)
spans = answers.reshape(200, 3, 2)          # the three places of each story, in the order of the text
baselines = {"first place": spans[:, :1], "last place": spans[:, -1:],
             "random place": spans[np.arange(200)[:, None], rng.integers(3, size=(200, 3))]}
for name, guess in baselines.items():
    share = (guess == spans).all(-1).mean()
    claim(f"{name}: about one third", abs(share - 1 / 3) < 0.1, f"exact match {share:.0%}")
claim("the model answers at least 90% of the questions about new stories", right.mean() >= 0.9, f"{right.mean():.1%}")
claim("and for most stories all three", right.all(1).mean() > 0.8, f"{right.all(1).mean():.1%}")
shortest = (ids != PAD).sum(1).argmin()
length = (ids[shortest] != PAD).sum()
alone = model(ids[shortest:shortest + 1, :length], segments[shortest:shortest + 1, :length])[0]
claim("padding does not change the scores", np.allclose(alone, z[shortest, :length], rtol=1e-3, atol=1e-3))
p = nt.Softmax().eval()(z[:3].swapaxes(1, 2))
picture = Figure(figsize=(12, 6.4), layout="constrained")
text = test[0][0]
for axes, probabilities, (question, _, _) in zip(picture.subplots(3, 1, sharex=True), p, test[0][1]):
    for side, color, label, shift in zip(probabilities, ("C0", "C1"), ("start", "end"), (-0.2, 0.2)):
        axes.bar(np.arange(len(text)) + shift, side[9:9 + len(text)], 0.4, color=color, label=label)
    axes.set(title=" ".join(question), ylim=(0, 1.05), ylabel="probability")
axes.set_xticks(range(len(text)), text, rotation=60)
picture.axes[0].legend(loc="upper right")
figure("answers", picture)

# %% [markdown]
# In the picture the same story gets another answer for each question, so the probabilities depend on the question and
# not only on the text. All of this is one encoder with 2 D more parameters.
#
# The task is easier than a real one in three ways. The words of the question stand in the text unchanged, where people
# ask in words of their own. Each sentence has one form. And the answer is always there: in a later version of SQuAD
# many questions have none, and the model may then point to [CLS] to say so (Devlin et al. 2019, section 4.3).
#
# ## Exercises
#
# 1. A question has no answer in the text. How can the span [CLS] to [CLS] serve as the answer "none", and what has to
#    change in this lesson's forward?
# 2. Suppose the softmax is taken over the two columns of z instead of the tokens. What would the two probabilities of a
#    token then mean, and why is L then no longer the right loss?
# 3. How many spans does a text of n tokens have with i <= j? How can the best one be found in n steps?
# 4. In a story "Mia found the key" and "Ben found the ring", someone asks "where did Mia find the ring ?". Both names
#    occur in the text. What could the model answer, and what should it?
# 5. A model of this kind is to answer "who found the key ?" as well. Which parts of the model have to change, and which
#    parts of the data?
