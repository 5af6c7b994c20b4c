"""numpy-transformer plot: one picture, of a trained run or of what needs none."""

import sys
from pathlib import Path

import numpy as np

from ..data import BOS, EOS, frame
from ..data.reader import MASK
from ..decoding import greedy_decode
from ..inspection import influence, record
from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss, Softmax
from ..tasks.runs import ENCODERS, PAIRS, TITLES, load_run
from ..training.trainer_state import read_history
from .parser import add_command, whole_number
from .plot_examples import MODELS, draw_masks, draw_memory, draw_positions, draw_schedules, draw_steps, small_stacks

LONGEST = 32                                    # tokens that can still be read in a picture


def add(commands):
    plot = add_command(commands, "plot", run, help="draw one picture, of a trained run or of what needs none",
                       description="Draw one picture into a .png, .svg or .pdf file.")
    pictures = plot.add_subparsers(dest="picture", metavar="PICTURE", required=True)

    def picture(name, draw, about, run_needed=None, text=False):
        parser = add_command(pictures, name, run, help=about, description=about[0].upper() + about[1:] + ".")
        parser.add_argument("--out", metavar="FILE", default=f"{name}.png", help="ends in .png, .svg or .pdf")
        parser.set_defaults(draw=draw)
        if run_needed is not None:
            parser.add_argument("--run", dest="file", metavar="RUN.npz", required=run_needed, help="written by `train`")
        if text:
            parser.add_argument("--text", required=run_needed,
                                help="what a language model reads, or the source of an encoder-decoder, whose begin is "
                                     "drawn as ^ and whose end as $")
            parser.add_argument("--target", help="of an encoder-decoder (default: what it writes itself)")
        return parser

    pe = picture("pe", draw_positions, "the sinusoidal positional encoding as a heatmap or as waves")
    pe.add_argument("--positions", type=whole_number(1, 2000), default=50, metavar="T", help="how many")
    pe.add_argument("--width", type=whole_number(1, 2000), default=128, metavar="D", help="d_model")
    pe.add_argument("--transposed", action="store_true", help="positions across, dimensions down")
    pe.add_argument("--waves", action="store_true", help="single columns and rows as curves")
    mask = picture("mask", draw_masks, "a causal mask, a padding mask, and both")
    mask.add_argument("--length", type=whole_number(2, 1000), default=6, metavar="T", help="tokens")
    mask.add_argument("--padding", type=whole_number(0), default=2, metavar="N", help="how many of them are padding")
    schedule = picture("schedule", draw_schedules, "learning rates with warm-up: the paper's, and a cosine")
    schedule.add_argument("--steps", type=whole_number(2, 1_000_000), default=20000, metavar="N", help="training steps")
    schedule.add_argument("--warmup", type=whole_number(1), default=4000, metavar="N", help="of them the warm-up")
    schedule.add_argument("--width", type=whole_number(1), default=512, metavar="D", help="d_model")
    steps = picture("steps", draw_steps, "the error of finite differences and of the complex step, over the step")
    steps.add_argument("--seed", type=whole_number(0), default=1, help="of the layer and its input")
    memory = picture("memory", draw_memory, "memory of attention over the length, plain and in tiles")
    memory.add_argument("--width", type=whole_number(1, 1024), default=64, metavar="D", help="of the head")
    for name, draw, about in (
            ("attention", draw_attention, "the attention weights of a run, each layer and head"),
            ("cross-attention", draw_cross_attention, "where an encoder-decoder looks in its source"),
            ("backward", draw_backward, "attention weights beside dL/dweights and dL/dscores")):
        parser = picture(name, draw, about, run_needed=True, text=True)
        parser.add_argument("--layer", type=whole_number(0), metavar="N", help="counted from 0 (default: " + (
            "the last)" if name == "backward" else "all)"))
        if name != "cross-attention":
            parser.add_argument("--side", choices=("encoder", "decoder"), help="of an encoder-decoder (default: "
                                                                                     "decoder); its cross-attention has "
                                                                                     "a picture of its own")
    picture("xray", draw_xray, "which input moves which output; without a run small stacks with right and wrong masks",
            run_needed=False, text=True)
    parts = picture("architecture", draw_architecture, "a model drawn from its own modules", run_needed=False)
    parts.add_argument("--model", choices=tuple(MODELS), help="instead of a run (default: encoder-decoder)")
    picture("gradients", draw_gradients, "the norm of the gradient at each block of a run", run_needed=True, text=True)
    picture("history", draw_history, "loss, learning rate and gradient norm of a run, step by step", run_needed=True)


