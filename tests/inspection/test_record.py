"""The recorder sees every call, matches backward to forward, and leaves no trace; influence is the Jacobian's norm."""

import numpy as np
import pytest

import numpy_transformer as nt

rng = np.random.default_rng(0)
X = rng.standard_normal((4, 6))


def randomise(module, seed=1):
    numbers = np.random.default_rng(seed)
    module.astype(np.float64)
    for parameter in module.parameters():
        parameter.data = numbers.standard_normal(parameter.data.shape)
    return module


class Twice(nt.Module):
    """The same Linear two times, with a ReLU between."""

    def __init__(self):
        self.linear, self.relu = nt.Linear(6, 6, rng=0), nt.ReLU()

    def forward(self, x):
        return self.linear(self.relu(self.linear(x)))

    def backward(self, dy):
        return self.linear.backward(self.relu.backward(self.linear.backward(dy)))


def test_calls_come_in_order_with_inputs_outputs_and_gradients():
    feed, dy = randomise(nt.FeedForward(6, 9)), rng.standard_normal((4, 6))
    with nt.record(feed) as tape:
        y = feed(X)
        dx = feed.backward(dy)
    assert [call.name for call in tape.calls] == ["", "up", "activation", "dropout", "down"]
    assert [call.depth for call in tape.calls] == [0, 1, 1, 1, 1]
    hidden = X @ feed.up.weight.data + feed.up.bias.data
    np.testing.assert_allclose(tape["up"].output, hidden)
    np.testing.assert_array_equal(tape["activation"].inputs[0], tape["up"].output)
    dh = (dy @ feed.down.weight.data.T) * (hidden > 0)
    np.testing.assert_allclose(tape["up"].dy, dh)
    np.testing.assert_allclose(tape["up"].gradients[0], dh @ feed.up.weight.data.T)
    np.testing.assert_array_equal(tape[""].output, y)
    np.testing.assert_array_equal(tape[""].gradients[0], dx)
    assert tape.of(nt.Linear) == [tape["up"], tape["down"]]


def test_a_module_used_twice_is_matched_last_in_first_out():
    twice, dy = randomise(Twice()), rng.standard_normal((4, 6))
    with nt.record(twice) as tape:
        twice(X)
        twice.backward(dy)
    first, last = tape.of(nt.Linear)
    np.testing.assert_array_equal(first.inputs[0], X)
    np.testing.assert_array_equal(last.dy, dy)
    np.testing.assert_array_equal(first.dy, tape["relu"].gradients[0])
    assert tape["linear"] is last


def test_several_gradients_and_a_tied_embedding():
    model, ids = nt.EncoderDecoder(5, 5, 4, 2, 1, 7, 0.0, 9, tie_weights=True, rng=0), np.array([[1, 2, 3]])
    with nt.record(model) as tape:
        model.backward(np.ones_like(model(ids, ids[:, :2])))
    assert [np.shape(g) for g in tape["decoder"].gradients] == [(1, 2, 4), (1, 3, 4)]
    source, target = tape.of(nt.Embedding)
    assert source.name == target.name == "target_embedding" and source.dy.shape == (1, 3, 4) and target.dy.shape[1] == 2


def test_what_is_on_the_tape_does_not_change_later():
    relu, x = nt.ReLU(), X.copy()
    with nt.record(relu) as tape:
        y = relu(x)
        dx = relu.backward(y)
        x[:], y[:], dx[:] = 7, 8, 9
    call = tape[""]
    np.testing.assert_array_equal(call.inputs[0], X)
    np.testing.assert_array_equal(call.output, np.maximum(X, 0))
    np.testing.assert_array_equal(call.gradients[0], np.maximum(X, 0))


