"""numpy-transformer zoo: the published mistakes, and what finds each."""

import itertools
import textwrap

import numpy as np

from ..training.progress import Progress
from .parser import add_command, whole_number

WIDTH = 118


def add(commands):
    parser = add_command(
        commands, "zoo", run, help="list published mistakes, or show one: its code, what finds it, what it does",
        description="Without a name: all bugs of the zoo, and how many checks go red. With one: the wrong lines, the "
                    "checks that go red and those that stay green, and two small models that are trained side by "
                    "side, one without the bug and one with it; a picture shows both losses.")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a bug, such as residual-plus-one (default: list them)")
    parser.add_argument("--out", metavar="FILE", help="where the picture goes (default: zoo_NAME.png)")
    parser.add_argument("--steps", type=whole_number(1), default=250, metavar="N", help="training steps of each model")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="of the weights and the texts")
    parser.add_argument("--no-train", action="store_true", help="do not train, and draw nothing")


def run(arguments):
    from .. import zoo                          # only this command waits for it
    if arguments.name is None:
        return print_list(zoo.bugs())
    bug = zoo.find(arguments.name)
    if not arguments.no_train:
        from .. import views                    # matplotlib is slow to import
        path = views.check_file(arguments.out or f"zoo_{bug.name}.png")
    describe(bug)
    print_verdicts(zoo.verdicts(bug.name))
    if not arguments.no_train:
        right, wrong = train(zoo.race(bug.name, arguments.steps, arguments.seed), arguments.steps)
        picture = views.bug_curves(right, wrong, f"{bug.name}\n{bug.title}")
        print(f"\nDrawn to {views.write(picture, path)}")


def print_list(bugs):
    width = max(len(bug.name) for bug in bugs)
    print(f"public  {'name':<{width}}  gradient  red  symptom")
    for topic, group in itertools.groupby(bugs, lambda bug: bug.topic):
        print(f"\n{topic}")
        for bug in group:
            gradient = "red" if "gradient check" in bug.caught_by else "green"
            start = f"{'yes' if bug.seen else '':<6}  {bug.name:<{width}}  {gradient:<8}  {len(bug.caught_by):>3}  "
            print(textwrap.fill(bug.symptom, WIDTH, initial_indent=start, subsequent_indent=" " * len(start)))
    print(f"\n{len(bugs)} bugs; public: whether published code had it; gradient: what the gradient check says; red: how "
          "many\nchecks find it. numpy-transformer zoo NAME shows one.")


def describe(bug):
    print(f"{bug.name}: {bug.title}.")
    for label, text in (("Seen in", bug.seen or "no published code that is known here"),
                        ("One sees", bug.symptom), ("Training", bug.training)):
        print(textwrap.fill(f"{label + ':':<10}{text}.", WIDTH, subsequent_indent=" " * 10))
    print("\n" + textwrap.indent(bug.code.rstrip(), "    "))


def print_verdicts(verdicts):
    red = {check: failure for check, failure in verdicts.items() if failure}
    print(f"\nRed, {len(red)} of {len(verdicts)} checks:")
    for check, failure in red.items():
        print(textwrap.fill(f"  {check}: {failure}", WIDTH, subsequent_indent="    "))
    green = [check for check in verdicts if check not in red]
    print(textwrap.fill(f"Green: {'; '.join(green) or 'none'}", WIDTH, subsequent_indent="  "))


def train(race, steps):
    """The losses of the right model and of the wrong one, and in two lines how they ended."""
    losses = []
    with Progress(steps, "training", "step") as progress:
        for right, wrong in race:
            losses.append((right, wrong))
            progress.advance(f"right {right:.2f}  wrong {wrong:.2f}")
    right, wrong = np.array(losses).T
    last = max(1, steps // 6)
    broken = np.flatnonzero(~np.isfinite(wrong))
    end = f"not a number at step {broken[0] + 1}" if len(broken) else f"{wrong[-last:].mean():.2f}"
    print(f"\nLoss from {right[0]:.2f}; at the end (mean of {last}) without the bug {right[-last:].mean():.2f}, "
          f"with it {end}")
    return right, wrong