def run(arguments):
    from .. import views                        # matplotlib is slow to import

    path = views.check_file(arguments.out)      # before the work, not behind it
    print(views.write(arguments.draw(views, arguments), path))


class Reading:
    """A run on one text: the model, its inputs and targets, and the tokens to write at the axes."""

    def __init__(self, arguments, *kinds):
        self.run = load_run(arguments.file, *kinds)
        kind, self.model = self.run.meta["kind"], self.run.model
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
            reader = self.run.reader
            reader.max_len = sys.maxsize        # shorten tells what is cut
            ids = self.shorten(reader.read_masked(arguments.text) if "[mask]" in arguments.text.lower() else
                               reader.read(arguments.text), "--text", context)
            masked = np.flatnonzero(ids == MASK)
            self.inputs = (ids[None], None, None, masked[None]) if len(masked) and kind == "mlm" else (ids[None],)
            self.keys = self.queries = self.written = [readable(reader.name(token)) for token in ids]
        else:
            tokens = self.run.tokenizers[0]
            ids = self.shorten(tokens.encode(arguments.text), "--text", context)
            self.inputs, self.targets = (ids[None],), ids[None, 1:]
            self.keys = self.queries = self.written = labels(tokens, ids)
        self.model.eval(remember=True)

    @property
    def seq2seq(self):
        return self.run.meta["kind"] in PAIRS

    @property
    def encoder(self):
        return self.run.meta["kind"] in ENCODERS

    def side(self, named):
        """The stack whose attention is drawn: the one named, or the only one."""
        if self.encoder and named == "decoder":
            raise ValueError(f"the model in {self.run.path!r} has no decoder; leave --side out")
        return named or ("encoder" if self.encoder else "decoder")

    def read_pair(self, arguments):
        source_tokens, target_tokens = self.run.tokenizers
        source = self.shorten(frame(source_tokens, arguments.text), "--text", self.run.settings["max_len"])
        if arguments.target is None:
            target = np.append(BOS, greedy_decode(self.model, source[None], BOS, EOS, self.limit - 1)[0])
        else:
            target = self.shorten(frame(target_tokens, arguments.target), "--target", self.run.settings["max_len"])
        self.inputs, self.targets = (source[None], target[None, :-1]), target[None, 1:]
        self.keys = labels(source_tokens, source, 3)
        self.queries, self.written = (labels(target_tokens, part, 3) for part in (target[:-1], target[1:]))

    def shorten(self, ids, option, context):
        if len(ids) > self.limit:
            why = "the model reads no more" if self.limit == context else "more could not be read in a picture"
            print(f"{option} has {len(ids)} tokens; the first {self.limit} are drawn, {why}", file=sys.stderr)
        return ids[:self.limit]

    def tape(self, backward=True):
        """Forward and backward, recorded; the loss is that of each next token, or of what an encoder itself answers, where
        there is a [MASK] to that alone.
        """
        if self.encoder:
            with record(self.model) as tape:
                logits = self.model(*self.inputs)
                if backward:
                    criterion = CrossEntropyLoss() if logits.ndim > 1 else BinaryCrossEntropyLoss()
                    criterion(logits, logits.argmax(-1) if logits.ndim > 1 else logits > 0)
                    self.model.backward(criterion.backward())
            return tape
        count = self.targets.shape[1]           # behind a language model's last token nothing is known
        if backward and not count:
            raise ValueError("a single token has no next one to learn from; give a longer --text")
        with record(self.model) as tape:
            logits, criterion = self.model(*self.inputs), CrossEntropyLoss()
            if backward:
                criterion(logits[:, :count], self.targets)
                dlogits = np.zeros_like(logits)
                dlogits[:, :count] = criterion.backward()
                self.model.backward(dlogits)
        return tape

    def softmaxes(self, tape, side, part, layer):
        """{layer: recorded softmax} of the attention weights in a stack; of one layer, if it is named."""
        found = dict(enumerate(call for call in tape.of(Softmax) if call.name.startswith(f"{side}.")
                               and call.name.endswith(f".{part}.attention.softmax")))
        if not found:
            raise ValueError(f"the model in {self.run.path!r} has no {part.replace('_', '-')} weights in "
                             f"{'an' if side == 'encoder' else 'a'} {side}; name another run or another --side")
        if layer not in (None, *found):
            raise ValueError(f"--layer {layer}: the {side} has blocks 0 to {len(found) - 1}; name one of them")
        return found if layer is None else {layer: found[layer]}


