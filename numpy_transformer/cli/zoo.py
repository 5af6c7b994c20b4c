"""numpy-transformer zoo: published mistakes, and the checks that catch each of them."""

import itertools
import textwrap

import numpy as np

from ..training.progress import Progress
from .parser import add_command, whole_number
from .terminal import wrap


def add_to_parser(commands):
    parser = add_command(
        commands, "zoo", run, help="list published mistakes, or show one: its code, its effects and what catches it",
        description="Without a name, lists all bugs of the zoo and how many checks fail for each. With a name, shows "
                    "the wrong lines and the checks that fail and that pass, trains two small models side by side, one "
                    "with the bug and one without it, and draws both losses.")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a bug such as residual-plus-one (default: list all)")
    parser.add_argument("--out", metavar="FILE", help="where to save the figure (default: zoo_NAME.png)")
    parser.add_argument("--steps", type=whole_number(1), default=250, metavar="N", help="training steps of each model")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="seed of the weights and the texts")
    parser.add_argument("--no-train", action="store_true", help="do not train, and draw no figure")


def run(arguments):
    from .. import zoo  # imported here because only this command needs it
    if arguments.name is None:
        return print_list(zoo.bugs())
    bug = zoo.find(arguments.name)
    if not arguments.no_train:
        from .. import views  # imported here because matplotlib is slow to import
        path = views.check_file(arguments.out or f"zoo_{bug.name}.png")
    print_bug(bug)
    print_verdicts(zoo.verdicts(bug.name))
    if not arguments.no_train:
        right, wrong = train(zoo.race(bug.name, arguments.steps, arguments.seed), arguments.steps)
        picture = views.bug_curves(right, wrong, f"{bug.name}\n{bug.title}")
        print("\n" + wrap(f"Figure saved to {views.write_figure(picture, path)}"))


def print_list(bugs):
    width = max(len(bug.name) for bug in bugs)
    print(f"{'bug':<{width + 2}}  gradcheck  failing")
    for topic, group in itertools.groupby(bugs, lambda bug: bug.topic):
        print("\n" + wrap(topic))
        for bug in group:
            gradcheck = "fails" if "gradient check" in bug.caught_by else "passes"
            print(f"  {bug.name:<{width}}  {gradcheck:<9}  {len(bug.caught_by):>7}")
            print(wrap(bug.symptom, "      "))
            if bug.seen:
                print(wrap(f"Seen in {bug.seen}.", "      "))
    print("\n" + wrap(f"{len(bugs)} bugs. gradcheck: whether the gradient check notices the bug. failing: number of "
                      "checks that fail. Use numpy-transformer zoo NAME to see one."))


def print_bug(bug):
    print(wrap(f"{bug.name}: {bug.title}."))
    rows = (("Seen in:", bug.seen or "no published code that is known"), ("Symptom:", bug.symptom),
            ("Training:", bug.training))
    for label, text in rows:
        print(wrap(str(text), " " * 10, f"{label:<10}"))
    print("\n" + textwrap.indent(bug.code.rstrip(), "    "))


def print_verdicts(verdicts):
    failures = {check: failure for check, failure in verdicts.items() if failure}
    print(f"\n{len(failures)} of {len(verdicts)} checks fail:")
    for check, failure in failures.items():
        print(wrap(f"{check}: {failure}", "    ", "  "))
    passed = [check for check in verdicts if check not in failures]
    print(wrap(f"Passed: {'; '.join(passed) or 'none'}", "  ", ""))


def train(race, steps):
    """Returns the losses of the correct model and of the wrong one, and prints where they started and ended."""
    losses = []
    with Progress(steps, "training", "step") as progress:
        for right, wrong in race:
            losses.append((right, wrong))
            progress.advance(f"correct {right:.2f}  wrong {wrong:.2f}")
    right, wrong = np.array(losses).T
    last = max(1, steps // 6)
    broken = np.flatnonzero(~np.isfinite(wrong))
    end = f"NaN from step {broken[0] + 1} on" if len(broken) else f"{wrong[-last:].mean():.2f}"
    print("\n" + wrap(f"The loss starts at {right[0]:.2f}. Its mean over the last {last} steps is "
                      f"{right[-last:].mean():.2f} without the bug and {end} with it."))
    return right, wrong
