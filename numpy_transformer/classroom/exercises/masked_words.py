"""Encoders that read both ways: masked words, vectors of sentences, entities, and what moves what."""

import numpy as np

from ...checks.gradcheck import cosine
from ...inspection.influence import influence
from ...inspection.recorder import record
from ...data import masked
from ...data.batches import IGNORE, PAD
from ...data.entities import spans
from ...data.reader import CLS, SEP, SPECIAL
from ...layers import CrossEntropyLoss, Embedding, padding_mask
from ...models import Encoder, MaskedLanguageModel, SequenceClassifier, TokenClassifier
from ..exercise import Exercise, Mistake


def corrupt(ids, chosen, fate, anything):
    """BERT's corruption of texts for training, with given random numbers. The id of [MASK] is 3.

    ids: (B, T) integers.  chosen: (B, T) boolean, True = this token is to be predicted.  fate: (B, T), uniform in
    [0, 1).  anything: (B, T) integers, ids of random words.
    Of the chosen tokens those with a fate below 0.8 become [MASK], those with a fate of at least 0.9 become what stands
    in `anything`, and those between stay as they are. The model must predict all chosen ones, and no others.
    Return corrupted: (B, T), what the model reads, and targets: (B, T): the chosen tokens' own ids, -1 elsewhere.
    """
    corrupted = np.where(chosen & (fate < 0.8), 3, ids)
    corrupted = np.where(chosen & (fate >= 0.9), anything, corrupted)
    targets = np.where(chosen, ids, -1)
    return corrupted, targets


def draw_words(rng, shape, V):
    """Framed texts with padding; some ordinary tokens of each are chosen, and a random word is not the right one."""
    ids = rng.integers(SPECIAL, V + SPECIAL, shape)
    ids[:, 0], ids[:, -2], ids[:, -1] = CLS, SEP, PAD
    chosen = (ids >= SPECIAL) & (rng.random(shape) < 0.6)
    chosen[:, 1:4] = True
    fate = np.where(rng.random(shape) < 0.5, rng.uniform(0.7, 1, shape), rng.random(shape))
    fate[:, 1:4] = 0.5, 0.85, 0.95              # each of the three ways occurs
    return ids, chosen, fate, SPECIAL + (ids - SPECIAL + rng.integers(1, V, shape)) % V


def borders(rng):
    ids, chosen, fate, anything = draw_words(rng, (2, 9), 20)
    exact, same = fate.copy(), anything.copy()
    exact[0, 1:4], exact[1, 1:4] = (0.8, 0.9, 0.0), (0.9, 0.8, 0.79)
    same[:, 3] = ids[:, 3]
    return [("fates of exactly 0.8 and 0.9", (ids, chosen, exact, anything)),
            ("a random word is the right one", (ids, chosen, fate, same))]


class Given:
    """In place of a generator: the draws by which the package hides exactly these tokens of one row."""

    def __init__(self, chosen, fate, anything):
        self.draws, self.anything = [np.where(chosen, 0.0, 0.5), fate], anything

    def random(self, shape):
        return self.draws.pop(0).reshape(shape)

    def integers(self, low, high, shape):
        return self.anything.reshape(shape)


def by_masked_words(ids, chosen, fate, anything):
    corrupted, targets = ids.copy(), np.full_like(ids, IGNORE)
    for i, row in enumerate(ids):
        share = chosen[i].sum() / (row >= SPECIAL).sum()
        read, places, wanted = masked.corrupt(row[None], Given(chosen[i], fate[i], anything[i]), None, share)
        corrupted[i], targets[i, places[0]] = read[0], wanted[0]
    return corrupted, targets


def pick_backward(places, dy, T):
    """The gradient of picking tokens: y[b, k] = x[b, places[b, k]].

    places: (B, K) integers from 0 to T - 1. One place may be named twice.  dy: (B, K, D), dL/dy.  T: int, the number of
    tokens in each sequence of x.
    Return dx: (B, T, D), dL/dx, of the dtype of dy.
    """
    dx = np.zeros((len(places), T, dy.shape[-1]), dy.dtype)
    rows = np.arange(len(places))[:, None]
    np.add.at(dx, (rows, places), dy)
    return dx


def draw_places(rng, B, T, K, D):
    """One place is named twice in each sequence, in an order that is not ascending; the last token is never picked."""
    places = rng.integers(T - 1, size=(B, K))
    places[:, 0], places[:, 1], places[:, -1] = T - 2, places[:, 1] % (T - 2), T - 2
    return places, rng.standard_normal((B, K, D)), T


