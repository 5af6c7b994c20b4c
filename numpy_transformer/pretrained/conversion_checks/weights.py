"""What the weights and settings show without a text."""

import numpy as np

from ...data.plurals import counted
from ...layers.embedding import Embedding
from ...layers.linear import Linear
from .changes import Note, Parts, kind_of
from .number_formats import misread_numbers, whole_numbers
from .random_weights import block_of, untrained_matrices

USUAL_EPS = {"gpt2": (1e-5,), "llama": (1e-5, 1e-6), "mistral": (1e-5,), "qwen2": (1e-6,), "llama2.c": (1e-5,),
             "bert": (1e-12,), "distilbert": (1e-12,), "roberta": (1e-5, 1e-12), "t5": (1e-6,)}
EPS_IN_CONFIG = "layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps"
MANY = 0.3                              # share of negative gains that no trained model is expected to have
LEAST_ENTRIES = 8                       # of a bias or of gains; equal numbers in shorter ones may be chance
PADDED = 1.1                            # rows of an embedding for each id of the tokenizer, at most


def findings_without_text(model, tokenizer_size=None, ids=()):
    """Returns a list of Notes about weights and settings that look wrong; `ids` are those of the text, if there is one."""
    parts = Parts(model)
    return [*broken_numbers(model), *misread_numbers(model), *whole_numbers(model), *untrained_matrices(model),
            *untouched(parts), *missing_final_norms(parts), *zero_biases(model), *negative_gains(parts),
            *equal_matrices(parts), *equal_vectors(parts), *unusual_eps(parts), *sizes_of_vocabulary(parts, tokenizer_size),
            *rows_of_text(parts, ids)]


def broken_numbers(model):
    """Values that are not finite, and matrices in which all entries are equal."""
    for name, parameter in model.named_parameters():
        array = parameter.data
        finite = np.isfinite(array)
        if not finite.all():
            yield Note(f"{name} holds {array.size - np.count_nonzero(finite):,} values that are not finite: the file is "
                       "damaged, or was converted to a dtype that is too small for it.", (name,))
        elif array.ndim == 2 and array.size > 1 and array.flat[0] == array.flat[-1] and (array == array.flat[0]).all():
            yield Note(f"{name} is {array.flat[0]:g} everywhere: this weight was not taken from the file.", (name,))


def untouched(parts):
    """Norms as they are before training: all of them, or some while others are not."""
    names = {id(module): name for name, module in parts.model.named_modules()}
    untouched_norms = [names[id(norm)] for norm in parts.norms if (norm.gamma.data == 1).all()]
    if untouched_norms and len(untouched_norms) == len(parts.norms):
        yield Note("The gains of all norms are exactly 1, as before training: the weights are untrained, or the norms were "
                   "not taken from the file.")
    elif untouched_norms:
        yield Note(f"The gains of these norms are exactly 1, while those of others are not: {', '.join(untouched_norms)}. "
                   "They were not taken from the file.", tuple(f"{name}.gamma" for name in untouched_norms))


def missing_final_norms(parts):
    """Stacks whose norms stand before the sublayers, and whose output is not normalized."""
    for stack in parts.stacks:
        if stack.norm is None and stack.blocks[0].pre_norm:
            yield Note(f"No final norm follows the last block of the {parts.name_of(stack)}, although the norms of its "
                       "blocks stand before the sublayers. Models of this kind have one: it was probably not taken from "
                       "the file.")


def zero_biases(model):
    """Biases that are zero, in all blocks or in some, while others are not."""
    kinds = {}                                  # {name with * for the number of a block: {name: is it zero?}}
    for name, parameter in model.named_parameters():
        if name.split(".")[-1] in ("bias", "beta"):
            kinds.setdefault(kind_of(name), {})[name] = not parameter.data.any()
    all_zero = [kind for kind, biases in kinds.items() if all(biases.values())]
    some_zero = [name for kind, biases in kinds.items() if kind not in all_zero
                 for name, is_zero in biases.items() if is_zero]
    if all_zero and len(all_zero) == len(kinds):
        yield Note("All biases are exactly 0: they were not taken from the file, or the model was trained without them.")
    elif all_zero or some_zero:
        yield Note(f"These biases are exactly 0 while others are not: {', '.join(all_zero + some_zero)}. They were not taken "
                   "from the file, or the model was trained without them.", tuple(some_zero))


def negative_gains(parts):
    """Gains around zero: the file may hold γ - 1."""
    gains = np.concatenate([norm.gamma.data for norm in parts.norms]) if parts.norms else np.ones(1)
    share = np.mean(gains < 0)
    if share > MANY:
        yield Note(f"{share:.0%} of the gains of the norms are negative, which is rare after training: the file may hold "
                   "γ - 1, to which 1 has to be added.")


