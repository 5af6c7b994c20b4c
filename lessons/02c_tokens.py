# %% [markdown]
# # 02c Tokens: characters, words, bytes and pairs
#
# A network reads integers, not letters. A **tokenizer** cuts a text into **tokens** and gives each kind of token an
# integer, its **id**. The list of all kinds is the vocabulary, and V is its size. The tokenizer is chosen before any
# training. It decides how long a text is, which texts can be read at all, and what a loss means.
#
# We compare characters, words and bytes, and then build what most language models use, byte-pair encoding. The text is
# real prose that comes with every Python: its language reference, which `builtin_text` returns.
#
# ## 1. Three simple ways
#
# * **Characters.** Every letter is a token. Texts become long, and since Unicode has more than a hundred thousand
#   characters, V is either very large or leaves some out.
# * **Words.** Texts become short, but a vocabulary can only hold the words that were frequent in the training text. All
#   others are **out of vocabulary**. They become the same token, `<unk>` for unknown, and cannot be recovered from it.
# * **Bytes.** In the encoding UTF-8, an English letter is 1 byte, and a Korean syllable is 3. So V = 256 is enough for
#   every text in every language, but a Korean text becomes even longer.

# %% Two sentences with the same meaning, cut in three ways
from collections import Counter

import numpy as np
from matplotlib.figure import Figure

from numpy_transformer.course import claim, drawing, figure, lesson, predict, show_source
from numpy_transformer.data import BytePairTokenizer, builtin_text
from numpy_transformer.data.bpe import split_pieces

lesson.start(__name__)
english = "The cat sat on the mat and looked at the moon."
korean = "고양이가 매트 위에 앉아 달을 바라보았다."
for name, sentence in (("English", english), ("Korean", korean)):
    print(f"  {name}: {len(sentence)} characters, {len(sentence.split())} words, {len(sentence.encode())} bytes")
print("  the bytes of 달:", list("달".encode()))
drawing("tokens")
text = builtin_text()
cut = len(text) * 9 // 10
training, held_out = text[:cut], text[cut:]                 # the second part is for measuring only
claim("an English letter is one byte", len(english.encode()) == len(english))
claim("a Korean syllable is three bytes", len("달".encode()) == 3)
claim("the Korean sentence has fewer characters, but more bytes",
      len(korean) < len(english) and len(korean.encode()) > len(english.encode()))

# %% [markdown]
# ## 2. The trap of the unknown
#
# Suppose that we choose the size of a word vocabulary by the loss of the model. The simplest model counts: the
# probability of a token is its share of the training text. Its loss per token is the cross-entropy of lesson 01.

# %% The loss of counted words, for vocabularies of different size
def count_loss(train_ids, held_out_ids, V):
    """The mean of -log p over the held-out tokens; 1 is added to each count, so that no p is 0."""
    counts = np.bincount(train_ids, minlength=V) + 1
    return -np.log(counts / counts.sum())[held_out_ids].mean()


predict("which vocabulary has the lowest loss per word: that of 1, 10, 100 or 1000 words?", 1,
        why="The smaller the vocabulary, the more words are <unk>, and a token that is nearly always right is easy to "
            "predict.")
frequent = [word for word, _ in Counter(training.split()).most_common(1000)]
word_losses = []
for size in (1, 10, 100, 1000):
    ids = {word: i for i, word in enumerate(frequent[:size], 1)}            # 0 is <unk>
    train_ids, held_out_ids = ([ids.get(word, 0) for word in part.split()] for part in (training, held_out))
    word_losses.append(count_loss(train_ids, held_out_ids, size + 1))
    unknown = np.mean(np.equal(held_out_ids, 0))
    print(f"  {size:5} words: {unknown:4.0%} of the held-out words are <unk>, loss {word_losses[-1]:.2f} nats per word")
claim("the loss rises with the vocabulary", np.diff(word_losses) > 0)
claim("with 1000 words, more than a tenth of the words are still unknown", unknown > 0.1)

# %% [markdown]
# The vocabulary with the lowest loss is the one that says nothing: the model is nearly sure of `<unk>`. Two losses can
# be compared only if they are losses of the same text, in which nothing was replaced by `<unk>`.
#
# ## 3. Byte-pair encoding
#
# Byte-pair encoding (BPE; Sennrich et al. 2016, algorithm 1) starts from small tokens and repeats one step: count all
# pairs of neighbors, and **merge** the most frequent pair into a new token. On bytes (Radford et al. 2019, section 2.2)
# it knows every text. Ids 0 to 255 are the bytes, and merge number r creates the token 256 + r. So V is 256 plus the
# number of merges, which we choose.
#
# The text is first split into pieces: a word, a number or punctuation, with the space before it, or white space. No
# merge crosses the boundary of a piece, so that no token contains parts of two words. `split_pieces` of the package
# does this with a regular expression.

