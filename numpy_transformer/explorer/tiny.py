"""Tiny models that are trained in seconds, so that every number can be read and attention still means something."""

import numpy as np

from ..argument_checks import check_choice
from ..data import MixedTokenizer, TextReader, frame, pad
from ..data.batches import IGNORE
from ..data.reader import MASK
from ..models import CausalLanguageModel, EncoderDecoder, MaskedLanguageModel, SequenceClassifier
from ..training import Adam, CosineSchedule
from . import languages
from .examples import ClassifierExample, LanguageModelExample, MaskedWordExample, PairsExample

SIZES = dict(d_model=8, num_heads=2, d_ff=16)
BATCH = 32
STEPS = {"decoder": 1500, "encoder": 1500, "encoder-decoder": 1500, "classifier": 1500}
KINDS = tuple(STEPS)


def tiny(kind="decoder", seed=1, train=True, progress=None):
    """Returns the Example of a tiny model: "decoder", "encoder", "encoder-decoder" or "classifier".

    Parameters:
        kind : str, one of KINDS
        seed : int, of the initial weights and of the training sentences
        train : bool; False leaves the weights random
        progress : object with advance(), called STEPS[kind] times during training, or None
    Raises: ValueError for another kind.
    """
    check_choice("kind", kind, KINDS)
    example, draw_batch = MAKERS[kind](np.random.default_rng([seed, 1]))
    if train:
        fit(example, draw_batch, STEPS[kind], np.random.default_rng([seed, 2]), progress)
    return example


def fit(example, draw_batch, steps, rng, progress=None, lr=1e-2):
    """Trains the model of an Example, on a new batch of sentences in each step."""
    model, criterion = example.model.train(), example.criterion
    optimizer = Adam(model.parameters(), lr, (0.9, 0.98))
    schedule = CosineSchedule(optimizer, lr, lr / 100, steps // 20, steps)
    for _ in range(steps):
        inputs, targets = draw_batch(rng)
        model.forget().zero_grad()
        criterion(model(*inputs), targets)
        model.backward(criterion.backward())
        schedule.step()
        optimizer.step()
        if progress is not None:
            progress.advance()
    model.eval()


def word_tokenizer(words):
    return MixedTokenizer([f" {word}" for word in words])


def spaced(text):
    return f" {text}"


def sentences(draw, rng, encode, count=BATCH):
    """Draws sentences and encodes them: a list of arrays."""
    return [encode(draw(rng)) for _ in range(count)]


def padded(rows, value):
    """Returns arrays of ids as one array (B, longest row), filled with `value` on the right."""
    array = np.full((len(rows), max(map(len, rows))), value)
    for line, row in zip(array, rows):
        line[:len(row)] = row
    return array


def make_decoder(rng):
    words = languages.AGREEMENT_WORDS
    tokenizer = word_tokenizer(words)
    model = CausalLanguageModel(len(words), num_layers=2, max_len=12, init="xavier", rng=rng, **SIZES)
    example = LanguageModelExample(model, [tokenizer], "the cats near the dog sleep", title="a tiny decoder", words=words)

    def draw_batch(rng):
        rows = padded(sentences(languages.agreement, rng, lambda text: tokenizer.encode(spaced(text))), IGNORE)
        return (np.maximum(rows[:, :-1], 0),), rows[:, 1:]      # what follows a sentence comes too late to matter

    return example, draw_batch


def make_encoder(rng):
    words = languages.AGREEMENT_WORDS
    reader = TextReader(word_tokenizer(words), 14)
    model = MaskedLanguageModel(reader.vocab_size, num_layers=2, max_len=14, num_segments=0, dropout=0.0, rng=rng, **SIZES)
    example = MaskedWordExample(model, [reader.tokens], "the [MASK] near the dog sleep", "cats",
                                title="a tiny masked language model", reader=reader, words=words)

    def draw_batch(rng):
        ids = padded(sentences(languages.agreement, rng, lambda text: reader.read(text.removesuffix(" ."))), 0)
        columns = rng.integers(1, (ids != 0).sum(-1) - 1)       # one word of each sentence, not [CLS] or [SEP]
        rows = np.arange(len(ids))
        targets = np.full(ids.shape, IGNORE)
        targets[rows, columns] = ids[rows, columns]
        ids[rows, columns] = MASK
        return (ids,), targets

    return example, draw_batch


def make_encoder_decoder(rng):
    words = [*languages.TRANSLATION_WORDS, *languages.FRENCH_WORDS]
    tokenizer = word_tokenizer(words)
    size = len(words) + 3                       # and [pad], [begin], [end]
    model = EncoderDecoder(size, size, num_layers=1, dropout=0.0, max_len=8, tie_weights=True, positions="learned",
                           rng=rng, **SIZES)
    example = PairsExample(model, [tokenizer] * 2, "the black cow sleeps", "la vache noire dort",
                           title="a tiny encoder-decoder", words=words, answer=languages.translate)

    def draw_batch(rng):
        texts = [languages.translation(rng) for _ in range(BATCH)]
        source = pad([frame(tokenizer, spaced(text)) for text in texts])
        target = pad([frame(tokenizer, spaced(languages.translate(text))) for text in texts])
        return (source, target[:, :-1]), target[:, 1:]

    return example, draw_batch


def make_classifier(rng):
    words = languages.OPINION_WORDS
    reader = TextReader(word_tokenizer(words), 14)
    model = SequenceClassifier(reader.vocab_size, num_layers=2, max_len=14, num_classes=2, hidden=8, dropout=0.0,
                               rng=rng, **SIZES)
    labels = ["negative", "positive"]
    example = ClassifierExample(model, [reader.tokens], "the film was not dull", "positive", title="a tiny classifier",
                                labels=labels, reader=reader, words=words, answer=languages.judge)

    def draw_batch(rng):
        texts = [languages.opinion(rng) for _ in range(BATCH)]
        return (pad([reader.read(text) for text in texts]),), np.array([labels.index(languages.judge(t)) for t in texts])

    return example, draw_batch


MAKERS = {"decoder": make_decoder, "encoder": make_encoder, "encoder-decoder": make_encoder_decoder,
          "classifier": make_classifier}
