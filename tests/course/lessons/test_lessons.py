"""Every lesson runs without a terminal, keeps its claims, draws its figures; a planted mistake makes a claim fail."""

import re
from pathlib import Path

import pytest
from helpers import ROOT, pseudo_language
from helpers.lessons import run
from helpers.pictures import count_colors
from helpers.pseudo_language import in_plain_letters, plain_words
from helpers.results import HELD, PLAIN, results_in_lesson

from numpy_transformer.course.lessons.answers import closing_answers
from numpy_transformer.course.lessons.cells import cells
from numpy_transformer.course.lessons.files import lesson_number, lessons_in

LESSONS = list(lessons_in(ROOT / "lessons").values())
QUICK = "02"                                # the lesson of the default run; the slow run has them all
WIDE = re.compile("[Ａ-Ｚａ-ｚ]")
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
MISTAKES = {                                # at least two for each lesson, in the component it is about
    "00": ["nt.Softmax.forward = lambda self, x: (lambda y: (self.remember(y), y)[1])("
           "np.exp(x) / np.exp(x).sum(-2, keepdims=True))",
           "nt.CrossAttention.forward = lambda self, x, memory, mask=None, cache=None: "
           "nt.MultiHeadAttention.forward(self, x, x, x)",
           "encoder_decoder.causal_mask = lambda T, seen=0: np.ones((1, 1, T, seen + T), bool)"],
    "00b": ["nt.Linear.backward = lambda self, dy: 2 * dy @ self.weight.data.T if self.recall() is not None else 0",
            "nt.Module.recall = lambda self: (lambda v: v[0] if len(v) == 1 else v)(self._saved.pop(0))",
            "old = nt.Linear.backward\nnt.Linear.backward = lambda self, dy: (self.zero_grad(), old(self, dy))[1]"],
    "01": ["nt.Softmax.backward = lambda self, dy: dy * self.recall()",
           "fast.subtract_max = lambda x: x - x.max()",
           "nt.CrossEntropyLoss.backward = (lambda f: lambda self, dy=1.0: f(self, dy) * self.count)("
           "nt.CrossEntropyLoss.backward)"],
    "02": ["nt.Linear.backward = lambda self, dy: 2 * dy @ self.weight.data.T if self.recall() is not None else 0",
           "nt.Module.recall = lambda self: (lambda v: v[0] if len(v) == 1 else v)(self._saved.pop(0))"],
    "03": ["nt.Embedding.backward = lambda self, dy: self.weight.grad.__setitem__("
           "i := self.recall(), self.weight.grad[i] + self.factor * dy)",
           "nt.Embedding.backward = lambda self, dy: np.add.at(self.weight.grad, self.recall(), dy)",
           "nt.Unembedding.backward = lambda self, dy: dy @ self.weight.data if self.recall() is not None else 0",
           "nt.Module.recall = lambda self: (lambda v: v[0] if len(v) == 1 else v)(self._saved.pop(0))"],
    "04": ["positions.sinusoid = lambda n, d: np.sin(np.arange(n)[:, None] / 10000 ** (np.arange(d) / d))",
           "nt.SinusoidalPositionalEncoding.backward = lambda self, dy: 2 * self.dropout.backward(dy)"],
    "05": ["nt.Softmax.backward = lambda self, dy: dy * self.recall()",
           "attention.math = type('m', (), {'sqrt': staticmethod(lambda d: 1.0)})"],
    "06": ["nt.causal_mask = lambda T, offset=0: np.triu(np.ones((T, offset + T), bool))[None, None]",
           "nt.padding_mask = lambda ids, pad_id=0: np.atleast_2d(ids != pad_id)[:, None, :, None]",
           "attention.mask_scores = lambda scores, mask: np.multiply(scores, mask, out=scores)",
           "attention.mask_scores = lambda scores, mask: np.add(scores, np.where(mask, 0, -1e9), out=scores)"],
    "07": ["multi_head.split_heads = lambda x, H: x.reshape(*x.shape[:-2], H, x.shape[-2], -1)",
           "multi_head.merge_heads = lambda x: x.reshape(*x.shape[:-3], x.shape[-2], -1)",
           "nt.SelfAttention.backward = lambda self, dy: nt.MultiHeadAttention.backward(self, dy)[0]",
           "nt.CrossAttention.backward = lambda self, dy: nt.MultiHeadAttention.backward(self, dy)[:2]"],
    "09": ["nt.ReLU.backward = lambda self, dy: dy * ((dy > 0) & (self.recall() | True))",
           "nt.GELU.CUBIC = 0.44715",
           "both, other = nt.GELU.value_and_slope, nt.GELU('tanh')\n"
           "nt.GELU.value_and_slope = lambda self, x: (both(self, x)[0], both(other, x)[1])",
           "nt.SwiGLU.forward = lambda self, x: (lambda a, u: self.remember(a, u) or self.down(a * u))("
           "self.activation(self.up(x)), self.gate(x))"],
    "08": ["normalization.mean = lambda x: x[..., :1] * 0 + x.mean()",
           "nt.LayerNorm.backward = lambda self, dy: (lambda x_hat, s: self.gamma.data * s * ("
           "dy - dy.mean(-1, keepdims=True) - x_hat * (dy * x_hat).mean(-1, keepdims=True)))(*self.recall())",
           "nt.RMSNorm.backward = lambda self, dy: (lambda x_hat, s: dy * self.gamma.data * s)(*self.recall())",
           "old = nt.RMSNorm.forward\n"
           "nt.RMSNorm.forward = lambda self, x: old(self, x - x.mean(-1, keepdims=True))"],
    "10": ["nt.EncoderBlock.backward = lambda self, dx: self.norm1.backward(self.attention.backward("
           "self.norm2.backward(self.feed_forward.backward(self.dropout.backward(dx)))))",
           "old = nt.EncoderBlock.__init__\n"
           "nt.EncoderBlock.__init__ = lambda self, *a, **k: (old(self, *a, **k), "
           "setattr(self, 'pre_norm', not self.pre_norm))[0]",
           "old = nt.EncoderBlock.backward\nnt.EncoderBlock.backward = lambda self, dx: old(self, dx) + 1"],
    "11": ["nt.MaskedMean.forward = lambda self, x, token_mask=None: ("
           "self.remember(np.full(x.shape[:-1], 1 / x.shape[-2])), x.mean(-2))[1]",
           "nt.MaskedMean.backward = lambda self, dy: (self.recall() > 0)[..., None] * dy[..., None, :]",
           "nt.BinaryCrossEntropyLoss.forward = lambda self, z, t: (setattr(self, 'count', z.size), "
           "self.remember(z, np.asarray(t)), np.mean(np.log(1 + np.exp(z)) - t * z))[2]",
           "nt.BinaryCrossEntropyLoss.backward = (lambda f: lambda self, dy=1.0: f(self, dy) * self.count)("
           "nt.BinaryCrossEntropyLoss.backward)",
           "old = nt.SelfAttention.forward\n"
           "nt.SelfAttention.forward = lambda self, x, mask=None, *more: old("
           "self, x, nt.combine_masks(nt.causal_mask(x.shape[-2]), mask), *more)",
           "old = nt.TextEncoder.forward\n"
           "nt.TextEncoder.forward = lambda self, ids, mask=None, segments=None: old("
           "self, ids, np.ones(np.shape(ids), bool), segments)"],
    "12": ["decoder.causal_mask = lambda T, offset=0: np.ones((1, 1, T, offset + T), bool)",
           "nt.Embedding.backward = lambda self, dy: self.weight.grad.__setitem__(self.recall(), dy)",
           "nt.Unembedding.backward = lambda self, dy: (self.recall(), dy @ self.weight.data)[1]",
           "nt.LearnedPositionalEmbedding.backward = lambda self, dy: ("
           "self.weight.grad.__iadd__(dy.mean(0)), self.recall(), dy)[2]"],
    "13": ["nt.Linear.recall = lambda self: self._saved.pop(0)[0]",
           "nt.CrossAttention.backward = lambda self, dy: nt.MultiHeadAttention.backward(self, dy)[:2]",
           "nt.EncoderDecoder.padding = lambda self, ids, mask=None: None",
           "nt.NoamSchedule.rate = lambda self, n: self.scale * n ** -0.5"],
    "14": ["nt.Block.forward = (lambda f: lambda self, x, mask=None: f(self, x, nt.causal_mask(x.shape[-2])))("
           "nt.Block.forward)",
           "from numpy_transformer import data\nold = data.corrupt\n"
           "data.corrupt = lambda ids, *rest: (lambda c, *others: (np.where(c != ids, 3, c), *others))("
           "*old(ids, *rest))",
           "nt.TextEncoder.token_mask = lambda self, ids, mask=None: None",
           "old = nt.MaskedLanguageModel.forward\nnt.MaskedLanguageModel.forward = lambda self, ids, mask=None, "
           "segments=None, positions=None: old(self, ids, mask, None, positions)"],
    "15": ["from numpy_transformer import data\n"
           "data.Pairs.assemble = lambda self, rows: (lambda s, t: ((s, t[:, :-1]), t[:, :-1]))("
           "self.padded(0, rows), self.padded(1, rows))",
           "old = nt.CrossEntropyLoss.__init__\n"
           "nt.CrossEntropyLoss.__init__ = lambda self, smoothing=0.0, ignore_id=None: old(self, smoothing)",
           "encoder_decoder.causal_mask = lambda T, seen=0: np.ones((1, 1, T, seen + T), bool)",
           "nt.EncoderDecoder.padding = lambda self, ids, mask=None: None"],
    "16": ["nt.RotaryEmbedding.backward = lambda self, dy: self.rotate(dy, *self.recall())",
           "nt.RotaryEmbedding.pairs = lambda self, x: (x[..., :self.d_head // 2], x[..., self.d_head // 2:])",
           "nt.RMSNorm.backward = lambda self, dy: dy * self.gamma.data * self.recall()[1]",
           "from numpy_transformer.layers import multi_head\n"
           "multi_head.current_positions = lambda count=None: None"],
    "17": ["edit('forward', 'u[rows] *= np.exp(top[rows] - m)', 'pass')",
           "edit('backward', ' - dots[rows]', '')",
           "edit('backward', 'dv[keys] +=', 'dv[keys] =')",
           "edit('blocks', 'ahead + first - j', 'ahead + first - j - 1')"],
    "18": ["nt.LayerNorm.backward = (lambda f: lambda self, dy: f(self, dy / (1 + abs(self.gamma.data))))("
           "nt.LayerNorm.backward)",
           "nt.Embedding.backward = lambda self, dy: self.weight.grad.__setitem__(self.recall(), dy)",
           "from numpy_transformer.checks.report import GradcheckReport\n"
           "GradcheckReport.ok = property(lambda self: True)"],
    "19": ["nt.SGD.update = lambda self, w, g, v: w.__isub__(self.lr * g)",
           "nt.NoamSchedule.rate = lambda self, n: self.scale * n ** -0.5",
           "nt.clip_grad_norm = (lambda f: lambda ps, n: np.sqrt(sum(f([p], n) ** 2 for p in ps)))(nt.clip_grad_norm)",
           "nt.AdamW.update = lambda self, w, g, m, v, decays=True: nt.Adam.update("
           "self, w, g + self.weight_decay * w, m, v)"],
    "20": ["old = nt.CrossEntropyLoss.forward\n"           # counts padding too
           "nt.CrossEntropyLoss.forward = lambda self, z, y: (old(self, z, y), setattr(self, 'count', y.size))[0]",
           "old = nt.CrossEntropyLoss.backward\n"          # takes no notice of the part's weight
           "nt.CrossEntropyLoss.backward = lambda self, dy=1.0: old(self)",
           "old = nt.Adam.update\n"                        # the step of an entry depends on the other entries
           "nt.Adam.update = lambda self, w, g, m, v: old(self, w, g / np.linalg.norm(g), m, v)",
           "nt.clip_grad_norm = lambda ps, n: [np.clip(p.grad, -n / 9, n / 9, out=p.grad) for p in ps]",
           "nt.Dropout.draw = lambda self, x: ("
           "np.random.default_rng(0).random(x.shape) >= self.p) / (1 - self.p)"],
    "21": ["old = nt.LoRALinear.backward\n"                # without s
           "nt.LoRALinear.backward = lambda self, dy: ("
           "old(self, dy), self.B.grad.__itruediv__(self.scale))[0]",
           "old = nt.LoRALinear.backward\n"                # without the path through A and B
           "nt.LoRALinear.backward = lambda self, dy: (old(self, dy), dy @ self.weight.data.T)[1]",
           "old = nt.LoRALinear.__init__\n"                # B is not zero
           "nt.LoRALinear.__init__ = lambda self, *rest, **named: ("
           "old(self, *rest, **named), self.B.data.fill(0.01))[0]",
           "nt.LoRALinear.unmerge = lambda self: ("
           "self.weight.data.__isub__(self.scale * (self.A.data @ self.B.data)), "
           "setattr(self, '_weight_before_merge', None), self)[2]",
           "from numpy_transformer.layers import lora\nlora.freeze = lambda model, *names: model"],
}


