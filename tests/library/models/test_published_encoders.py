"""Variants of BERT, DistilBERT, RoBERTa and T5 beside transformers: logits and the gradient of every weight in float64.

Each model is built by transformers with random weights, saved by it, and loaded by ours.
"""

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer import pretrained

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
TOLERANCE = 1e-9
V, D, H, L, F, B, T = 23, 12, 3, 2, 20, 3, 7

BERT = dict(vocab_size=V, hidden_size=D, num_attention_heads=H, num_hidden_layers=L, intermediate_size=F,
            max_position_embeddings=16, layer_norm_eps=0.01)
DISTILBERT = dict(vocab_size=V, dim=D, n_heads=H, n_layers=L, hidden_dim=F, max_position_embeddings=16)
T5 = dict(vocab_size=V, d_model=D, d_kv=5, num_heads=H, num_layers=L, d_ff=F, relative_attention_num_buckets=8,
          relative_attention_max_distance=6, layer_norm_epsilon=0.01, decoder_start_token_id=0)
T5_1_1 = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=3)


def both(folder, name, **config):
    """Returns (their model, our model) with the same random weights, no gamma 1, no bias 0."""
    kind = getattr(transformers, name)
    torch.manual_seed(1)
    theirs = kind(kind.config_class(**config, attn_implementation="eager")).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            scale = 0.5 if parameter.ndim == 1 else parameter.shape[-1] ** -0.5
            parameter.copy_(scale * torch.randn_like(parameter) + (parameter == 1))
    theirs.save_pretrained(folder)
    return theirs, nt.load_pretrained(folder, dtype=np.float64).eval(remember=True)


@pytest.fixture(autouse=True)
def norms_in_float64(monkeypatch):
    """T5's norm computes its variance in float32, whatever the dtype of the model; here it does not."""
    norm = pytest.importorskip("transformers.models.t5.modeling_t5").T5LayerNorm
    monkeypatch.setattr(norm, "forward", lambda self, x: torch.nn.functional.rms_norm(
        x, self.weight.shape, self.weight, self.variance_epsilon))


def compare(theirs, ours, inputs, named, pad_id=None, **their_inputs):
    """The outputs, and all gradients of a random linear function of them, under the names of transformers.

    With a pad_id, the embedding of this token, and RoBERTa's position for it, are left out: transformers gives them no
    gradient where they are looked up.
    """
    y = ours(*inputs, **named)
    their_y = theirs(**{name: torch.tensor(x) for name, x in their_inputs.items()})[0]
    error = np.linalg.norm(y - their_y.detach().numpy()) / np.linalg.norm(y)
    assert y.dtype == np.float64 and error <= TOLERANCE, f"output: {error:.1e}"
    dy = np.random.default_rng(2).standard_normal(y.shape)
    their_y.backward(torch.tensor(dy))
    ours.backward(dy)
    grads = {name: parameter.grad for name, parameter in ours.named_parameters()}
    prefix = f"{theirs.base_model_prefix}."     # which the names of a model without a head lack
    found = {rule.theirs.removeprefix(prefix): rule.join(grads) for rule in pretrained.rules(ours)}
    wanted = {name.removeprefix(prefix): p.grad.numpy() for name, p in theirs.named_parameters() if p.grad is not None}
    assert found.keys() == wanted.keys()
    if pad_id is not None:
        tables = ["word_embeddings", "position_embeddings"] if ours.first_position else ["word_embeddings"]
        for grad in (found, wanted):
            for table in tables:
                grad[f"embeddings.{table}.weight"][pad_id] = 0
    largest = max(np.linalg.norm(g) for g in wanted.values())
    for name, g in wanted.items():
        size = np.linalg.norm(g)
        if name.endswith(("key.bias", "k_lin.bias")):       # softmax does not see it: zero up to rounding
            size = largest
        assert found[name].shape == g.shape and np.linalg.norm(found[name] - g) <= TOLERANCE * size, name


def padded(side, pad_id, lengths=(7, 4, 2)):
    """Returns ids and their mask, with the padding on one side."""
    rng = np.random.default_rng(3)
    places = np.arange(T) if side == "right" else np.arange(T)[::-1]
    mask = places < np.array(lengths)[:, None]
    return np.where(mask, rng.integers(2, V, (B, T)), pad_id), mask


sides = pytest.mark.parametrize("side", ["right", "left"])


@sides
@pytest.mark.parametrize("name, config", [
    ("BertModel", BERT), ("BertForMaskedLM", BERT | dict(hidden_act="gelu_new")),
    ("BertForSequenceClassification", BERT | dict(num_labels=3)),
    ("BertForSequenceClassification", BERT | dict(num_labels=2, type_vocab_size=4, hidden_act="relu")),
    ("BertForTokenClassification", BERT | dict(num_labels=5))])
