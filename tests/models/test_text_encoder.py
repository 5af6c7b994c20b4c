"""The encoder-only models beside plain loops; what padding, segments and places may and may not move."""

import math

import numpy as np
import pytest

import numpy_transformer as nt

V, D, H, L, F, C = 11, 12, 2, 2, 16, 3
RNG = np.random.default_rng


def built(kind, **options):
    """A model in float64 with random parameters, no gamma 1, no bias 0."""
    sizes = dict(vocab_size=V, d_model=D, num_heads=H, num_layers=L, d_ff=F, max_len=9, dropout=0.0, rng=1)
    model, rng = kind(**sizes | options).astype(np.float64), RNG(2)
    for parameter in model.parameters():
        parameter.data = (parameter.data == 1) + rng.standard_normal(parameter.data.shape) / math.sqrt(D)
    return model


def ids_of(*lengths, width=7):
    ids = RNG(3).integers(1, V, (len(lengths), width))
    for row, length in zip(ids, lengths):
        row[length:] = 0
    return ids


def layer_norm(x, norm, eps=1e-6):
    return norm.gamma.data * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) + norm.beta.data


def encoded(model, ids, segments=None):
    """One text without padding through a post-norm encoder, by loops over tokens, heads and keys; (T, D)."""
    table = model.embedding.weight.data
    x = np.array([math.sqrt(D) * table[i] for i in ids])
    if segments is not None:
        x += np.array([model.segments.weight.data[s] for s in segments[:len(ids)]])
    for t in range(len(ids)):
        if hasattr(model.positions, "weight"):
            x[t] += model.positions.weight.data[t]
        else:
            x[t] += [(math.cos if i % 2 else math.sin)(t / 10000 ** ((i - i % 2) / D)) for i in range(D)]
    for block in model.encoder.blocks:
        attention = block.attention
        q, k, v = (x @ part.weight.data + part.bias.data for part in (attention.query, attention.key, attention.value))
        heads = np.zeros_like(x)
        for h in range(H):
            part = slice(h * D // H, (h + 1) * D // H)
            for t in range(len(x)):
                scores = np.array([q[t, part] @ k[s, part] / math.sqrt(D / H) for s in range(len(x))])
                weights = np.exp(scores - scores.max())
                heads[t, part] = weights / weights.sum() @ v[:, part]
        x = layer_norm(x + heads @ attention.output.weight.data + attention.output.bias.data, block.norm1)
        up, down = block.feed_forward.up, block.feed_forward.down
        bent = bend(model, x @ up.weight.data + up.bias.data)
        x = layer_norm(x + bent @ down.weight.data + down.bias.data, block.norm2)
    return x


def bend(model, x):
    if isinstance(model, nt.MaskedLanguageModel):
        return np.vectorize(lambda u: u * (1 + math.erf(u / math.sqrt(2))) / 2)(x)
    return np.maximum(x, 0)


def linear(x, layer):
    return x @ layer.weight.data + layer.bias.data


@pytest.mark.parametrize("classes", [1, C])
def test_the_classifier_is_the_mean_over_real_tokens_a_hidden_layer_and_an_output(classes):
    model, ids = built(nt.SequenceClassifier, num_classes=classes, hidden=10), ids_of(7, 4, 1)
    logits = model(ids)
    assert logits.shape == ((3,) if classes == 1 else (3, C))
    for row, found in zip(ids, logits):
        mean = encoded(model, row[row != 0]).mean(0)
        wanted = linear(np.maximum(linear(mean, model.hidden), 0), model.output)
        np.testing.assert_allclose(found, wanted[0] if classes == 1 else wanted, rtol=1e-10)
        np.testing.assert_allclose(model.eval().embed(row), mean, rtol=1e-10)
        model.train()
    np.testing.assert_allclose(model(ids[1]), logits[1], rtol=1e-10)         # without a batch axis


def test_without_masking_padding_is_attended_to_and_averaged_over():
    model, ids = built(nt.SequenceClassifier, mask_padding=False, hidden=10), ids_of(4, 7)
    for row, found in zip(ids, model(ids)):
        wanted = linear(np.maximum(linear(encoded(model, row).mean(0), model.hidden), 0), model.output)
        np.testing.assert_allclose(found, wanted[0], rtol=1e-10)
    np.testing.assert_allclose(model(ids, ids != 0), built(nt.SequenceClassifier, hidden=10)(ids), rtol=1e-10)


def test_the_token_classifier_and_the_masked_model_are_what_they_say():
    ids, segments = ids_of(5, 7), RNG(4).integers(0, 2, (2, 7))
    tagger = built(nt.TokenClassifier, num_classes=C)
    for row, found in zip(ids, tagger(ids)):
        real = row[row != 0]
        np.testing.assert_allclose(found[:len(real)], linear(encoded(tagger, real), tagger.output), rtol=1e-9)
    model = built(nt.MaskedLanguageModel)
    logits = model(ids, None, segments)
    for row, kinds, found in zip(ids, segments, logits):
        real = row[row != 0]
        x = encoded(model, real, kinds)
        x = layer_norm(bend(model, linear(x, model.transform)), model.norm)
        np.testing.assert_allclose(found[:len(real)], x @ model.embedding.weight.data.T + model.bias.data, rtol=1e-9)
    places = np.array([[3, 0, 4], [6, 6, 2]])
    picked = model(ids, None, segments, places)
    assert picked.shape == (2, 3, V)
    for b, k in np.ndindex(2, 3):
        np.testing.assert_allclose(picked[b, k], logits[b, places[b, k]], rtol=1e-12)


@pytest.mark.parametrize("kind", [nt.TextEncoder, nt.SequenceClassifier, nt.TokenClassifier, nt.MaskedLanguageModel])
def test_more_padding_and_an_explicit_mask_change_nothing(kind):
    model, ids = built(kind), ids_of(7, 3)
    longer = np.pad(ids, ((0, 0), (0, 2)))
    y, z, masked = model(ids), model(longer), model(np.where(ids == 0, 5, ids), ids != 0)
    for b, length in enumerate((7, 3)):
        cut = ... if y.ndim == 1 else slice(length)
        for other in (z, masked):
            np.testing.assert_allclose(other[b][cut], y[b][cut], rtol=1e-9)
    assert abs(model(np.where(ids == 0, 5, ids)) - y).max() > 1e-3


def test_what_is_hidden_gets_no_gradient_and_a_place_named_twice_gets_both():
    model, ids = built(nt.MaskedLanguageModel), ids_of(7, 4)
    places, dlogits = np.array([[2, 5, 5], [1, 1, 3]]), RNG(5).standard_normal((2, 3, V))
    with nt.record(model) as tape:
        model(ids, None, None, places)
        model.backward(dlogits)
    grads = {name: p.grad.copy() for name, p in model.named_parameters()}
    dx = tape["encoder"].dy
    for b, t in np.ndindex(2, 7):
        assert (abs(dx[b, t]).max() > 0) == (t in places[b])
    model.zero_grad()
    whole = np.zeros((2, 7, V))
    for b, k in np.ndindex(2, 3):
        whole[b, places[b, k]] += dlogits[b, k]
    model(ids)
    model.backward(whole)
    for name, p in model.named_parameters():
        np.testing.assert_allclose(p.grad, grads[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_text_of_padding_alone_gives_the_mean_zero():
    model = built(nt.SequenceClassifier, hidden=10)
    logits = model(np.zeros((2, 5), int))
    wanted = linear(np.maximum(model.hidden.bias.data, 0), model.output)
    np.testing.assert_allclose(logits, [wanted[0]] * 2, rtol=1e-12)
    model.backward(np.ones(2))
    assert abs(model.embedding.weight.grad).max() == 0


def test_note_001_has_as_many_parameters_as_keras_counts():
    """Embedding 10,001 x 64; a block: 4 x (64² + 64), 64 x 256 + 256 + 256 x 64 + 64, 4 x 64; 64 x 64 + 64, 64 + 1."""
    model = nt.SequenceClassifier(10_001, 64, 4, 2, 256, max_len=200, rng=0)
    block = 4 * (64 * 64 + 64) + 64 * 256 + 256 + 256 * 64 + 64 + 4 * 64
    assert model.num_parameters() == 640_064 + 2 * block + 64 * 64 + 64 + 64 + 1
    assert model.encoder.norm is None and model.encoder.blocks[0].norm1.eps == 1e-6
    assert model.summary().splitlines()[-1].split()[-1] == f"{model.num_parameters():,}"


@pytest.mark.parametrize("call, words", [
    (lambda m: m(np.ones((2, 10), int)), "max_len = 9"), (lambda m: m(np.ones((2, 0), int)), "1 to max_len"),
    (lambda m: m(np.ones((0, 3), int)), "wanted .B, T. or"), (lambda m: m(np.int64(3)), "wanted .B, T. or"),
    (lambda m: m(np.ones((2, 3, 4), int)), "wanted .B, T. or"), (lambda m: m.embed(np.ones((2, 3), int)), "model.eval"),
    (lambda m: built(nt.MaskedLanguageModel)(np.ones((2, 4), int), None, np.zeros(4, int)), "one segment for each token"),
    (lambda m: built(nt.MaskedLanguageModel)(np.ones((2, 4), int), None, None, np.zeros(4, int)), "K for each text"),
    (lambda m: m(np.full((2, 3), V)), "0 to 10"), (lambda m: m(np.ones((2, 3), int), np.ones((2, 3))), "booleans"),
    (lambda m: m(np.ones((2, 3), int), np.ones((2, 4), bool)), r"of shape \(2, 3\)"),
    (lambda m: m(np.ones((2, 3), int), None, np.zeros((2, 3), int)), "num_segments=2"),
    (lambda m: nt.SequenceClassifier(V, D, H, L, num_classes=0), "num_classes"),
    (lambda m: nt.TextEncoder(V, D, H, L, positions="absolute"), "'learned', 'sinusoidal', "),
    (lambda m: built(nt.MaskedLanguageModel)(np.ones((1, 3), int), None, None, np.array([[3]])), "positions"),
    (lambda m: nt.MaskedMean()(np.ones((2, 3, 4)), np.ones((2, 3))), "booleans"),
    (lambda m: nt.MaskedMean()(np.ones((2, 3, 4)), np.ones((3, 2), bool)), r"shape \(2, 3\)")])
def test_what_does_not_fit_is_told(call, words):
    with pytest.raises((ValueError, IndexError), match=words):
        call(built(nt.SequenceClassifier))


def test_carry_over_copies_by_name_and_shape_and_lists_the_rest():
    masked = nt.MaskedLanguageModel(V, D, H, L, F, max_len=9, norm="pre", rng=1)
    model = nt.SequenceClassifier(V, D, H, L, F, max_len=8, norm="pre", activation="gelu", positions="learned",
                                  num_segments=2, rng=2)
    before, state = model.state_dict(), masked.state_dict()
    found = nt.carry_over(model, state)
    assert found.new == ["positions.weight", "hidden.weight", "hidden.bias", "output.weight", "output.bias"]
    assert found.left_out == ["positions.weight", "transform.weight", "transform.bias", "norm.gamma", "norm.beta",
                              "bias"]
    assert set(found.carried) == set(before) - set(found.new) > {"encoder.blocks.1.attention.key.weight"}
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, state[name] if name in found.carried else before[name])
    with pytest.raises(ValueError, match="same sizes"):
        nt.carry_over(nt.Linear(2, 3), state)


def test_the_gradient_of_segments_agrees_with_differences():
    model = nt.TextEncoder(11, 12, 2, 1, max_len=5, num_segments=2, rng=0)
    ids, segments = np.array([[4, 7, 2, 9], [3, 1, 5, 0]]), np.array([[0, 0, 1, 1], [0, 1, 1, 1]])
    report = nt.gradcheck(model, ids, None, segments, directions=1)
    assert report.ok and any(row.tensor == "segments.weight" and not row.zero for row in report.rows), str(report)


BERT = dict(positions="learned", activation="gelu", scale_embedding=False, embedding_norm=True, eps=0.01)


def bert_vectors(model, ids, places, segments=None):
    """The vectors of one text without padding: the blocks of `encoded`, after BERT's own sum and norm."""
    table, row = model.embedding.weight.data, model.positions.weight.data
    x = np.array([table[token] + row[place] for token, place in zip(ids, places)])
    if segments is not None:
        x += np.array([model.segments.weight.data[s] for s in segments])
    x = layer_norm(x, model.embedding_norm, 0.01)
    return model.encoder(x[None])[0]


def test_bert_adds_up_tokens_positions_and_segments_and_normalizes_the_sum():
    model = built(nt.TextEncoder, num_segments=2, **BERT).eval()
    ids, segments = ids_of(7, 7), RNG(4).integers(0, 2, (2, 7))
    for row, kinds, found in zip(ids, segments, model(ids, None, segments)):
        np.testing.assert_allclose(found, bert_vectors(model, row, range(7), kinds), rtol=1e-10)


def test_dropout_follows_the_norm_of_the_embeddings():
    model = built(nt.TextEncoder, **BERT | dict(dropout=0.5))
    with nt.record(model) as tape:
        model(ids_of(7, 7))
    norm, dropout = (next(call for call in tape.calls if call.name == name) for name in ("embedding_norm", "dropout"))
    np.testing.assert_array_equal(dropout.inputs[0], norm.output)
    assert (dropout.output == 0).any()


@pytest.mark.parametrize("left", [0, 1, 3])
def test_positions_that_count_real_tokens_do_not_depend_on_the_padding(left):
    """RoBERTa: the padding token is 1, its position 1, and the first real token has position 2."""
    model = built(nt.TextEncoder, first_position=2, pad_id=1, **BERT).eval()
    assert model.positions.weight.data.shape == (11, D)                 # max_len = 9, and two rows before it
    text = RNG(5).integers(2, V, 5)
    ids = np.full((1, 9), 1)
    ids[0, left:left + 5] = text
    wanted = bert_vectors(model, text, range(2, 7))
    np.testing.assert_allclose(model(ids)[0, left:left + 5], wanted, rtol=1e-10)
    np.testing.assert_allclose(model(text), wanted, rtol=1e-10)
    model.eval(remember=True)(ids, np.ones(ids.shape, bool))            # even if padding is not hidden
    model.backward(np.ones((1, 9, D)))
    used = abs(model.positions.weight.grad).max(1) > 0
    assert used.tolist() == [False] + 6 * [True] + 4 * [False]


def test_the_first_token_through_a_hidden_layer_with_tanh_is_berts_classifier():
    ids, mask = ids_of(7, 4), ids_of(7, 4) != 0
    for activation, bent in (("tanh", np.tanh), ("relu", lambda x: np.maximum(x, 0))):
        model = built(nt.SequenceClassifier, num_classes=C, hidden=10, pool="first", head_activation=activation, **BERT)
        first = nt.TextEncoder.forward(model, ids, mask)[:, 0]
        wanted = linear(bent(linear(first, model.hidden)), model.output)
        np.testing.assert_allclose(model(ids, mask), wanted, rtol=1e-10)


@pytest.mark.parametrize("name, function", [
    ("gelu", nt.GELU()), ("gelu_tanh", nt.GELU("tanh")), ("relu", nt.ReLU()), ("silu", nt.SiLU())])
def test_the_masked_model_has_the_activation_that_it_is_given(name, function):
    model, ids = built(nt.MaskedLanguageModel, head_activation=name).eval(), ids_of(7, 7)
    x = layer_norm(function.eval()(linear(nt.TextEncoder.forward(model, ids), model.transform)), model.norm)
    np.testing.assert_allclose(model(ids), x @ model.embedding.weight.data.T + model.bias.data, rtol=1e-10)


def test_embed_gives_the_mean_or_the_first_token_of_length_1_if_asked():
    ids = ids_of(7, 4)
    vectors = built(nt.TextEncoder, **BERT).eval()(ids)
    means = np.array([x[row != 0].mean(0) for x, row in zip(vectors, ids)])
    for pool, wanted in (("mean", means), ("first", vectors[:, 0])):
        for normalize in (False, True):
            model = built(nt.TextEncoder, embedding_pool=pool, normalize=normalize, **BERT).eval()
            length = np.sqrt((wanted ** 2).sum(-1, keepdims=True)) if normalize else 1
            np.testing.assert_allclose(model.embed(ids), wanted / length, rtol=1e-10)
            np.testing.assert_allclose(model(ids), vectors, rtol=1e-12)
    nothing = built(nt.TextEncoder, normalize=True, **BERT).eval().embed(np.zeros((1, 3), int))
    assert not nothing.any()                    # the mean over no token is zeros, and stays finite


@pytest.mark.parametrize("options, words", [
    (dict(embedding_pool="max"), "'mean', 'first'"), (dict(first_position=0), "first_position must be"),
    (dict(first_position=2, positions="rotary"), "'learned' or 'sinusoidal'"), (dict(pool="max"), "'mean', 'first'"),
    (dict(head_activation="softmax"), "'tanh'")])
def test_settings_that_are_not_known_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        built(nt.SequenceClassifier, **options)


def test_the_first_token_is_given_a_mask_that_fits():
    first = nt.FirstToken()
    with pytest.raises(ValueError, match=r"of shape \(2, 3\)"):
        first(np.ones((2, 3, 4)), np.ones((3, 2), bool))
    with pytest.raises(TypeError, match="NumPy arrays"):
        first([[1.0]])
