"""vocab.json with merges.txt, and vocab.txt: the ids are those of the tokenizer.json from which the files were made."""

import json

import pytest

from numpy_transformer.data import PretrainedTokenizer
from numpy_transformer.data.tokenizer_files import has_tokenizer, make_definition

TEXTS = ["the cat sat on the mat, don't!  two  spaces\n\nnew 123 Ünï", "  The Cat 漢字 unaffable", "",
         "<s> a <mask>, <|endoftext|>", "a [MASK] b"]
GPT2 = {"vocab.json": json.dumps({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}), "merges.txt": "#version: 0.2\na b\n"}


def older_files(name):
    """({name: content} of the older files, special tokens, the tokenizer of the library) of a family in miniature."""
    pytest.importorskip("tokenizers")
    from helpers.published import TOKENIZERS

    tokenizer, special = TOKENIZERS[name]()
    definition = json.loads(tokenizer.to_str())
    vocab = definition["model"]["vocab"] | {token["content"]: token["id"] for token in definition["added_tokens"]}
    if name == "bert":
        return {"vocab.txt": "\n".join(sorted(vocab, key=vocab.get)) + "\n"}, special, tokenizer
    merges = "\n".join(" ".join(pair) for pair in definition["model"]["merges"])
    return {"vocab.json": json.dumps(vocab), "merges.txt": f"#version: 0.2\n{merges}\n"}, special, tokenizer


@pytest.mark.parametrize("name", ["gpt2", "roberta", "bert"])
@pytest.mark.parametrize("named", [True, False])
def test_ids_and_frames_are_those_of_tokenizer_json(name, named):
    files, special, library = older_files(name)
    files |= {"special_tokens_map.json": json.dumps(special)} if named else {}
    config = {"model_type": name}
    found = PretrainedTokenizer.from_files(files, config)
    wanted = PretrainedTokenizer.from_files(files | {"tokenizer.json": library.to_str()}, config)
    for text in TEXTS:
        assert found.encode(text).tolist() == wanted.encode(text).tolist()
        assert found.decode(found.encode(text)) == wanted.decode(wanted.encode(text))
    assert (found.begin, found.end, found.vocab_size) == (wanted.begin, wanted.end, wanted.vocab_size)
    if named:
        assert found.special == wanted.special
    assert has_tokenizer(files)


def test_settings_and_added_tokens_of_the_folder():
    files, _, _ = older_files("bert")
    files["tokenizer_config.json"] = '{"do_lower_case": false}'
    cased = PretrainedTokenizer.from_files(files, {"model_type": "bert"})
    assert cased.encode("The").tolist() != cased.encode("the").tolist()
    files, _, _ = older_files("gpt2")
    more = {"added_tokens.json": '{"<|chat|>": 300}', "tokenizer_config.json": json.dumps({
        "tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"301": {"content": "<|end|>", "special": True}}})}
    tokenizer = PretrainedTokenizer.from_files(files | more, {"model_type": "gpt2"})
    assert tokenizer.encode("a<|chat|><|end|>").tolist() == [*tokenizer.encode("a"), 300, 301]
    assert tokenizer.decode([300, 301]) == "<|chat|>"                   # the other one is special
    pieces = [tokenizer.token(i) for i in tokenizer.encode("1 234")]
    assert pieces == ["1", "Ġ", "2", "3", "4"]                          # Qwen2 splits numbers into digits


@pytest.mark.parametrize("change, config, words", [
    ({}, {"model_type": "llama"}, "a tokenizer of the kind None this package cannot make one; write a tokenizer.json"),
    ({"tokenizer_config.json": '{"tokenizer_class": "LlamaTokenizer"}'}, {}, "of the kind 'Llama' this"),
    ({"merges.txt": ""}, {"model_type": "bert"}, "vocab.json and merges.txt, but no tokenizer.json, and .*kind 'Bert'"),
    ({"merges.txt": "a b\nb a\n"}, {"model_type": "gpt2"}, "merge 2 in merges.txt, 'b a', is not a pair of pieces"),
    ({"merges.txt": "a b c\n"}, {"model_type": "gpt2"}, "merge 1 in merges.txt"),
    ({"vocab.json": "[1]"}, {"model_type": "gpt2"}, "not a JSON object with an id for each piece"),
    ({"vocab.json": '{"a": "b"}'}, {"model_type": "gpt2"}, "not a JSON object with an id"),
    ({"vocab.json": "{"}, {"model_type": "gpt2"}, "vocab.json is not JSON"),
    ({"added_tokens.json": '{"x": 7}'}, {"model_type": "gpt2"}, "added token 'x' has the id 7, where 4 is wanted"),
    ({"added_tokens.json": '{"ab": 7}'}, {"model_type": "gpt2"}, "added token 'ab' has the id 7, where 2 is wanted"),
    ({}, {"model_type": "roberta"}, "special token '<s>' is not in its vocabulary")])
def test_files_that_do_not_make_a_tokenizer_are_refused(change, config, words):
    files = GPT2 | change
    names = json.loads(files.get("tokenizer_config.json", "{}"))
    with pytest.raises(ValueError, match=words) as error:
        make_definition(files, names, config)
    assert "; " in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("name, kind", [("gpt2", "GPT2Tokenizer"), ("gpt2", "Qwen2Tokenizer"), ("bert", "BertTokenizer"),
                                        ("roberta", "RobertaTokenizer")])
def test_ids_are_those_of_transformers(name, kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    files, special, _ = older_files(name)
    files["tokenizer_config.json"] = json.dumps({"tokenizer_class": kind})
    files["special_tokens_map.json"] = json.dumps({token: text for token, text in special.items() if token != "mask_token"})
    files["config.json"] = json.dumps({"model_type": name})
    for file, content in files.items():
        (tmp_path / file).write_text(content)
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    found = PretrainedTokenizer.from_files(files, {"model_type": name})
    for text in (text for text in TEXTS if "<mask>" not in text):       # whose space version 5 of transformers keeps
        assert found.encode(text).tolist() == library(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("name, settings, text, other", [
    ("bert", {"do_lower_case": False}, "The cat", "the cat"), ("bert", {"strip_accents": False}, "é", "e"),
    ("gpt2", {"add_prefix_space": True}, "the cat", None)])
def test_tokenizer_config_comes_before_tokenizer_json(name, settings, text, other):
    """As in transformers; without such a setting, the definition stays as it is, to the last byte."""
    _, _, library = older_files(name)
    files = {"tokenizer.json": library.to_str(), "tokenizer_config.json": '{"model_max_length": 8}'}
    plain = PretrainedTokenizer.from_files(files, {})
    found = PretrainedTokenizer.from_files(files | {"tokenizer_config.json": json.dumps(settings)}, {})
    assert plain.definition == files["tokenizer.json"]
    if other is None:
        assert found.encode(text).tolist() == plain.encode(f" {text}").tolist() != plain.encode(text).tolist()
    else:
        assert plain.encode(text).tolist() == plain.encode(other).tolist() == found.encode(other).tolist()
        assert found.encode(text).tolist() != found.encode(other).tolist()
