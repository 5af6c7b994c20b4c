"""Finds numbers in prose that look like results of training."""

import ast
import math
import re

from numpy_transformer.course.lessons.cells import cells

COUNT = r"(?:one|two|three|four|five|six|seven|eight|nine|ten|\d+)"
RESULT = re.compile(rf"(?<![\w.,])\d+\.\d+(?!\.?\d)|\d+(?= ?%)|\b{COUNT} of (?:the |these )?{COUNT}\b|"
                    rf"\b{COUNT} (?:other )?seeds\b", re.IGNORECASE)
# Numbers that neither the code nor the output of a lesson holds: their value, or why they are true on every processor.
MEASURED = "the text says how it was measured, on several seeds or processors"
HELD = {
    "02b": {"0.001": 1 - 0.999, "0.00386": 0.001 / (1 - 0.999 ** 300), "0.04": 1 / 25, "0.08": 2 / 25, "0.16": 8 * 0.02,
            "2.1": "a section of a paper", "3.2": 0.1 / 0.001 ** 0.5, "7.68": 7.84 * 0.98},
    "03": {"1.1": "a section of a paper"},
    "04c": {"3.3": "a section of a paper"},
    "06": {"2.08": math.log(8), "0.26": math.log(8) / 8},
    "10": {"3.1": "a section of a paper"},
    "11": {"0.0001": "the note's learning rate",
           **dict.fromkeys("85.9 86.1 86.2 86.3 86.4 86.6 86.9 87.0 87.1".split(), MEASURED)},
    "14": {"15.6": 512 * 30522e-6, "2.3": 0.15 * 512 * 30522e-6},
    "14b": {"5.3": "a section of a paper"},
    "14c": {"1.10": math.log(3), "4.3": "a section of a paper", "one of the three": "no result"},
    "18": {"0.999": "Adam's β2", "0.001": 1 - 0.999},
    "19": {"0.03": 0.05 / math.sqrt(3), "0.05": "the range of Keras's initialization", "0.18": 32 ** -0.5, "0.2": 1 / 5,
           "0.92": 24 / 26},
    "25": {"two of eight": "how many experts are chosen"},
    "26": {"five seeds": MEASURED},
}
PLAIN = re.compile(r"\d+(?:\.\d+)?")


def trains(cell):
    """True for a cell whose code steps an optimizer or fits a model."""
    return cell.prose is None and any(isinstance(node, ast.Call) and getattr(node.func, "attr", None) in ("fit", "step")
                                      for node in ast.walk(ast.parse(cell.text)))


def results_in_lesson(source):
    """The numbers in a lesson's prose and comments that look like results and do not stand in its code.

    Only the prose from the text before the first cell that trains to the exercises counts.
    """
    found = cells(source)
    first = next((n for n, cell in enumerate(found) if trains(cell)), len(found) + 1)
    code = "\n".join(re.sub("#.*", "", cell.text) for cell in found if cell.prose is None)
    prose = "\n".join("\n".join(re.findall("#(.*)", cell.text)) if cell.prose is None else cell.prose
                      for cell in found[first - 1:])
    text = re.sub("(?m)^ {4,}numpy-transformer .*$", "", prose.split("## Exercises")[0])        # commands are no results
    text = re.sub(r"\s*\n\s*", " ", text)
    return set(RESULT.findall(text)) - set(PLAIN.findall(code))


def sections_without_source(page):
    """The titles of a page's sections that have a trained model's number, but do not say on which processor."""
    text = re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S)
    return [section.partition("\n")[0] for section in re.split(r"^## ", text, flags=re.M)[1:]
            if not re.search("processor|EPYC", section)
            and re.search(r"(?:accuracy|\bF1\b|exact match|\bloss\b)[^|]{0,60}?\d(?:\.\d| %)", section)]