def by_embedding(places, dy, T):
    """Each sequence is a table, and its places are the ids that are looked up."""
    tables = []
    for ids, dvectors in zip(places, dy):
        layer = Embedding(T, dy.shape[-1]).astype(np.float64)
        layer(ids)
        layer.backward(dvectors)
        tables.append(layer.weight.grad)
    return np.array(tables)


def nearest_sentences(vectors, others):
    """How similar sentences are, by the cosine of the angle between their vectors, a b / (|a| |b|).

    vectors: (N, D), a vector for each sentence.  others: (M, D), those of the sentences to compare with. No vector
    is 0.
    Return similarity: (N, M), the cosine of each of the N with each of the M, and nearest: (N,) integers, for each of
    the N which of the M, counted from 0, is most similar to it (cosine 1 = the same direction, -1 = the opposite one).
    """
    left = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    right = others / np.linalg.norm(others, axis=1, keepdims=True)
    similarity = left @ right.T
    nearest = similarity.argmax(1)
    return similarity, nearest


def draw_sentences(rng, N, M, D):
    """Vectors of different lengths, about a common mean, some of them opposite to each other."""
    vectors, others = 0.3 + rng.standard_normal((N, D)), 0.3 + rng.standard_normal((M, D))
    others[0] = -vectors[0] + 0.3 * others[0]
    return vectors * rng.uniform(0.2, 3, (N, 1)), others * rng.uniform(0.2, 3, (M, 1))


def by_cosine(vectors, others):
    similarity = np.array([[cosine(a, b) for b in others] for a in vectors])
    return similarity, np.array([max(range(len(others)), key=row.__getitem__) for row in similarity])


def entity_spans(kinds, types):
    """The named entities in the tags of a sentence: from where to where, and of which type.

    kinds: (T,) integers, for each word 0 = O, outside of any entity; 1 = B, begin; 2 = I, inside.
    types: (T,) integers from 0 on, the type of each word's entity; what stands there for a word with O means nothing.
    Whatever tags a model writes are read, by these rules of the scorer conlleval: B always begins an entity. I goes on
    with the entity of the word before it if that has the same type; else it begins one itself.
    Return entities: (N, 3) integers, in order: start, stop, type of each; its words are start to stop - 1. Without any
    entity N is 0: the shape is (0, 3).
    """
    found, inside = [], None                    # the type of the entity that may go on
    for i, (kind, entity) in enumerate(zip(kinds, types)):
        if kind == 0:
            inside = None
        elif kind == 1 or entity != inside:
            found.append([i, i + 1, entity])
            inside = entity
        else:
            found[-1][1] = i + 1
    return np.array(found, int).reshape(-1, 3)


def draw_tags(rng, T):
    """Tags at random, valid and invalid ones, of two types; the first and the last word belong to an entity."""
    kinds, types = rng.choice(3, T, p=(0.3, 0.2, 0.5)), rng.integers(0, 2, T)
    kinds[0], kinds[-1] = rng.integers(1, 3), 2
    return kinds, types


def sentences_by_hand(rng):
    def tags(text, types):
        return np.array(["OBI".index(kind) for kind in text]), np.array(list(map(int, types)))
    return [("B follows its own type", tags("BIBIO", "11112")), ("I follows O", tags("OIIOI", "12222")),
            ("I after O, the first type again", tags("BIOIO", "00000")),
            ("another type follows", tags("BIIIO", "11220")), ("no entity", tags("OOO", "120")),
            ("one word", tags("I", "0")), ("types change from word to word", tags("OIIIB", "01011"))]


def by_conlleval(kinds, types):
    found = spans([f"{'OBI'[kind]}-{entity}" if kind else "O" for kind, entity in zip(kinds, types)])
    return np.array([(start, stop, int(entity)) for start, stop, entity in found], int).reshape(-1, 3)


