"""The checker itself: what it must catch, what it must let pass, and how it looks at classes it does not know."""

import numpy as np
import pytest

import numpy_transformer as nt

X = np.random.default_rng(0).standard_normal((3, 5, 12))


class NoVarianceTerm(nt.LayerNorm):
    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        self.beta.grad += dy.sum((0, 1))
        self.gamma.grad += (dy * x_hat).sum((0, 1))
        g = dy * self.gamma.data
        return (g - g.mean(-1, keepdims=True)) * inverse_std


class GammaOutside(nt.LayerNorm):
    """Right while gamma is 1, as it is before training: a published mistake."""

    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        self.beta.grad += dy.sum((0, 1))
        self.gamma.grad += (dy * x_hat).sum((0, 1))
        inner = dy - dy.mean(-1, keepdims=True) - x_hat * (dy * x_hat).mean(-1, keepdims=True)
        return self.gamma.data * inner * inverse_std


class ResidualPlusOne(nt.Module):
    def __init__(self):
        self.layer = nt.Linear(12, 12, rng=0)

    def forward(self, x):
        return x + self.layer(x)

    def backward(self, dy):
        return self.layer.backward(dy) + 1


class LastUseOnly(nt.Linear):
    def backward(self, dy):
        self.weight.grad = 0
        return super().backward(dy)


class OneEntry(nt.Linear):
    def backward(self, dy):
        dx = super().backward(dy)
        self.weight.grad[7, 3] *= 1.01
        return dx


class SlightlyOff(nt.GELU):
    """Forward with erf, backward of the tanh variant: the two differ by a few ten-thousandths."""

    def forward(self, x):
        self.twin = nt.GELU("tanh")
        self.twin(x)
        return super().forward(x)

    def backward(self, dy):
        super().backward(dy)
        return self.twin.backward(dy)


@pytest.mark.parametrize("module, tensor", [
    (NoVarianceTerm(12), "x"), (GammaOutside(12), "x"), (ResidualPlusOne(), "x"), (OneEntry(12, 16, rng=0), "weight"),
    (SlightlyOff(), "x"),
])
@pytest.mark.parametrize("directions", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_wrong_gradients_are_caught_by_both_methods(module, tensor, directions):
    report = nt.gradcheck(module, X, directions=directions)
    wrong = [row for row in report.rows if not row.ok]
    assert not report.ok and [row.tensor for row in wrong] == [tensor]
    assert wrong[0].central > 1e-6 and wrong[0].complex > 1e-12
    assert len(wrong[0].index) == len(wrong[0].shape)       # an entry is named, also where directions found it
    assert "WRONG" in str(report) and "worst entry" in str(report)


def test_a_report_shows_its_verdict():
    report = nt.gradcheck(OneEntry(12, 16, rng=0), X, name="mine")
    assert repr(report).startswith("GradcheckReport('mine', 3 tensors, central ") and "WRONG: weight)" in repr(report)
    right = nt.gradcheck(PlainLinear(), X)
    assert repr(right).endswith(f"complex {right.worst('complex'):.1e}, ok)")


@pytest.mark.slow
def test_the_table_of_a_report_fits_the_width_and_loses_nothing():
    class Wrong(nt.EncoderBlock):
        def backward(self, dx):
            return 1.5 * super().backward(dx)

    report = nt.gradcheck(Wrong(12, 2, 16, dropout=0.0, rng=0), X, directions=1)
    wide, narrow = report.table(), report.table(60)
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, wide.splitlines()))
    assert sorted(wide.split()) == sorted(narrow.split()) and "worst" in wide and "zero" in wide


@pytest.mark.parametrize("blind", ["central_tolerance", "complex_tolerance"])
def test_each_method_decides_by_itself(blind):
    assert not nt.gradcheck(NoVarianceTerm(12), X, **{blind: np.inf}).ok
    assert nt.gradcheck(NoVarianceTerm(12), X, central_tolerance=np.inf, complex_tolerance=np.inf).ok


def test_the_worst_entry_is_named_with_both_values():
    row = next(row for row in nt.gradcheck(OneEntry(12, 16, rng=0), X).rows if not row.ok)
    assert row.index == (7, 3) and row.backward / row.numeric == pytest.approx(1.01, rel=1e-9)
    assert 0.9 < row.cosine < 1


def test_a_mistake_hidden_by_gamma_one_passes_only_without_random_parameters():
    assert nt.gradcheck(GammaOutside(12), X, randomize=False).ok
    assert not nt.gradcheck(GammaOutside(12), X).ok


def test_a_gradient_that_overwrites_is_caught_where_a_module_is_used_twice():
    class Twice(nt.Module):
        def __init__(self, layer):
            self.layer = layer

        def forward(self, x):
            return self.layer(self.layer(x))

        def backward(self, dy):
            return self.layer.backward(self.layer.backward(dy))

    assert nt.gradcheck(Twice(nt.Linear(12, 12, rng=0)), X).ok
    assert not nt.gradcheck(Twice(LastUseOnly(12, 12, rng=0)), X).ok


