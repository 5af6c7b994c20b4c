"""What is checked in each stage: exercises of the course whose answers drivers make of the student's classes, and others.

The others compare a class with the package's component. Their known mistakes are edits of the reference program.

making.py                   makes a part of an exercise, or of a driver
layers.py, attention.py     stages 1 to 4; stages 5 to 7
models.py, training.py      stages 8 and 12; stage 9
sampling.py, gpt2.py        stage 10; stage 11
"""

import functools

from . import attention, gpt2, layers, models, sampling, training

STAGES = {1: layers.stage_1, 2: layers.stage_2, 3: layers.stage_3, 4: layers.stage_4, 5: attention.stage_5,
          6: attention.stage_6, 7: attention.stage_7, 8: models.stage_8, 9: training.stage_9, 10: sampling.stage_10,
          11: gpt2.stage_11, 12: models.stage_12}


@functools.cache
def parts_of(stage):
    """Returns the parts of a stage, in the order in which they are checked."""
    return STAGES[stage]()
