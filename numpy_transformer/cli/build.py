"""numpy-transformer build: a Transformer of one's own, file by file, checked inside the whole model."""

from pathlib import Path

from ..course.checker.feedback import WIDTH
from ..data.plurals import counted
from ..texts import width as text_width
from .exercise import folder_option
from .parser import CommandParser, Formatter, finite_number, whole_number
from .terminal import output_columns, wrap

LAST = 12                                       # the number of the last stage
STEPS = 1500                                    # of a training on stories


def add_to_parser(commands):
    parser = commands.add_parser(
        "build", formatter_class=Formatter, help="build a Transformer of your own, file by file",
        description="Write a Transformer in twelve stages, one file each, with nothing but NumPy. Each stage is checked inside "
                    "the whole model: your stages, and those of a reference program in place of the ones that are missing.")
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=CommandParser)

    action = add_action(actions, "start", start, "create a page and a file to complete for each stage", False)
    action.add_argument("folder", metavar="FOLDER", help="new or existing folder; existing files are not changed")
    action.add_argument("--upto", type=whole_number(1, LAST), default=LAST, metavar="N", help="the last stage")
    action.add_argument("--from", dest="exercises", metavar="FOLDER",
                        help="folder with exercises: those that you have passed are taken over into the new files")

    action = add_action(actions, "check", check, "check stages: values, gradients, and the whole model trained with them")
    action.add_argument("stages", metavar="STAGE", nargs="*",
                        help="numbers of stages, such as 5; all: every file in the folder; without numbers: the first stage "
                             "that is not passed")
    action.add_argument("--seed", type=whole_number(0), default=0, metavar="N", help="seed of the arrays in the cases")
    action.add_argument("--timeout", type=finite_number(0.1, 3600), default=10.0, metavar="SECONDS",
                        help="time limit for each run of your files")

    add_action(actions, "status", status, "draw the Transformer: which of its boxes are yours")

    action = add_action(actions, "hint", hint, "show the next of a stage's three hints")
    add_stage(action)
    action.add_argument("--all", action="store_true", help="show all three hints")

    action = add_action(actions, "solution", solution, "show the reference program's file of a stage that you have passed")
    add_stage(action)
    action.add_argument("--give-up", action="store_true", help="show it before the stage is passed")

    action = add_action(actions, "play", play, "train your program on small stories, and let it write")
    action.add_argument("--prompt", metavar="TEXT", help="how the text begins (default: Once upon a time, and with --weights, Hello, world!)")
    action.add_argument("--tokens", type=whole_number(1, 1000), metavar="N", help="number of new tokens (default: 100, and with --weights, 40)")
    action.add_argument("--temperature", type=finite_number(0, 100), metavar="T",
                        help="0 takes the most likely token each time (default: 0.7)")
    action.add_argument("--top-k", type=whole_number(1), metavar="K", help="draw from the K most likely tokens (default: 20)")
    action.add_argument("--dates", action="store_true",
                        help="train your encoder-decoder of stage 12 instead, and let it rewrite dates")
    action.add_argument("--weights", metavar="FOLDER", nargs="?", const="",
                        help="a folder with GPT-2's weights and tokenizer instead: your program continues the prompt, and the "
                             "library does the same beside it; without FOLDER, a tiny model with random weights")
    action.add_argument("--steps", type=whole_number(1, 100_000), default=STEPS, metavar="N", help="training steps")
    action.add_argument("--seed", type=whole_number(0), default=0, metavar="N", help="seed of the text, not of the training")

    action = add_action(actions, "report", report, "make a page of your Transformer that you can show around")
    action.add_argument("--out", type=Path, metavar="FILE", help="the page (default: report.html in your folder)")
    action.add_argument("--name", default="", metavar="NAME", help="whose Transformer it is, for the title")


def add_action(actions, name, run, text, folder_option=True):
    action = actions.add_parser(name, formatter_class=Formatter, help=text, description=f"{text[0].upper()}{text[1:]}.")
    action.set_defaults(run=run)
    if folder_option:
        action.add_argument("--folder", help="folder with your stages (default: the current folder, or mine inside it)")
    return action


