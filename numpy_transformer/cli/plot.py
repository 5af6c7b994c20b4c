"""numpy-transformer plot: draws one picture, with or without a trained run."""

import sys
from pathlib import Path

import numpy as np

from ..data import PAD, frame, frame_source, marks, read_prompt, token_name
from ..decoding import greedy_decode
from ..inspection import influence, record
from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss, Softmax
from ..tasks.encoder import ENCODERS
from ..tasks.runs import IMPORTED, PAIRS, TITLES, load_run, outline_run
from ..training.trainer_state import read_history
from .parser import add_command, whole_number
from .plot_examples import MODELS, draw_masks, draw_memory, draw_positions, draw_schedules, draw_steps, small_stacks

LONGEST = 32                                    # tokens that are still readable in a picture
MOST_HEADS = 48                                 # heads in a picture


def add(commands):
    plot = add_command(commands, "plot", run, help="draw one picture, with or without a trained run",
                       description="Draws one picture and writes it to a .png, .svg or .pdf file.")
    pictures = plot.add_subparsers(dest="picture", metavar="PICTURE", required=True)
    add_pictures_without_a_run(pictures)
    add_pictures_of_attention(pictures)
    xray = add_picture(pictures, "xray", draw_xray, "which inputs influence which outputs; without --run, small stacks "
                                                    "with correct and wrong masks")
    add_run(xray, required=False)
    add_text(xray, required=False)
    parts = add_picture(pictures, "architecture", draw_architecture, "the architecture of a model, drawn from its own "
                                                                     "modules")
    add_run(parts, required=False)
    parts.add_argument("--model", choices=tuple(MODELS), help="draw this model instead of a run (default: encoder-decoder)")
    gradients = add_picture(pictures, "gradients", draw_gradients, "the norm of the gradient at each block of a run")
    add_run(gradients)
    add_text(gradients)
    history = add_picture(pictures, "history", draw_history, "loss, learning rate and gradient norm at each step of a run")
    add_run(history)


def add_pictures_without_a_run(pictures):
    pe = add_picture(pictures, "pe", draw_positions, "the sinusoidal positional encoding as a heatmap or as waves")
    pe.add_argument("--positions", type=whole_number(1, 2000), default=50, metavar="T", help="number of positions")
    pe.add_argument("--width", type=whole_number(1, 2000), default=128, metavar="D", help="d_model")
    pe.add_argument("--transposed", action="store_true", help="one column per position, one row per dimension")
    pe.add_argument("--waves", action="store_true", help="draw single columns and rows as curves")
    mask = add_picture(pictures, "mask", draw_masks, "a causal mask, a padding mask, and both combined")
    mask.add_argument("--length", type=whole_number(2, 1000), default=6, metavar="T", help="number of tokens")
    mask.add_argument("--padding", type=whole_number(0), default=2, metavar="N", help="number of padding tokens among them")
    schedule = add_picture(pictures, "schedule", draw_schedules,
                           "learning rates with warm-up: the schedule of the 2017 paper, and a cosine schedule")
    schedule.add_argument("--steps", type=whole_number(2, 1_000_000), default=20000, metavar="N",
                          help="number of training steps")
    schedule.add_argument("--warmup", type=whole_number(1), default=4000, metavar="N", help="number of warm-up steps")
    schedule.add_argument("--width", type=whole_number(1), default=512, metavar="D", help="d_model")
    steps = add_picture(pictures, "steps", draw_steps,
                        "the error of finite differences and of the complex step, over the step size")
    steps.add_argument("--seed", type=whole_number(0), default=1, help="seed of the layer and of its input")
    memory = add_picture(pictures, "memory", draw_memory,
                         "the peak memory of plain and of tiled attention, over the sequence length")
    memory.add_argument("--width", type=whole_number(1, 1024), default=64, metavar="D", help="width of the head")


def add_pictures_of_attention(pictures):
    attention = add_picture(pictures, "attention", draw_attention, "the attention weights of a run, by block and head")
    cross = add_picture(pictures, "cross-attention", draw_cross_attention,
                        "the source tokens that each target token of an encoder-decoder attends to")
    backward = add_picture(pictures, "backward", draw_backward, "attention weights and their gradients, dL/dweights and dL/dscores")
    for parser, default in ((attention, "all"), (cross, "all"), (backward, "the last")):
        add_run(parser)
        add_text(parser)
        parser.add_argument("--block", "--layer", type=whole_number(0), metavar="N",
                            help=f"number of the block, counted from 0 (default: {default})")
    for parser in (attention, backward):
        parser.add_argument("--side", choices=("encoder", "decoder"),
                            help="side of an encoder-decoder (default: decoder); see `plot cross-attention` for its "
                                 "cross-attention")


def add_picture(pictures, name, draw, about):
    parser = add_command(pictures, name, run, help=about, description=f"Draws {about}.")
    parser.add_argument("--out", metavar="FILE", default=f"{name}.png", help="file that ends in .png, .svg or .pdf")
    parser.add_argument("--overwrite", action="store_true", help="replace the file in --out if it exists")
    parser.set_defaults(draw=draw)
    return parser


def add_run(parser, required=True):
    parser.add_argument("--run", dest="file", metavar="RUN.npz", required=required, help="file written by `train` or `import`")


def add_text(parser, required=True):
    parser.add_argument("--text", required=required,
                        help="input of a language model or encoder, or source of an encoder-decoder; ^ and $ mark the "
                             "begin and end tokens of a source in the picture")
    parser.add_argument("--target", help="target of an encoder-decoder (default: the model's own output)")


