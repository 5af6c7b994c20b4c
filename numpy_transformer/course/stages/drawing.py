"""The drawing of the Transformer in letters: which of its boxes are the student's."""

from ...texts import texts_of
from ...texts.width import columns

BOX, INNER, OUTER = 26, 34, 42                  # columns of a box, and between the walls of the block and of the model
MARKS = {"passed": "#", "begun": "~", "changed": "~", "empty": " ", "missing": " "}


def drawing(states):
    """Returns the lines of the drawing, from the tokens below to the loss above.

    Parameters:
        states : {stage: state}, as of StageFolder.states
    """
    words = texts_of("stages/words")["drawing"]
    boxes = {stage.number: box(stage.number, words[str(stage.number)], MARKS[state]) for stage, state in states.items()}
    up = " " * 15 + "^"
    added, copied = f"{'(+)<':>17}{'-' * 14}+", f"{'+':>16}{'-' * 15}+"      # where a residual connection ends and begins
    block = walled([added, f"  {boxes[4]}  |", f"  {boxes[3]}  |", copied,
                    added, f"  {boxes[6]}  |", f"  {boxes[5]}  |", f"  {boxes[3]}  |", copied],
                   INNER, f"-{boxes[7]} {words['times']} ")
    model = walled([f"{up}  {words['logits']}", f"  {boxes[3]}", up, *(f"  {line}" for line in block), up,
                    f"{' ' * 12}{words['positions']}", f"  {boxes[2]}"], OUTER, f"-{boxes[8]}-")
    return [f"  {boxes[9]}  {boxes[10]}", up + "  " + " " * 14 + boxes[11], f"  {boxes[1]}  {boxes[12]}", up, *model,
            up, f"{' ' * 12}{words['tokens']}", "", words["legend"]]


def box(number, name, mark):
    """Returns a box such as [## 5 attention ######]."""
    label = f" {number} {name} "
    return f"[{mark * 2}{label}{mark * (BOX - 4 - columns(label))}]"


def walled(lines, inside, title):
    """Returns lines with walls around them, this many columns apart, and a title in the upper one."""
    rows = [f"|{line}{' ' * (inside - columns(line))}|" for line in lines]
    return [f"+{title}{'-' * (inside - columns(title))}+", *rows, f"+{'-' * inside}+"]
