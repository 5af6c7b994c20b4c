"""Finds arrays that a layer remembers and that are changed before it recalls them.

The source WATCH is run after module.py. It compares what is recalled with copies of what was remembered, and raises an error
with MARK and the name of the class if an entry has changed.
"""

import re

from ...texts import Message
from ..checker.messages import DIAGNOSIS, reported
from ..sandbox import ProgramTask
from .table import LAW

MARK = "remembered arrays were changed in"
FOUND = re.compile(rf"{MARK} (\w+)$")
WATCH = f'''


def _watched(remember, recall):
    def arrays(values):
        return [value for value in values if isinstance(value, np.ndarray)]

    def remembering(self, *values):
        remember(self, *values)
        copies = self.__dict__.setdefault("_copies", {{}})
        copies[len(self._saved)] = [array.copy() for array in arrays(values)]

    def recalling(self):
        for array, copy in zip(arrays(self._saved[-1]), self._copies[len(self._saved)]):
            if array.tobytes() != copy.tobytes():
                raise RuntimeError(f"{MARK} {{type(self).__name__}}")
        return recall(self)

    return remembering, recalling


Module.remember, Module.recall = _watched(Module.remember, Module.recall)
'''


def changed_in_between(key, program, execute, file):
    """Returns a Message about remembered arrays of a wrong answer that were changed in place, or None.

    Parameters:
        key : AnswerKey of the part
        program : {name: bytes}
        execute : function (files, task) that returns a ProgramRun
        file : name of the stage's file
    """
    name = f"{LAW}.py"
    watched = {**program, name: program[name] + WATCH.encode()}
    run = execute(watched, ProgramTask(key.exercise, key.main_cases, file))
    for result in run.results:
        found = FOUND.search(reported(result.report, "error"))
        if found:
            return Message(DIAGNOSIS, said=Message("stages/words.kept.changed", name=found[1]))
    return None
