import copy
import pickle
import warnings

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.module import PILE


class Pair(nt.Module):
    def __init__(self):
        self.first = nt.Linear(3, 5, rng=0)
        self.rest = [nt.Linear(5, 2, rng=1), nt.ReLU()]
        self.tied = self.first.weight
        self._private = nt.Linear(7, 7)

    def forward(self, x):
        for layer in (self.first, *self.rest):
            x = layer(x)
        return x


def test_the_tree_is_found_by_walking_attributes_and_lists():
    model = Pair()
    assert [name for name, _ in model.named_parameters()] == ["first.weight", "first.bias",
                                                              "rest.0.weight", "rest.0.bias"]
    assert [name for name, _ in model.named_modules()] == ["", "first", "rest.0", "rest.1"]
    assert model.num_parameters() == 3 * 5 + 5 + 5 * 2 + 2


def test_summary_lists_names_shapes_counts_and_the_total():
    lines = Pair().summary().splitlines()
    assert lines[0].split() == ["first.weight", "(3,", "5)", "15"]
    assert lines[-1].split() == ["total", "of", "Pair", "32"]


def test_parameters_keep_their_arrays():
    p = nt.Parameter(np.zeros((2, 3), np.float32))
    data, grad = p.data, p.grad
    p.data, p.grad = np.ones((2, 3)), np.full((2, 3), 2.0)
    p.grad += 1
    assert p.data is data and p.grad is grad and data.dtype == np.float32
    assert (data == 1).all() and (grad == 3).all()


@pytest.mark.parametrize("value, error, match", [
    (np.zeros(3), ValueError, r"shape \(3,\).*shape \(2, 3\)"),
    (np.zeros((2, 3), complex), TypeError, "same_kind"),
])
def test_a_parameter_refuses_what_does_not_fit(value, error, match):
    with pytest.raises(error, match=match):
        nt.Parameter(np.zeros((2, 3))).data = value


def test_deep_copies_keep_ties_and_share_nothing_else():
    model = nt.CausalLanguageModel(7, 6, 2, 1, max_len=4, rng=0)
    nt.SGD(model.parameters(), 0.1)
    twin = copy.deepcopy(model)
    assert twin.output.weight is twin.embedding.weight is not model.embedding.weight
    twin.embedding.weight.data += 1
    assert not np.array_equal(twin.embedding.weight.data, model.embedding.weight.data)
    assert twin.astype(np.float64).embedding.weight.data.dtype == np.float64      # no optimizer holds the copy


def test_astype_converts_tables_exactly_and_refuses_once_an_optimizer_holds_the_parameters():
    layer = nt.SinusoidalPositionalEncoding(6, 9)
    angle = 4 / 10000 ** (2 / 6)
    assert layer.table.dtype == np.float32
    assert layer.astype(np.float64) is layer
    assert layer.table.dtype == np.float64 and abs(layer.table[4, 2] - np.sin(angle)) < 1e-15
    model = nt.EncoderBlock(6, 2, 8, rng=0)
    nt.Adam(model.parameters())
    with pytest.raises(ValueError, match="before the optimizer is made"):
        model.astype(np.float64)
    assert model.norm1.gamma.data.dtype == np.float32


def test_train_and_eval_switch_the_whole_tree_and_forget():
    model = nt.EncoderBlock(6, 2, 8, rng=0)
    x = np.random.default_rng(0).standard_normal((2, 3, 6))
    model(x)
    assert model.eval() is model and not model.attention.attention.dropout.training
    with pytest.raises(RuntimeError, match="nothing to recall"):
        model.backward(x)
    model.train()
    assert model.dropout.training and model.dropout.remembering


def test_load_state_dict_names_every_offender_and_loads_nothing():
    model = Pair()
    state = model.state_dict()
    state["first.weight"] = state["first.weight"] + 1
    state["rest.0.bias"] = np.zeros(9)
    state["stranger"] = state.pop("first.bias")
    state["rest.0.weight"] = state["rest.0.weight"].astype(complex)
    before = model.state_dict()
    with pytest.raises(ValueError) as error:
        model.load_state_dict(state)
    for part in ("missing: first.bias", "unknown: stranger", "wrong shape: rest.0.bias (9,) instead of (2,)",
                 "wrong dtype: rest.0.weight complex128 instead of float32"):
        assert part in str(error.value)
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_state_dict_holds_copies():
    model = Pair()
    state = model.state_dict()
    model.first.weight.data += 1
    assert not np.array_equal(state["first.weight"], model.first.weight.data)


