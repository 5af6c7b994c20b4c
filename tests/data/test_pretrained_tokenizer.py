"""The tokenizers of published models: what stands around a text, special tokens, and texts of any length."""

import json

import numpy as np
import pytest

from numpy_transformer.data import (PretrainedReader, PretrainedTokenizer, frame, frame_source, read_prompt, token_name,
                                    tokenizer_from_json, unframe)

pytest.importorskip("tokenizers")
from helpers import published  # noqa: E402


def made(name, config=None, **files):
    tokenizer, special = published.TOKENIZERS[name]()
    texts = {"tokenizer.json": tokenizer.to_str(), "special_tokens_map.json": json.dumps(special)}
    return PretrainedTokenizer.from_files(texts | {f"{key}.json": json.dumps(value) for key, value in files.items()},
                                          config or {})


@pytest.mark.parametrize("name, begin, end, stop", [
    ("bert", [2], [3], []), ("roberta", [0], [2], [2]), ("gpt2", [], [], [0]), ("llama", [1], [], [2]),
    ("t5", [], [1], [1])])
def test_what_stands_around_a_text(name, begin, end, stop):
    tokenizer = made(name)
    assert (tokenizer.begin, tokenizer.end, tokenizer.stop) == (begin, end, stop)
    again = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert vars(again) | {"tokenizer": 0} == vars(tokenizer) | {"tokenizer": 0}
    for text in ("the cat sat", "a dog ran to the mat"):
        assert again.decode(again.encode(text)).strip() == text
        assert again.encode(text).tolist() == again.tokenizer.encode(text).ids[len(begin):][:len(again.encode(text))]


def test_the_files_decide_in_the_order_of_transformers():
    assert made("llama", {"eos_token_id": [2, 7]}).stop == [2, 7]
    assert made("llama", {"eos_token_id": 2}, generation_config={"eos_token_id": [5]}).stop == [5]
    assert made("llama", tokenizer_config={"add_bos_token": False}).begin == []
    assert made("gpt2", tokenizer_config={"add_bos_token": True}).begin == [0]
    assert made("t5", {"decoder_start_token_id": 0}, generation_config={"decoder_start_token_id": 4}).start == 4
    plain = made("bert", special_tokens_map={})
    assert plain.special == {"pad": 0, "mask": 4} and plain.begin == [2]


def test_files_that_name_no_special_token():
    llama = made("llama", {"pad_token_id": -1, "eos_token_id": []})         # -1 stands for none, as in LLaMA 1
    assert "pad" not in llama.special and llama.special["eos"] == 2 and llama.stop == []
    assert made("gpt2", {"bos_token_id": [0]}, special_tokens_map={"bos_token": {"id": 0}}).special == {"bos": 0}
    for missing, config in (("decoder_start_token_id", {"eos_token_id": 1}), ("eos_token_id", {"decoder_start_token_id": 0})):
        tokenizer = made("t5", config, special_tokens_map={})
        with pytest.raises(ValueError, match=f"config.json has no {missing}, and an encoder-decoder needs"):
            frame(tokenizer, "the cat")


def test_a_text_may_be_longer_than_the_file_says():
    tokenizer = made("bert")                    # its file truncates to 7 tokens, and pads to 7
    assert len(tokenizer.encode("the cat sat on the mat and a dog ran")) == 10 and len(tokenizer.encode("the")) == 1


def test_prompts_names_and_surrogates():
    tokenizer = made("llama")
    assert read_prompt(tokenizer, "the").tolist() == [1, *tokenizer.encode("the")]
    assert token_name(tokenizer, 1) == "<s>" and tokenizer.decode([1, *tokenizer.encode("the")]) == "the"
    with pytest.raises(ValueError, match="half a character"):
        tokenizer.encode("a\ud800")


def test_sources_and_targets_of_t5():
    tokenizer = made("t5", {"decoder_start_token_id": 0})
    ids = tokenizer.encode("the cat").tolist()
    assert frame_source(tokenizer, "the cat").tolist() == [*ids, 1]
    assert frame(tokenizer, "the cat").tolist() == [0, *ids, 1]
    assert unframe(tokenizer, [0, *ids, 1, 0, 5]) == "the cat"


def test_a_reader_of_bert():
    reader = PretrainedReader(made("bert"), 6)
    the, cat, sat = reader.tokens.encode("the cat sat")
    assert reader.read("The cat sat").tolist() == [2, the, cat, sat, 3] and reader.vocab_size == reader.tokens.vocab_size
    assert reader.read("the cat sat the cat sat").tolist() == [2, the, cat, sat, the, 3] and reader.num_truncated == 1
    assert reader.read_masked("the [mask] sat").tolist() == [2, the, 4, sat, 3]
    ids, positions = reader.read_words(["cat", "tad", "the"])              # t ##a ##d; the last word is cut off
    assert [reader.name(i) for i in ids] == ["[CLS]", "cat", "t", "##a", "##d", "[SEP]"] and positions.tolist() == [1, 2, 0]
    assert reader.name(4) == "[MASK]" and reader.name(cat) == "cat" and reader.frame_names == "[CLS] and [SEP]"
    assert sorted(reader.not_words) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="empty; give at least one word"):
        reader.read("  ")
    with pytest.raises(ValueError, match="has 7 tokens, including"):
        reader.read_masked("the cat sat the [MASK]")
    with pytest.raises(ValueError, match="write it in place of the word"):
        reader.read_masked("the cat")


def test_a_reader_of_roberta():
    """Words have a space before them; the mask takes the space before it."""
    reader = PretrainedReader(made("roberta"), 40)
    encode = reader.tokens.encode
    assert (reader.pad_id, reader.cls_id, reader.end) == (1, 0, (2,))
    assert reader.read_words(["the", "cat"])[0].tolist() == [0, *encode(" the"), *encode(" cat"), 2]
    assert reader.read_masked("the [MASK] sat").tolist() == [0, *encode("the"), reader.mask_id, *encode(" sat"), 2]
    np.testing.assert_array_equal(reader.read_masked("the <mask> sat"), reader.read_masked("the [Mask] sat"))


def test_an_encoder_needs_padding_and_a_begin():
    with pytest.raises(ValueError, match=r"has no \[CLS\] and no \[PAD\], which an encoder needs"):
        PretrainedReader(made("gpt2"), 8)