def test_there_are_lessons():
    assert {lesson_number(path) for path in LESSONS} == set(MISTAKES)
    assert all(len(planted) >= 2 for planted in MISTAKES.values())


def check_claims_and_figures(path, lesson_run):
    assert lesson_run.returncode == 0, lesson_run.stderr
    held = {*HELD.get(lesson_number(path), ()), *PLAIN.findall(lesson_run.stdout)}
    assert results_in_lesson(path.read_text(encoding="utf-8")) <= held          # helpers/results.py says what this means
    assert lesson_run.stdout.count("✓") >= 5
    assert {file.name for file in lesson_run.folder.iterdir()} == {"lessons", "my-figures"}
    figures = re.findall(r"figure: (.*)", lesson_run.stdout)
    drawn = [f"my-figures/{file.name}" for file in (lesson_run.folder / "my-figures").iterdir()]
    assert figures and sorted(figures) == sorted(drawn)
    for name in figures:
        assert Path(name).name.startswith(f"{lesson_number(path)}_")
        assert count_colors(lesson_run.folder / name)[2] > 20                  # not blank


PLANTED = [pytest.param(path, planted, id=f"{path.stem}-{n}") for path in LESSONS
           for n, planted in enumerate(MISTAKES.get(lesson_number(path), []))]


