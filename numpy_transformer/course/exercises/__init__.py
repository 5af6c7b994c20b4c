"""The exercises. One file holds one topic: solutions, how their cases are drawn, and the known mistakes.

definition.py says what an exercise is, cases.py draws its cases, further_cases.py adds those with numbers of other
sizes and with other values, sheet.py writes the file that a student gets, and choosing.py finds an exercise by its
number. Then read a topic, such as softmax.py, beside its words in texts/en/exercises/softmax.ini. shared.py has what
several topics use, and observation.py runs a solution on a case.
"""

from .choosing import choose, choose_for, choose_one, choose_several, exercises, number_of

__all__ = ["choose", "choose_for", "choose_one", "choose_several", "exercises", "number_of"]