# %% Counting and merging
def merge(ids, pair, new):
    """Replaces each occurrence of the pair in a list of ids by the id `new`, from left to right."""
    merged = []
    for i in ids:
        merged.append(i)
        if tuple(merged[-2:]) == pair:
            merged[-2:] = [new]
    return merged


def train(text, merges):
    pieces = Counter(split_pieces(text))                    # each different piece once, with its count
    ids = {piece: list(piece.encode()) for piece in pieces}
    pairs = []
    while len(pairs) < merges:
        counts = Counter()
        for piece in pieces:
            for pair in zip(ids[piece], ids[piece][1:]):
                counts[pair] += pieces[piece]
        best = min(counts, key=lambda pair: (-counts[pair], pair))          # in a tie, the pair of the smallest ids
        ids = {piece: merge(ids[piece], best, 256 + len(pairs)) for piece in pieces}
        pairs.append(best)
    return pairs


def bytes_of_tokens(pairs):
    tokens = [bytes([i]) for i in range(256)]
    for left, right in pairs:
        tokens.append(tokens[left] + tokens[right])
    return tokens


tiny = "low low low low low lower lower newest newest newest newest newest newest widest widest widest"
print("  merges on the example of the paper:", [token.decode() for token in bytes_of_tokens(train(tiny, 8))[256:]])
part = training[:30_000]
pairs = train(part, 200)
tokens = bytes_of_tokens(pairs)
print("  the first merges on the reference: ", [token.decode() for token in tokens[256:276]])
claim("the package learns the same 200 merges", BytePairTokenizer.train(part, 200).merges == pairs)

# %% [markdown]
# ## 4. Encoding and decoding
#
# To encode a new text, apply the merges to its bytes in the order in which they were learned. To decode, join the bytes
# of the tokens. No text is unknown: in the worst case, every byte stays a token of its own. The package finds the same
# ids faster, because it only looks at pairs that occur. There, `ranks` maps each pair to the number of its merge.

# %% There and back
def encode(text, pairs):
    encoded = []
    for piece in split_pieces(text):
        ids = list(piece.encode())
        for r, pair in enumerate(pairs):
            ids = merge(ids, pair, 256 + r)
        encoded += ids
    return encoded


def decode(ids, tokens):
    return b"".join(tokens[i] for i in ids).decode(errors="replace")


show_source(BytePairTokenizer.apply_merges)
built = BytePairTokenizer(pairs)
samples = [english, korean, "def f(x):\n\treturn x ** 2", "naïve café ∑ 🙂", held_out[:3000]]
claim("decoding returns every text, whatever its language",
      [decode(encode(sample, pairs), tokens) == sample for sample in samples])
claim("the package finds the same ids", [built.encode(sample).tolist() == encode(sample, pairs) for sample in samples])
claim("a single token may be a part of a character, which has no letter", decode(encode("달", pairs)[:1], tokens) == "�")

# %% [markdown]
# ## 5. What a tokenizer has learned
#
# With more merges, frequent words become single tokens, while rare words are cut into several. We now learn 1000 merges
# from nine tenths of the reference, with the package, and look at both sentences again.

# %% Words, numbers and two languages
bpe = BytePairTokenizer.train(training, 1000)


def pieces_of(text):
    return " | ".join(bpe.decode([i]) for i in bpe.encode(text))


predict("is the Korean sentence, which has half as many characters, shorter in tokens?", "no",
        why="Its bytes were hardly ever merged, since the merges were learned from English.")
for name, sentence in (("English", english), ("Korean", korean)):
    print(f"  {name}: {len(sentence.encode())} bytes, {len(bpe.encode(sentence))} tokens")
print("  " + pieces_of(english))
for example in (" function", " xylophone", " 1000", " 1999", " 2048"):
    print(f"  {example.strip():9} {pieces_of(example)}")
number_lengths = Counter(len(bpe.encode(f" {n}")) for n in range(1000, 10_000))
print("  numbers of four digits, by their tokens:", dict(sorted(number_lengths.items())))
claim("English needs less than half as many tokens as bytes", len(bpe.encode(english)) < len(english.encode()) / 2)
claim("Korean needs nearly one for each byte", len(bpe.encode(korean)) > 0.9 * len(korean.encode()))
claim("so it needs more than twice as many as English", len(bpe.encode(korean)) > 2 * len(bpe.encode(english)))
claim("a frequent word is one token, a rare one several",
      len(bpe.encode(" function")) == 1 and len(bpe.encode(" xylophone")) > 2)
claim("numbers of four digits are not all cut in the same way", len(number_lengths) > 1)