def test_a_gradient_that_changes_later_or_comes_by_name_is_on_the_tape_as_it_was():
    relu, x, dy = nt.ReLU(), X.copy(), X.copy()
    with nt.record(relu) as tape:
        relu.forward(x=x)
        relu.backward(dy=dy)
        x[:], dy[:] = 7, 8
    np.testing.assert_array_equal(tape[""].named["x"], X)
    np.testing.assert_array_equal(tape[""].dy, X)


def test_a_loss_whose_backward_takes_nothing():
    criterion, targets = nt.CrossEntropyLoss(), np.array([0, 2, 1, 5])
    with nt.record(criterion) as tape:
        criterion(X, targets)
        dz = criterion.backward()
    assert tape[""].dy == 1.0
    np.testing.assert_array_equal(tape[""].gradients[0], dz)


def test_more_arguments_of_a_backward_are_handed_on():
    class Scaled:
        def forward(self, x, scale):
            return x * scale, x

        def backward(self, dy, scale):
            return dy * scale, None

    def twice(call):
        call.named = {"scale": 2}

    scaled = Scaled()
    with nt.record(scaled, twice) as tape:
        y, same = scaled.forward(X, scale=3)
        dx, _ = scaled.backward(X, 3)
    np.testing.assert_array_equal(y, 2 * X)
    np.testing.assert_array_equal(dx, 3 * X)
    y[:] = 0
    np.testing.assert_array_equal(tape[""].output[0], 2 * X)


def test_a_backward_that_fails_has_used_up_its_forward():
    linear = nt.Linear(6, 3, rng=0).astype(np.float64)
    with nt.record(linear) as tape:
        linear(X)
        linear(2 * X)
        with pytest.raises(ValueError):
            linear.backward(np.ones((4, 5)))
        linear.backward(np.ones((4, 3)))
    assert [call.dy is None for call in tape.calls] == [False, True]


def test_a_forward_that_fails_leaves_neither_itself_nor_its_children_on_the_tape():
    class Late(nt.FeedForward):
        def forward(self, x):
            super().forward(x)
            raise ValueError("too late")

    late = Late(6, 9)
    with nt.record(late) as tape:
        with pytest.raises(ValueError, match="too late"):
            late(X)
        late.up(X)
    assert [(call.name, call.depth) for call in tape.calls] == [("up", 0)]


def test_in_eval_a_call_has_no_gradient():
    linear = nt.Linear(6, 3, rng=0).eval()
    with nt.record(linear) as tape:
        linear(X)
        linear.eval(remember=True)(X)
        linear.backward(np.ones((4, 3)))
        linear(X)
        linear.remembering = False              # as eval() does, but the memory is kept
        linear(X)
        linear.backward(np.ones((4, 3)))
    assert [call.dy is None for call in tape.calls] == [True, False, False, True]


def test_the_model_is_unchanged_after_recording_even_after_an_error():
    feed = nt.FeedForward(6, 9)
    before = {id(module): set(vars(module)) for _, module in feed.named_modules()}
    with pytest.raises(ValueError, match="last dimension"), nt.record(feed) as tape:
        feed(np.ones((2, 5)))
    assert tape.calls == []
    assert {id(module): set(vars(module)) - {"_saved"} for _, module in feed.named_modules()} == before


def test_a_recorder_inside_a_recorder():
    linear = nt.Linear(6, 3, rng=0)
    with nt.record(linear) as outer:
        with nt.record(linear) as inner:
            linear(X)
        linear(X)
    assert (len(outer.calls), len(inner.calls)) == (2, 1) and "forward" not in vars(linear)


def test_inputs_and_outputs_can_be_changed():
    feed = randomise(nt.FeedForward(6, 9)).eval()

    def double_the_hidden_layer(call):
        if call.name == "down" and call.output is None:
            call.inputs = (2 * call.inputs[0],)
        elif call.name == "" and call.output is not None:
            call.output = call.output + 1

    with nt.record(feed, double_the_hidden_layer) as tape:
        y = feed(X)
    hidden = 2 * np.maximum(X @ feed.up.weight.data + feed.up.bias.data, 0)
    np.testing.assert_allclose(y, hidden @ feed.down.weight.data + feed.down.bias.data + 1)
    np.testing.assert_allclose(tape["down"].inputs[0], hidden)
    np.testing.assert_array_equal(tape[""].output, y)


