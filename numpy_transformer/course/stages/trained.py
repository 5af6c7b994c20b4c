"""The student's program at work: it is trained on small stories or on dates, and its weights are kept in the folder."""

import hashlib
import io
import json
from dataclasses import dataclass

import numpy as np

from ...training.npz import NpzArchive
from ..own_files import replace_own_file
from . import corpus
from .drivers import filled, parameters_of

KEPT = ".build-{}.npz"                          # file in the student's folder
WIDTH, HEADS, LAYERS, INNER = 64, 4, 2, 256
LONGEST = 128                                   # tokens of a story, prompt included
BATCH, WARMUP, FACTOR = 8, 200, 0.6
SEED = 0


@dataclass(frozen=True)
class Trained:
    """A model of the student's classes after training.

    Attributes:
        model : of the class LanguageModel or EncoderDecoder
        losses : array, one a step
        tokenizer : of the stories; for dates, the letters
        again : True if the weights were kept from an earlier training
    """

    model: object
    losses: np.ndarray
    tokenizer: object
    again: bool = False


def single(model):
    """Converts a model's parameters to float32, and returns it."""
    for parameter in parameters_of(model).values():
        parameter.data = np.asarray(parameter.data, np.float32)
        parameter.grad = np.zeros_like(parameter.data)
    return model


def on_stories(program, steps):
    """Returns (model, tokenizer, loss, batches) for a language model on generated stories."""
    text, tokenizer = corpus.stories()
    rng = np.random.default_rng(SEED)
    model = program.LanguageModel(tokenizer.vocab_size, LONGEST, WIDTH, HEADS, INNER, LAYERS, rng)
    batches = corpus.windows(np.array(tokenizer.encode(text)), LONGEST, BATCH, steps, rng)
    return single(model), tokenizer, program.CrossEntropyLoss(), batches


def on_dates(program, steps):
    """Returns (model, letters, loss, batches) for an encoder-decoder that rewrites dates."""
    rng = np.random.default_rng(SEED)
    *batches, letters = corpus.date_batches(4 * BATCH, steps, rng)
    longest = max(batch.shape[-1] for batch in batches)
    model = program.EncoderDecoder(corpus.EOS + 1 + len(letters), longest, WIDTH, HEADS, INNER, LAYERS, rng, corpus.PAD)
    return single(model), letters, program.CrossEntropyLoss(0.0, corpus.PAD), batches


TASKS = {"stories": on_stories, "dates": on_dates}


def trained(program, files, folder, task="stories", steps=1500, progress=lambda loss: None):
    """Trains a model of a program that is `running`, or takes the weights that were kept in the folder. Returns a Trained.

    Parameters:
        files : {name: bytes} of the program; with other files, it is trained again
        folder : path; the weights are kept there if it can be written to
        progress : function of the loss, called after each step
    """
    model, tokenizer, loss, batches = TASKS[task](program, steps)
    kept, key = folder / KEPT.format(task), key_of(files, task)
    arrays = read_kept(kept, key, parameters_of(model), steps)
    if arrays is not None:
        losses = arrays.pop("losses")
        return Trained(filled(model, arrays), losses, tokenizer, True)
    optimizer = program.AdamW(parameters_of(model).values(), 1e-3, (0.9, 0.98), 1e-9, 0.01)
    watch(loss, progress)
    losses = program.train(model, loss, optimizer, list(zip(*batches)),
                           lambda n: FACTOR * program.learning_rate(n, WIDTH, WARMUP))
    weights = {name: parameter.data for name, parameter in parameters_of(model).items()}
    keep(kept, key, {**weights, "losses": np.array(losses, float)})
    return Trained(model, np.array(losses, float), tokenizer)


def watch(loss, progress):
    """Calls progress(value) whenever the loss is computed."""
    forward = loss.forward

    def watched(*inputs):
        value = forward(*inputs)
        progress(float(value))
        return value

    loss.forward = watched


def key_of(files, task):
    """Returns a hash of everything on which the weights depend."""
    sizes = [task, SEED, WIDTH, HEADS, LAYERS, INNER, LONGEST, BATCH, WARMUP, FACTOR, corpus.STORIES]
    content = hashlib.sha256(json.dumps(sizes).encode())
    for name in sorted(files):
        content.update(name.encode() + b"\0" + files[name] + b"\0")
    return content.hexdigest()


def keep(path, key, arrays):
    """Writes the arrays with their key, if the folder can be written to and holds no longer training of the same program."""
    if kept_steps(path, key) > len(arrays["losses"]):
        return
    content = io.BytesIO()
    np.savez(content, key=np.array(key), **arrays)
    replace_own_file(path, content.getvalue())


def kept_steps(path, key):
    """Returns the number of steps of the training that was kept with this key, 0 if there is none."""
    try:
        with open(path, "rb") as file:
            archive = NpzArchive(file)
            return archive.shapes["losses"][0] if str(archive["key"]) == key else 0
    except Exception:                           # damaged, or something else under this name
        return 0


def read_kept(path, key, parameters, steps):
    """Returns {name: array} of the weights and the losses that were kept with this key after this number of steps, or None."""
    try:
        with open(path, "rb") as file:
            archive = NpzArchive(file)
            names = {"key", "losses", *parameters}
            if str(archive["key"]) != key or archive.shapes.keys() != names or archive.shapes["losses"] != (steps,):
                return None
            if any(archive.shapes[name] != np.shape(parameter.data) for name, parameter in parameters.items()):
                return None
            return {name: archive[name] for name in archive.shapes if name != "key"}
    except Exception:                           # damaged, or something else under this name: train again
        return None


def rewritten(program, result, text):
    """Returns what a model of dates makes of a text with the program's beam search."""
    number = {letter: i for i, letter in enumerate(result.tokenizer, corpus.EOS + 1)}
    ids, _ = program.beam_search(result.model, np.array([number[letter] for letter in text]), corpus.BOS, corpus.EOS, 12)
    return "".join(result.tokenizer[i - corpus.EOS - 1] for i in ids if i > corpus.EOS)
