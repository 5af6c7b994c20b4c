"""The checker: compares an answer with the exercise's solution, and tells the student what is wrong and where.

verdict.py                judges what a submission returned, one check after another; a verdict is made of messages
comparison.py             compares arrays and what two programs did, and says where an output is wrong and by how much
diagnosis.py              names the known mistakes that give the same results in every case
relations/                how a wrong answer that no known mistake explains is related to the correct one
localize.py               where the mistake is in a student's own text: one edit there makes everything right
put_right.py              the same, by the values on the way to the result (intermediates.py): one put right is enough
messages.py, feedback.py  what is said of errors, types and mistakes; the lines that a student reads, in any language
in_process.py, cell_source.py, notebook_result.py   check a function of a notebook or script, without a sandbox
own_component.py          compares a class of one's own with a component of the package (components.py: which)

No English sentence stands here: texts/en has verdict.ini, comparison.ini, relations.ini and places.ini.
"""