def test_parameters_are_floats():
    assert nt.Parameter([1, 2]).data.dtype == np.float64
    with pytest.raises(ValueError, match="parameters are floats"):
        Pair().astype(int)


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match="no forward yet"):
        nt.Module()(1)


def test_the_latest_saved_values_are_recalled_first():
    layer = nt.Module()
    for n in range(3):
        layer.remember(n)
    assert [layer.recall() for _ in range(3)] == [2, 1, 0]


def test_a_deep_copy_of_a_parameter_has_its_gradient():
    p = nt.Parameter(np.zeros(3))
    p.grad += [1.0, 2.0, 3.0]
    twin = copy.deepcopy(p)
    np.testing.assert_array_equal(twin.grad, [1, 2, 3])
    assert not np.shares_memory(twin.grad, p.grad)


@pytest.mark.parametrize("module, shown", [
    (nt.Linear(4, 8, rng=0), "Linear(d_in=4, d_out=8, bias=True)"),
    (nt.Linear(4, 8, bias=False, rng=0), "Linear(d_in=4, d_out=8, bias=False)"),
    (nt.LayerNorm(4, bias=False), "LayerNorm(d_model=4, eps=1e-05, bias=False)"),
    (nt.Unembedding(nt.Embedding(5, 4, rng=0).weight), "Unembedding(vocab_size=5, d_model=4)"),
    (nt.GELU("tanh").eval(), "GELU(approximate='tanh')"),
    (nt.ReLU(), "ReLU()"),
    (nt.FeedForward(4, 16, rng=0), "FeedForward(148 parameters)"),
    (nt.MultiHeadAttention(8, 4, 2, rng=0), "MultiHeadAttention(d_model=8, num_heads=4, num_kv_heads=2, 216 parameters)"),
    (nt.make_model(9, 9, 1, 8, 8, 2, rng=0).decoder, "CrossStack(784 parameters)"),
    (nt.KeyValueCache(), "KeyValueCache(length=0, arrays=0)"),
])
def test_repr_begins_with_the_settings_and_of_a_composite_with_the_number_of_parameters(module, shown):
    assert repr(module).splitlines()[0] == shown


def test_repr_of_a_model_tells_its_sizes_and_shows_its_parts_as_a_tree():
    model = nt.CausalLanguageModel(65, 32, 4, 3, max_len=16, rng=0)
    assert repr(model).splitlines() == [
        f"CausalLanguageModel(vocab_size=65, d_model=32, num_heads=4, num_layers=3, max_len=16, {model.num_parameters():,} "
        "parameters)",
        "  embedding: Embedding(vocab_size=65, d_model=32, factor=1.0)",
        "  positions: LearnedPositionalEmbedding(max_len=16, d_model=32)",
        "  dropout: Dropout(p=0.0)",
        "  decoder: Stack()",
        "    blocks.0-2: 3 x Block(norm='pre')",
        "      norm1: LayerNorm(d_model=32, eps=1e-05, bias=True)",
        "      attention: SelfAttention(d_model=32, num_heads=4)",
        *(f"        {name}: Linear(d_in=32, d_out=32, bias=True)" for name in ("query", "key", "value")),
        "        attention: ScaledDotProductAttention()",
        "          softmax: Softmax()",
        "          dropout: Dropout(p=0.0)",
        "        output: Linear(d_in=32, d_out=32, bias=True)",
        "      norm2: LayerNorm(d_model=32, eps=1e-05, bias=True)",
        "      feed_forward: FeedForward()",
        "        up: Linear(d_in=32, d_out=128, bias=True)",
        "        activation: GELU(approximate='none')",
        "        dropout: Dropout(p=0.0)",
        "        down: Linear(d_in=128, d_out=32, bias=True)",
        "      dropout: Dropout(p=0.0)",
        "    norm: LayerNorm(d_model=32, eps=1e-05, bias=True)",
        "  output: Unembedding(vocab_size=65, d_model=32)"]
    model.decoder.blocks[1].dropout.p = 0.5
    assert [line.strip() for line in repr(model).splitlines() if line.strip().startswith("blocks.")] == [
        f"blocks.{number}: Block(norm='pre')" for number in range(3)]


