"""What all tasks have in common: the check of the memory, and the end of decoding in text2text."""

import pytest

from numpy_transformer.data import CharTokenizer, frame
from numpy_transformer.tasks import TASKS, TextToTextTask, task


@pytest.mark.parametrize("kind", ["lm", "seq2seq", "mlm"])
def test_the_least_number_of_parameters_is_not_more_than_there_are(kind, monkeypatch):
    """A model that fits into the memory is never refused."""
    made = TASKS[kind].__new__(TASKS[kind])
    made.settings = TASKS[kind].default_settings(next(iter(TASKS[kind].presets)), d_model=64, d_ff=128)
    sizes = {"d_model": 64, "num_heads": 4, "num_layers": 2, "d_ff": 128, "max_len": 8}
    sizes |= {"src_vocab": 9, "tgt_vocab": 9} if kind == "seq2seq" else {"vocab_size": 9}
    monkeypatch.setattr(made, "model_config", lambda: sizes, raising=False)
    count = made.make_model().num_parameters()
    monkeypatch.setattr(task, "available_memory", lambda: 16 * count)
    made.make_model()
    monkeypatch.setattr(task, "available_memory", lambda: 8 * count)
    if kind == "lm":                            # its blocks have more than half of the parameters
        with pytest.raises(ValueError, match="--d-model 64, --d-ff 128 and --num-layers 2 has at least .* lower one"):
            made.make_model()
    monkeypatch.setattr(task, "available_memory", lambda: None)
    made.make_model()


def test_decoding_ends_one_token_after_the_longest_target_of_its_batch(monkeypatch):
    limits = []

    def answer(model, sources, bos, eos, max_len):          # each of the two sources with its target
        limits.append(max_len)
        return [frame(tokens, target)[1:] for target in ("ab", "abcde")]

    tokens = CharTokenizer("abcde: t")
    made = TextToTextTask.__new__(TextToTextTask)
    made.tokenizers, made.settings = (tokens, tokens), {"max_len": 40}
    monkeypatch.setattr("numpy_transformer.tasks.text_to_text.greedy_decode", answer)
    assert made.decode(None, [("t: a", "ab"), ("t: ab", "abcde")]) == ["ab", "abcde"]
    assert limits == [len("abcde") + 2]                     # its end, and one token more
