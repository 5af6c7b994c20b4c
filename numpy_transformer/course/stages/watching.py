"""Finds what a layer loses between a forward and the matching backward. A few lines more in module.py show it.

With WATCH, what is recalled is compared with copies of what was remembered; an error with MARK and the name of the class tells
that an entry has changed. With KEEP, each backward finds the attributes that the matching forward has left: if the answer is
right then, it keeps values in attributes, which the next use of the layer replaces.
"""

import re

from ...texts import Message, listed
from ..checker.messages import DIAGNOSIS, reported
from ..checker.verdict import judge
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
KEEP = '''


def _keeping(forward, backward):
    def kept(layer):
        return {{name: value for name, value in vars(layer).items() if name not in ("_saved", "_uses")}}

    def going_forward(self, *inputs, **options):
        y = forward(self, *inputs, **options)
        self.__dict__.setdefault("_uses", []).append(kept(self))
        return y

    def going_back(self, *gradients, **options):
        if self.__dict__.get("_uses"):
            vars(self).update(self._uses.pop())
        return backward(self, *gradients, **options)

    return going_forward, going_back


def _of_each_use(cls, **options):
    if cls.__name__ in {names} and {{"forward", "backward"}} <= vars(cls).keys():
        cls.forward, cls.backward = _keeping(cls.forward, cls.backward)


Module.__init_subclass__ = classmethod(_of_each_use)
'''
CLASS = re.compile(rb"^class (\w+)", re.M)


def lost_in_between(key, program, execute, file):
    """Returns a Message about what a wrong answer loses between forward and backward, or None.

    Parameters:
        key : AnswerKey of the part
        program : {name: bytes}
        execute : function (files, task) that returns a ProgramRun
        file : name of the stage's file
    """
    said = changed_in_between(key, program, execute, file) or kept_in_attributes(key, program, execute, file)
    return said and Message(DIAGNOSIS, said=said)


def with_law(program, more):
    """Returns the program with some lines more in module.py."""
    name = f"{LAW}.py"
    return {**program, name: program[name] + more.encode()}


def kept_in_attributes(key, program, execute, file):
    """Returns a Message about the class that is right if each use has attributes of its own, or None."""
    def is_right_with(names):
        run = execute(with_law(program, KEEP.format(names=names)), ProgramTask(key.exercise, key.cases, file))
        return judge(key, run).status == "pass"

    names = [name.decode() for name in CLASS.findall(program[file])]
    if not names or not is_right_with(names):
        return None
    alone = [name for name in names if len(names) == 1 or is_right_with([name])]
    return Message("stages/words.kept.attributes", n=len(alone[:1] or names), names=listed(alone[:1] or names))


def changed_in_between(key, program, execute, file):
    """Returns a Message about remembered arrays of a wrong answer that were changed in place, or None."""
    run = execute(with_law(program, WATCH), ProgramTask(key.exercise, key.main_cases, file))
    for result in run.results:
        found = FOUND.search(reported(result.report, "error"))
        if found:
            return Message("stages/words.kept.changed", name=found[1])
    return None
