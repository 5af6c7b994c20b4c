"""Tiny models that are trained in seconds, so that every number can be read and attention still means something.

decoder             one head looks from the word before the verb back to the subject: "the cats near the dog sleep"
encoder             the masked subject looks most at the verb that tells which word it is: "the [MASK] near the dog sleep"
encoder-decoder     cross-attention aligns each French word with the English one: "the black cow sleeps"
classifier          the word of praise or blame looks at the "not" before it: "the film was not dull"
qwen3, gemma3, ...  as the decoder, with the architecture of a current model

Another processor rounds differently, and training then ends with other weights. The predictions hold in the slow tests of the
explorer, and so does most of the attention; of nine classifiers, with three seeds and three processors' kernels, one solved its
task without looking at the "not".
"""

import numpy as np

from ..argument_checks import check_choice
from ..data import MixedTokenizer, TextReader, frame, pad
from ..data.batches import IGNORE
from ..layers import CrossEntropyLoss
from ..layers.blocks import Block
from ..models import CausalLanguageModel, EncoderDecoder, MaskedLanguageModel, SequenceClassifier
from ..models.current_models import DECODERS
from ..training import Adam, CosineSchedule
from . import languages
from .encoder_examples import ClassifierExample, MaskedWordExample
from .examples import COMMAND, LanguageModelExample, PairsExample
from .wording import sentence

SIZES = dict(d_model=8, num_heads=2, d_ff=16)
BATCH = 32
SENTENCES = 2000
SMOOTHING = 0.1
STEPS = {"decoder": 1200, "encoder": 1200, "encoder-decoder": 1000, "classifier": 1200}
RATES = {"decoder": 2e-2, "encoder": 2e-2, "encoder-decoder": 2e-2, "classifier": 2e-2}
KINDS = tuple(STEPS)
ARCHITECTURES = tuple(DECODERS)                 # kinds as well: a decoder with the architecture of a current model


def tiny(kind="decoder", seed=1, train=True, progress=None, norm=None):
    """Returns the Example of a tiny model: "decoder", "encoder", "encoder-decoder", "classifier", or a decoder with the
    architecture of a current model, such as "qwen3".

    Parameters:
        kind : str, one of KINDS or ARCHITECTURES
        seed : int, of the initial weights and of the training sentences
        train : bool; False leaves the weights random
        progress : object with advance(), called steps_of(kind) times during training, or None
        norm : "pre" or "post", where the norms of each block stand; None: where they usually do. Only for KINDS
    Raises: ValueError for another kind.
    """
    check_choice("kind", kind, KINDS + ARCHITECTURES)
    rng = np.random.default_rng([seed, 1])
    placed = {} if norm is None else {"norm": norm}
    example, draw_data = make_architecture(rng, kind) if kind in ARCHITECTURES else MAKERS[kind](rng, **placed)
    example.variants = variants_of(example, kind, seed, train)
    example.command = command_of(kind, seed, train)
    if train:
        data = draw_data(np.random.default_rng([seed, 3]))
        fit(example, data, steps_of(kind), RATES.get(kind, RATES["decoder"]), np.random.default_rng([seed, 2]), progress)
    return example


def variants_of(example, kind, seed, train):
    """Returns {name: function that returns a model}: other models that read the same texts, made and trained when they are asked for."""
    kinds = ("decoder", *ARCHITECTURES) if kind in ("decoder", *ARCHITECTURES) else ()
    variants = {other: lambda other=other: tiny(other, seed, train).model for other in kinds if other != kind}
    if kind in KINDS:
        block = next(part for _, part in example.model.named_modules() if isinstance(part, Block))
        other = "post" if block.pre_norm else "pre"
        variants[f"{other}-norm"] = lambda: tiny(kind, seed, train, norm=other).model
    return variants


def command_of(kind, seed, train):
    """Returns the command that opens the explorer on this model; what it would choose by itself is left out."""
    options = {f" --model {kind}": kind != "decoder", f" --seed {seed}": seed != 1, " --random": not train}
    return COMMAND + "".join(option for option, is_named in options.items() if is_named)


def steps_of(kind):
    """Returns the number of training steps of a kind."""
    return STEPS.get(kind, STEPS["decoder"])