def what_moves_what_in_an_encoder():
    """A text of 5 tokens in encoders of two blocks, without a causal mask. Which outputs move, which gradients are 0?

    Predict, without running anything. Return seven arrays in a tuple, 1 to 6 such as np.array([1, 0, 0, 0, 0]), where
    1 = this token's vector can change, or its row of the gradient is not 0, and 0 = it stays, or is exactly 0:
    1. nothing is padding; input 2 is changed: which outputs can change?
    2. tokens 3 and 4 are padding, hidden by the mask (B, 1, 1, S); input 1 is changed: which outputs can change?
    3. a SequenceClassifier, tokens 3 and 4 are padding: the gradient of the encoder's output
    4. a MaskedLanguageModel, nothing is padding, targets (-1, 9, -1, 7, -1), the loss ignores -1: dlogits
    5. there: the gradient of the encoder's output, before the layers that make logits of it token by token
    6. there: the gradient of the encoder's input, the vectors that enter the first block
    7. A TokenClassifier reads the ids (4, 6, 3, 6, 5), and all 5 tags count: the gradient of its embedding table, which
       has 8 rows: 8 numbers, one for each row
    """
    both_ways = np.array([1, 1, 1, 1, 1])
    padded = np.array([1, 1, 1, 1, 1])
    pooled = np.array([1, 1, 1, 0, 0])
    dlogits = np.array([0, 1, 0, 1, 0])
    at_output = np.array([0, 1, 0, 1, 0])
    at_input = np.array([1, 1, 1, 1, 1])
    table = np.array([0, 0, 0, 1, 1, 1, 1, 0])
    return both_ways, padded, pooled, dlogits, at_output, at_input, table


def run_encoders():
    x, ids, targets = np.random.default_rng(77).standard_normal((5, 6)), np.array([4, 6, 3, 6, 5]), [-1, 9, -1, 7, -1]
    short = np.array([4, 6, 3, 0, 0])
    classifier, tape = trained(SequenceClassifier(10, 6, 2, 2, num_classes=3, dropout=0, rng=3), short, 1)
    pooled = tape["encoder"].dy
    _, tape = trained(MaskedLanguageModel(10, 6, 2, 2, dropout=0, rng=4), ids, targets)
    tagger, _ = trained(TokenClassifier(8, 6, 2, 2, num_classes=3, dropout=0, rng=5), ids, [0, 1, 2, 1, 0])
    moved = (influence(Encoder(2, 6, 2, 8, rng=1), x)[:, 2],
             influence(Encoder(2, 6, 2, 8, rng=2), x, padding_mask(short))[:, 1])
    rows = (pooled, tape[""].dy, tape["encoder"].dy, tape["encoder"].gradients[0], tagger.embedding.weight.grad)
    return tuple((xray > 0).astype(int) for xray in moved) + tuple(
        gradient.reshape(-1, gradient.shape[-1]).any(1).astype(int) for gradient in rows)


def trained(model, ids, targets):
    """The model after one forward and backward, and what was recorded of them."""
    criterion = CrossEntropyLoss(ignore_id=-1)
    with record(model) as tape:
        criterion(model(ids), np.array(targets))
        model.backward(criterion.backward())
    return model, tape


HIDE, WANTED = "np.where(chosen & (fate < 0.8), 3, ids)", "np.where(chosen, ids, -1)"
RANDOM = "np.where(chosen & (fate >= 0.9), anything, corrupted)"
ADDED = "np.add.at(dx, (rows, places), dy)"
REPEATS = ("Of a place that is named twice only the last gradient counts: dx[rows, places] is a copy of rows, and "
           "where one repeats, the copies overwrite each other. np.add.at adds them all.")
LEFT, RIGHT = "np.linalg.norm(vectors, axis=1, keepdims=True)", "np.linalg.norm(others, axis=1, keepdims=True)"

