"""Functions that the lessons call: they show arrays, check claims, ask for predictions and save figures."""

import contextlib
import os
import re

import numpy as np

from . import environment
from .words import lesson_words
from .wrapping import terminal_width, wrapped

FRACTION = re.compile(r"(-?\d+(?:\.\d+)?) ?(?:/ ?([1-9]\d*)|%)")
POWER = re.compile(r"(?<![\d.])(\d{1,9}) *(?:\*\*|\^) *(\d\d?)(?![\d.])")

# Set while a lesson is stepped through:
ask = None                                      # asks a question in the terminal
drawn = None                                    # takes the path of a figure that was drawn
translation = None                              # Translation of the lesson
silent = False                                  # True while cells are run again without their output: no figures are drawn


def show(**arrays):
    """Prints the name, shape, dtype and range of each array, and its values if there are at most 30."""
    for name, array in arrays.items():
        array = np.asarray(array)
        line = f"  {name} {array.shape} {array.dtype}"
        if array.size > 1 and array.dtype.kind == "f":
            line += f"  {lesson_words('show.range', smallest=array.min(), mean=array.mean(), largest=array.max())}"
            if array.shape[-1] > 1 and np.allclose(array.sum(-1), 1, atol=1e-6):
                line += f"  {lesson_words('show.rows')}"
        print(wrapped(line))
        if array.size <= 30:
            text = np.array2string(array, min(75, terminal_width() - 5), precision=4, suppress_small=True)
            print("    " + text.replace("\n", "\n    "))


class BrokenClaim(AssertionError):
    """A claim of a lesson that does not hold."""


def translated(text):
    """Returns a text of the lesson in the chosen language, and what is no text as it is."""
    return text if translation is None or not isinstance(text, str) else translation.of(text)


def claim(text, condition, detail=""):
    """Checks a claim and prints it with a ✓.

    Parameters:
        text : the claim in words
        condition : bool or boolean array; all must be True
        detail : the numbers that support the claim
    Raises: AssertionError if the claim does not hold.
    """
    text, detail = translated(text), translated(detail)
    if not np.all(condition):
        raise BrokenClaim(lesson_words("claim.broken", text=text, detail=detail).rstrip())
    print(wrapped(f"  ✓ {text}   ({detail})" if detail else f"  ✓ {text}"))


def slopes(loss, x):
    """Returns the gradient of loss(x) with respect to x by the complex step (lesson 02), using only the function."""
    gradient = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        z = x.astype(complex)
        z[at] += 1e-100j
        gradient[at] = loss(z).imag / 1e-100
    return gradient


def predict(question, answer, why=""):
    """Asks a question and prints the answer. With --step and in a notebook, the reader answers first, as often as they like.

    Parameters:
        question : the question in words
        answer : a number, tuple or text
        why : one or two sentences that explain the answer, printed after a reader has answered
    """
    asking = ask_in_notebook if ask is None and environment.in_notebook() else ask
    question = translated(question)
    said = lesson_words(f"question.{answer}") if answer in ("yes", "no") else str(translated(answer))
    if asking is None:
        print(wrapped(f"  ? {question}  {said}"))
        return
    guess = answer_of_reader(asking, wrapped(f"  ? {question}") + "  ", answer)
    while guess and guess.strip() and not (agrees(guess, answer) or agrees(guess, said)):
        guess = answer_of_reader(asking, wrapped(f"    {lesson_words('question.again')}") + "  ", answer)
    if guess is None:                           # there is no reader
        print(wrapped(f"  ? {question}  {said}"))
    else:
        print(wrapped(f"    {lesson_words('question.correct' if guess.strip() else 'question.shown', answer=said)}"))
        if why:
            print(wrapped(f"    {translated(why)}"))


def answer_of_reader(asking, question, answer):
    """Returns what the reader answers: "" to see the answer, or None without a reader. Asks again for what fits."""
    guess = asking(question)
    while guess and guess.strip() and is_unfit(guess, answer):
        guess = asking(f"    {lesson_words('question.yes_or_no' if yes_or_no(answer) else 'question.number')}  ")
    return guess


def is_unfit(guess, answer):
    """Returns True for a guess that is no answer: neither yes nor no where one of them is wanted, or without a number."""
    if yes_or_no(answer):
        return not yes_or_no(guess)
    return is_numeric(answer) and not re.search(r"\d", words_as_numbers(guess))


def ask_in_notebook(question):
    """Returns the reader's answer, or None in a notebook that is executed without a reader, as by nbconvert."""
    with contextlib.suppress(EOFError, NotImplementedError):            # IPython raises a NotImplementedError
        return input(question)
    return None