def labels(tokens, ids, specials=0):
    """What to write at the axes for each id, of which the first `specials` are PAD, BOS and EOS."""
    names = "_^$"[:specials]
    return [names[n] if n < specials else readable(tokens.decode(np.array([n - specials]))) for n in ids]


def readable(text):
    return text.replace(" ", "␣").replace("\n", "↵")


def draw_attention(views, arguments):
    reading = Reading(arguments)
    side = reading.side(arguments.side)
    calls = reading.softmaxes(reading.tape(backward=False), side, "attention", arguments.layer)
    tokens = reading.keys if side == "encoder" else reading.queries
    return heads(views, calls, tokens, tokens, f"Self-attention of the {side}")


def draw_cross_attention(views, arguments):
    reading = Reading(arguments, *PAIRS)
    calls = reading.softmaxes(reading.tape(backward=False), "decoder", "cross_attention", arguments.layer)
    return heads(views, calls, reading.written, reading.keys, "Cross-attention: each token written (rows) and where it "
                                                              "looks in the source (columns)")


def heads(views, calls, queries, keys, title):
    names = [f"block {block}, head {head}" for block, call in calls.items() for head in range(call.output.shape[1])]
    weights = np.concatenate([call.output[0] for call in calls.values()])
    return views.attention_heads(weights, queries, keys, title, names)


def draw_backward(views, arguments):
    reading = Reading(arguments)
    side = reading.side(arguments.side)
    calls = reading.softmaxes(reading.tape(), side, "attention", arguments.layer)
    layer = max(calls)
    tokens = reading.keys if side == "encoder" else reading.queries
    of = "; the loss is that of its own answer" if reading.encoder else ""
    return views.attention_backward(calls[layer], tokens, tokens, f"Block {layer} of the {side}{of}")


def draw_gradients(views, arguments):
    return views.gradient_norms(views.block_gradient_norms(Reading(arguments).tape()))


def draw_xray(views, arguments):
    if arguments.file is None:
        if arguments.text is not None or arguments.target is not None:
            raise ValueError("--text needs a model that reads it: name one with --run RUN.npz")
        return views.xray(small_stacks())
    reading = Reading(arguments)
    tape, model = reading.tape(backward=False), reading.model
    if not reading.seq2seq:
        stack = "encoder" if reading.encoder else "decoder"
        ray = influence(getattr(model, stack), *tape[stack].inputs)
        return views.xray({stack: ray}, reading.queries, reading.keys)
    encoder, decoder = tape["encoder"].inputs, tape["decoder"].inputs
    rays = {"encoder": influence(model.encoder, *encoder), "decoder": influence(model.decoder, *decoder),
            "cross-attention": influence(model.decoder, *decoder, argument=1)}
    source, target = reading.keys, reading.queries
    outputs, inputs = (source, target, reading.written), (source, target, source)
    return views.xray(rays, dict(zip(rays, outputs)), dict(zip(rays, inputs)))


def draw_architecture(views, arguments):
    if arguments.file is None:
        return views.architecture(MODELS[arguments.model or "encoder-decoder"]())
    if arguments.model is not None:
        raise ValueError("--run and --model name two models; leave one of them out")
    return views.architecture(load_run(arguments.file).model)


def draw_history(views, arguments):
    run = load_run(arguments.file)
    rows = read_history(run.arrays)
    if not rows:
        raise ValueError(f"{arguments.file!r} was saved before its first step; train it first")
    smoothing = run.settings["label_smoothing"]
    return views.run_history(rows, Path(arguments.file).name,
                             "training" + f" (label smoothing {smoothing:g})" * (smoothing > 0))
