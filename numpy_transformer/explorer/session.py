"""What the page asks for: documents of edited steps, arrays, spelled-out numbers and nudges."""

import hashlib
import json
from collections import OrderedDict

import numpy as np

from ..layers import Linear, LoRALinear, MultiHeadAttention
from ..module import Module, is_parameter, named_parts
from . import comparisons, edits as edit, nudge as nudges, predictions
from .document import encode_array, make_step
from .formulas import formulas_of, spell
from .possibilities import possibilities
from .wording import sentence

KEPT = 4                                        # documents that are kept, besides the step without edits
REMEMBERED = 500                                # documents that can be computed again, for other tabs of the browser
MOST_EDITS = 200
LARGEST_LIVE = 250_000                          # entries of all arrays that a document contains
LARGEST_PAGE = 12                               # megabytes of the arrays in a saved page
BYTES_PER_ENTRY = 4 * 4 / 3                     # float32 as base64
LARGEST_ANSWER = 250_000                        # entries of one answer
LARGEST_STEP = 50_000_000                       # entries of all arrays of a step, which take 8 bytes each
LARGEST_PROOF = 20_000                          # entries of all arrays of a step that is proven number by number


class Session:
    """One model and text, and the documents of the edits that a reader has made to them.

    Parameters:
        example : Example with the model, the criterion and the default texts; see examples.py and arrays.py

    Attributes:
        base : Step, the one without edits
        can_edit : whether there is a Module and a loss, which edits.py can change
        is_small : whether the step can be proven, and a saved page can hold other steps beside it
    """

    def __init__(self, example):
        self.example = example
        self.can_edit = isinstance(example.model, Module) and isinstance(example.criterion, Module)
        self.edits = OrderedDict()              # {id of a document: its edits}
        self.latest = OrderedDict()             # {id of a document: (step, document)}
        self.proof = None
        self.base = self.record("step-0", example.model, example.criterion, *example.read())
        self.is_small = total_size(self.base) <= LARGEST_PROOF              # the proof will add arrays

    def record(self, id, model, criterion, inputs, targets, tokens):
        """Returns the Step of a model, with what predictions.py adds to its document as `shown`."""
        check_size(model, inputs)
        step = make_step(model, inputs, targets, criterion, tokens=tokens, title=self.example.title, id=id)
        step.shown, arrays = predictions.add(step, self.example)
        step.shown["command"] = self.example.command
        step.arrays.update(arrays)
        return step

    def document(self, edits=()):
        """Returns the document of the step after a list of edits. Raises ValueError with one sentence."""
        if not isinstance(edits, (list, tuple)) or not all(isinstance(one, dict) for one in edits):
            raise ValueError(sentence("errors.session.edits"))
        if len(edits) > MOST_EDITS:
            raise ValueError(sentence("errors.session.most_edits", count=len(edits), most=MOST_EDITS))
        key = json.dumps(edits, sort_keys=True)
        id = f"step-{hashlib.sha256(key.encode()).hexdigest()[:12]}" if edits else "step-0"
        document = self.computed(id, edits)[1]
        if not edits and self.can_edit:
            document["comparisons"] = comparisons.comparisons(self)         # they ask for documents themselves
        self.edits[id] = edits
        self.edits.move_to_end(id)
        while len(self.edits) > REMEMBERED:
            self.edits.popitem(last=False)
        return document

    def computed(self, id, edits):
        """Returns (step, document) after a list of edits: a kept one, or computed again."""
        if id not in self.latest:
            self.latest[id] = self.edited(id, edits)
            if len(self.latest) > KEPT:
                self.latest.popitem(last=False)
        self.latest.move_to_end(id)
        return self.latest[id]

    def edited(self, id, edits):
        """Computes (step, document) after a list of edits."""
        if not self.can_edit:
            if edits:
                raise ValueError(sentence("errors.session.no_module"))
            return self.base, step_document(self.base, LARGEST_LIVE) | {"proof": self.proof}
        edited = edit.apply_edits(self.example, edits)
        step, proof = self.base, self.proof
        if edits:
            step = self.record(id, edited.model, edited.criterion, edited.inputs, edited.targets, edited.tokens)
            proof = None
        return step, step_document(step, LARGEST_LIVE) | {"hands_on": edited.hands_on | self.possibilities(), "proof": proof}

    def possibilities(self):
        """Returns what can be switched off, and which bugs can be planted."""
        return possibilities(self.example)

    def prove(self, progress=None):
        """Computes every gradient of the step without edits by finite differences too, if the step is small.

        Parameters: progress : object with advance(), called `provable` times, or None
        """
        if self.proof is None and self.provable:
            self.proof, arrays = nudges.proof(self.base, progress)
            self.base.arrays.update(arrays)

    @property
    def provable(self):
        """The number of arrays that `prove` computes, 0 for a step that is not small."""
        if not self.is_small:
            return 0
        return sum(value.gradient is not None and value.handle is not None for value in self.base.values.values())

    def saved_document(self, megabytes=LARGEST_PAGE):
        """Returns the document of the step without edits for a page without a server.

        Parameters: megabytes : number; the largest arrays are left out until the others take no more
        """
        document = step_document(self.base, megabytes * 1e6 / BYTES_PER_ENTRY) | {"proof": self.proof}
        found = comparisons.comparisons(self) if self.is_small else getattr(self.example, "comparisons", [])
        return document | {"comparisons": found, "variants": [self.variant(document, one["edits"]) for one in found]}

    def variant(self, base, edits):
        """Returns an entry of "variants": a step after some edits, for a page without a server."""
        document = self.document(edits)
        names = {edit.get("name") for edit in edits}
        hands = {**document["hands_on"], "bugs": [bug for bug in document["hands_on"]["bugs"] if bug["name"] in names]}
        return {"edits": edits, **comparisons.differences(base, document | {"hands_on": hands})}

    def step(self, document):
        """Returns the step of a document by its id."""
        if document == self.base.id:
            return self.base
        if not isinstance(document, str) or document not in self.edits:
            raise ValueError(sentence("errors.session.document", document=short(document)))
        return self.computed(document, self.edits[document])[0]

    def array(self, document, ref, index=None):
        """Returns an array, or a part of it, as FORMAT.md describes arrays.

        index holds for each axis a number, which removes the axis, or [start, stop]; None stands for the whole array.
        """
        array = find_array(self.step(document), ref)
        if index is not None:
            array = array[checked_slices(index, array.shape)]
        if np.size(array) > LARGEST_ANSWER:
            raise ValueError(sentence("errors.session.large", ref=ref, count=np.size(array), most=LARGEST_ANSWER))
        return encode_array(np.asarray(array))

    def spell(self, document, ref, index):
        """Returns the evaluated formula of one entry (FORMAT.md), or None if there is no formula for it."""
        step = self.step(document)
        index = checked_index(index, find_array(step, ref).shape)
        op, target = formula_of(step, ref)
        formula = formulas_of(op).get(target) if op else None
        if formula is None or not formula.names <= op.arrays().keys():      # a wrong backward may skip an op
            return None
        return spell(formula, op.arrays(), index)

    def nudge(self, document, value, index, number):
        """Returns what becomes of the loss if one entry of a value is changed by +-number."""
        step = self.step(document)
        return nudges.nudge(step, value, checked_index(index, find_array(step, value).shape), number)