def test_bert(tmp_path, side, name, config):
    theirs, ours = both(tmp_path, name, **config)
    ids, mask = padded(side, 0)
    segments = np.random.default_rng(4).integers(0, config.get("type_vocab_size", 2), ids.shape)
    compare(theirs, ours, (ids, mask, segments), {}, 0, input_ids=ids, attention_mask=mask * 1, token_type_ids=segments)


@sides
@pytest.mark.parametrize("name, config", [
    ("DistilBertModel", {}), ("DistilBertForMaskedLM", {}), ("DistilBertForSequenceClassification", dict(num_labels=3)),
    ("DistilBertForTokenClassification", dict(num_labels=4, activation="relu"))])
def test_distilbert(tmp_path, side, name, config):
    theirs, ours = both(tmp_path, name, **DISTILBERT, **config)
    ids, mask = padded(side, 0)
    compare(theirs, ours, (ids, mask), {}, 0, input_ids=ids, attention_mask=mask * 1)


@sides
@pytest.mark.parametrize("pad_id", [1, 4])
@pytest.mark.parametrize("name, config", [
    ("RobertaModel", {}), ("RobertaForMaskedLM", {}), ("RobertaForSequenceClassification", dict(num_labels=3)),
    ("RobertaForTokenClassification", dict(num_labels=5))])
def test_roberta(tmp_path, side, pad_id, name, config):
    """Positions are counted from pad_id + 1 on, wherever the padding is."""
    theirs, ours = both(tmp_path, name, **BERT, type_vocab_size=1, pad_token_id=pad_id, **config)
    ids, mask = padded(side, pad_id)
    compare(theirs, ours, (ids, mask), {}, pad_id, input_ids=ids, attention_mask=mask * 1)


@sides
@pytest.mark.parametrize("config", [{}, T5_1_1, dict(feed_forward_proj="gated-silu", num_decoder_layers=1),
                                    dict(feed_forward_proj="gelu", relative_attention_num_buckets=32,
                                         relative_attention_max_distance=20)],
                         ids=["T5", "T5 1.1", "gated-silu", "gelu"])
def test_t5(tmp_path, side, config):
    theirs, ours = both(tmp_path, "T5ForConditionalGeneration", **T5 | config)
    source, mask = padded(side, 0)
    target = np.random.default_rng(5).integers(0, V, (B, 5))
    target[:, 0] = 0                            # the padding token begins, and is not hidden
    target[1, 3:] = 0
    compare(theirs, ours, (source, target), {"source_mask": mask}, input_ids=source, attention_mask=mask * 1,
            decoder_input_ids=target)
    shown = np.ones(mask.shape, bool)           # a mask that contradicts the ids
    y = theirs(*(torch.tensor(x) for x in (source, shown, target))).logits.detach().numpy()
    np.testing.assert_allclose(ours(source, target, source_mask=shown), y, rtol=0, atol=1e-9 * abs(y).max())


@pytest.mark.parametrize("config", [{}, T5_1_1], ids=["T5", "T5 1.1"])
@pytest.mark.parametrize("cached", [True, False])
def test_greedy_and_beam_search_of_t5(tmp_path, config, cached):
    theirs, ours = both(tmp_path, "T5ForConditionalGeneration", **T5 | config)
    source, mask = padded("right", 0)
    given = dict(input_ids=torch.tensor(source), attention_mask=torch.tensor(mask * 1), do_sample=False,
                 max_new_tokens=9, use_cache=False)         # their cache fails with more decoder blocks than encoder ones
    wanted = theirs.generate(**given)[:, 1:].numpy()
    found = nt.greedy_decode(ours.eval(), source, 0, 1, 9, cached=cached)
    assert [until_end(row) for row in found] == [until_end(row) for row in wanted]
    for beam in (2, 4):
        wanted = theirs.generate(**given, num_beams=beam, length_penalty=0.0, early_stopping=True,
                                 output_scores=True, return_dict_in_generate=True)
        found = nt.beam_search(ours, source, 0, 1, 9, beam, length_penalty=0.0, cached=cached)
        assert [until_end(best[0][0]) for best in found] == [until_end(row[1:]) for row in wanted.sequences.numpy()]
        np.testing.assert_allclose([best[0][1] for best in found], wanted.sequences_scores, rtol=1e-5)


def until_end(ids):
    """Returns the ids as a list, up to the token 1, which ends a text."""
    ids = list(map(int, ids))
    return ids[:ids.index(1) + 1] if 1 in ids else ids
