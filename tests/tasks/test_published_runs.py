"""A run of a published model opens again, with any tokenizer of its size: no other library is needed."""

import numpy as np
import pytest
from helpers.quick import quick
from helpers.small_checkpoints import SMALL

import numpy_transformer as nt
from numpy_transformer.data import CharTokenizer


@pytest.mark.parametrize("family", quick(1, ["gpt2", "llama"]))
def test_a_saved_run_of_a_published_model_is_the_same(family, tmp_path):
    model = nt.load_pretrained(SMALL / family)
    tokenizer = CharTokenizer("".join(chr(0x4E00 + i) for i in range(model.embedding.vocab_size)))
    nt.save_run(tmp_path / "run.npz", model, tokenizer)
    again = nt.load_run(tmp_path / "run.npz").model
    assert again.origin.config == model.origin.config and type(again) is type(model)
    for (name, p), q in zip(model.named_parameters(), again.parameters(), strict=True):
        np.testing.assert_array_equal(p.data, q.data, err_msg=name)


def test_a_published_model_with_other_parts_is_refused(tmp_path):
    model = nt.load_pretrained(SMALL / "gpt2")
    nt.add_lora(model, 2)
    tokenizer = CharTokenizer("".join(chr(0x4E00 + i) for i in range(model.embedding.vocab_size)))
    with pytest.raises(ValueError, match="have been replaced .* nt.merge_lora takes back"):
        nt.save_run(tmp_path / "run.npz", model, tokenizer)
    nt.save_run(tmp_path / "run.npz", nt.merge_lora(model), tokenizer)
