"""numpy-transformer plot: draws one picture, with or without a trained run."""

import sys
from pathlib import Path

import numpy as np

from ..inspection import influence
from ..layers import SinkSoftmax
from ..models.current_models import PRESETS
from ..tasks.runs import IMPORTED, PAIRS, outline_run
from ..training.trainer_state import read_history
from .parser import add_command, whole_number
from .plot_examples import MODELS, draw_masks, draw_memory, draw_positions, draw_schedules, draw_steps, small_stacks
from .plotted_run import RunExample

MOST_HEADS = 48                                 # heads in a picture


def add_to_parser(commands):
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
    parts.add_argument("--preset", choices=tuple(PRESETS), metavar="NAME",
                       help=f"draw the architecture of a current model, at toy size: {', '.join(PRESETS)}")
    parts.add_argument("--model", choices=tuple(MODELS),
                       help="draw this model instead of a run (default: encoder-decoder, the model of the 2017 paper; "
                            "annotated is that of the annotated Transformer)")
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
    pe.add_argument("--dims", type=whole_numbers, metavar="I,J,...",
                    help="with --waves, the dimensions to draw over the positions, such as 0,2,4,8,16")
    pe.add_argument("--at", type=whole_numbers, metavar="T,U,...",
                    help="with --waves, the positions to draw over the dimensions, such as 0,10,50,99")
    mask = add_picture(pictures, "mask", draw_masks, "a causal mask, a padding mask, and both combined")
    mask.add_argument("--length", type=whole_number(2, 1000), default=6, metavar="T", help="number of tokens")
    mask.add_argument("--padding", type=whole_number(0), default=2, metavar="N", help="number of padding tokens among them")
    schedule = add_picture(pictures, "schedule", draw_schedules,
                           "learning rates with warm-up: the schedule of the 2017 paper, cosine, and WSD")
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


def whole_numbers(text):
    """An argparse type: whole numbers of at least 0, separated by commas."""
    return [whole_number(0)(part.strip()) for part in text.split(",")]


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
    from .. import views  # matplotlib is slow to import

    path = views.check_file(arguments.out)      # before the picture is computed
    if path.exists() and not arguments.overwrite:
        raise ValueError(f"{str(path)!r} exists already; --overwrite replaces it, --out names another file")
    print(views.write_figure(arguments.draw(views, arguments), path))


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
    print(f"the {len(calls)} blocks have {heads} heads, but a picture shows at most {MOST_HEADS}; only block {last} is "
          "drawn, and --block chooses another", file=sys.stderr)
    return {last: calls[last]}


def sink_note(calls):
    """A second line of a title, if the rows of weights add up to less than 1."""
    has_sinks = any(isinstance(call.module, SinkSoftmax) for call in calls.values())
    return "\n(a row adds up to less than 1: the sink of the head takes the rest)" if has_sinks else ""


def draw_heads(views, calls, queries, keys, title, **more):
    names = [f"block {block}, head {head}" for block, call in calls.items() for head in range(call.output.shape[1])]
    weights = np.concatenate([call.output[0] for call in calls.values()])
    return views.attention_heads(weights, queries, keys, title + sink_note(calls), names, **more)


def draw_backward(views, arguments):
    example = RunExample(arguments)
    side = example.side(arguments.side)
    calls = example.softmaxes(example.tape(), side, "attention", arguments.block)
    block = max(calls)
    tokens = example.keys if side == "encoder" else example.queries
    title = f"Block {block} of the {side}: attention weights and their gradients"
    if example.encoder:
        title += "\n(loss: cross-entropy with the model's own prediction as target)"
    title += sink_note(calls)
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
    named = {"--run": arguments.file, "--model": arguments.model, "--preset": arguments.preset}
    given = [option for option, value in named.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} name {len(given)} models; give only one of them")
    if arguments.file is not None:
        run = outline_run(arguments.file)
        family = run.settings.get("preset") or run.meta.get("origin", {}).get("family")
        title = f"{family}: {run.model.num_parameters():,} parameters" if family else None
        return views.architecture(run.model, title)
    if arguments.preset is not None:
        from ..pretrained import preset  # only presets and published models need it

        return views.architecture(preset(arguments.preset, rng=0), title=f"{arguments.preset}, at toy size")
    return views.architecture(MODELS[arguments.model or "encoder-decoder"]())


def draw_history(views, arguments):
    run = outline_run(arguments.file)
    if run.meta["config"] == IMPORTED:
        raise ValueError(f"{arguments.file!r} is an imported model, of whose training there is no history; name a run of "
                         "`train`")
    rows = read_history(run.arrays) if "history/step" in run.arrays else []
    if not rows:
        raise ValueError(f"{arguments.file!r} was saved before its first step, or without its trainer; train it first")
    smoothing = run.settings.get("label_smoothing")
    training = f"training (label smoothing {smoothing:g})" if smoothing else "training"
    return views.run_history(rows, Path(arguments.file).name, training)