def run(arguments):
    from .. import views                        # matplotlib is slow to import

    path = views.check_file(arguments.out)      # before the picture is computed
    if path.exists() and not arguments.overwrite:
        raise ValueError(f"{str(path)!r} exists already; --overwrite replaces it, --out names another file")
    print(views.write(arguments.draw(views, arguments), path))


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
            self.keys = self.queries = self.predicted = [readable(token_name(tokens, token)) for token in ids]
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
        self.keys = self.queries = self.predicted = [readable(reader.name(token)) for token in ids]

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
        found = dict(enumerate(call for call in tape.of(Softmax) if call.name.startswith(f"{side}.")
                               and call.name.endswith(f".{part}.attention.softmax")))
        if not found:
            raise ValueError(f"the model in {self.run.path!r} has no {part.replace('_', '-')} weights in "
                             f"{'an' if side == 'encoder' else 'a'} {side}; choose another run or another --side")
        if block not in (None, *found):
            raise ValueError(f"--block {block}: the {side} has blocks 0 to {len(found) - 1}; choose one of them")
        return found if block is None else {block: found[block]}


def labels(tokens, ids):
    """The label of each id of a source or target in a picture: ^ and $ for begin and end, _ for padding."""
    own = marks(tokens)
    special = {PAD: "_", own.begin: "^", own.end: "$"}
    return [special.get(int(n)) or readable(token_name(tokens, n - own.first)) for n in ids]


def readable(text):
    return text.replace(" ", "␣").replace("\n", "↵")


def draw_attention(views, arguments):
    example = RunExample(arguments)
    side = example.side(arguments.side)
    calls = limited(example.softmaxes(example.tape(backward=False), side, "attention", arguments.block))
    tokens = example.keys if side == "encoder" else example.queries
    return draw_heads(views, calls, tokens, tokens, f"Self-attention weights of the {side}")


def draw_cross_attention(views, arguments):
    example = RunExample(arguments, *PAIRS)
    calls = limited(example.softmaxes(example.tape(backward=False), "decoder", "cross_attention", arguments.block))
    return draw_heads(views, calls, example.predicted, example.keys,
                      "Cross-attention weights (rows: predicted tokens, columns: source tokens)",
                      query_label="predicted token")


def limited(calls):
    """The calls of all blocks if a picture can hold their heads, else that of the last block."""
    heads = sum(call.output.shape[1] for call in calls.values())
    if heads <= MOST_HEADS or len(calls) == 1:
        return calls
    last = max(calls)
    print(f"the {len(calls)} blocks have {heads} heads, but a picture shows at most {MOST_HEADS}; only block {last} is drawn, "
          "and --block chooses another", file=sys.stderr)
    return {last: calls[last]}


def draw_heads(views, calls, queries, keys, title, **more):
    names = [f"block {block}, head {head}" for block, call in calls.items() for head in range(call.output.shape[1])]
    weights = np.concatenate([call.output[0] for call in calls.values()])
    return views.attention_heads(weights, queries, keys, title, names, **more)


def draw_backward(views, arguments):
    example = RunExample(arguments)
    side = example.side(arguments.side)
    calls = example.softmaxes(example.tape(), side, "attention", arguments.block)
    block = max(calls)
    tokens = example.keys if side == "encoder" else example.queries
    title = f"Block {block} of the {side}: attention weights and their gradients"
    if example.encoder:
        title += "\n(loss: cross-entropy with the model's own prediction as target)"
    return views.attention_backward(calls[block], tokens, tokens, title)


def draw_gradients(views, arguments):
    return views.gradient_norms(views.block_gradient_norms(RunExample(arguments).tape()))


def draw_xray(views, arguments):
    if arguments.file is None:
        if arguments.text is not None or arguments.target is not None:
            raise ValueError("--text needs a model that reads it; give one with --run RUN.npz")
        return views.xray(small_stacks())
    example = RunExample(arguments)
    model = example.model
    tape = example.tape(backward=False)
    if not example.seq2seq:
        stack = "encoder" if example.encoder else "decoder"
        norms = influence(getattr(model, stack), *tape[stack].inputs)
        return views.xray({stack: norms}, example.queries, example.keys)
    encoder_inputs, decoder_inputs = tape["encoder"].inputs, tape["decoder"].inputs
    norms = {"encoder": influence(model.encoder, *encoder_inputs),
             "decoder": influence(model.decoder, *decoder_inputs),
             "cross-attention": influence(model.decoder, *decoder_inputs, argument=1)}
    source, target = example.keys, example.queries
    outputs = {"encoder": source, "decoder": target, "cross-attention": example.predicted}
    inputs = {"encoder": source, "decoder": target, "cross-attention": source}
    return views.xray(norms, outputs, inputs)


def draw_architecture(views, arguments):
    if arguments.file is None:
        return views.architecture(MODELS[arguments.model or "encoder-decoder"]())
    if arguments.model is not None:
        raise ValueError("--run and --model name two models; leave one of them out")
    return views.architecture(outline_run(arguments.file).model)


def draw_history(views, arguments):
    run = outline_run(arguments.file)
    if run.meta["config"] == IMPORTED:
        raise ValueError(f"{arguments.file!r} is an imported model, of whose training there is no history; name a run of "
                         "`train`")
    rows = read_history(run.arrays)
    if not rows:
        raise ValueError(f"{arguments.file!r} was saved before its first step; train it first")
    smoothing = run.settings["label_smoothing"]
    training = f"training (label smoothing {smoothing:g})" if smoothing else "training"
    return views.run_history(rows, Path(arguments.file).name, training)
