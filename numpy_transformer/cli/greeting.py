"""What `numpy-transformer` alone prints: where to begin."""

from .terminal import wrap

BEGINNINGS = {
    "lesson 00 --step": "read the first of the lessons, cell by cell; `lesson` alone lists all",
    "explore": "see one training step of a tiny model in the browser, forward and backward",
    "exercise start my-exercises": "write the backward passes yourself; `exercise check` names your mistakes",
    "build start mine": "write a whole Transformer in twelve files; `build check` trains the model with them",
    "train lm": "train a small language model in about a minute; `generate` continues texts with it",
    "demo": "a tour of two minutes: check all gradients, train two models, draw pictures"}


def greet():
    """Prints it. Returns the exit code."""
    print(wrap("A Transformer in pure NumPy to learn from: every component has a forward pass and a backward pass written "
               "by hand. Here are six places to begin:"))
    for command, sentence in BEGINNINGS.items():
        print(f"\n  numpy-transformer {command}")
        print(wrap(sentence, indent="      "))
    print("\n" + wrap("`numpy-transformer --help` lists all commands, and `numpy-transformer COMMAND --help` explains one."))
    return 0