def test_the_module_is_left_as_it_is():
    module = nt.EncoderBlock(12, 2, 16, dropout=0.5, rng=0)
    nt.Adam(module.parameters())
    module(X.astype(np.float32))
    before, draws = module.state_dict(), module.dropout.rng.bit_generator.state
    assert nt.gradcheck(module, X, directions=1).ok
    assert module.dropout.rng.bit_generator.state == draws and module.norm1.__dict__["_saved"]
    for name, array in module.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    assert nt.gradcheck(module.eval(), X, directions=1).ok


def test_a_crossed_kink_is_not_a_wrong_gradient():
    x = X.copy()
    x[0, 0, :2] = 3e-6, -4e-6                           # nearer to 0 than the step
    assert nt.gradcheck(nt.ReLU(), x).ok


def test_not_a_number_never_passes():
    class NotANumber(nt.ReLU):
        def backward(self, dy):
            dx = super().backward(dy)
            dx[0, 0, 0] = np.nan
            return dx

    report = nt.gradcheck(NotANumber(), X)
    assert not report.ok and report.rows[0].index == (0, 0, 0)


class Weights:
    def __init__(self, data):
        self.data = data
        self.grad = None


class PlainLinear:
    """Written without the package: float64 arrays, one slot of memory, a gradient that is assigned."""

    def __init__(self, d_in=12, d_out=16):
        self.w = Weights(np.zeros((d_in, d_out)))

    def forward(self, x):
        self.x = x
        return x @ self.w.data

    def backward(self, dy):
        self.w.grad = np.einsum("bti,bto->io", self.x, dy)
        return dy @ self.w.data.T


def test_a_class_that_knows_nothing_of_the_package():
    report = nt.gradcheck(PlainLinear(), X)
    assert report.ok and [row.tensor for row in report.rows] == ["x", "w"]
    assert report.worst("complex") < 1e-15


def test_a_forward_that_complex_numbers_do_not_pass_is_judged_by_differences():
    class Rounding(PlainLinear):
        def forward(self, x):
            self.x = x
            out = np.zeros((*x.shape[:-1], 16))
            out[...] = x @ self.w.data
            return out

    report = nt.gradcheck(Rounding(), X)
    assert report.ok and report.worst("complex") is None and "does not accept complex numbers" in report.rows[0].note


class WithVar(nt.LayerNorm):
    """Right, but x.var() gives the complex step no derivative, and no warning either."""

    def forward(self, x):
        inverse_std = 1 / np.sqrt(x.var(-1, keepdims=True) + self.eps)
        x_hat = (x - x.mean(-1, keepdims=True)) * inverse_std
        self.remember(x_hat, inverse_std)
        return x_hat * self.gamma.data + self.beta.data


class WithVarWrong(WithVar):
    backward = NoVarianceTerm.backward


def test_where_the_complex_step_is_blind_the_differences_decide():
    right, wrong = nt.gradcheck(WithVar(12), X), nt.gradcheck(WithVarWrong(12), X)
    assert right.ok and right.rows[0].complex is None and "(c * c).mean(-1)" in right.rows[0].note
    row = wrong.rows[0]
    assert not wrong.ok and abs(row.backward - row.numeric) > 0.1 and row.cosine < 0.99


@pytest.mark.parametrize("rng", [np.random.default_rng(0), np.random.RandomState(0), np.random])
def test_every_kind_of_generator_keeps_its_mask(rng):
    class OldDropout(nt.ReLU):
        def __init__(self):
            self.rng = None if rng is np.random else rng

        def forward(self, x):
            keep = (self.rng or np.random).uniform(size=x.shape) < 0.7
            self.remember(keep)
            return x * keep

    assert nt.gradcheck(OldDropout(), X).ok


@pytest.mark.parametrize("backward, match", [
    (lambda self, dy: None, "returned 0 gradient"),
    (lambda self, dy: (dy, dy), "returned 2 gradient"),
    (lambda self, dy: dy.sum(0), "has shape"),
])
def test_a_backward_of_the_wrong_form_gets_a_sentence(backward, match):
    module = type("Odd", (nt.ReLU,), {"backward": backward})()
    with pytest.raises(ValueError, match=match):
        nt.gradcheck(module, X)


def test_nothing_to_check_is_an_error():
    class Nothing(nt.ReLU):
        def backward(self, dy):
            self.recall()

    with pytest.raises(ValueError, match="no gradient to check"):
        nt.gradcheck(Nothing(), np.arange(5))


def test_the_upstream_gradient_does_not_repeat_the_callers_draws():
    """The same seed for x and for dy would make them equal, and LayerNorm's gradient along x is zero."""
    report = nt.gradcheck(nt.LayerNorm(12), X, seed=0, randomize=False)
    assert report.ok and abs(report.rows[0].backward) > 1e-3


@pytest.mark.parametrize("method", ["forward", "backward"])
def test_arguments_changed_in_place_are_an_error(method):
    class InPlace(nt.ReLU):
        pass

    def change(self, array):
        result = getattr(nt.ReLU, method)(self, array)
        array *= 2
        return result

    setattr(InPlace, method, change)
    with pytest.raises(ValueError, match="InPlace changes its arguments in place"):
        nt.gradcheck(InPlace(), X)