CORRUPT = (
    Mistake("MLM-1", {HIDE: "np.where(chosen, 3, ids)", RANDOM: "corrupted"},
            "All chosen tokens become [MASK]. A tenth of them stays and a tenth becomes any word, so that the model "
            "must mind what it reads: in use there is no [MASK]."),
    Mistake("MLM-2a", {"chosen & (fate < 0.8)": "fate < 0.8"},
            "Tokens that were not chosen become [MASK], too: the text is gone, and nothing asks for them."),
    Mistake("MLM-2b", {"chosen & (fate >= 0.9)": "fate >= 0.9"},
            "Tokens that were not chosen become random words, too: noise that nothing asks about."),
    Mistake("MLM-3", {WANTED: "ids"},
            "Every token is a target. Most of them stand in plain sight, and copying them is what would be learned."),
    Mistake("MLM-4", {WANTED: "np.where(chosen, corrupted, -1)"},
            "The targets are what the model reads, [MASK] and random words. Wanted is what stood there before."),
    Mistake("MLM-5", {WANTED: "np.where(corrupted != ids, ids, -1)"},
            "Chosen tokens that look as before are no targets. They are predicted as well: else each visible word "
            "that is asked about would be a wrong one."),
    Mistake("MLM-6", {WANTED: "np.where(corrupted == 3, ids, -1)"},
            "Only [MASK] is asked about. All chosen tokens are targets, those that became another word or stayed, too."
            ""),
    Mistake("MLM-7", {WANTED: "np.where(chosen, ids, 0)"},
            "Where nothing is asked stands 0. That is an id, of the padding here; -1 is none, and says: do not count."),
    Mistake("MLM-8", {HIDE: "np.where(chosen & (fate < 0.8), anything, ids)",
                      RANDOM: "np.where(chosen & (fate >= 0.9), 3, corrupted)"},
            "[MASK] and random words have changed places: eight in ten become random words, and one in ten [MASK]."),
    Mistake("MLM-9", {RANDOM: "np.where(chosen & (fate >= 0.8) & (fate < 0.9), anything, corrupted)"},
            "The last two tenths have changed places: fates from 0.8 to 0.9 stay, those above become random words. On "
            "average that is the same; with these numbers it is not."),
    Mistake("MLM-10", {RANDOM: "np.where(chosen & (fate >= 0.8), anything, corrupted)"},
            "No chosen token stays as it is: all that are not masked become random words, so each visible word that "
            "is asked about is a wrong one."),
    Mistake("MLM-11", {RANDOM: "corrupted"},
            "No token becomes a random word: those not masked all stay, and the model learns that a word which is not "
            "[MASK] is always right."),
    Mistake("MLM-12", {HIDE: "np.where(chosen & (fate < 0.8), 0, ids)"},
            "Hidden tokens become 0, the padding, which nobody attends to. [MASK] is an id of its own, 3."),
    Mistake("MLM-13", {f"    corrupted = {HIDE}": "    corrupted = ids\n    corrupted[chosen & (fate < 0.8)] = 3"},
            "corrupted = ids is the same array under two names: the text is overwritten, and the targets are then "
            "[MASK]. Work on a copy."),
    Mistake("MLM-14", {"fate < 0.8": "fate <= 0.8"},
            "A fate of exactly 0.8 hides the token: below 0.8 is asked for."),
    Mistake("MLM-15", {"fate >= 0.9": "fate > 0.9"},
            "A fate of exactly 0.9 leaves the token: from 0.9 on it becomes a random word."),
    Mistake("MLM-16", {"return corrupted, targets": "return targets, corrupted"},
            "The two come back in the other order: what the model reads first, then the targets."),
    Mistake("MLM-17", {"    corrupted = np.where(chosen & (fate < 0.8)":
                       "    chosen = ~chosen\n    corrupted = np.where(chosen & (fate < 0.8)"},
            "chosen is turned round: True = this token is to be predicted."),
    Mistake("MLM-18", {WANTED: "ids[chosen]"},
            "The targets have lost their places: one for each token is asked for, -1 where there is none."),
)
PICK = (
    Mistake("PICK-1a", {ADDED: "dx[rows, places] += dy"}, REPEATS, twin="PICK-1b"),
    Mistake("PICK-1b", {ADDED: "dx[rows, places] = dy"}, REPEATS, twin="PICK-1a"),
    Mistake("PICK-2", {"return dx": "times = np.zeros(dx.shape[:2], dy.dtype)\n    "
                                    "np.add.at(times, (rows, places), 1)\n    "
                                    "return dx / np.maximum(times, 1)[..., None]"},
            "A token that is picked twice gets the mean of its gradients. Each pick has its own influence on the "
            "loss, and influences add up."),
    Mistake("PICK-3", {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), places, dy)"},
            "All gradients arrive in the first sequence. A place counts from the start of its own sequence: b T comes "
            "on top."),
    Mistake("PICK-4", {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), rows * places.shape[1] + places, dy)"},
            "Sequence b begins at b T in dx, not at b K: the places lie in x, which has T tokens a sequence."),
    Mistake("PICK-5", {ADDED: "np.add.at(dx, (rows, places[0]), dy)"},
            "Every sequence has the places of the first one. Each has its own."),
    Mistake("PICK-6", {"len(places), T, dy": "len(places), places.max() + 1, dy"},
            "dx ends at the last place that was picked. It must have the shape of x: T tokens."),
    Mistake("PICK-7", {ADDED: "np.add.at(dx, (rows, np.sort(places)), dy)"},
            "The places are sorted, but the rows of dy are not: they belong together, the k-th to the k-th."),
    Mistake("PICK-8", {ADDED: "np.add.at(dx, (rows, places - 1), dy)"},
            "Every place is one too small: they count from 0."),
    Mistake("PICK-9", {ADDED: "np.add.at(dx, (rows, np.arange(places.shape[1])), dy)"},
            "The gradients stand at the first K tokens, in the order of dy. Each belongs where its row of y came from."
            ""),
    Mistake("PICK-10", {"return dx": "return dx / places.shape[1]"},
            "dx is divided by K. Picking adds nothing up and averages nothing: if the loss is a mean, dy carries that "
            "factor already."),
    Mistake("PICK-11", {ADDED: "np.add.at(dx, places, dy)"},
            "dx[places] takes the places for numbers of sequences: the first axis of dx is the batch. Two indices are "
            "needed, the sequence's and the token's."),
    Mistake("PICK-12", {"return dx": "return np.take_along_axis(dx, places[..., None], 1)"},
            "That picks once more: K tokens come back. Backward goes the other way, from K picked ones to T."),
    Mistake("PICK-13", {ADDED: "places += T * rows\n    np.add.at(dx.reshape(-1, dy.shape[-1]), places, dy)"},
            "places += ... writes into the caller's array: places + ... makes a new one."),
    Mistake("PICK-14", {"return dx": "return dx.mT"},
            "dx comes out transposed: it must have the shape of x, (B, T, D)."),
)
COSINE = (
    Mistake("COS-1", {f"vectors / {LEFT}": "vectors", f"others / {RIGHT}": "others"},
            "That is the plain product, which grows with the lengths of the vectors. Divide by both."),
    Mistake("COS-2", {f"others / {RIGHT}": "others"},
            "The lengths of the others are missing: a longer one counts for more."),
    Mistake("COS-3", {f"vectors / {LEFT}": "vectors"},
            "The lengths of the vectors are missing. The nearest ones are right, since a row has one such length; the "
            "cosines are not."),
    Mistake("COS-4", {f"vectors / {LEFT}": "vectors / (vectors ** 2).sum(1, keepdims=True)",
                      f"others / {RIGHT}": "others / (others ** 2).sum(1, keepdims=True)"},
            "They are divided by the squares of their lengths: the root is missing."),
    Mistake("COS-5", {f"vectors / {LEFT}": "vectors / np.linalg.norm(vectors)",
                      f"others / {RIGHT}": "others / np.linalg.norm(others)"},
            "One length for the whole array. Each vector has its own: a norm along the features."),
    Mistake("COS-6", {LEFT: "np.linalg.norm(vectors, axis=0, keepdims=True)",
                      RIGHT: "np.linalg.norm(others, axis=0, keepdims=True)"},
            "The norms go along the sentences: each feature is scaled, and the vectors do not get length 1."),
    Mistake("COS-7", {"similarity.argmax(1)": "similarity.argmin(1)"},
            "That is the farthest: a cosine of 1 is the same direction, so the largest is wanted."),
    Mistake("COS-8", {"similarity.argmax(1)": "similarity.argmax(0)"},
            "That is the nearest vector of each of the others. Asked is the nearest other of each vector: along the "
            "row."),
    Mistake("COS-9", {"left @ right.T": "right @ left.T", "similarity.argmax(1)": "similarity.argmax(0)"},
            "similarity comes out transposed: rows are the vectors, columns the others."),
    Mistake("COS-10", {LEFT: "np.abs(vectors).sum(1, keepdims=True)", RIGHT: "np.abs(others).sum(1, keepdims=True)"},
            "They are divided by the sums of their absolute entries. The length is the root of the sum of squares."),
    Mistake("COS-11", {"left @ right.T": "-np.linalg.norm(vectors[:, None] - others, axis=-1)"},
            "That is the distance, with a minus. The cosine asks for the direction alone."),
    Mistake("COS-12", {"vectors / np": "(vectors - vectors.mean(1, keepdims=True)) / np",
                       "others / np": "(others - others.mean(1, keepdims=True)) / np",
                       "norm(vectors, axis": "norm(vectors - vectors.mean(1, keepdims=True), axis",
                       "norm(others, axis": "norm(others - others.mean(1, keepdims=True), axis"},
            "The mean of each vector is subtracted first: that is the correlation. The cosine takes them as they are."),
    Mistake("COS-13", {"similarity.argmax(1)": "np.abs(similarity).argmax(1)"},
            "The nearest is sought among absolute values: then the opposite counts as near."),
    Mistake("COS-14", {"similarity.argmax(1)": "similarity.max(1)"},
            "That is the largest cosine. Asked is the number of the sentence that has it."),
    Mistake("COS-15", {"similarity.argmax(1)": "similarity.argmax()"},
            "One number for the whole array: the nearest is sought in each row."),
    Mistake("COS-16", {"similarity, nearest\n": "nearest, similarity\n"},
            "They come back in the other order: the similarities first."),
    Mistake("COS-17", {f"    left = vectors / {LEFT}": f"    vectors /= {LEFT}\n    left = vectors"},
            "vectors /= ... writes into the caller's array: vectors / ... makes a new one."),
)
SPAN = (
    Mistake("SPAN-1", {"elif kind == 1 or entity != inside:":
                       "elif kind == 2 and inside is None:\n            continue\n        "
                       "elif kind == 1 or entity != inside:"},
            "An I without an entity before it is dropped. By conlleval's rules it begins one."),
    Mistake("SPAN-2a", {"entity != inside": "inside is None"},
            "The type is not compared: an I of another type goes on with the entity before it. It begins a new one."),
    Mistake("SPAN-2b", {"entity != inside": "inside is None", "found[-1][1] = i + 1": "found[-1][1:] = i + 1, entity"},
            "An I of another type changes the type of the entity before it. It begins a new one."),
    Mistake("SPAN-3", {"kind == 1 or entity": "entity"},
            "A B behind an entity of its type goes on with it. B always begins a new one: that is what it is for."),
    Mistake("SPAN-4", {"[i, i + 1, entity]": "[i, i, entity]", "[1] = i + 1": "[1] = i"},
            "stop is the last word. As in Python it is one behind: the words are start to stop - 1."),
    Mistake("SPAN-5", {"return np.array(found, int)":
                       "return np.array(found[:len(found) - (inside is not None)], int)"},
            "An entity that reaches the end of the sentence is lost: no tag behind it closes it."),
    Mistake("SPAN-6", {"            inside = None\n": "            pass\n"},
            "O does not end an entity: a later I of the same type goes on with it, across the words between."),
    Mistake("SPAN-7", {"entity != inside": "kind == 2"},
            "Every word is an entity of its own. I goes on with the one before, if that has the same type."),
    Mistake("SPAN-8", {"            inside = None\n": "            inside = entity\n"},
            "The type of a word with O counts: an I of that type behind it does not begin an entity. O has no type."),
    Mistake("SPAN-9", {"            inside = None\n": "            inside = 0\n"},
            "Outside of entities the type is set to 0, and 0 is a type: an I of it behind O does not begin an entity."),
    Mistake("SPAN-10", {"[i, i + 1, entity]": "[entity, i, i + 1]", "found[-1][1]": "found[-1][2]"},
            "The columns stand in another order than asked: start, stop, type."),
    Mistake("SPAN-11", {"[i, i + 1, entity]": "[i, 1, entity]", "[1] = i + 1": "[1] += 1"},
            "The second column is the number of words. Asked is where the entity stops."),
    Mistake("SPAN-12", {"enumerate(zip(kinds, types))": "enumerate(zip(kinds, types), 1)"},
            "The words are counted from 1: the first one is word 0."),
    Mistake("SPAN-13", {"np.array(found, int).reshape(-1, 3)": "np.array(found, int)"},
            "Without an entity the shape is (0,): an empty list has no second axis. (0, 3) is asked for."),
    Mistake("SPAN-14", {"found[-1][1] = i + 1": "pass"},
            "No entity has more than one word: an I that goes on moves its stop."),
    Mistake("SPAN-15", {"elif kind == 1 or entity != inside:":
                        "elif kind == 2 and entity != inside:\n            inside = None\n        elif kind == 1:"},
            "An I of another type, or behind O, is thrown away. By conlleval's rules it begins an entity."),
    Mistake("SPAN-16", {"reshape(-1, 3)": "reshape(-1, 3).T"}, "The array is transposed: one row for each entity."),
)
PREDICT = (
    Mistake("PRD-77a", {"both_ways = np.array([1, 1, 1, 1, 1])": "both_ways = np.array([0, 0, 1, 1, 1])"},
            "Answer 1: that would be a decoder. Without a causal mask the tokens before it see it as well."),
    Mistake("PRD-77b", {"both_ways = np.array([1, 1, 1, 1, 1])": "both_ways = np.array([0, 0, 1, 0, 0])"},
            "Answer 1: attention leads from each token to every other one, in each block."),
    Mistake("PRD-77c", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([1, 1, 1, 0, 0])"},
            "Answer 2: the mask hides padded keys, not padded queries: these still look at the real tokens. Nobody "
            "uses what comes out there."),
    Mistake("PRD-77d", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([0, 1, 1, 1, 1])"},
            "Answer 2: token 0 sees token 1: there is no causal mask."),
    Mistake("PRD-77e", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([1, 1, 1, 1, 1])"},
            "Answer 3: the mean is over the real tokens alone, so padding has no slope."),
    Mistake("PRD-77f", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([1, 0, 0, 0, 0])"},
            "Answer 3: that would be a classifier on the vector of the first token. This one takes the mean of all "
            "real ones."),
    Mistake("PRD-77g", {"dlogits = np.array([0, 1, 0, 1, 0])": "dlogits = np.array([1, 1, 1, 1, 1])"},
            "Answer 4: an ignored target has no term in the loss, so its logits have no slope."),
    Mistake("PRD-77h", {"dlogits = np.array([0, 1, 0, 1, 0])": "dlogits = np.array([1, 0, 1, 0, 1])"},
            "Answer 4: turned round: -1 is what the loss ignores."),
    Mistake("PRD-77i", {"at_output = np.array([0, 1, 0, 1, 0])": "at_output = np.array([1, 1, 1, 1, 1])"},
            "Answer 5: what stands between the encoder and the logits works token by token: a row of 0 stays 0 until "
            "the way back reaches attention."),
    Mistake("PRD-77j", {"at_input = np.array([1, 1, 1, 1, 1])": "at_input = np.array([0, 1, 0, 1, 0])"},
            "Answer 6: the masked tokens have looked at all others to be guessed: these get their gradients through "
            "attention."),
    Mistake("PRD-77k", {"at_input = np.array([1, 1, 1, 1, 1])": "at_input = np.array([1, 0, 1, 0, 1])"},
            "Answer 6: the places that are asked about have a gradient too: through the residual connections at least."
            ""),
    Mistake("PRD-77l", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[1, 1, 1, 1, 1, 1, 1, 1]"},
            "Answer 7: here the table is a lookup alone: a row whose id does not occur has no influence. With an "
            "output that is tied to it, as a masked language model has, all rows would move."),
    Mistake("PRD-77m", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[1, 1, 1, 1, 1, 0, 0, 0]"},
            "Answer 7: the rows of the table are words, not places in the text: id 6 moves row 6."),
)

