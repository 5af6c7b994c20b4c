"""Exercises in a notebook or a script: `nt.exercise.check("05.2", attention_backward)` checks a function as it is."""

from dataclasses import replace
from typing import Any

from ..texts import Message
from ..texts.width import wrap
from .checker.cell_source import file_of, localize_in_cell
from .checker.diagnosis import AnswerKey
from .checker.feedback import WIDTH
from .checker.in_process import run_in_this_process
from .checker.messages import about_parameters
from .checker.notebook_result import NotebookResult
from .checker.verdict import judge
from .exercises import choose_for, choose_one
from .lessons.words import lesson_words

__all__ = ["check", "hint", "sheet"]

shown_hints = {}                                # {number: hints shown in this session}
named = {}                                      # {number: known mistakes that the latest check named}


def check(number: str | int | float, answer: Any, seed: int = 0) -> NotebookResult:
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
    kind, call = "class" if exercise.is_class else "function", f'check("{exercise.number}", {exercise.name})'
    if not callable(answer):
        raise TypeError(lesson_words("exercise.not_callable", what=Message(f"lessons.exercise.{kind}"), call=call,
                                     got=type_with_article(answer)))
    if exercise.is_class and not isinstance(answer, type):
        raise TypeError(lesson_words("exercise.no_class", number=exercise.number, call=call, got=type_with_article(answer)))
    answer_key = AnswerKey(exercise, seed)
    file = file_of(answer)
    run = run_in_this_process(answer, exercise, answer_key.cases, file)
    verdict = localize_in_cell(answer_key, judge(answer_key, run), run, answer, file)
    if verdict.stage == "arguments":            # there is no file to reset
        sheet = Message("lessons.exercise.sheet", call=f'nt.exercise.sheet("{exercise.number}")')
        verdict = replace(verdict, note=Message("verdict.loading.arguments_here", sheet=sheet,
                                                parameters=about_parameters(exercise, run.report)))
    if named.get(exercise.number) != verdict.mistakes:
        verdict = verdict.without_remedies()    # they are told if the same mistake is found again
    named[exercise.number] = verdict.mistakes
    result = NotebookResult(answer_key, run, verdict, answer)
    result.show()
    return result


def hint(number: str | int | float) -> None:
    """Prints the hints of an exercise: at the first call one, and one more at each further call."""
    exercise = choose_one(str(number))
    count = shown_hints[exercise.number] = min(3, shown_hints.get(exercise.number, 0) + 1)
    for i, text in enumerate(exercise.hints[:count], 1):
        print("\n".join(wrap(text, WIDTH, f"{i}. ", "   ")))
    if count < len(exercise.hints):
        print(lesson_words("exercise.next_hint"))


def sheet(number: str | int | float) -> None:
    """Prints the task of an exercise: the file that `numpy-transformer exercise start` would write."""
    print(choose_one(str(number)).skeleton())


def type_with_article(value: Any) -> str:
    """Returns the name of a value's class with its article, for a sentence."""
    name = type(value).__name__
    return lesson_words("exercise.an" if name[0].lower() in "aeiou" else "exercise.a", name=name)