def add_stage(action):
    action.add_argument("stage", metavar="STAGE", help="number of a stage, such as 5")


def start(arguments):
    from ..course.stages.folder import start_folder
    from ..course.stages.table import STAGES
    folder = Path(arguments.folder)
    if folder.is_file():
        raise ValueError(f"{folder} is a file; name a folder, new or existing")
    taken = {}
    if arguments.exercises is not None:
        from ..course.stages.taken_over import taken_from
        taken = taken_from(arguments.exercises, arguments.upto)
    written = start_folder(folder, arguments.upto, {stage: text for stage, (text, _) in taken.items()})
    count = 2 * arguments.upto + 1
    kept = count - len(written)
    print(wrap(f"{len(written)} files written to {folder}"
               + (f"; {kept} existed already and did not change" if kept else ": a page and a file for each stage, and module.py")))
    if arguments.exercises is not None and not taken:
        print(f"No exercise in {arguments.exercises} has passed that could be taken over.")
    for stage, (_, numbers) in taken.items():
        if stage.file in written:
            print(wrap(f"{stage.file} has your solution{'s' * (len(numbers) > 1)} of {', '.join(numbers)}", "  "))
    first = STAGES[1]
    print(wrap(f"Read {folder / first.page}, complete {folder / first.file}, and then run:"))
    print(f"  numpy-transformer build check 1{folder_option(arguments)}")
    return 0


def check(arguments):
    from ..course.stages.folder import StageFolder
    from ..course.stages.told import say
    book = StageFolder(arguments.folder)
    stages = chosen(arguments, book)
    if not stages:
        print_wrapped(all_passed(book))
        return 0
    passed = [check_one(book, stage, arguments, len(stages) > 1) for stage in stages]
    if len(passed) > 1:
        print(f"{sum(passed)} of {len(passed)} stages passed")
    if any(passed):
        following = book.next()
        print_wrapped(say("next.stage", page=following.page) if following else all_passed(book))
    return 0 if all(passed) else 1


def chosen(arguments, book):
    """Returns the stages that the arguments name; without any, the first one that is not passed, or [] if all are."""
    from ..course.stages.table import STAGES, stage_of
    if "all" in arguments.stages:
        return [stage for stage in STAGES.values() if book.path(stage).is_file()]
    return [*dict.fromkeys(map(stage_of, arguments.stages))] or [*filter(None, [book.next()])]


def all_passed(book):
    from ..course.stages.told import say
    return say("next.all", count=sum(state != "missing" for state in book.states().values()))


def print_wrapped(text):
    """Prints a line of feedback, as wide as the others."""
    print("\n".join(text_width.wrap(text, min(output_columns(), WIDTH), "  ", "    ")))


def check_one(book, stage, arguments, brief):
    """Checks a stage, saves the result and prints what there is to say. Returns True if it is passed.

    Parameters:
        brief : only the first line of a stage that is passed
    """
    from ..course.stages.progress import check_in
    from ..course.stages.told import result_lines, say
    result = check_in(book, stage, arguments.seed, arguments.timeout)
    command = f"numpy-transformer build hint {stage.number}{folder_option(arguments)}"
    lines = list(result_lines(result, book.states(), arguments.seed, min(output_columns(), WIDTH), command))
    print("\n".join(lines[:1] if brief and result.passed else lines), flush=True)
    if result.passed and book.entry(stage).get("status") != "pass":
        print_wrapped(say("next.unsaved", folder=str(book.folder)))
    return result.passed