def test_a_class_that_knows_nothing_of_the_package_is_recorded():
    class Half:
        def forward(self, x):
            return x / 2

        def backward(self, dy):
            return dy / 2

    half = Half()
    with nt.record(half) as tape:
        half.forward(X)
        half.backward(X)
    np.testing.assert_array_equal(tape[""].gradients[0], X / 2)


def test_an_unknown_name_is_told_with_the_known_ones():
    with nt.record(nt.FeedForward(6, 9)) as tape:
        pass
    with pytest.raises(LookupError, match="no call of 'up'; it has none"):
        tape["up"]
    feed = nt.FeedForward(6, 9)
    with nt.record(feed) as tape:
        feed(X)
    with pytest.raises(LookupError, match="'left'; it has '', up, activation, dropout, down"):
        tape["left"]
    block = nt.EncoderBlock(6, 2, 9)
    with nt.record(block) as tape:
        block(X)
    with pytest.raises(LookupError, match="no call of 'softmax'; it has attention.attention.softmax$"):
        tape["softmax"]
    assert repr(tape) == f"Tape({len(tape.calls)} calls)"


def test_a_call_shows_its_shapes():
    attention = nt.SelfAttention(6, 2, rng=0)
    with nt.record(attention) as tape:
        y = attention(X[None].astype(np.float32), None)
    assert repr(tape[""]) == "Call('', SelfAttention: (1, 4, 6), NoneType -> (1, 4, 6), without backward)"
    with nt.record(attention) as tape:
        attention.backward(attention(y))
    assert repr(tape["query"]) == "Call('query', Linear: (1, 4, 6) -> (1, 4, 6), with backward)"


def jacobian_norms(module, x, *more):
    """By backward: one for each entry of the output."""
    squares = 0
    y = module.eval(remember=True)(x, *more)
    squares = np.zeros((len(y), len(x)))
    for t, j in np.ndindex(y.shape):
        dy = np.zeros_like(y)
        dy[t, j] = 1
        module.forget()(x, *more)
        squares[t] += (module.backward(dy) ** 2).sum(-1)
    return np.sqrt(squares)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_influence_is_the_norm_of_the_jacobian_and_exactly_zero_where_hidden(norm):
    block, mask = randomise(nt.EncoderBlock(6, 2, 9, norm=norm)), nt.causal_mask(4)
    found = nt.influence(block, X, mask)
    np.testing.assert_allclose(found, jacobian_norms(block, X, mask), rtol=1e-6, atol=1e-8)
    assert np.array_equal(found != 0, np.tri(4, dtype=bool))
    assert (nt.influence(block, X) != 0).all()


@pytest.mark.slow
def test_influence_through_a_named_component_and_of_another_argument():
    model = nt.EncoderDecoder(7, 8, 4, 2, 2, 5, 0.1, 9, rng=0)
    source, target = np.array([1, 2, 3, 0, 0]), np.array([1, 2, 3])
    of_source, of_target = (nt.influence(model, source, target, of=part) for part in ("encoder", "decoder"))
    of_memory = nt.influence(model, source, target, of="decoder", argument=1)
    assert of_source.shape == of_memory.shape == (3, 5) and of_target.shape == (3, 3)
    assert np.array_equal(of_target != 0, np.tri(3, dtype=bool))
    for norms in (of_source, of_memory):
        assert np.array_equal(norms != 0, [[True, True, True, False, False]] * 3)
    assert not np.allclose(of_source, of_memory)