EXERCISES = [
    Exercise(
        "14.1", "BERT's corruption", minutes=15, lines=4,
        solution=corrupt, reference=by_masked_words, inputs=lambda rng, n: draw_words(rng, (n.B, n.S + n.T), n.V),
        edges=borders, outputs=("corrupted", "targets"), mistakes=CORRUPT,
        invariants=(("tokens that were not chosen must stay",
                     lambda inputs, outputs: (outputs[0] - inputs[0])[~inputs[1]]),
                    ("exactly the chosen tokens must have a target",
                     lambda inputs, outputs: (outputs[1] >= 0).astype(int) - inputs[1])),
        hints=("A token can go three ways if it is chosen, and one if it is not. Which arrays decide?",
               "np.where(condition, a, b) takes from a where it is True. The condition of each way is chosen and a "
               "comparison of fate; the targets ask for chosen alone.",
               "np.where(chosen & (fate < 0.8), 3, ids); in what comes out, `anything` where chosen & (fate >= 0.9); "
               "targets np.where(chosen, ids, -1)."),
        alternatives={
            "on a copy": {f"corrupted = {HIDE}": "hidden = chosen & (fate < 0.8)\n    corrupted = ids.copy()\n    "
                                                 "corrupted[hidden] = 3",
                          f"corrupted = {RANDOM}": "swapped = chosen & (fate >= 0.9)\n    "
                                                   "corrupted[swapped] = anything[swapped]"},
            "select": {RANDOM: "np.select([chosen & (fate < 0.8), chosen & (fate >= 0.9)], [3, anything], ids)"}}),
    Exercise(
        "14.2", "Picking tokens, backward", minutes=15, lines=4,
        solution=pick_backward, reference=by_embedding, inputs=lambda rng, n: draw_places(rng, n.B, n.S, n.H + 2, n.D),
        edges=lambda rng: [("B = T = K = D", draw_places(rng, 5, 5, 5, 5)),
                           ("more places than tokens", draw_places(rng, 2, 4, 9, 3))],
        outputs=("dx",), mistakes=PICK,
        invariants=(("the sum of dx must be that of dy",
                     lambda inputs, outputs: outputs[0].sum((0, 1)) - inputs[1].sum((0, 1))),),
        hints=("Where did y[b, k] come from? And what has a token whose vector was taken twice?",
               "It is a lookup, and each sequence is a table of its own: zeros (B, T, D), into which dy is added at "
               "(b, places[b, k]). dx[...] += keeps one of several equal places.",
               "np.add.at(dx, (np.arange(B)[:, None], places), dy)."),
        alternatives={
            "loops": {ADDED: "for b, k in np.ndindex(places.shape):\n        dx[b, places[b, k]] += dy[b, k]"},
            "one-hot matmul": {ADDED: "hot = (places[..., None] == np.arange(T)).astype(dy.dtype)\n    "
                                      "dx = hot.mT @ dy"},
            "flat": {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), places + T * rows, dy)"}}),
    Exercise(
        "14.3", "The nearest sentence", minutes=10, lines=5,
        solution=nearest_sentences, reference=by_cosine, inputs=lambda rng, n: draw_sentences(rng, n.S, n.T, n.D),
        edges=lambda rng: [("N = M = D", draw_sentences(rng, 6, 6, 6)), ("one other", draw_sentences(rng, 4, 1, 3))],
        outputs=("similarity", "nearest"), mistakes=COSINE,
        invariants=(("a cosine lies between -1 and 1",
                     lambda inputs, outputs: np.maximum(abs(outputs[0]) - 1, 0)),),
        hints=("What is the product of two vectors of length 1?",
               "The cosine. So make each row one of length 1 first; then one matmul gives all pairs.",
               "vectors / np.linalg.norm(vectors, axis=1, keepdims=True), the others likewise, left @ right.T, and "
               "argmax along each row."),
        alternatives={"divided afterwards": {
            f"vectors / {LEFT}": "vectors", f"others / {RIGHT}": "others",
            "left @ right.T": "left @ right.T / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)"},
            "einsum": {"left @ right.T": "np.einsum('nd,md->nm', left, right)"}}),
    Exercise(
        "14.4", "Entities of tags", minutes=20, lines=10,
        solution=entity_spans, reference=by_conlleval, inputs=lambda rng, n: draw_tags(rng, 2 * n.S),
        edges=sentences_by_hand, outputs=("entities",), mistakes=SPAN,
        hints=("Go from word to word. What do you have to know of the words before, to say whether I begins an entity?",
               "Only the type of the entity that the word before belongs to, or that there is none, after O and at "
               "the start. 0 is a type: None says that there is none.",
               "B, or a type other than that: append [i, i + 1, type]; else, if not O, the last one's stop becomes i "
               "+ 1."),
        alternatives={"the word before": {
            "kind == 1 or entity != inside": "kind == 1 or i == 0 or kinds[i - 1] == 0 or entity != types[i - 1]"}}),
    Exercise(
        "14.5", "Predict: what moves what in an encoder", minutes=10, lines=8, kind="predict",
        solution=what_moves_what_in_an_encoder, reference=run_encoders,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "both ways", "padding", "mean", "dlogits", "encoder's output", "encoder's input", "table"), 1)),
        hints=("Which parts mix tokens: attention, feed-forward, the mean, the output layer?",
               "Only attention and the mean do. A mask hides keys, not queries, and the loss and the mean pass "
               "nothing to what they do not count.",
               "1 and 2: all tokens look at the changed one. 3: the real ones. 4 and 5: the places that are asked "
               "about. 6: attention spreads that to all. 7: the ids that occur."),
        mistakes=PREDICT),
]