def status(arguments):
    from ..course.stages.drawing import drawing
    from ..course.stages.folder import StageFolder
    from ..course.stages.told import say
    states = StageFolder(arguments.folder).states()
    print("\n".join([*drawing(states), ""]))
    for stage, state in states.items():
        print(f"{stage.number:>3}  {stage.title:<52} {stage.minutes:>3} min  {stage.points:>2} points  "
              f"{say(f'status.{state}')}".rstrip())
    passed = [stage for stage, state in states.items() if state == "passed"]
    print(f"{len(passed)} of {len(states)} stages passed, {sum(stage.points for stage in passed)} of "
          f"{sum(stage.points for stage in states)} points")
    return 0


def hint(arguments):
    from ..course.stages.folder import StageFolder
    from ..course.stages.table import stage_of
    stage = stage_of(arguments.stage)
    book = StageFolder(arguments.folder)
    count = 3 if arguments.all else min(3, book.hints(stage) + 1)
    if not arguments.all:
        book.save_progress(stage, hints=count)
        if book.hints(stage) != count:
            print(f"{book.folder} cannot be written to, so --all shows the other hints.")
    for i, text in enumerate(stage.hints[:count], 1):
        print(wrap(text, "   ", f"{i}. "))
    if count < 3:
        print("(For the next hint, run the same command again; --all shows all three.)")
    return 0


def solution(arguments):
    from ..course.stages.folder import StageFolder
    from ..course.stages.table import stage_of
    stage = stage_of(arguments.stage)
    if not arguments.give_up and StageFolder(arguments.folder).entry(stage).get("status") != "pass":
        raise ValueError(f"stage {stage.number} is not passed yet; try numpy-transformer build hint {stage.number}, or use "
                         "--give-up to see the solution anyway")
    print(stage.solution.rstrip())
    return 0


def play(arguments):
    from ..course.stages.folder import StageFolder
    from ..course.stages.running import running
    from ..course.stages.told import about_program
    refuse_unused(arguments)
    book = StageFolder(arguments.folder)
    files, mine = book.program()
    print(wrap(about_program(mine)))
    with running(files) as program:
        if arguments.weights is not None:
            return continue_prompt(arguments, program)
        if arguments.dates:
            return rewrite_dates(arguments, program, files, book.folder)
        return write_story(arguments, program, files, book.folder)


def refuse_unused(arguments):
    """Raises ValueError for options that what is asked for does not use."""
    given = {"--prompt": arguments.prompt, "--temperature": arguments.temperature, "--top-k": arguments.top_k,
             "--tokens": arguments.tokens}
    unused = {"--dates": list(given) if arguments.dates else [],
              "--weights": ["--temperature", "--top-k"] if arguments.weights is not None else []}
    if arguments.dates and arguments.weights is not None:
        raise ValueError("--dates and --weights are two different things to do; leave one of the two out")
    for option, names in unused.items():
        wrong = [name for name in names if given[name] is not None]
        if wrong:
            raise ValueError(f"{option} does not use {wrong[0]}; leave it out")


def trained_with_progress(arguments, program, files, folder, task):
    """Returns the Trained of a task, after a progress bar and a line about the training."""
    import time

    from ..course.stages.trained import trained
    from ..training.progress import Progress
    start = time.monotonic()
    with Progress(arguments.steps, "training", "step") as progress:
        result = trained(program, files, folder, task, arguments.steps,
                         lambda loss: progress.advance(f"loss {loss:.2f}"))
    first, last = result.losses[0], result.losses[-50:].mean() if len(result.losses) > 50 else result.losses[-1]
    kept = "kept from an earlier training" if result.again else f"trained in {time.monotonic() - start:.0f} s"
    mean = " (mean of the last 50 steps)" if len(result.losses) > 50 else ""
    print(wrap(f"Weights {kept}: {counted(len(result.losses), 'step')}, loss {first:.2f} at the beginning and {last:.2f} at "
               f"the end{mean}."))
    return result