def test_float32_is_measured_in_float64():
    block, x = nt.EncoderBlock(6, 2, 9, rng=3), X.astype(np.float32)
    exact = nt.EncoderBlock(6, 2, 9, rng=3).astype(np.float64)
    wanted = jacobian_norms(exact, x.astype(np.float64))
    np.testing.assert_allclose(nt.influence(block, x), wanted, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_the_step_grows_with_the_size_of_the_input(size):
    norm = nt.LayerNorm(6, eps=1e-30).astype(np.float64)
    np.testing.assert_allclose(nt.influence(norm, size * X) * size, nt.influence(norm, X), rtol=1e-5, atol=1e-8)


def test_a_class_of_the_user_that_holds_modules():
    class Mine:
        def __init__(self):
            self.linear, self.dropout = nt.Linear(6, 3, rng=0), nt.Dropout(0.5, rng=0)

        def forward(self, x):
            return self.dropout.forward(self.linear.forward(x))

        def backward(self, dy):
            return self.linear.backward(self.dropout.backward(dy))

    mine = Mine()
    np.testing.assert_allclose(nt.influence(mine, X), np.linalg.norm(mine.linear.weight.data) * np.eye(4), rtol=1e-6)


@pytest.mark.slow
def test_fewer_directions_give_an_estimate_of_the_same_zeros():
    block, x = randomise(nt.EncoderBlock(40, 2, 9)), np.random.default_rng(2).standard_normal((4, 40))
    exact, estimate = (nt.influence(block, x, nt.causal_mask(4), directions=n) for n in (40, 20))
    assert np.array_equal(exact != 0, estimate != 0) and not np.allclose(exact, estimate, rtol=1e-6)
    np.testing.assert_allclose(estimate[estimate > 0], exact[exact > 0], rtol=0.5)
    ratios = [nt.influence(block, x, nt.causal_mask(4), directions=8, rng=n)[exact > 0] / exact[exact > 0]
              for n in range(6)]
    assert abs(np.mean(ratios) - 1) < 0.1 and np.std(ratios) < 0.3


def test_influence_leaves_the_model_alone():
    model = nt.CausalLanguageModel(9, 8, 2, 1, max_len=6, dropout=0.5, rng=0)
    model(np.arange(4))
    nt.influence(model, np.arange(4), of="decoder")
    assert model.training and model.embedding.weight.data.dtype == np.float32
    model.backward(np.ones((4, 9), np.float32))


@pytest.mark.slow
def test_inputs_that_cannot_be_perturbed_are_named():
    model = nt.CausalLanguageModel(9, 8, 2, 1, max_len=6, rng=0)
    with pytest.raises(TypeError, match=r"input 0 of 'CausalLanguageModel' is an array of int64 .*of=\"decoder\""):
        nt.influence(model, np.arange(4))
    with pytest.raises(ValueError, match="one sequence"):
        nt.influence(nt.Linear(6, 3), np.ones((2, 4, 6)))
    with pytest.raises(LookupError, match="no call of 'encoder'"):
        nt.influence(model, np.arange(4), of="encoder")
    block = nt.EncoderBlock(6, 2, 9)
    with pytest.raises(ValueError, match="'dropout' is called 2 times"):
        nt.influence(block, X, of="dropout")
    with pytest.raises(ValueError, match="argument = 2: 'EncoderBlock' has inputs 0 to 1"):
        nt.influence(block, X, nt.causal_mask(4), argument=2)
    with pytest.raises(TypeError, match="input 1 of 'EncoderBlock' is an array of bool"):
        nt.influence(block, X, nt.causal_mask(4), argument=1)
    with pytest.raises(ValueError, match="directions = 0"):
        nt.influence(block, X, directions=0)

    class Single:
        forward = backward = staticmethod(lambda x: x.astype(np.float32))

    with pytest.raises(TypeError, match="computes float32 from float64"):
        nt.influence(Single(), X)
    with nt.record(block), pytest.raises(RuntimeError, match="outside"):
        nt.influence(block, X)