def agrees(guess, answer):
    """Returns True if a guess means the answer. If the answer is numbers only, words around those of the guess do not count.

    A number with more decimals means the answer to which it rounds. 1/3 means 0.33, 50% means 0.5, and 2 ** 3 means 8.
    """
    if yes_or_no(answer):
        return yes_or_no(guess) == yes_or_no(answer)
    if not is_numeric(answer):
        return normalized(guess) == normalized(answer)
    return are_numbers(guess, answer) or are_numbers(words_as_numbers(guess), answer)


def are_numbers(guess, answer):
    """Returns True if the numbers in a guess are those of the answer. A single one may be repeated."""
    guess, wanted = in_digits(guess), normalized(answer)
    given = [part for part in normalized(guess) if isinstance(part, float)]
    if isinstance(answer, float) and FRACTION.search(guess):
        number, divisor = FRACTION.search(guess).groups()
        given = [float(number) / float(divisor or 100)]
    if isinstance(answer, float):
        decimals = len(str(answer).partition(".")[2])
        given = [round(number, decimals) for number in given]
    return given == wanted or len(wanted) == 1 and set(given) == set(wanted)


def is_numeric(answer):
    """Returns True for an answer that consists of numbers."""
    return all(isinstance(part, float) for part in normalized(answer))


def in_digits(guess):
    """Returns a guess with powers computed, such as 2 ** 3 or 2^3, and "2.5 million" as 2500000."""
    scales = {word: 1000 ** n for n, word in enumerate(lesson_words("question.scales").split(), 1)}
    guess = POWER.sub(lambda found: str(int(found[1]) ** int(found[2])), guess.lower())
    return re.sub(rf"(\d+(?:\.\d+)?) +({'|'.join(scales)})\b", lambda found: f"{float(found[1]) * scales[found[2]]:.0f}", guess)


def words_as_numbers(guess):
    """Returns a guess with words such as "two", "a half" and "minus three" as numbers."""
    guess = guess.lower()
    words = [(word, str(n)) for n, word in enumerate(lesson_words("question.numbers").split())]
    words += [(word, f"1/{n}") for n, word in enumerate(lesson_words("question.shares").split(), 2)]
    for word, number in words:
        guess = re.sub(rf"\b{word}\b", number, guess)
    return re.sub(rf"\b{lesson_words('question.minus')} +(?=\d)", "-", re.sub(r"\b1 +(?=1/)", "", guess))


def yes_or_no(text):
    """Returns "yes" or "no" for a text whose first word means it, such as "y" or "No."; None for others."""
    first = str((normalized(text) or [""])[0])
    meanings = {"y": "yes", "yes": "yes", "n": "no", "no": "no"}
    for meaning in ("yes", "no"):
        meanings.update(dict.fromkeys(lesson_words(f"question.{meaning}_words").lower().split(), meaning))
    return meanings.get(first)


def normalized(text):
    """Returns the words and numbers of an answer as a list, so that (2, 1, 8), "2 1 8.0" and "2, 1 and 8" are equal."""
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", str(text).lower())         # thousands separators
    parts = re.findall(r"-?(?:\d+\.?\d*|\.\d+)|[^\W\d_]+", text)
    return [float(part) if part[-1].isdecimal() or part[-1] == "." else part for part in parts if part != "and"]


def figure(name, picture):
    """Saves a picture as NN_name.png, where NN is the lesson's number, in the folder `environment.figure_folder()`."""
    if not silent:
        path = save_picture(name, picture)
        print(f"  {lesson_words('run.figure', path=os.path.relpath(path))}")
        present(path)


def drawing(name):
    """Saves the drawing with this name in both of its variants, NN_name.png for light pages and NN_name_dark.png for dark ones.

    Prints the drawing's text, which says in words what it shows, for readers who cannot see it.
    """
    from ...views.drawings import draw, text_of

    if not silent:
        save_picture(f"{name}_dark", draw(name, dark=True))
        light = save_picture(name, draw(name))
        print(wrapped(f"  {text_of(name)}"))
        print(f"  {lesson_words('run.figure', path=os.path.relpath(light))}")
        present(light)


def save_picture(name, picture):
    """Writes a picture of the running lesson. Returns its path."""
    from ...views import save

    number = environment.running_lesson()
    return save(picture, environment.figure_folder(), f"{number}_{name}" if number else name)


def present(path):
    """Displays a picture in a notebook, and tells the stepper about it."""
    if environment.in_notebook():
        with contextlib.suppress(ImportError):
            from IPython.display import Image, display
            display(Image(filename=str(path)))
    if drawn is not None:
        drawn(path)