def check_size(model, inputs):
    """Raises ValueError if the arrays of a step would probably have more than LARGEST_STEP entries."""
    parts = [part for _, part in named_parts(model)]
    count = 2 * sum(np.size(part.data) for part in parts if is_parameter(part))
    remedy = "shorter" if count <= LARGEST_STEP else "smaller"
    ids = max((x for x in inputs if isinstance(x, np.ndarray)), key=np.size, default=np.zeros(1))
    is_float = ids.dtype.kind == "f"            # its last axis then holds features
    tokens = ids.size // ids.shape[-1] if is_float and ids.size else ids.size
    length = (1, *ids.shape)[-2 if is_float and ids.ndim > 1 else -1]
    for part in parts:                          # outputs, gradients, and what stands between components
        if isinstance(part, (Linear, LoRALinear)):
            count += 4 * tokens * part.weight.data.shape[-1]
        elif isinstance(part, MultiHeadAttention):
            count += 6 * tokens * length * part.num_heads
    if count > LARGEST_STEP:
        raise ValueError(sentence("errors.session.million", millions=count / 1000000.0, most=LARGEST_STEP / 1000000.0,
                               remedy=sentence(f"errors.session.{remedy}")))


def step_document(step, entries):
    """Returns the document of a step without its largest arrays: the others have at most `entries` entries together."""
    return step.document(size_limit(step, entries)) | step.shown


def total_size(step):
    return sum(np.size(array) for array in step.arrays.values())


def size_limit(step, most):
    """Returns the number of entries above which arrays must be left out, so that the others have at most `most` together.

    None means that none has to be left out.
    """
    total = 0
    for size in sorted(np.size(array) for array in step.arrays.values()):
        total += size
        if total > most:
            return size - 1
    return None


def formula_of(step, ref):
    """Returns (op, target): the op whose formula gives the numbers of a ref, or None, and what the formula computes."""
    if not ref.startswith("grad "):
        value = step.values.get(ref)
        if value is None or value.producer is None:
            return None, None
        return value.producer, next(slot for slot, output in value.producer.outputs.items() if output is value)
    name, via, consumer = ref.removeprefix("grad ").partition(" via ")
    if via:
        op, _, slot = consumer.rpartition(" ")
        return step.ops[op], f"d{slot}"
    consumers = step.values[name].consumers
    if len(consumers) != 1:                     # a sum over the consumers, or the beginning of backward
        return None, None
    op, slot = consumers[0]
    return op, f"d{slot}"


def find_array(step, ref):
    if not isinstance(ref, str) or ref not in step.arrays:
        raise ValueError(sentence("errors.session.array", ref=ref))
    return step.arrays[ref]


def checked_index(index, shape):
    """Returns an index as a tuple. Raises ValueError unless it names one entry of an array of this shape."""
    is_entry = isinstance(index, list) and len(index) == len(shape)
    if not is_entry or not all(type(i) is int and 0 <= i < size for i, size in zip(index, shape)):
        raise ValueError(sentence("errors.session.index", index=short(index), shape=shape))
    return tuple(index)


def checked_slices(index, shape):
    """Returns an index of numbers and [start, stop] pairs as numbers and slices."""
    if not isinstance(index, list) or len(index) != len(shape):
        raise ValueError(sentence("errors.session.axes", index=short(index), count=len(shape)))
    parts = []
    for part, size in zip(index, shape):
        if type(part) is int and 0 <= part < size:
            parts.append(part)
        elif is_range(part, size):
            parts.append(slice(*part))
        else:
            raise ValueError(sentence("errors.session.part", part=short(part), size=size))
    return tuple(parts)


def is_range(part, size):
    is_pair = isinstance(part, list) and len(part) == 2 and all(type(i) is int for i in part)
    return is_pair and 0 <= part[0] < part[1] <= size


def short(value):
    """Returns a value from a request as text of bounded length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
