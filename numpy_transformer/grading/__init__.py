"""Grades a class. The way of a class through this package:

gradable.py             what can be graded, by number: exercises, and stages of a Transformer of the student's own
arrival/                what Canvas, Moodle, Gradescope, GitHub or a folder deliver -> students with their files
grader.py, rows.py      runs the files in the sandbox (course/sandbox), judges them -> one row for each exercise
stages.py               judges the stages, each beside the reference's other stages
journal.py              keeps the rows of a run that may be interrupted
policy.py, lateness.py  which attempt counts, and what is deducted for lateness
shards.py               rows of an earlier run, and of other parts of the class
report.py               table, JSON, feedback, summary
gradebooks/             the files that Canvas, Moodle, Gradescope and GitHub read
anonymous.py            the mistakes of the class, for the lecture (anonymous_style.py: the look of that page)
files.py                opens all files that the grader reads and writes for itself (replaceable.py: which it may replace)
"""
