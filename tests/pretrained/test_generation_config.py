"""generation_config.json: what of it `generate` follows, what is named, and the text of transformers for the same file."""

import json

import numpy as np
import pytest
from helpers.hugging_face import theirs, write_tiny

import numpy_transformer as nt
from numpy_transformer.pretrained import generation, load_pretrained
from numpy_transformer.pretrained.generation_config import describe


def files(**content):
    return {"generation_config.json": json.dumps(content)}


@pytest.mark.parametrize("content, options", [
    ({"bos_token_id": 1, "eos_token_id": [2, 3], "transformers_version": "5.0", "_from_model_config": True}, {}),
    ({"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.9}, {"temperature": 0.6, "top_k": 20, "top_p": 0.9}),
    ({"do_sample": True, "top_k": 0, "top_p": 1.0}, {"temperature": 1.0}),
    ({"do_sample": False, "temperature": 0.6, "top_p": 0.9}, {"temperature": 0.0}),
    ({"temperature": 1.0, "max_new_tokens": 50, "max_length": 20}, {"temperature": 1.0, "count": 50})])
def test_the_options_of_the_file(content, options):
    assert generation({}, files(**content), 3, [2]) == (options, [])


def test_the_changes_of_the_file():
    content = {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3, "bad_words_ids": [[5, 6], [2]], "suppress_tokens": [7],
               "min_length": 4, "min_new_tokens": 3}
    penalty, ngrams, forbidden, least = generation({}, files(**content), 3, [2]).changes
    assert (penalty.penalty, ngrams.size, forbidden.sequences) == (1.2, 3, [[5, 6], [7]])       # 2 ends a text
    assert (least.length, least.stops) == (6, [2])
    neutral = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "bad_words_ids": None, "min_length": 0}
    assert generation({}, files(**neutral), 3, [2]).changes == []


def test_what_is_followed_and_what_is_not_is_said():
    content = files(do_sample=True, temperature=0.6, repetition_penalty=1.1, num_beams=4, typical_p=0.9, use_cache=True,
                    forced_eos_token_id=2, something_new=[1], pad_token_id=0)
    followed, ignored = describe({}, content, "generate")
    assert followed == ("`generate` follows generation_config.json unless its options say otherwise: do_sample true, "
                        "temperature 0.6, repetition_penalty 1.1.")
    assert ignored == ("generation_config.json also has num_beams 4, typical_p 0.9, forced_eos_token_id 2, something_new "
                       "[1], which `generate` does not follow.")
    (only,) = describe({}, files(num_beams=4, length_penalty=2.0), "translate")
    assert "num_beams 4, length_penalty 2.0, which `translate` does not follow" in only
    assert describe({}, files(num_beams=1, max_length=20, output_scores=True), "generate") == []


def test_older_folders_have_these_options_in_config_json():
    config = {"model_type": "gpt2", "n_layer": 2, "repetition_penalty": 1.3, "do_sample": False, "max_length": 50}
    assert generation(config, {}, 1, []).options == {"temperature": 0.0}
    assert "`generate` follows config.json" in describe(config, {}, "generate")[0]
    assert describe(config, files(), "generate") == []                  # the newer file is the only one that counts


@pytest.mark.parametrize("content, words", [
    ({"temperature": "0.6"}, "temperature = '0.6', wanted a number that is not negative; copy"),
    ({"temperature": float("nan")}, "temperature = nan"), ({"top_k": 2.5}, "top_k = 2.5"), ({"top_p": 1.5}, "top_p = 1.5"),
    ({"repetition_penalty": -1}, "repetition_penalty = -1"), ({"min_length": True}, "min_length = True"),
    ({"max_new_tokens": 0}, "max_new_tokens = 0"), ({"bad_words_ids": [3]}, "a list bad_words_ids that does not consist"),
    ({"suppress_tokens": ["a"]}, "a list suppress_tokens that"), ({"min_length": 1e400}, "min_length = inf"),
    ({"temperature": 1e400}, "temperature = inf")])
def test_values_of_another_kind_are_refused(content, words):
    with pytest.raises(ValueError, match=words):
        describe({}, files(**content), "generate")


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_a_damaged_file_is_refused(text):
    with pytest.raises(ValueError, match="generation_config.json (is not JSON|holds no JSON object).*; copy"):
        generation({}, {"generation_config.json": text}, 1, [])


# What plain text would say next, as a list of ids, becomes what is asked for
ASKED = {
    "repetition penalty": lambda plain: {"repetition_penalty": 1.7},
    "repetition wanted": lambda plain: {"repetition_penalty": 0.2},
    "no bigram twice": lambda plain: {"no_repeat_ngram_size": 2},
    "no token twice": lambda plain: {"no_repeat_ngram_size": 1, "repetition_penalty": 1.2},
    "bad words": lambda plain: {"bad_words_ids": [[plain[0]], plain[1:3], [60, 60, plain[4]]]},
    "suppressed": lambda plain: {"suppress_tokens": plain[:3]},
    "least length": lambda plain: {"min_length": 12, "eos_token_id": plain[2]},
    "least new tokens": lambda plain: {"min_new_tokens": 9, "eos_token_id": plain[1]},
}


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("family, architecture", [("gpt2", "GPT2LMHeadModel"), ("llama", "LlamaForCausalLM")])
def test_the_same_text_as_transformers(asked, family, architecture, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    folder = write_tiny(tmp_path / "checkpoint", architecture, family, seed=1)
    prompt = np.random.default_rng(2).integers(3, 61, 5)
    ours = load_pretrained(folder, np.float64)
    plain = nt.generate(ours, prompt, 14, temperature=0)[5:]
    content = {"do_sample": False, "max_new_tokens": 14, "pad_token_id": 0, "eos_token_id": 60} | ASKED[asked](plain)
    expected = theirs(folder, architecture).generate(torch.tensor(prompt[None]),
                                                     generation_config=transformers.GenerationConfig(**content))[0].tolist()
    stop = [content["eos_token_id"]]
    options, changes = generation({}, files(**content), 5, stop)
    found = nt.generate(ours, prompt, stop=stop, changes=changes, **options)
    assert found == expected and found != nt.generate(ours, prompt, 14, temperature=0, stop=stop)
