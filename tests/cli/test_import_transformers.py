"""What the commands print about imported models beside what transformers computes from the same folder."""

import re

import numpy as np
import pytest
from helpers.commands import run

from numpy_transformer.tasks.runs import load_run

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.slow
TEXTS = ["the cat sat on the mat", "A dog, RAN to an old house.", "we saw", "unseen ütterly zebra-words"]


@pytest.fixture
def imported(request, tmp_path, capsys):
    """(run file, the tokenizer and the model of transformers) of the folder that the test's parameter names."""
    from helpers.published import write_published

    pytest.importorskip("torch")                # imported only when these tests run: it takes seconds
    transformers = pytest.importorskip("transformers")
    name, auto = request.param
    folder = write_published(tmp_path / name, name, seed=5)
    assert run(capsys, "import", folder, "--out", tmp_path / "run.npz")[0] == 0
    model = getattr(transformers, auto).from_pretrained(folder).eval()
    capsys.readouterr()                         # its progress bars
    return tmp_path / "run.npz", transformers.AutoTokenizer.from_pretrained(folder), model


def loaded(name, auto):
    return pytest.mark.parametrize("imported", [(name, auto)], indirect=True)


def generated(tokenizer, model, text, **options):
    import torch

    ids = torch.tensor([tokenizer(text)["input_ids"]])
    with torch.no_grad():
        found = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, **options)
    return tokenizer.decode(found[0], skip_special_tokens=True, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("imported", [("gpt2", "AutoModelForCausalLM"), ("llama", "AutoModelForCausalLM")], indirect=True)
def test_greedy_text(capsys, imported):
    path, tokenizer, model = imported
    for text in TEXTS:
        code, out, err = run(capsys, "generate", path, "--prompt", text, "--length", 12, "--temperature", 0)
        assert code == 0, err
        assert out == re.sub("\ufffd{1,3}$", "", generated(tokenizer, model, text, max_new_tokens=12)) + "\n"


@pytest.mark.parametrize("imported", [("bert-mlm", "AutoModelForMaskedLM"), ("roberta-mlm", "AutoModelForMaskedLM")],
                         indirect=True)
def test_filled_words(capsys, imported):
    import torch

    path, tokenizer, model = imported
    for text in ("the [MASK] sat on a mat", "a dog ran to the [mask]."):
        own = text.lower().replace("[mask]", tokenizer.mask_token)
        ids = torch.tensor([tokenizer(own)["input_ids"]])
        with torch.no_grad():
            logits = model(ids).logits[0, (ids[0] == tokenizer.mask_token_id).nonzero()[0, 0]].double().numpy()
        logits[tokenizer.all_special_ids] = -np.inf
        shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        _, out, _ = run(capsys, "fill", path, text, "--top", 3)
        for line, token in zip(out.splitlines(), shares.argsort()[::-1]):
            share, word = line.split("\t")
            assert float(share) == pytest.approx(shares[token], abs=1e-4)
            assert word == tokenizer.decode([token]).strip()


@loaded("bert-classifier", "AutoModelForSequenceClassification")
def test_classes(capsys, imported):
    import torch

    path, tokenizer, model = imported
    long = " ".join(["the cat sat"] * 9)
    code, out, err = run(capsys, "classify", path, *TEXTS, long)
    assert code == 0 and ("cut 1 of 5 texts after their first 16 tokens, including [CLS] and [SEP] (the model reads no "
                          "more)") in err
    for line, text in zip(out.splitlines(), [*TEXTS, long], strict=True):
        ids = torch.tensor([tokenizer(text, truncation=True, max_length=16, padding=False)["input_ids"]])
        shares = torch.softmax(model(ids).logits[0].double(), -1)
        label, share, same = line.split("\t")
        assert same == text and label == ["sad", "glad", "odd"][shares.argmax()]
        assert float(share) == pytest.approx(shares.max().item(), abs=1e-4)


@loaded("bert-tagger", "AutoModelForTokenClassification")
def test_tags_of_first_pieces(capsys, imported):
    import torch

    path, tokenizer, model = imported
    words = "the zat ran unden cat".split()             # two of them are several pieces
    read = tokenizer(words, is_split_into_words=True, truncation=False, padding=False)
    best = model(torch.tensor([read["input_ids"]])).logits[0].argmax(-1)
    first = [read.word_ids().index(n) for n in range(len(words))]
    assert first != list(range(1, 6))
    _, out, _ = run(capsys, "tag", path, " ".join(words))
    assert out == "".join(f"{word}\t{('O', 'B-CAT')[best[n]]}\n" for word, n in zip(words, first)) + "\n"


@pytest.mark.parametrize("imported", [("bert-encoder", "AutoModel"), ("roberta-mlm", "AutoModel")], indirect=True)
def test_vectors_are_means(capsys, imported):
    import torch

    path, tokenizer, model = imported
    _, out, _ = run(capsys, "embed", path, *TEXTS)
    for line, text in zip(out.splitlines(), TEXTS, strict=True):
        ids = torch.tensor([tokenizer(text, truncation=False, padding=False)["input_ids"]])
        mean = model(ids).last_hidden_state[0].mean(0).detach().numpy()
        np.testing.assert_allclose(np.array(line.split("\t"), float), mean, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
@loaded("t5", "AutoModelForSeq2SeqLM")
def test_targets(capsys, imported, beam):
    path, tokenizer, model = imported
    _, out, _ = run(capsys, "translate", path, *TEXTS, "--beam", beam, "--length-penalty", 0)
    for line, text in zip(out.split("\n"), TEXTS):
        assert line == generated(tokenizer, model, text, max_new_tokens=40, num_beams=beam, length_penalty=0.0)


@pytest.mark.parametrize("imported", [
    ("gpt2", "AutoModelForCausalLM"), ("llama", "AutoModelForCausalLM"), ("bert-mlm", "AutoModelForMaskedLM"),
    ("bert-classifier", "AutoModelForSequenceClassification"), ("bert-tagger", "AutoModelForTokenClassification"),
    ("bert-encoder", "AutoModel"), ("roberta-mlm", "AutoModelForMaskedLM"), ("t5", "AutoModelForSeq2SeqLM")], indirect=True)
def test_transformers_reads_an_export(capsys, imported, tmp_path):
    import torch
    import transformers

    path, tokenizer, model = imported
    assert run(capsys, "export", path, tmp_path / "out")[0] == 0
    again, said = type(model).from_pretrained(tmp_path / "out", output_loading_info=True)
    has_no_pooler = type(model).__name__ == "BertModel"                 # transformers draws one that is not used
    assert not said["unexpected_keys"] and (has_no_pooler or not said["missing_keys"])
    for name, array in model.state_dict().items():
        assert has_no_pooler and "pooler" in name or torch.equal(again.state_dict()[name], array)
    same = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert all(same(text)["input_ids"] == tokenizer(text)["input_ids"] for text in TEXTS)


@pytest.mark.parametrize("imported", [("bert-mlm", "AutoModel"), ("roberta-mlm", "AutoModel")], indirect=True)
def test_ids_of_a_text(imported):
    path, tokenizer, _ = imported
    reader = load_run(path).reader
    for text in [*TEXTS, " the  cat ", "x [SEP] </s> y"]:
        assert reader.read(text).tolist() == tokenizer(text, truncation=True, max_length=reader.max_len,
                                                    padding=False)["input_ids"]
    assert reader.pad_id == tokenizer.pad_token_id and reader.mask_id == tokenizer.mask_token_id