def fit(example, data, steps, lr, rng, progress=None):
    """Trains the model of an Example on random batches of its sentences.

    Label smoothing keeps the model from being certain, so that the gradients of a trained model are not all close to 0.
    """
    model = example.model.train()
    criterion = CrossEntropyLoss(SMOOTHING, example.criterion.ignore_id)
    optimizer = Adam(model.parameters(), lr, (0.9, 0.98))
    schedule = CosineSchedule(optimizer, lr, lr / 100, steps // 20, steps)
    *inputs, targets = data
    for _ in range(steps):
        rows = rng.integers(len(targets), size=BATCH)
        for parameter in optimizer.parameters:
            parameter.grad = 0
        criterion(model(*(array[rows] for array in inputs)), targets[rows])
        model.backward(criterion.backward())
        schedule.step()
        optimizer.step()
        if progress is not None:
            progress.advance()
    model.eval()


def word_tokenizer(words):
    return MixedTokenizer([f" {word}" for word in words])


def draw_sentences(sentence, rng):
    """Draws the training sentences of a language, each with a space before it."""
    return [f" {sentence(rng)}" for _ in range(SENTENCES)]


def padded(rows, value):
    """Returns arrays of ids as one array (B, longest row), filled with `value` on the right."""
    array = np.full((len(rows), max(map(len, rows))), value)
    for line, row in zip(array, rows):
        line[:len(row)] = row
    return array


def make_decoder(rng, norm="pre"):
    model = CausalLanguageModel(len(languages.AGREEMENT_WORDS), num_layers=2, max_len=12, norm=norm, init="xavier", rng=rng, **SIZES)
    return with_agreement(model, sentence("step.model.decoder"))


def make_architecture(rng, name):
    from ..pretrained import preset  # only these models need it

    model = preset(name, vocab_size=len(languages.AGREEMENT_WORDS), num_layers=2, max_len=12, rng=rng, **SIZES)
    return with_agreement(model, sentence("step.model.architecture", name=name))


def with_agreement(model, title):
    """Returns the Example of a decoder that reads sentences whose verb agrees with its subject, and the function that draws them."""
    words = languages.AGREEMENT_WORDS
    tokenizer = word_tokenizer(words)
    example = LanguageModelExample(model, [tokenizer], "the cats near the dog sleep", title=title, words=words)

    def draw_data(rng):
        rows = padded([tokenizer.encode(text) for text in draw_sentences(languages.agreement, rng)], IGNORE)
        return np.maximum(rows[:, :-1], 0), rows[:, 1:]         # ids after the end do not matter: they have no target

    return example, draw_data


def make_encoder(rng, norm="post"):
    words = languages.AGREEMENT_WORDS[:-1]      # without the period
    reader = TextReader(word_tokenizer(words), 14)
    model = MaskedLanguageModel(reader.vocab_size, num_layers=1, max_len=14, num_segments=0, dropout=0.0,
                                norm=norm, rng=rng, **SIZES)
    example = MaskedWordExample(model, [reader.tokens], "the [MASK] near the dog sleep", "cats",
                                title=sentence("step.model.encoder"), reader=reader, words=words)

    def draw_data(rng):
        ids = padded([reader.read(text.removesuffix(" .")) for text in draw_sentences(languages.agreement, rng)],
                     reader.pad_id)
        rows = np.arange(len(ids))
        columns = rng.integers(1, (ids != reader.pad_id).sum(-1) - 1)     # a word of each sentence, not [CLS] or [SEP]
        targets = np.full(ids.shape, IGNORE)
        targets[rows, columns] = ids[rows, columns]
        ids[rows, columns] = reader.mask_id
        return ids, targets

    return example, draw_data


def make_encoder_decoder(rng, norm="pre"):
    words = [*languages.TRANSLATION_WORDS, *languages.FRENCH_WORDS]
    tokenizer = word_tokenizer(words)
    size = len(words) + 3                       # and [pad], [begin], [end]
    model = EncoderDecoder(size, size, num_layers=1, dropout=0.0, max_len=8, tie_weights=True, positions="learned",
                           norm=norm, rng=rng, **SIZES)
    example = PairsExample(model, [tokenizer] * 2, "the black cow sleeps", title=sentence("step.model.encoder-decoder"),
                           words=words,
                           answer=languages.translate)

    def draw_data(rng):
        texts = draw_sentences(languages.translation, rng)
        source = pad([frame(tokenizer, text) for text in texts])
        target = pad([frame(tokenizer, f" {languages.translate(text)}") for text in texts])
        return source, target[:, :-1], target[:, 1:]

    return example, draw_data


def make_classifier(rng, norm="pre"):
    words = languages.OPINION_WORDS
    reader = TextReader(word_tokenizer(words), 14)
    model = SequenceClassifier(reader.vocab_size, num_layers=1, max_len=14, num_classes=2, hidden=8, dropout=0.0,
                               norm=norm, rng=rng, **SIZES)
    labels = ["negative", "positive"]
    example = ClassifierExample(model, [reader.tokens], "the film was not dull", title=sentence("step.model.classifier"),
                                labels=labels, reader=reader, words=words, answer=languages.judge)

    def draw_data(rng):
        texts = draw_sentences(languages.opinion, rng)
        return pad([reader.read(text) for text in texts]), np.array([labels.index(languages.judge(text)) for text in texts])

    return example, draw_data


MAKERS = {"decoder": make_decoder, "encoder": make_encoder, "encoder-decoder": make_encoder_decoder,
          "classifier": make_classifier}
