"""What is in a folder and done in another way is said in one sentence each."""

import json
import re
import shutil

import numpy as np
import pytest
from helpers.small_checkpoints import SMALL

import numpy_transformer as nt
from numpy_transformer.pretrained import class_and_options, load_pretrained, remarks, save_pretrained, vector_settings

MODULES = [{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"}]
PROMPTS = {"prompts": {"query": "query: ", "passage": "passage: ", "document": ""}, "default_prompt_name": "query",
           "truncate_dim": 5, "similarity_fn_name": "dot"}


@pytest.fixture
def make(tmp_path):
    """Copies a small checkpoint with further files: dicts as JSON, changes of config.json as `config`."""
    def folder(family, files=None, **config):
        shutil.copytree(SMALL / family, tmp_path / family)
        for name, content in (files or {}).items():
            (tmp_path / family / name).parent.mkdir(exist_ok=True)
            (tmp_path / family / name).write_text(content if isinstance(content, str) else json.dumps(content))
        path = tmp_path / family / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | config))
        return tmp_path / family
    return folder


@pytest.mark.parametrize("family, files, config, words", [
    ("gpt2", {"chat_template.jinja": "{{ x }}"}, {}, "has a chat template, which `generate` does not apply"),
    ("gpt2", {"tokenizer_config.json": {"chat_template": [{"name": "default"}]}}, {}, "has a chat template"),
    ("t5", {"chat_template.json": {}}, {}, "which `translate` does not apply"),
    ("llama", {"generation_config.json": {"repetition_penalty": 1.1}}, {}, "follows .*: repetition_penalty 1.1."),
    ("t5", {"generation_config.json": {"repetition_penalty": 1.1}}, {}, "repetition_penalty 1.1, which `translate` does not"),
    ("gpt2", {}, {"task_specific_params": {"text-generation": {"do_sample": True}}}, "tasks text-generation .*give options"),
    ("t5", {}, {"task_specific_params": {"summarization": {"prefix": "summarize: "}}}, "'summarize: '.* prefix"),
    ("llama", {}, {"auto_map": {"AutoModel": "x.Y"}}, "Python code of its own .auto_map., which is not run"),
    ("bert", {"modules.json": MODULES, "1_Pooling/config.json": {"pooling_mode": "mean"},
              "config_sentence_transformers.json": PROMPTS | {"similarity_fn_name": "cosine"}}, {},
     "the prompts passage 'passage: ', which `embed` and `similar` do not put")])
def test_a_sentence(make, family, files, config, words):
    (sentence,) = remarks(load_pretrained(make(family, files, **config)))
    assert re.search(words, sentence) and sentence.endswith(".") and "\n" not in sentence


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "t5"])
def test_nothing_is_said_of_a_plain_folder(make, family):
    files = {"tokenizer_config.json": {"model_max_length": 8}, "generation_config.json": {"eos_token_id": 2}}
    assert remarks(load_pretrained(make(family, files))) == []


def sentence_files(**settings):
    return {"modules.json": MODULES, "1_Pooling/config.json": {"pooling_mode": "cls"},
            "config_sentence_transformers.json": PROMPTS | settings}


def test_modules_without_pooling_say_nothing_about_a_classifier(make):
    """As those of the cross-encoders of sentence-transformers."""
    files = {"modules.json": MODULES[:1], "sentence_bert_config.json": {"transformer_task": "sequence-classification"},
             "config_sentence_transformers.json": {"model_type": "CrossEncoder"}}
    model = load_pretrained(make("bert", files))
    assert type(model) is nt.MaskedLanguageModel and "embedding_pool" not in model.origin.options
    assert ["describes a CrossEncoder, of which" in sentence for sentence in remarks(model)] == [True]


def test_modules_count_whatever_head_the_encoder_has(make, tmp_path):
    """The vector of a masked language model is the output of its encoder at the first token."""
    folder = make("bert", sentence_files())
    model = load_pretrained(folder, np.float64)
    ids = np.array([[4, 7, 5, 9], [6, 8, 3, 4]])
    assert type(model) is nt.MaskedLanguageModel and model.origin.options["embedding_pool"] == "first"
    np.testing.assert_array_equal(model.embed(ids), nt.TextEncoder.forward(model, ids)[:, 0])
    found = vector_settings(model.origin.files)
    assert found == {"prompt": "query: ", "truncate_dim": 5}
    assert [text.split()[0] for text in remarks(model)] == ["config_sentence_transformers.json"] * 2    # passage, dot
    save_pretrained(model, tmp_path / "again")
    assert load_pretrained(tmp_path / "again").origin.files == model.origin.files


@pytest.mark.parametrize("files, words", [
    ({"config_sentence_transformers.json": {"default_prompt_name": "x"}}, "the default prompt 'x', but no text for it"),
    ({"config_sentence_transformers.json": {"truncate_dim": 0}}, "truncate_dim = 0, wanted"),
    ({"config_sentence_transformers.json": {"truncate_dim": "5"}}, "truncate_dim = '5', wanted"),
    ({"config_sentence_transformers.json": []}, "holds no JSON object"),
    (sentence_files() | {"1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": False}},
     "leaves the prompt 'query: ' out of the sentence vector .*remove modules.json")])
def test_settings_that_cannot_be_followed_are_refused(files, words):
    texts = {name: json.dumps(content) for name, content in files.items()}
    with pytest.raises(ValueError, match=words):
        vector_settings(texts)


@pytest.mark.parametrize("content", [
    {"transformer_task": "fill-mask"}, {"modality_config": {"text": {"method_output_name": "pooler_output"}}}])
def test_other_outputs_than_the_last_are_refused(make, content):
    folder = make("bert", sentence_files() | {"sentence_bert_config.json": content})
    with pytest.raises(ValueError, match="supports last_hidden_state of feature-extraction.*; remove modules.json"):
        class_and_options(folder)
