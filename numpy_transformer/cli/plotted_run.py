"""One run and one text: what the pictures of `plot` show."""

import sys

import numpy as np

from ..data import frame, frame_source, marks, read_prompt, token_name
from ..decoding import greedy_decode
from ..inspection import record
from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss, SinkSoftmax, Softmax
from ..tasks.encoder import ENCODERS
from ..tasks.runs import PAIRS, TITLES, load_run

LONGEST = 32                                    # tokens that are still readable in a picture


class RunExample:
    """A run and one text for it: the model, its inputs and targets, and the labels of the tokens.

    `keys` labels the source, `queries` the input of the decoder, and `predicted` the token that each query predicts. In a
    language model or an encoder, the three are the same list.
    """

    def __init__(self, arguments, *kinds):
        self.run = load_run(arguments.file, *kinds)
        self.model = self.run.model
        kind = self.run.meta["kind"]
        context = self.run.settings["context" if kind == "lm" else "max_len"]
        self.limit = min(context, LONGEST)
        if not arguments.text:
            raise ValueError("--text is missing or empty; give at least one character")
        if arguments.target is not None and not self.seq2seq:
            raise ValueError(f"{arguments.file!r} holds {TITLES[kind].partition(':')[0]}, which has no target; leave "
                             "--target out")
        if self.seq2seq:
            self.read_pair(arguments)
        elif self.encoder:
            self.read_encoder_text(arguments.text, context)
        else:
            tokens = self.run.tokenizers[0]
            ids = self.shorten(read_prompt(tokens, arguments.text), "--text", context)
            self.inputs = (ids[None],)
            self.targets = ids[None, 1:]
            self.keys = self.queries = self.predicted = [visible_spaces(token_name(tokens, token)) for token in ids]
        self.model.eval(remember=True)

    @property
    def seq2seq(self):
        return self.run.meta["kind"] in PAIRS

    @property
    def encoder(self):
        return self.run.meta["kind"] in ENCODERS

    def side(self, named):
        """The stack whose attention is drawn: the one named, or else the default."""
        if self.encoder and named == "decoder":
            raise ValueError(f"the model in {self.run.path!r} has no decoder; leave --side out")
        return named or ("encoder" if self.encoder else "decoder")

    def read_encoder_text(self, text, context):
        reader = self.run.reader
        reader.max_len = sys.maxsize            # `shorten` reports what is cut off
        read = reader.read_masked if reader.has_mask(text) else reader.read
        ids = self.shorten(read(text), "--text", context)
        masked = np.flatnonzero(ids == reader.mask_id)
        if len(masked) and self.run.meta["kind"] == "mlm":
            self.inputs = (ids[None], None, None, masked[None])
        else:
            self.inputs = (ids[None],)
        self.keys = self.queries = self.predicted = [visible_spaces(reader.name(token)) for token in ids]

    def read_pair(self, arguments):
        source_tokens, target_tokens = self.run.tokenizers
        source = self.shorten(frame_source(source_tokens, arguments.text), "--text", self.run.settings["max_len"])
        if arguments.target is None:
            begin, end = marks(target_tokens).begin, marks(target_tokens).end
            target = np.append(begin, greedy_decode(self.model, source[None], begin, end, self.limit - 1)[0])
        else:
            target = self.shorten(frame(target_tokens, arguments.target), "--target", self.run.settings["max_len"])
        self.inputs = (source[None], target[None, :-1])
        self.targets = target[None, 1:]
        self.keys = labels(source_tokens, source)
        self.queries = labels(target_tokens, target[:-1])
        self.predicted = labels(target_tokens, target[1:])

    def shorten(self, ids, option, context):
        if len(ids) > self.limit:
            why = "the model reads no more" if self.limit == context else "more would not be readable"
            print(f"{option} has {len(ids)} tokens; only the first {self.limit} are drawn, because {why}",
                  file=sys.stderr)
        return ids[:self.limit]

    def tape(self, backward=True):
        """Records forward and, if asked for, backward.

        The loss of a decoder is the mean cross-entropy of the next tokens. There are no targets for an encoder, so its own
        prediction serves as the target. A masked language model predicts the [MASK] tokens only, if there are any.
        """
        with record(self.model) as tape:
            logits = self.model(*self.inputs)
            if backward:
                dlogits = self.prediction_gradient(logits) if self.encoder else self.next_token_gradient(logits)
                self.model.backward(dlogits)
        return tape

    def prediction_gradient(self, logits):
        """dL/dlogits of an encoder, with its own prediction as the target."""
        if self.run.kind == "encoder":
            raise ValueError(f"the encoder in {self.run.path!r} has no output with a loss, and so no gradients; plot its "
                             "attention, or train a classifier from it (`train classifier --pretrained`)")
        if logits.ndim > 1:
            criterion, prediction = CrossEntropyLoss(), logits.argmax(-1)
        else:
            criterion, prediction = BinaryCrossEntropyLoss(), logits > 0
        criterion(logits, prediction)
        return criterion.backward()

    def next_token_gradient(self, logits):
        """dL/dlogits of a decoder. The token after the last one of a language model's text is unknown: 0 there."""
        count = self.targets.shape[1]
        if not count:
            raise ValueError("a single token has no next token to predict; give a longer --text")
        criterion = CrossEntropyLoss()
        criterion(logits[:, :count], self.targets)
        dlogits = np.zeros_like(logits)
        dlogits[:, :count] = criterion.backward()
        return dlogits

    def softmaxes(self, tape, side, part, block):
        """{block: recorded softmax} of the attention weights in a stack, or of the one block that is given."""
        calls = dict(enumerate(call for call in tape.of(Softmax, SinkSoftmax) if call.name.startswith(f"{side}.")
                               and call.name.endswith(f".{part}.attention.softmax")))
        if not calls:
            raise ValueError(f"the model in {self.run.path!r} has no {part.replace('_', '-')} weights in "
                             f"{'an' if side == 'encoder' else 'a'} {side}; choose another run or another --side")
        if block not in (None, *calls):
            raise ValueError(f"--block {block}: the {side} has blocks 0 to {len(calls) - 1}; choose one of them")
        return calls if block is None else {block: calls[block]}


def labels(tokens, ids):
    """The label of each id of a source or target in a picture: ^ and $ for begin and end, _ for padding."""
    own = marks(tokens)
    special = {own.pad: "_", own.begin: "^", own.end: "$"}
    return [special.get(int(n)) or visible_spaces(token_name(tokens, n - own.first)) for n in ids]


def visible_spaces(text):
    return text.replace(" ", "␣").replace("\n", "↵")