# %% [markdown]
# The merges were learned from English, so they fit English. The bytes of Korean syllables were hardly ever merged. The
# Korean sentence has more than twice as many tokens as the English one, so it costs more time and memory, and more
# money where a service is paid by the token. Published tokenizers have the same problem: the same text can have up to
# 15 times as many tokens in one language as in another (Petrov et al. 2023).
#
# Numbers are cut wherever the training text had frequent pairs of digits. So numbers of equal length can have different
# numbers of tokens, and their digits do not line up.
#
# ## 6. Which V?
#
# A larger V makes texts shorter. But each token then says more, so it is harder to predict, and its loss is larger. The
# losses of tokens of different sizes cannot be compared. What can be compared is the total loss of a text, or this loss
# divided by the number of bytes:
#
#     loss per byte = loss per token · tokens / bytes
#
# Besides single tokens, we count pairs. In this **bigram** model, the probability of token b depends on the token a
# before it. Many pairs never occur in the training text, so we add to the counts after each token a 20 more tokens,
# divided according to p(b), the probability of the single token:
#
#     p(b | a) = (count(a, b) + 20 p(b)) / (count(a) + 20)

# %% The loss per token and per byte, over the size of the vocabulary
def bigram_loss(train_ids, held_out_ids, V):
    single = np.bincount(train_ids, minlength=V) + 1.0
    single /= single.sum()
    before = np.bincount(train_ids[:-1], minlength=V)
    pairs = Counter(zip(train_ids[:-1].tolist(), train_ids[1:].tolist()))
    return -np.mean([np.log((pairs[a, b] + 20 * single[b]) / (before[a] + 20))
                     for a, b in zip(held_out_ids[:-1].tolist(), held_out_ids[1:].tolist())])


largest = BytePairTokenizer.train(training, 4096)
sizes, per_token, per_byte = [], {"single tokens": [], "pairs": []}, {"single tokens": [], "pairs": []}
for merges in (0, 128, 512, 1024, 4096):
    tokenizer = BytePairTokenizer(largest.merges[:merges])
    sizes.append(tokenizer.vocab_size)
    train_ids, held_out_ids = tokenizer.encode(training), tokenizer.encode(held_out)
    tokens_per_byte = len(held_out_ids) / len(held_out.encode())
    for name, loss in (("single tokens", count_loss), ("pairs", bigram_loss)):
        per_token[name].append(loss(train_ids, held_out_ids, sizes[-1]))
        per_byte[name].append(per_token[name][-1] * tokens_per_byte)
    print(f"  V = {sizes[-1]:4}: {1 / tokens_per_byte:.1f} bytes per token, loss of pairs "
          f"{per_token[name][-1]:.2f} per token and {per_byte[name][-1]:.2f} per byte")
claim("the loss per token rises with V", [np.diff(losses) > 0 for losses in per_token.values()])
claim("each larger V has a lower loss per byte than plain bytes, V = 256",
      [np.less(losses[1:], 0.9 * losses[0]) for losses in per_byte.values()])
single, pair = per_byte.values()
claim("for pairs, the last larger vocabulary gains less per byte than the first one",
      pair[-2] - pair[-1] < (pair[0] - pair[1]) / 2)
claim("pairs predict better than single tokens", np.less(pair, single))
picture = Figure(figsize=(11, 4.2), layout="constrained")
for axes, losses, unit in zip(picture.subplots(1, 2), (per_token, per_byte), ("token", "byte")):
    for (name, values), style in zip(losses.items(), ("C0o-", "C1s--")):
        axes.plot(sizes, values, style, label=name)
    axes.set_xscale("log", base=2)
    axes.set(xticks=sizes, xticklabels=sizes, xlabel="vocabulary size V", ylabel=f"loss (nats per {unit})", ylim=0)
    axes.grid(alpha=0.3)
    axes.legend()
figure("per_byte", picture)

# %% [markdown]
# Judged by the loss per token, plain bytes would be the best choice. Judged by the loss per byte, they are the worst.
#
# For pairs, the gain levels off: the larger V is, the more rarely the model sees each pair. A network has further
# costs: its table of embeddings has V rows (lesson 03), and it computes V logits at every position. GPT-2 has V =
# 50,257, which are 256 bytes, 50,000 merges, and one token that marks the end of a text.
#
# ## Exercises
#
# 1. In the small example of section 3, "st" occurs as often as "es". Why is "es" merged first, and why is "st" never
#    merged?
# 2. The tokenizer of section 5 has one token for " function". Are "function" at the start of a line and " Function" one
#    token as well?
# 3. Model A has a loss of 3.0 nats per token and 4 bytes per token. Model B has 1.0 nat per byte. Which one is better?
# 4. How could a tokenizer be trained so that the Korean sentence has fewer tokens? What would that cost in English?
# 5. Find the bug: someone encodes with `for r, pair in reversed(list(enumerate(pairs)))`. Which tokens are never made?
