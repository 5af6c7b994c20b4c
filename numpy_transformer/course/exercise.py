"""Exercises in a notebook or a script: `nt.exercise.check("05.2", attention_backward)` checks a function as it is."""

import textwrap
from dataclasses import replace

from .checker.diagnosis import AnswerKey
from .checker.feedback import WIDTH
from .checker.in_process import run_here
from .checker.result import Checked
from .checker.source_file import file_of, localize_here
from .checker.verdict import judge
from .checker.wording import explain_parameters
from .exercises import choose_for, choose_one

__all__ = ["check", "hint", "sheet"]

shown_hints = {}                                # {number: hints shown in this session}


def check(number, answer, seed=0):
    """Checks a function or class as `numpy-transformer exercise check` checks a file; shows and returns the result.

    A script prints the text. A notebook also shows the arrays of the first wrong case, yours beside the expected ones.
    `result.passed` is True if everything is right.

    The answer runs here, in your own process, on copies of the arguments, and what it raises is part of the result.
    There is no time limit: interrupt a loop that never ends with Ctrl-C, or with the notebook's stop button. Running
    the text of its cell in a process of its own would be safer, but a function in a notebook may use imports, functions
    and values from other cells, and a lambda has no text of its own. The code is yours and so is the machine; a teacher
    who grades the code of others uses `numpy-transformer grade`. Only to find the line of a mistake without a name,
    small changes of the function's text are tried in another process, if the text can be run there.

    Parameters:
        number : such as "05.2"; everything that `numpy-transformer exercise hint` understands, and the number of a
            lesson, if the answer's name says which exercise is meant
        answer : the function or class; with a full number its name does not matter
        seed : int, the seed of the arrays in the cases
    Raises: ValueError if there is no such exercise, TypeError if the answer cannot be called
    """
    exercise = choose_for(str(number), getattr(answer, "__name__", ""))
    kind = "class" if exercise.is_class else "function"
    if not callable(answer):
        raise TypeError(f'check takes the {kind} itself, as in check("{exercise.number}", {exercise.name}), but got '
                        f"{describe(answer)}; leave out the parentheses after its name")
    if exercise.is_class and not isinstance(answer, type):
        raise TypeError(f"exercise {exercise.number} asks for a class, as in "
                        f'check("{exercise.number}", {exercise.name}), but got {describe(answer)}')
    answer_key = AnswerKey(exercise, seed)
    file = file_of(answer)
    run = run_here(answer, exercise, answer_key.cases, file)
    verdict = localize_here(answer_key, judge(answer_key, run), run, answer, file)
    if verdict.stage == "arguments":            # there is no file to reset
        verdict = replace(verdict, note=f"{explain_parameters(exercise, run.report)} The task is shown by "
                                        f'nt.exercise.sheet("{exercise.number}").')
    checked = Checked(answer_key, run, verdict, answer)
    checked.show()
    return checked


def hint(number):
    """Prints the hints of an exercise: at the first call one, and one more at each further call."""
    exercise = choose_one(str(number))
    count = shown_hints[exercise.number] = min(3, shown_hints.get(exercise.number, 0) + 1)
    for i, text in enumerate(exercise.hints[:count], 1):
        print(textwrap.fill(text, WIDTH, initial_indent=f"{i}. ", subsequent_indent="   ", break_on_hyphens=False))
    if count < len(exercise.hints):
        print("(Run the same line again for the next hint.)")


def sheet(number):
    """Prints the task of an exercise: the file that `numpy-transformer exercise start` would write."""
    print(choose_one(str(number)).skeleton())


def describe(value):
    article = "an" if type(value).__name__[0].lower() in "aeiou" else "a"
    return f"{article} {type(value).__name__}"