def test_other_models_tell_their_sizes_too():
    first = "d_model=12, num_heads=2, num_layers=2"
    for model, sizes in ((nt.make_model(9, 7, 2, 12, d_ff=8, h=2), f"src_vocab=9, tgt_vocab=7, {first}"),
                         (nt.SequenceClassifier(9, 12, 2, 2, max_len=5), f"vocab_size=9, {first}, max_len=5")):
        assert repr(model).startswith(f"{type(model).__name__}({sizes}, {model.num_parameters():,} parameters)\n")


class Odd(nt.Module):
    """Has attributes of all kinds, and a setting that is called like a method of other libraries."""

    def __init__(self):
        self.settings = {"a": 1}
        self.notes = "a line\n" * 50
        self.width = 3
        self.table = np.ones(3)
        self.itself = self
        self._secret = 1
        self.odd = object()


def test_repr_works_for_any_class():
    assert repr(Odd()) == "Odd(width=3)"
    assert repr(Pair()).splitlines()[0] == "Pair(32 parameters)"
    unfinished = Odd.__new__(Odd)
    assert repr(unfinished) == "Odd()"


@pytest.mark.parametrize("make", [
    lambda: nt.DecoderBlock(8, 2, 16, cross_attention=True, rng=0),
    lambda: nt.DecoderBlock(8, 2, 16, 0.1, "pre", "relu", 1e-5, True, rng=0),
    lambda: nt.CrossAttentionBlock(8, 2, 16, rng=0),
    lambda: nt.Decoder(2, 8, 2, 16, cross_attention=True, rng=0),
    lambda: nt.CrossAttentionDecoder(2, 8, 2, 16, rng=0),
])
def test_a_decoder_with_cross_attention_can_be_copied_and_pickled(make):
    model = make().eval()
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 3, 8)).astype(np.float32)
    memory = rng.standard_normal((2, 5, 8)).astype(np.float32)
    assert isinstance(model, (nt.DecoderBlock, nt.Decoder)) and type(model).__name__.startswith("CrossAttention")
    for twin in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(twin) is type(model)
        np.testing.assert_array_equal(twin(x, memory), model(x, memory))


def test_both_ways_to_make_a_block_with_cross_attention_draw_the_same_weights():
    switched = nt.DecoderBlock(8, 2, 16, cross_attention=True, rng=0).state_dict()
    named = nt.CrossAttentionBlock(8, 2, 16, rng=0).state_dict()
    assert list(switched) == list(named) and "cross_attention.query.weight" in named
    assert all(np.array_equal(switched[name], named[name]) for name in named)
    assert type(nt.DecoderBlock(8, 2, 16, rng=0)) is nt.DecoderBlock


def test_a_subclass_with_the_forward_of_a_plain_block_refuses_cross_attention():
    class Own(nt.DecoderBlock):
        pass

    class Reads(nt.DecoderBlock):
        def forward(self, x, memory):
            return x + self.cross_attention(self.norm2(x), memory)

    with pytest.raises(ValueError, match="inherit from CrossAttentionBlock"):
        Own(8, 2, 16, cross_attention=True)
    assert type(Reads(8, 2, 16, cross_attention=True, rng=0)) is Reads


def test_forwards_without_a_backward_are_told_once_they_pile_up():
    """The warning names the model that the script calls, not the part whose values pile up."""
    model, ids = nt.CausalLanguageModel(5, 4, 2, 1, rng=0), np.array([[1, 2]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(PILE // 2 - 1):                      # one dropout serves two sublayers
            model(ids)
    with pytest.warns(UserWarning, match=r"^CausalLanguageModel: a part still saves .* 1,000 forwards .* call eval\(\)"):
        for _ in range(PILE // 2 + 1):
            model(ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.eval()
        for _ in range(10):
            model(ids)
    assert "_saved" not in vars(model.embedding)
