"""gradcheck --like: known mistakes are named in a class with its own attribute names and its own constructor."""

import re

import numpy as np
import pytest
from helpers.commands import refused, run

import numpy_transformer as nt
from numpy_transformer.course.checker.components import LIKE
from numpy_transformer.course.checker.own_component import AdaptedClass, compare
from numpy_transformer.course.exercises import exercises


class PoolingHead(nt.Module):
    def __init__(self, width, classes):
        self.mean = nt.MaskedMean()
        self.linear = nt.Linear(width, classes)

    def forward(self, x, mask):
        return self.linear(self.mean(x, mask))

    def backward(self, dlogits):
        return self.mean.backward(self.linear.backward(dlogits))


class TanhGELU(nt.GELU):
    def __init__(self):
        super().__init__("tanh")


@pytest.mark.parametrize("name", [
    name if name in ("LayerNorm", "PoolingHead", "RMSNorm", "ScaledDotProductAttention")
    else pytest.param(name, marks=pytest.mark.slow) for name in LIKE])
def test_the_packages_components_are_like_themselves(name):
    cls = {"PoolingHead": PoolingHead, "GELU": TanhGELU}.get(name) or getattr(nt, name)
    adapted = AdaptedClass(cls, name)
    module, inputs = adapted.sample()
    assert nt.gradcheck(module, *inputs, directions=2).ok
    found = compare(adapted, None)
    assert len(found) == len(LIKE[name].numbers)
    assert [(one.verdict.status, one.forward_is_wrong) for one in found] == [("pass", False)] * len(found)


# The student's own constructor and names; each class is made from the exercise's solution with one mistake.
OWN = {
    "LayerNorm": ("def __init__(self, gamma, beta, eps):\n        self.gamma = Parameter(gamma)\n"
                  "        self.beta = Parameter(beta)\n        self.eps = eps\n",
                  "def __init__(self, size, epsilon=1e-5):\n        self.offset = Parameter(np.zeros(size))\n"
                  "        self.scale = Parameter(np.ones(size))\n        self.eps = epsilon\n",
                  {"self.gamma": "self.scale", "self.beta": "self.offset"}),
    "Linear": ("def __init__(self, weight, bias):\n        self.weight, self.bias = Parameter(weight), Parameter(bias)\n",
               "def __init__(self, n, m):\n        self.c = Parameter(np.zeros(m))\n"
               "        self.A = Parameter(np.ones((n, m)))\n", {"self.weight": "self.A", "self.bias": "self.c"}),
}


def own_class(name, *edits):
    """The solution of the exercise with these edits, as a class with other names."""
    exercise = exercises()[LIKE[name].numbers[0]]
    theirs, own, names = OWN[name]
    text = exercise.edited(*edits)
    assert text.count(theirs) == 1
    text = text.replace(theirs, "INIT")
    for old, new in names.items():
        text = re.sub(rf"{re.escape(old)}\b", new, text)
    defined = {}
    exec(text.replace("INIT", own), defined)
    return defined[name]


def mistakes_that_fit(name):
    """The mistakes outside of the constructor, which is not the exercise's here."""
    exercise = exercises()[LIKE[name].numbers[0]]
    return [mistake for mistake in exercise.mistakes if not any(
        old in OWN[name][0] or "__init__" in old for old in mistake.edits)]


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in OWN])
def test_every_known_mistake_is_named_as_in_the_exercise(name):
    fitting = mistakes_that_fit(name)
    assert len(fitting) > 5
    for mistake in fitting:
        one, = compare(AdaptedClass(own_class(name, mistake.edits), name), None)
        assert one.verdict.status in ("fail", "error"), mistake.name
        assert set(one.verdict.mistakes) & {(mistake.name,), (mistake.twin,)} or one.verdict.stage == "arguments changed", (
            mistake.name, one.verdict)


MINE = '''
import numpy as np
import numpy_transformer as nt

class Norm:                                     # right, but for the path through the deviation
    def __init__(self, size, epsilon=1e-5):
        self.shift, self.scale = nt.Parameter(np.zeros(size)), nt.Parameter(np.ones(size))
        self.epsilon, self.saved = epsilon, []
    def forward(self, x):
        std = np.sqrt(x.var(-1, keepdims=True) + self.epsilon)
        x_hat = (x - x.mean(-1, keepdims=True)) / std
        self.saved.append((x_hat, std))
        return self.scale.data * x_hat + self.shift.data
    def backward(self, dy):
        x_hat, std = self.saved.pop()
        self.scale.grad += (dy * x_hat).sum(tuple(range(dy.ndim - 1)))
        self.shift.grad += dy.sum(tuple(range(dy.ndim - 1)))
        g = dy * self.scale.data
        return (g - g.mean(-1, keepdims=True)) / std

class Attention(nt.ScaledDotProductAttention):  # a consistent pair without the factor
    def forward(self, q, k, v):
        p = np.exp(q @ k.mT - (q @ k.mT).max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        self.remember(q, k, v, p)
        return p @ v
    def backward(self, dy):
        q, k, v, p = self.recall()
        dp = dy @ v.mT
        ds = p * (dp - (p * dp).sum(-1, keepdims=True))
        return ds @ k, ds.mT @ q, p.mT @ dy

class Heads(nt.Module):                         # plain matrices, no mask
    def __init__(self, dim, heads):
        self.inner = nt.SelfAttention(dim, heads)
    def forward(self, x, mask):
        return self.inner(x)
    def backward(self, dy):
        return self.inner.backward(dy)

class Block(nt.Module):                         # other names, and the second path begins after its norm
    def __init__(self, d, h, hidden):
        self.ln1, self.attn = nt.LayerNorm(d), nt.SelfAttention(d, h)
        self.ln2, self.mlp = nt.LayerNorm(d), nt.FeedForward(d, hidden)
    def forward(self, x):
        a = x + self.attn(self.ln1(x))
        return a + self.mlp(self.ln2(a))
    def backward(self, dy):
        da = dy + self.ln2.backward(self.mlp.backward(dy))
        return self.ln1.backward(self.attn.backward(da))

class Rms(nt.RMSNorm):                          # eps cannot be given
    def __init__(self, d):
        super().__init__(d, 1e-5)

class Arrays:
    def __init__(self, d):
        self.gamma, self.beta = np.ones(d), np.zeros(d)
    def forward(self, x):
        return self.gamma * x + self.beta
    def backward(self, dy):
        return self.gamma * dy

class Overwrites(nt.Linear):
    def backward(self, dy):
        self.bias.grad = 0
        return super().backward(dy)
'''


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_a_known_mistake_in_an_own_class_is_named(capsys, mine):
    code, out, _ = run(capsys, "gradcheck", f"{mine}:Norm", "--like", "layernorm")
    assert code == 1 and "[LN-3]" in out and "compared with LayerNorm in the cases of exercise 08.3" in out
    assert "Every gradient agrees" not in out               # the gradient of x is WRONG


