"""The Example of a run that `train` or `import` saved."""

import shlex
from pathlib import Path

import numpy as np

from ..tasks import TASKS
from ..tasks.encoder import ENCODERS
from ..tasks.imported_runs import describe_sizes
from ..tasks.runs import IMPORTED, TITLES, load_run, use_of
from .encoder_examples import ClassifierExample, MaskedWordExample, TaggerExample
from .examples import LanguageModelExample, PairsExample
from .wording import counted, sentence

EXAMPLES = {"lm": LanguageModelExample, "seq2seq": PairsExample, "text2text": PairsExample,
            "classifier": ClassifierExample, "tagger": TaggerExample, "mlm": MaskedWordExample}
TEXTS = {"lm": ["The cat sat", "the cat sat"], "seq2seq": ["planet", "March 3, 1999"], "text2text": ["sort: planet"],
         "classifier": ["The film was not good."], "tagger": ["yesterday Ashbury smiled at the crowd ."],
         "mlm": ["The [MASK] is a name."]}


def from_run(path, text=None, target=None):
    """Returns the Example of a run that `train` or `import` saved.

    Without a text it starts with a short one that the model can read.

    Raises: ValueError if the file holds no run, or if the model cannot read the text.
    """
    run = load_run(path)
    if use_of(run.meta) not in (*EXAMPLES, "multi-label"):
        raise ValueError(sentence("errors.runs.no_loss", path=run.path, title=TITLES[use_of(run.meta)]))
    reader = run.reader if run.kind in ENCODERS else None
    labels = run.labels if run.kind in ("classifier", "tagger") else None
    tokenizers = run.tokenizers if len(run.tokenizers) > 1 else run.tokenizers * 2
    title = sentence("step.model.trained", title=sentence(f"step.model.{'text_classifier' if run.kind == 'classifier' else run.kind}"),
                     steps=counted("step", run.meta["step"]))
    if run.meta["config"] == IMPORTED:
        family = run.meta["origin"]["family"]
        title = sentence("step.model.published", family=family, sizes=describe_sizes(run.meta["model"]))
    example = EXAMPLES[run.kind](run.model, tokenizers, text, target, title=title, labels=labels, reader=reader)
    example.kind = run.kind
    example.command += f" --run {shlex.quote(Path(path).name)}"
    if text is None:
        example.text = first_readable(example)
    example.read()
    return example


def first_readable(example):
    """Returns a short text that the model can read: a sentence, or else some of its tokens."""
    tokenizer = example.tokenizers[0]
    tokens = tokenizer.decode(np.arange(max(tokenizer.vocab_size - 4, 0), tokenizer.vocab_size)).strip()
    texts = [*TEXTS[example.kind], f"[MASK] {tokens}" if example.kind == "mlm" else tokens]
    for text in texts:
        try:
            example.read(text)
            return text
        except ValueError as error:
            problem = error
    raise ValueError(sentence("errors.runs.no_text", problem=problem))
