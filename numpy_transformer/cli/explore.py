"""numpy-transformer explore: one training step in the browser, forward and backward, down to every number."""

from ..models.current_models import DECODERS
from ..training.progress import Progress
from .parser import add_command, whole_number
from .terminal import wrap

MODELS = ("decoder", "encoder", "encoder-decoder", "classifier")
UNUSED = {"lesson": ("file", "model", "text", "target", "compare"), "run": ("model", "random", "seed"), "out": ("port", "no_browser")}


def add_to_parser(commands):
    parser = add_command(
        commands, "explore", run, help="walk through a training step in the browser, forward and backward",
        description="Opens a page that shows one training step of a model: every array, its gradient, and how each of "
                    "their numbers is computed. The page comes from a server on this machine, which recomputes what you "
                    "change there. Without --run, a tiny model is trained first, which takes a few seconds, or up to a minute "
                    "for an architecture with experts.")
    parser.add_argument("--run", dest="file", metavar="RUN.npz", help="explore a model that `train` has saved")
    parser.add_argument("--text", metavar="TEXT", help="the text that the model reads (default: an example)")
    parser.add_argument("--target", metavar="TEXT",
                        help="what the model should answer: the next tokens, the translation, the class, the tags or the "
                             "masked words (default: the right answer if it is known, otherwise the model's own)")
    parser.add_argument("--model", choices=(*MODELS, *DECODERS), metavar="KIND",
                        help=f"kind of the tiny model: {', '.join(MODELS[:-1])} or {MODELS[-1]}; or a decoder with the "
                             f"architecture of a current model: {', '.join(DECODERS)} (default: decoder)")
    parser.add_argument("--lesson", metavar="NN", help="open the page at the place that this lesson speaks of")
    parser.add_argument("--compare", metavar="WHAT",
                        help="show two steps side by side, the model's own and another one: norm (the norms before or after the "
                             "sublayers), head (without one), step (after a step of SGD), bug (with a mistake in backward), the name "
                             "of any bug of the zoo, or another KIND")
    parser.add_argument("--random", action="store_true", help="leave the tiny model untrained")
    parser.add_argument("--seed", type=whole_number(0), metavar="N",
                        help="seed of the tiny model's weights and training (default: 1)")
    parser.add_argument("--out", metavar="PAGE.html",
                        help="save the page as one file that works offline, with everything but recomputation")
    parser.add_argument("--port", type=whole_number(0, 65535), metavar="N", help="port of the server (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address of the page and do not open it")


def run(arguments):
    from ..explorer.comparisons import address_of, find_comparison  # not needed by other commands
    from ..explorer.explorer import Explorer, check_page
    from ..explorer.lessons import find_place
    from ..explorer.session import Session

    check_unused(arguments)
    place = None
    if arguments.lesson is not None:
        place = find_place(arguments.lesson)
        arguments.model = place.model
    if arguments.out is not None:
        check_page(arguments.out)               # before the training
    session = Session(make_example(arguments))
    explorer = Explorer(session)
    start = ""
    if arguments.compare is not None:
        start = address_of(find_comparison(session, arguments.compare))
    if place is not None:
        start = place.address(session.document())
        print(wrap(place.sentence), flush=True)
    if arguments.out is None:
        explorer.serve(arguments.port or 0, browser=not arguments.no_browser, start=start)
    else:
        if session.provable:                    # a page without a server cannot compute finite differences
            with Progress(session.provable, "finite differences", "array") as progress:
                session.prove(progress)
        save(explorer, arguments.out, start)


def check_unused(arguments):
    """Raises ValueError for an option that this call would not use."""
    from ..explorer.wording import sentence

    for option, value in (("lesson", arguments.lesson), ("run", arguments.file), ("out", arguments.out)):
        for name in UNUSED[option]:
            given = getattr(arguments, name)
            if value is not None and given is not None and given is not False:
                shown = {"file": "run", "no_browser": "no-browser"}.get(name, name)
                reason = sentence(f"errors.command.{option if option == 'lesson' else name}")
                raise ValueError(sentence("errors.command.no_effect", option=f"--{shown}", other=f"--{option}", reason=reason))


def make_example(arguments):
    """Returns the Example with the chosen model, text and target, which can be read."""
    from ..explorer.runs import from_run
    from ..explorer.tiny_models import steps_of, tiny

    if arguments.file is not None:
        return from_run(arguments.file, arguments.text, arguments.target)
    kind, seed = arguments.model or "decoder", 1 if arguments.seed is None else arguments.seed
    untrained = tiny(kind, seed, train=False)
    untrained.read(arguments.text, arguments.target)        # a text that the model cannot read is reported at once
    example = untrained
    if not arguments.random:
        with Progress(steps_of(kind), untrained.title, "step") as progress:
            example = tiny(kind, seed, progress=progress)
    if arguments.text is not None:
        example.text, example.target = arguments.text, arguments.target
    elif arguments.target is not None:
        example.target = arguments.target
    return example


def save(explorer, out, start=""):
    """Saves the page and says what it lacks."""
    from ..explorer.wording import counted, sentence

    path = explorer.save(out, start)
    print(sentence("step.browser.saved", path=str(path), megabytes=path.stat().st_size / 1e6))
    worst = explorer.worst()
    if worst is not None:
        print(wrap(sentence("step.proof.failed", **worst)))
    missing = [ref for ref, array in explorer.document["arrays"].items() if "data" not in array and "same" not in array]
    if missing:
        print(wrap(sentence("step.browser.left_out", arrays=counted("array", len(missing)), first=missing[0])))