@pytest.mark.slow
def test_right_gradients_of_a_wrong_forward_are_told(capsys, mine):
    code, out, _ = run(capsys, "gradcheck", f"{mine}:Attention", "--like", "ScaledDotProductAttention")
    assert code == 1 and "WRONG" not in out
    assert "but your forward is not that of ScaledDotProductAttention" in " ".join(out.split())
    assert re.search(r"05.1 attention: FAIL.*\[AT\w+-\d+", out, re.S)


@pytest.mark.slow
@pytest.mark.parametrize("name, component, mistake", [
    ("Heads", "SelfAttention", "The mask|the mask"), ("Block", "EncoderBlock", "residual|skip|dy")])
def test_classes_made_of_parts_are_compared_too(capsys, mine, name, component, mistake):
    code, out, _ = run(capsys, "gradcheck", f"{mine}:{name}", "--like", component)
    assert code == 1 and re.search(rf"DIAGNOSIS \[.*({mistake})", out, re.S)


@pytest.mark.slow
def test_a_value_that_cannot_be_given_is_fixed(capsys, mine):
    code, out, _ = run(capsys, "gradcheck", f"{mine}:Rms", "--like", "RMSNorm")
    assert code == 0 and "Rms takes no eps, so it should compute with eps = 1e-05" in out and out.count("PASS") == 2


def test_arrays_that_are_no_parameters_and_gradients_that_are_overwritten_are_told(capsys, mine):
    code, out, _ = run(capsys, "gradcheck", f"{mine}:Arrays", "--shape", "3,5")
    assert code == 0 and "gamma and beta are arrays, not parameters" in out
    code, out, _ = run(capsys, "gradcheck", f"{mine}:Overwrites", "--shape", "3,5", "--args", "5,4")
    assert code == 1 and "WRONG: bias.grad is overwritten" in out and "weight.grad" not in out


@pytest.mark.parametrize("options, match", [
    ("Norm --like Foo", "no known mistakes for a class like 'Foo'; there are some for Linear, Softmax, LayerNorm"),
    ("Norm --like GELU", "takes size, which GELU does not have"),
    ("Norm --like Linear", "Linear has the parameters weight (12, 16), bias (16,); Norm has shift (12,), scale (12,)"),
    ("Arrays --like LayerNorm", "make gamma an nt.Parameter; make beta an nt.Parameter"),
    ("Norm --like EncoderBlock", "Norm has no part norm1"),
    ("Norm --like Softmax", "Norm(size=1.0), built with the settings of Softmax, raised TypeError"),
    ("Norm --shape 3,x", "'3,x' is not a shape; write whole numbers of at least 1 with commas between them, as in 3,5,12"),
    ("Norm --ids 11", "'11' is not a limit and a shape; write them as in 11:3,5"),
])
def test_what_cannot_be_compared_is_one_sentence(capsys, mine, options, match):
    assert re.search(match.replace("(", r"\(").replace(")", r"\)"), refused(
        capsys, "gradcheck", *f"{mine}:{options}".split()))


def test_a_file_without_a_class_is_told_how_to_name_one(capsys, tmp_path):
    (tmp_path / "two.py").write_text("class A:\n    pass\n\nclass B:\n    pass\n", encoding="utf-8")
    told = refused(capsys, "gradcheck", f"{tmp_path}/two.py")
    assert f"as {tmp_path}/two.py:B; it defines A and B" in told
    assert "as no.py:Class" in refused(capsys, "gradcheck", "no.py")


def test_like_is_for_own_classes(capsys):
    assert "only used for your own class" in refused(capsys, "gradcheck", "LayerNorm", "--like", "LayerNorm")


def test_parameters_are_matched_by_name_before_order():
    class Swapped(nt.SwiGLU):
        def __init__(self, d_model, d_ff):
            inner = nt.SwiGLU(d_model, d_ff)
            vars(self).update(reversed(vars(inner).items()))

    adapted = AdaptedClass(Swapped, "SwiGLU")
    adapted.sample()
    assert adapted.names == {"Wg": "gate.weight", "Wu": "up.weight", "Wd": "down.weight"}
    assert np.shape(LIKE["SwiGLU"].numbers) == (2,)
