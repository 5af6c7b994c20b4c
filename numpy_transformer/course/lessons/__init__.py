"""Runs lessons: straight through, step by step, in an editor or as a notebook.

lesson.py, run.py, environment.py           the first call of every lesson; how it is run, and where
helpers.py, sources.py                      what lessons call: show, claim, predict, figure, drawing, show_source
files.py, cells.py, steps.py                the files, their cells, and running one after another
stepper.py, stepper_keys.py, revisiting.py  --step: keys, and cells in any order
variables.py, explore.py, viewer.py         keys that show variables, the explorer and figures
notebook.py, answers.py                     lessons as notebooks; answers to the closing questions
translation.py, lesson_texts.py             lessons in another language
words.py, wrapping.py, coloring.py          the runner's sentences; the width and the colors of the terminal
"""