def write_story(arguments, program, files, folder):
    import numpy as np

    from ..course.stages.corpus import stories
    from ..course.stages.told import say
    from ..course.stages.trained import LONGEST
    prompt = "Once upon a time" if arguments.prompt is None else arguments.prompt
    tokenizer = stories()[1]
    ids = tokenizer.encode(prompt).tolist()
    if ids[:1] == [0]:                          # a word inside a story begins with a space
        prompt = f" {prompt}"
        ids = tokenizer.encode(prompt).tolist()
    if not ids:
        raise ValueError("the prompt is empty; leave out --prompt, or give it a text")
    count = 100 if arguments.tokens is None else arguments.tokens
    if len(ids) + count > LONGEST:
        raise ValueError(f"the prompt has {len(ids)} tokens, and {count} more make {len(ids) + count}; this model takes up to "
                         f"{LONGEST}, so change --prompt or --tokens")
    result = trained_with_progress(arguments, program, files, folder, "stories")
    unknown = [piece.strip() for piece, number in zip(tokenizer.pattern.findall(prompt), ids) if number == 0]
    if unknown:
        print(wrap(say("next.unknown", words=", ".join(unknown))))
    temperature = 0.7 if arguments.temperature is None else arguments.temperature
    text = program.generate(result.model, ids, count, temperature, 20 if arguments.top_k is None else arguments.top_k,
                            np.random.default_rng(arguments.seed))
    print("\n" + wrap(tokenizer.decode(text).strip()))
    return 0


def rewrite_dates(arguments, program, files, folder):
    from ..course.stages.corpus import some_dates
    from ..course.stages.trained import rewritten
    result = trained_with_progress(arguments, program, files, folder, "dates")
    pairs = some_dates(5, arguments.seed)
    print()
    for source, target in pairs:
        written = rewritten(program, result, source)
        print(f"{source:<28} {written:<12} {'right' if written == target else f'wrong: {target}'}")
    return 0


def continue_prompt(arguments, program):
    from ..course.stages.published import continued, tiny_folder
    prompt = "Hello, world!" if arguments.prompt is None else arguments.prompt
    count = 40 if arguments.tokens is None else arguments.tokens
    if arguments.weights:
        found = continued(program, arguments.weights, prompt, count)
    else:
        with tiny_folder(arguments.seed) as folder:
            print("A tiny GPT-2 with random weights: its text has no meaning, but the library's must be the same.")
            found = continued(program, folder, prompt, count)
    print("\n" + wrap(found.text) + "\n")
    if found.agrees:
        print(f"The library continues with the same {count} tokens.")
        return 0
    print(wrap(f"The library continues with other tokens, from the new token {found.first_difference} on. Two tokens may be "
               "equally likely up to rounding. Otherwise your program differs in something that the cases do not show; try "
               "numpy-transformer build check all --seed 1."))
    return 1


def report(arguments):
    from ..course.stages import report as contents
    from ..course.stages.folder import StageFolder
    from ..course.stages.report_page import MARK, page
    from ..course.stages.running import running
    from ..course.stages.told import about_program
    from ..outputs import check_output, write_output
    from ..training.progress import Progress
    book = StageFolder(arguments.folder)
    out = check_output(arguments.out or book.folder / "report.html")
    if out.suffix != ".html" or out.exists() and MARK not in out.read_bytes()[:2000]:
        raise ValueError(f"{out} is not the name of a new page or of an earlier report; use a file name that ends in .html")
    begun = [stage for stage, state in book.states().items() if state not in ("missing", "empty")]
    with Progress(len(begun), "checking", "stage") as progress:
        results = contents.checked(book, 10.0, lambda stage: progress.advance(f"stage {stage.number}"))
    if not any(result.passed for result in results.values()):
        raise ValueError("no stage has passed yet, so there is nothing to show; run numpy-transformer build check")
    files, mine = book.program()
    print(wrap(about_program(mine)))
    shown = contents.Report(book.states(), results)
    with running(files) as program, Progress(STEPS, "training", "step") as progress:
        contents.describe_program(shown, program, files, mine, book.folder, STEPS,
                                  lambda loss: progress.advance(f"loss {loss:.2f}"))
    write_output(out, page(shown, arguments.name).encode())
    print(wrap(f"{out}: open it in a browser. It is one file and needs no network."))
    return 0
