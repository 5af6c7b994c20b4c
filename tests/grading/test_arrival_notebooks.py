"""The code for an exercise out of a notebook: what defines its function, and what that needs."""

import pytest
from helpers.arrivals import notebook, numbers, read, right

from numpy_transformer.course.exercises import choose
from numpy_transformer.grading.arrival import notebooks

IMPORTS = "import math\nimport numpy as np\n"
SOFTMAX = "def softmax(z):\n    e = np.exp(z - z.max(axis=-1, keepdims=True))\n    return e / e.sum(axis=-1, keepdims=True)\n"


def of(folder, content, name="homework.ipynb"):
    return read(folder, {f"kim/{name}": content})[0]["kim"]


def outputs(source, number):
    """What the student's function gives for the first case, as Python would run this source."""
    names = {}
    exec(compile(source, "x", "exec"), names)
    return names[choose(number).name](*choose(number).cases(0)[0].inputs)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["homework.ipynb", "ex01_1.ipynb", "x.IPYNB", "ex01_1.py", "x.ipynb.txt", "x.txt"])
def test_the_cells_with_the_function_and_what_it_needs(version, name, tmp_path):
    content = notebook("%matplotlib inline\n!pip install torch\nimport torch", IMPORTS, "raise SystemExit  # a demo",
                       SOFTMAX, "print(softmax(np.zeros(3)))\nplot = torch.zeros(3)", "softmax?", version=version)
    student = of(tmp_path, content, name)
    (file,) = student.attempts["01.1"]
    assert file.name == "ex01_1_softmax.py" and file.where == f"kim/{name}"
    assert (outputs(file.content, "01.1") == outputs(right("01.1"), "01.1")).all()
    text = file.content.decode()
    assert not any(word in text for word in ("torch", "SystemExit", "print", "pip", "math"))
    assert student.remarks["01.1"] == ["magics and shell commands were left out"]


def test_helpers_constants_and_later_definitions_in_order(tmp_path):
    content = notebook("from math import *\nimport numpy as np, os\nfrom numpy import (exp as e,\n   sqrt)",
                       "def softmax(z):\n    return None", "EPS = scale(1)\nOTHER = boom()", "def scale(x): return x * UNIT",
                       "UNIT: float = 0\nif True:\n    def shifted(z):\n        return z - z.max(axis=-1, keepdims=True)\n",
                       "def softmax(z):\n    \"\"\"boom OTHER os\"\"\"\n    w = e(shifted(z)) + EPS\n    return w / w.sum(-1)[..., None]")
    source = of(tmp_path, content).attempts["01.1"][0].content.decode()
    assert "boom()" not in source and source.count("def softmax") == 2 and "import *" in source
    # Python needs UNIT before EPS; the notebook's own order is kept, as a run from top to bottom would have it.
    assert source.index("EPS =") < source.index("UNIT:")


def test_several_exercises_in_one_notebook(tmp_path):
    cells = [IMPORTS, choose("01.1").text, choose("01.2").text, choose("05.1").text, choose("05.2").text]
    student = of(tmp_path, notebook(*cells))
    assert list(student.attempts) == ["01.1", "01.2", "05.1", "05.2"]
    source = student.attempts["05.1"][0].content.decode()
    assert "def softmax(" in source and "def softmax_backward" not in source
    for number in student.attempts:
        found = outputs(student.attempts[number][0].content, number)
        assert str(found) == str(outputs(right(number), number))


def test_tagged_cells_are_taken_whole(tmp_path):
    content = notebook((IMPORTS, []), ("calls = []", ["01.1"]), ("calls.append(1)\n" + SOFTMAX, ["ex01_1", "other"]),
                       ("1/0", []), ("def attend(q): pass", ["attention"]))
    student = of(tmp_path, content)
    assert list(student.attempts) == ["01.1", "05.1"]
    source = student.attempts["01.1"][0].content.decode()
    assert "calls.append(1)" in source and "calls = []" in source and "1/0" not in source and "import numpy" in source
    assert "def attend" in student.attempts["05.1"][0].content.decode()


def test_a_notebook_named_after_an_exercise_without_its_function(tmp_path):
    student = of(tmp_path, notebook("def soft_max(z): pass"), "ex01_1.ipynb")
    assert "soft_max" in student.attempts["01.1"][0].content.decode()
    student = of(tmp_path / "2", notebook("x = 1"))
    assert not student.attempts and student.problems[0].where == "kim/homework.ipynb"


@pytest.mark.parametrize("source, expected", [
    ("%time x = 1\ny = 2", "pass\ny = 2"), ("files = !ls\nz = %pwd", "files = None\nz = None"),
    ("if x:\n    !ls\n    %cd ..", "if x:\n    pass\n    pass"), ("?np.exp\nnp.exp??\nhelp(x)", "pass\npass\nhelp(x)"),
    ("x = 7 % 3\ny = x != 2\nz = 'a?'", "x = 7 % 3\ny = x != 2\nz = 'a?'"), ('s = """\n%time\n!ls\n"""', None)])
def test_magics_are_replaced(source, expected):
    assert notebooks.without_magics(source) == (source if expected is None else expected)


@pytest.mark.parametrize("cell, kept", [("%%time\n" + SOFTMAX, True), ("%%capture out\n" + SOFTMAX, True),
                                        ("\n%%bash\n" + SOFTMAX, False), ("%%html\n" + SOFTMAX, False)])
def test_cell_magics(cell, kept, tmp_path):
    assert bool(of(tmp_path, notebook(IMPORTS, cell)).attempts) == kept


def test_files_that_a_notebook_writes(tmp_path):
    student = of(tmp_path, notebook("%%writefile ex01_1.py\n" + IMPORTS + SOFTMAX, "%%writefile helper.py\nx = 1\n", "import helper",
                                    "from helper import x\ndef softmax_backward(p, dp): return x"))
    assert numbers(student)["01.1"] == ["homework.ipynb"] and list(student.attempts) == ["01.1", "01.2"]
    assert student.files["helper.py"] == b"x = 1\n"


@pytest.mark.parametrize("content", [
    "[" * 100_000, '{"cells": ' + "[" * 100_000, '{"cells": 3}', '{"cells": [3]}', '{"cells": [{"cell_type": "code"}]}',
    '{"cells": [{"cell_type": "code", "source": 3}]}', '{"worksheets": 1}', '{"cells": [{"cell_type": "code", "source": [1]}]}',
    '{"cells": [{"cell_type": "code", "source": "x", "metadata": 1}]}', '{"cells": [], "x": 1e999999}', "\ufeff{}", "{}", "null",
    '{"cells": [{"cell_type": "code", "source": "x = 1", "metadata": {"tags": [1, null, "01.1"]}}]}',
    '{"cells": ' + "9" * 5000 + "}"])
def test_odd_notebooks_are_problems_and_no_errors(content, tmp_path):
    student = of(tmp_path, content)
    assert student.problems or student.attempts


def test_python_in_a_file_that_is_called_a_notebook(tmp_path):
    assert list(of(tmp_path, right("01.1")).attempts) == ["01.1"]


def test_a_long_chain_of_helpers_takes_no_time(tmp_path):
    cells = [f"def f{i}(x): return f{i - 1}(x)" for i in range(3000)] + ["def softmax(z): return f2999(z)"]
    assert of(tmp_path, notebook(*cells)).attempts["01.1"][0].content.count(b"def ") == 3001
