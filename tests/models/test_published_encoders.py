"""BERT, DistilBERT, RoBERTa and T5 beside transformers, where the tests of families do not go.

Classifiers with padding on the left, other padding ids, feed-forward layers and depths; and T5's decoding.
"""

import numpy as np
import pytest
from helpers.hugging_face import compare, double_precision, theirs, write_tiny

import numpy_transformer as nt

pytestmark = pytest.mark.slow
TOLERANCE = 1e-9
SHALLOW = dict(feed_forward_proj="gated-silu", num_decoder_layers=1)
DEEP = dict(feed_forward_proj="gated-gelu", num_decoder_layers=3, tie_word_embeddings=False)
BUCKETS = dict(feed_forward_proj="gelu", relative_attention_num_buckets=32, relative_attention_max_distance=20)
sides = pytest.mark.parametrize("side", ["right", "left"])


@pytest.fixture(scope="module", autouse=True)
def torch():
    """torch, which takes seconds to import, as does transformers."""
    pytest.importorskip("transformers")
    return pytest.importorskip("torch")


def padded(side, pad_id, lengths=(9, 5, 2)):
    """Returns ids and their mask, with the padding on one side."""
    rng = np.random.default_rng(3)
    places = np.arange(9) if side == "right" else np.arange(9)[::-1]
    mask = places < np.array(lengths)[:, None]
    return np.where(mask, rng.integers(2, 61, mask.shape), pad_id), mask


def worst_of(errors):
    """Returns the names of what differs by more than rounding."""
    return [name for name, error in errors.items() if not error < TOLERANCE]


@pytest.mark.parametrize("architecture, family, options", [
    ("BertForSequenceClassification", "bert", dict(hidden_act="relu")),
    ("DistilBertForSequenceClassification", "distilbert", dict(activation="relu")),
    ("RobertaForSequenceClassification", "roberta", dict(layer_norm_eps=0.01))])
def test_classifiers_read_the_first_place_even_if_it_is_padding(tmp_path, architecture, family, options):
    """Then the embedding of the padding token, and RoBERTa's position for it, have a gradient, as those of any other."""
    folder = write_tiny(tmp_path / "checkpoint", architecture, family, num_labels=4, **options)
    ids, mask = padded("left", 1 if family == "roberta" else 0)
    given = {"input_ids": ids, "attention_mask": mask * 1}
    errors = compare(folder, architecture, ((ids, mask), {}), given, np.array([3, 0, 2]), tmp_path)
    assert not worst_of(errors)


@sides
@pytest.mark.parametrize("pad_id", [0, 4])
def test_roberta_counts_positions_from_its_padding_id_on(tmp_path, side, pad_id):
    folder = write_tiny(tmp_path / "checkpoint", "RobertaForMaskedLM", "roberta", pad_token_id=pad_id)
    ids, mask = padded(side, pad_id)
    targets = np.where(mask, np.random.default_rng(4).integers(0, 61, ids.shape), -1)
    ids[0, 2] = pad_id                          # it has the position of padding, though the mask does not hide it
    given = {"input_ids": ids, "attention_mask": mask * 1}
    errors = compare(folder, "RobertaForMaskedLM", ((ids, mask), {}), given, targets, tmp_path)
    assert not worst_of(errors)


@sides
@pytest.mark.parametrize("options", [SHALLOW, DEEP, BUCKETS], ids=["shallow", "deep", "buckets"])
def test_t5(tmp_path, side, options):
    folder = write_tiny(tmp_path / "checkpoint", "T5ForConditionalGeneration", "t5", **options)
    source, mask = padded(side, 0)
    target = np.random.default_rng(5).integers(0, 61, (3, 6))
    target[:, 0] = 0                            # the padding token begins, and is not hidden
    target[1, 3:] = 0
    targets = np.random.default_rng(6).integers(0, 61, target.shape)
    for seen in (mask, np.ones(mask.shape, bool), mask[:, ::-1]):       # the ids do not decide what is hidden
        given = {"input_ids": source, "attention_mask": seen * 1, "decoder_input_ids": target}
        ours = (source, target), {"source_mask": seen}
        errors = compare(folder, "T5ForConditionalGeneration", ours, given, targets, tmp_path)
        assert not worst_of(errors)


def until_end(ids):
    """Returns the ids as a list, up to the token 1, which ends a text."""
    ids = [int(i) for i in ids]
    return ids[:ids.index(1) + 1] if 1 in ids else ids


@pytest.mark.parametrize("options", [{}, DEEP], ids=["T5", "T5 1.1"])
@pytest.mark.parametrize("cached", [True, False])
def test_greedy_and_beam_search_of_t5(tmp_path, options, cached, torch):
    architecture = "T5ForConditionalGeneration"
    folder = write_tiny(tmp_path, architecture, "t5", seed=33, vocab_size=13, decoder_start_token_id=0, **options)
    reference, ours = theirs(folder, architecture), nt.load_pretrained(folder, np.float64)
    source, mask = padded("right", 0)
    source %= 13
    source[mask] = np.maximum(source[mask], 2)
    given = {"input_ids": torch.tensor(source), "attention_mask": torch.tensor(mask * 1), "do_sample": False,
             "max_new_tokens": 9, "use_cache": False}       # their cache fails if the decoder is the deeper stack
    with double_precision():
        wanted = reference.generate(**given).numpy()
    found = nt.greedy_decode(ours, source, 0, 1, 9, cached=cached)
    assert [until_end(row) for row in found] == [until_end(row[1:]) for row in wanted]
    ended = 0
    for beam in (2, 4):
        with double_precision():
            wanted = reference.generate(**given, num_beams=beam, length_penalty=0.0, early_stopping=True,
                                        output_scores=True, return_dict_in_generate=True)
        found = nt.beam_search(ours, source, 0, 1, 9, beam, length_penalty=0.0, cached=cached)
        texts = [until_end(best[0][0]) for best in found]
        assert texts == [until_end(row[1:]) for row in wanted.sequences.numpy()]
        np.testing.assert_allclose([best[0][1] for best in found], wanted.sequences_scores, rtol=1e-5)
        ended += sum(text[-1] == 1 for text in texts)
    assert 0 < ended < 6                        # some texts end, and others are as long as they may be
