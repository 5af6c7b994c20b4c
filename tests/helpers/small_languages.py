"""Small models, trained in seconds on an invented language, so that wrong conversions have something to spoil."""

import functools

import numpy as np

import numpy_transformer as nt
from numpy_transformer.models import CausalLanguageModel, MaskedLanguageModel

from . import composed

PAD, START, END, MASK = 0, 1, 2, 3
FIRST, WORDS = 4, 16                    # ids of words
VOCAB = FIRST + WORDS
LENGTH = 24


def speech(rng, rows, length, grammar=0):
    """Rows of words: after an even word comes what the word two back asks for, after an odd one the word three back.

    Grammars differ in the two tables. One word in twenty is drawn freely, so that a model cannot know everything.
    """
    tables = np.random.default_rng(grammar).permuted(np.tile(np.arange(WORDS), (2, 1)), axis=1)
    words = rng.integers(0, WORDS, (rows, length + 3))
    free = rng.random(words.shape) < 0.05
    for t in range(3, words.shape[1]):
        odd = words[:, t - 1] % 2
        asked = np.where(odd, tables[1, words[:, t - 3]], tables[0, words[:, t - 2]])
        words[:, t] = np.where(free[:, t], words[:, t], asked)
    return words[:, 3:] + FIRST


def lm_batch(step):
    rows = speech(np.random.default_rng([1, step]), 32, LENGTH + 1)
    return (rows[:, :-1],), rows[:, 1:]


def mlm_batch(step):
    rng = np.random.default_rng([2, step])
    rows = speech(rng, 32, LENGTH)
    rows[:, 0], rows[:, -1] = START, END
    chosen = rng.random(rows.shape) < 0.25
    chosen[:, [0, -1]] = False
    chosen[:, 5] = True
    return (np.where(chosen, MASK, rows),), np.where(chosen, rows, -1)


def copy_batch(step):
    rng = np.random.default_rng([3, step])
    rows = speech(rng, 32, rng.integers(10, LENGTH))
    rows[:, -1] = END
    return (rows, np.concatenate([np.full((32, 1), PAD), rows[:, :-1]], 1)), rows


BASE = {"d_model": 32, "num_heads": 4, "num_layers": 2}
OPTIONS = {
    "gpt2": (CausalLanguageModel, {**BASE, "vocab_size": VOCAB, "d_ff": 64, "max_len": LENGTH,
                                   "activation": "gelu_tanh"}),
    "llama": (composed.language_model, {**BASE, "vocab_size": VOCAB, "d_ff": 48, "max_len": LENGTH, "num_kv_heads": 2,
                                    "d_head": 16, "activation": "swiglu", "norm_layer": "rms", "positions": "rotary",
                                    "bias": False, "tie_weights": False}),
    "bert": (MaskedLanguageModel, {**BASE, "vocab_size": VOCAB, "d_ff": 64, "max_len": LENGTH, "dropout": 0.0,
                                   "scale_embedding": False, "embedding_norm": True, "eps": 1e-12,
                                   "first_position": 2}),
    "t5": (composed.t5, {**BASE, "src_vocab": VOCAB, "tgt_vocab": VOCAB, "d_ff": 64, "dropout": 0.0,
                            "positions": "relative", "norm_layer": "rms", "bias": False, "scale_embedding": False,
                            "tie_weights": True, "output_factor": 32 ** -0.5, "mask_target": False, "eps": 1e-6}),
}
TRAINING = {"gpt2": (lm_batch, 400, 0.01), "llama": (lm_batch, 400, 0.01), "bert": (mlm_batch, 800, 0.006),
            "t5": (copy_batch, 500, 0.01)}


def small_model(kind):
    """An untrained model."""
    model_class, options = OPTIONS[kind]
    return model_class(**options, rng=0)


def check_arguments(kind, seed, grammar=0, rows=40):
    """Texts that the model was not trained on, as keyword arguments of diagnose."""
    texts = speech(np.random.default_rng([9, seed]), rows, LENGTH, grammar)
    if kind == "bert":
        texts[:, 0] = START
    if kind in ("bert", "t5"):
        texts[:, -1] = END
    settings = {"bert": {"mask_id": MASK, "special_ids": (PAD, START, END)}, "t5": {"start_id": PAD, "end_id": END}}
    return {"ids": list(texts), **settings.get(kind, {})}


@functools.cache
def trained_state(kind, **changes):
    """The weights of a trained model, as a dict."""
    batches, steps, lr = TRAINING[kind]
    model_class, options = OPTIONS[kind]
    model = model_class(**options, **changes, rng=0)
    optimizer = nt.AdamW(model.parameters(), lr)
    schedule = nt.CosineSchedule(optimizer, lr, lr / 20, 20, steps)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(ignore_id=-1), optimizer, schedule, clip=1.0, workers=1)
    trainer.fit(batches, steps=steps, every=steps + 1)
    return model.state_dict()