@pytest.mark.slow
@pytest.mark.parametrize("path, planted", PLANTED)
def test_a_planted_mistake_makes_a_claim_fail(path, planted, lesson_run):
    assert lesson_run.returncode == 1 and "AssertionError: claim does not hold" in lesson_run.stderr, lesson_run.stderr


@pytest.mark.parametrize("path", [path for path in LESSONS if lesson_number(path) == QUICK], ids=lambda path: path.stem)
def test_a_lesson_keeps_its_claims_and_draws_its_figures(path, lesson_run):
    check_claims_and_figures(path, lesson_run)


@pytest.mark.slow
@every_lesson
def test_two_runs_print_and_draw_the_same_in_two_languages(path, lesson_run, tmp_path):
    """The second run speaks a language made of English in wide letters, so that lines break at other places."""
    check_claims_and_figures(path, lesson_run)
    pseudo_language.write(tmp_path / "xx", ["lessons"])
    again = run(tmp_path / "again", path, language=tmp_path / "xx")
    said = [line for line in re.split(r"[\r\n]+", again.stderr) if line]
    assert not [line for line in said if not line.startswith("train: ")]        # nothing but the progress of training
    assert in_plain_letters(again.stdout).split() == lesson_run.stdout.split()
    lines = [line for line in again.stdout.splitlines() if re.match(r"  [✓?] |#+ ", line)]
    assert lines and not [line for line in lines if plain_words(line) and not WIDE.search(line)]       # names may be computed
    for file in (lesson_run.folder / "my-figures").iterdir():
        assert file.read_bytes() == (again.folder / "my-figures" / file.name).read_bytes(), file.name


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in LESSONS if lesson_number(path) == "05"], ids=lambda path: path.stem)
def test_the_numbers_in_the_text_are_those_that_the_lesson_prints(path, lesson_run):
    text, = re.findall(r"^# In words: (.*?)^#$", path.read_text(encoding="utf-8"), re.M | re.S)
    numbers = set(re.findall(r"\d\.\d{3}", text))
    assert len(numbers) == 6 and numbers <= set(re.findall(r"\d\.\d{3}", lesson_run.stdout))