def equal_matrices(parts):
    """The same matrix in two places where a file has two different ones."""
    seen = {}
    equal = {}                                  # {(where, where the same was before): [name]}
    for name, module in parts.model.named_modules():
        if not isinstance(module, (Linear, Embedding)):
            continue
        is_output = isinstance(module, Linear) and name == "output"
        weight = module.weight.data.T if is_output else module.weight.data          # it may equal the embedding
        key = weight.shape, weight[0].tobytes()             # the first row tells most apart
        other, first = seen.setdefault(key, (name, weight))
        if first is weight or not np.array_equal(first, weight):
            continue
        if is_output:
            yield Note(f"{name}.weight equals {other}.weight, although the two are not tied: the model is one with a tied "
                       "output layer, or its own output layer was not taken from the file.", (f"{name}.weight",))
        else:
            same_place = kind_of(name) == kind_of(other)
            equal.setdefault((block_of(name), block_of(other)) if same_place else (name, other), []).append(name)
    for (where, before), names in equal.items():
        spoiled = tuple(f"{name}.weight" for name in names)
        if where in names:
            yield Note(f"{where}.weight equals {before}.weight: one of them was filled with the other's values.", spoiled)
        else:
            which = ", ".join(name.removeprefix(f"{where}.") for name in names)
            yield Note(f"{where} has the same weights as {before} ({which}): one of the two was filled with the other's "
                       "values.", spoiled)


def equal_vectors(parts):
    """The same biases or gains, which are not all equal to each other, in two kinds of places."""
    seen = {}
    equal = {}                                  # {(kind of place, kind where the same was before): [name]}
    for name, parameter in parts.model.named_parameters():
        array = parameter.data
        if array.ndim == 1 and len(array) >= LEAST_ENTRIES and np.ptp(array) > 0:
            other = seen.setdefault(array.tobytes(), name)
            if kind_of(other) != kind_of(name):
                equal.setdefault((kind_of(name), kind_of(other)), []).append(name)
    for (kind, other), names in equal.items():
        places = f", in {len(names)} blocks" if len(names) > 1 else ""
        yield Note(f"{kind} equals {other}{places}: one of them was filled with the other's values.")


def rows_of_text(parts, ids):
    """Tokens of the text whose rows of the embedding are zero, or equal to each other."""
    for embedding in parts.word_embeddings()[:1]:
        used = np.unique(ids)
        rows = embedding.weight.data[used[used < embedding.vocab_size]]
        zeros = np.count_nonzero(~rows.any(1))
        alike = len(rows) - len(np.unique(rows, axis=0)) - max(zeros - 1, 0)
        if zeros > 1:
            yield Note(f"The text uses {counted(zeros, 'row')} of the embedding with nothing but zeros: they were not taken "
                       "from the file.")
        if alike:
            yield Note(f"The text uses {counted(alike, 'row')} of the embedding with the same numbers as another: rows were "
                       "repeated where the file has others, or has none.")


def unusual_eps(parts):
    """Another eps than config.json has, or than is usual in the family: a text hardly shows it."""
    origin = getattr(parts.model, "origin", None)
    if origin is None or not parts.norms:
        return
    eps_values = sorted({norm.eps for norm in parts.norms})
    in_config = [origin.config[key] for key in EPS_IN_CONFIG if key in origin.config]
    shown = " and ".join(f"{eps:g}" for eps in eps_values)
    usual = USUAL_EPS.get(origin.family, eps_values)
    shown_usual = " or ".join(f"{eps:g}" for eps in usual)
    if in_config and eps_values != in_config[:1]:
        yield Note(f"The norms have eps = {shown}, but config.json says {in_config[0]:g}.")
    elif not set(eps_values) <= set(usual):
        yield Note(f"The norms have eps = {shown}; {shown_usual} is usual for {origin.family}. The effect on the loss is "
                   "mostly too small to decide which is right.")


def sizes_of_vocabulary(parts, tokenizer_size):
    """A tokenizer with more ids than the embedding has rows, or with far fewer."""
    rows = min((embedding.vocab_size for embedding in parts.word_embeddings()), default=None)
    if tokenizer_size is None or rows is None:
        return
    if tokenizer_size > rows:
        yield Note(f"The tokenizer has {tokenizer_size:,} ids, but the embedding only {rows:,} rows: the tokenizer belongs "
                   "to another model, or tokens were added without rows for them.")
    elif rows > PADDED * tokenizer_size + 128:
        yield Note(f"The embedding has {rows:,} rows, but the tokenizer only {tokenizer_size:,} ids: the tokenizer seems "
                   "to belong to another model.")
