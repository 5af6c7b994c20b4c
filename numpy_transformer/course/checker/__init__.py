"""The checker: compares an answer with the exercise's solution, and tells the student what is wrong and where.

verdict.py, comparison.py     judge what a submission returned, one check after another
diagnosis.py, explanation.py  name the known mistakes that give the same results in every case
relations/, localize.py       describe wrong answers that no known mistake explains
feedback.py, wording.py       the words of all of this
own_component.py              compares a class that somebody wrote with a component of the package
in_process.py, result.py      check a function of a notebook or script, without a sandbox
"""