@pytest.mark.slow
def test_measured_memory_does_not_depend_on_what_the_stepper_remembers(tmp_path):
    path, = [path for path in LESSONS if lesson_number(path) == "17"]
    result = run(tmp_path / "run", path, "from numpy_transformer.course.lessons.explore import LatestCalls\n"
                                         "LatestCalls().__enter__()")
    assert result.returncode == 0, result.stderr


@every_lesson
def test_cells_are_marked_for_editors(path):
    text = path.read_text(encoding="utf-8")
    titles = [cell.title for cell in cells(text)]
    assert text.startswith(f"# %% [markdown]\n# # {lesson_number(path)} ") and titles.count("[markdown]") >= 4
    assert len(titles) - titles.count("[markdown]") >= 4 and all(titles)
    assert max(map(len, text.splitlines())) <= 120
    assert "\n# ## Exercises\n" in text and re.search(r"\d+\s+(# )?minutes", text.split("\n# %% ")[0])


@every_lesson
def test_the_answers_on_the_page_fit_the_questions_of_the_lesson(path):
    questions = re.findall(r"^# (\d+)\. ", path.read_text(encoding="utf-8").split("# ## Exercises")[1], re.M)
    assert list(closing_answers(path)) == [int(number) for number in questions]


@every_lesson
def test_jupytext_makes_the_same_cells_of_it(path):
    jupytext = pytest.importorskip("jupytext")
    text = path.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    assert [(cell.cell_type == "markdown", cell.source) for cell in notebook.cells] == [
        (cell.prose is not None, cell.prose or cell.text) for cell in cells(text)]
    assert jupytext.writes(notebook, fmt="ipynb")


@every_lesson
def test_the_syllabus_has_a_row_for_it(path):
    text, folder = path.read_text(encoding="utf-8"), path.parent
    syllabus = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    row, = [line for line in syllabus if f"]({path.name})" in line]
    lesson, minutes, afterwards, figure, exercises, paper = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert lesson == f"[{re.search(r'^# # (.*)', text, re.M)[1]}]({path.name})"
    assert int(minutes) in range(5, 16) and f"{minutes} minutes" in text.split("\n# %% ")[0]
    assert (folder / re.search(r"\((.*)\)", figure)[1]).exists() and afterwards and paper
    assert int(exercises.split(":")[0]) == len(re.findall(r"^# \d\. ", text.split("# ## Exercises")[1], re.M))
