"""The reference program, and so a student's after the last stage: it needs NumPy alone, is short, and gives the library's losses."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
from helpers.stages import reference_program, write_program

import numpy_transformer
from numpy_transformer.course.stages import whole
from numpy_transformer.course.stages.drivers import filled, parameters_of
from numpy_transformer.course.stages.report import code_lines
from numpy_transformer.course.stages.running import running
from numpy_transformer.course.stages.table import STAGES
from numpy_transformer.course.stages.trained import trained

CONTENT = {name: text.encode() for name, text in reference_program().items()}


def test_it_imports_numpy_and_the_standard_library_and_only_earlier_stages():
    for name, text in reference_program().items():
        for node in ast.walk(ast.parse(text)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                [node.module] if isinstance(node, ast.ImportFrom) else [])
            for module in modules:
                top = module.split(".")[0]
                assert top in {"numpy", "module", *sys.stdlib_module_names} or f"{top}.py" < name, (name, module)


def test_it_has_some_400_lines():
    assert 380 <= sum(map(code_lines, CONTENT.values())) <= 460


def test_it_runs_where_the_package_is_not(tmp_path):
    """In a process without the package's folder in its path, the program trains and writes."""
    write_program(tmp_path)
    (tmp_path / "main.py").write_text("""
import sys
import numpy as np
from stage01_loss import CrossEntropyLoss
from stage08_model import LanguageModel
from stage09_training import AdamW, train
from stage10_sampling import generate
rng = np.random.default_rng(0)
model = LanguageModel(7, 9, 8, 2, 16, 2, rng)
ids = (np.arange(7)[:, None] + np.arange(9)) % 7
optimizer = AdamW(model.named_parameters().values())
losses = train(model, CrossEntropyLoss(), optimizer, [(ids[:, :-1], ids[:, 1:])] * 100, lambda n: 0.01)
print(losses[0] > 1.8, losses[-1] < 0.2, generate(model, [2, 3], 5, temperature=0))
assert not [name for name in sys.modules if name.startswith("numpy_transformer")]
""")
    process = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import main"],
                             capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "True True [2, 3, 4, 5, 6, 0, 1]\n"


def test_no_layer_of_the_package_is_called():
    """While the student's program trains and writes, no function of the package's Transformer runs."""
    root, called = Path(numpy_transformer.__file__).parent, set()

    def watch(frame, event, argument):
        file = Path(frame.f_code.co_filename)
        if event == "call" and root in file.parents:
            called.add(file.relative_to(root).parts[0])

    with running(CONTENT) as program:
        rng = np.random.default_rng(0)
        model = program.LanguageModel(11, 12, 8, 2, 16, 2, rng)
        batches = [(ids[:, :-1], ids[:, 1:]) for ids in rng.integers(0, 11, (3, 2, 9))]
        translator = program.EncoderDecoder(11, 12, 8, 2, 16, 1, rng)
        sys.setprofile(watch)
        try:
            program.train(model, program.CrossEntropyLoss(), program.AdamW(model.named_parameters().values()), batches,
                          lambda n: program.learning_rate(n, 8, 5))
            program.generate(model, [1, 2], 4, 0.8, 5, np.random.default_rng(0))
            program.beam_search(translator, np.array([3, 4]), 1, 2, 5)
        finally:
            sys.setprofile(None)
    assert called == set()


def test_its_losses_are_the_librarys():
    """Fifty steps in this process; test_checks.py compares them in the students' process."""
    _, case, expected = whole.experiment(1)
    arrays, num_heads, num_layers, inputs, targets, warmup, prompt, count = case.inputs
    (V, D), d_ff = arrays["embedding.weight"].shape, len(arrays["blocks.0.feed_forward.down.weight"])
    with running(CONTENT) as program:
        model = program.LanguageModel(V, len(arrays["positions"]), D, num_heads, d_ff, num_layers, np.random.default_rng(0))
        filled(model, {name: array.copy() for name, array in arrays.items()})
        optimizer = program.AdamW(parameters_of(model).values(), 1e-3, (0.9, 0.98), 1e-9, 0.01)
        losses = program.train(model, program.CrossEntropyLoss(), optimizer, list(zip(inputs, targets)),
                               lambda n: program.learning_rate(n, D, warmup))
    assert abs(np.array(losses) / expected.losses - 1).max() < 1e-10


def test_training_keeps_float32(tmp_path):
    with running(CONTENT) as program:
        result = trained(program, CONTENT, tmp_path, steps=3)
        assert all(parameter.data.dtype == np.float32 for parameter in parameters_of(result.model).values())
        assert program.cached_forward(result.model, np.array([1, 2]), program.KeyValueCache(2)).dtype == np.float32


def test_every_stage_has_a_name_for_each_function_that_is_written():
    for stage in STAGES.values():
        tree = ast.parse(stage.solution)
        defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        assert set(stage.names) <= defined
        assert stage.skeleton.count("raise NotImplementedError") == len(stage.write)
