"""The tiny models read every text of their language, refuse others in one sentence, and learn what they are meant to."""

import itertools

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.cli import main
from numpy_transformer.explorer import languages
from numpy_transformer.explorer.runs import from_run
from numpy_transformer.explorer.session import Session
from numpy_transformer.explorer.tiny_models import KINDS, STEPS, tiny
from numpy_transformer.layers import ScaledDotProductAttention


@pytest.fixture(scope="module", params=KINDS)
def untrained(request):
    return tiny(request.param, train=False)


@pytest.fixture(scope="module")
def trained():
    """Returns a function: the trained Example of a kind, made once."""
    made = {}

    def make(kind):
        if kind not in made:
            made[kind] = tiny(kind)
        return made[kind]

    return make


def weights(example, text, target=None):
    """{name: (H, T, S)} attention weights of a text."""
    inputs, _, tokens = example.read(text, target)
    example.model.eval()(*inputs)
    return {name: part.weights[0] for name, part in example.model.named_modules()
            if isinstance(part, ScaledDotProductAttention)}, tokens


def probabilities(example, text, target=None):
    inputs, _, tokens = example.read(text, target)
    logits = example.model.eval()(*inputs)[0]
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True), tokens


@pytest.mark.parametrize("kind, seed, command", [
    ("decoder", 1, "numpy-transformer explore --random"),
    ("classifier", 1, "numpy-transformer explore --model classifier --random"),
    ("gpt-oss", 3, "numpy-transformer explore --model gpt-oss --seed 3 --random")])
def test_the_page_of_a_tiny_model_names_the_command_that_opens_it(kind, seed, command):
    example = tiny(kind, seed, train=False)
    example.comparisons = []                    # they take long to find
    document = Session(example).saved_document()
    assert document["command"] == command


def test_a_tiny_model_reads_its_default_text(untrained):
    inputs, targets, tokens = untrained.read()
    logits = untrained.model(*inputs)
    loss = untrained.criterion(logits, targets)
    assert np.isfinite(loss) and untrained.model.num_parameters() < 2500
    assert [len(row) for row in tokens["source"]] == [inputs[0].shape[1]] and len(tokens["targets"][0]) == targets.size
    assert 12 <= len(untrained.words) <= 30 and tokens["note"].endswith(".")


def test_tokens_label_the_ids(untrained):
    inputs, targets, tokens = untrained.read()
    if untrained.kind == "classifier":
        assert tokens["targets"] == [[tokens["classes"][targets[0]]]]
        return
    ids = inputs[-1][0].tolist()
    read = tokens["target"][0] if untrained.kind == "seq2seq" else tokens["source"][0]
    assert [tokens["vocabulary"][i] for i in ids] == read
    counted = targets[0] != untrained.criterion.ignore_id
    assert [tokens["vocabulary"][i] if seen else "" for i, seen in zip(targets[0], counted)] == tokens["targets"][0]


def test_the_language_models_targets_are_the_next_tokens():
    example = tiny("decoder", train=False)
    _, _, tokens = example.read("The dog barks.")
    assert tokens["source"] == [["the", "dog", "barks", "."]] and tokens["targets"] == [["dog", "barks", ".", ""]]
    assert example.read("the dog", "barks")[2]["targets"] == [["dog", "barks"]]
    assert example.read("the dog", "dog sleeps")[2]["targets"] == [["dog", "sleeps"]]


@pytest.mark.parametrize("kind, text, target, words", [
    ("decoder", "the cat sat", None, "'sat'.*knows only 17 words: the, cat"),
    ("decoder", "  ", None, "empty"),
    ("decoder", "?!", None, "knows only"),
    ("decoder", "the cat " * 10, None, "20 tokens.*at most 12; shorten"),
    ("decoder", "the", None, "single token"),
    ("decoder", "the cat sleeps", "the cat", "target has 2 tokens and the text has 3"),
    ("decoder", "the cat", "sat", "the target has the word 'sat'"),
    ("decoder", 7, None, "must be a string, got int"),
    ("encoder", "the cat sleeps", None, r"no \[MASK\]"),
    ("encoder", "the [MASK] sleeps", "cat cat", r"2 tokens and the text has 1 \[MASK\]"),
    ("encoder-decoder", "the " + "black " * 7 + "dog", None, "11 tokens.*at most 8"),
    ("classifier", "the film was good", "wonderful", "not a class.*negative, positive"),
    ("classifier", "x" * 1000, None, r"'x{40}\.\.\.'")])
def test_a_text_that_a_model_cannot_read_gives_one_sentence(kind, text, target, words):
    with pytest.raises(ValueError, match=words) as caught:
        tiny(kind, train=False).read(text, target)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="decoder"):
        tiny("gpt")


def test_training_is_the_same_for_the_same_seed(monkeypatch):
    monkeypatch.setitem(STEPS, "decoder", 3)
    one, same, other = (tiny("decoder", seed).model.state_dict() for seed in (1, 1, 2))
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not np.array_equal(one["embedding.weight"], other["embedding.weight"])


def test_progress_is_told_of_every_step(monkeypatch):
    class Count:
        steps = 0

        def advance(self):
            self.steps += 1

    monkeypatch.setitem(STEPS, "classifier", 3)
    count = Count()
    tiny("classifier", progress=count)
    assert count.steps == 3


@pytest.mark.parametrize("english, french", [
    ("the black cow sleeps", "la vache noire dort"), ("the small dog sings", "le petit chien chante"),
    ("the mouse sings", "la souris chante"), ("the white cat sleeps", "le chat blanc dort"), ("the cat", None)])
def test_the_translation_of_a_sentence(english, french):
    assert languages.translate(english) == french


@pytest.mark.parametrize("text, label", [
    ("the film was not dull", "positive"), ("good but not funny", "negative"), ("not good but great", "positive"),
    ("the plot was poor", "negative"), ("the plot", None)])
def test_the_class_of_an_opinion(text, label):
    assert languages.judge(text) == label


SUBJECTS = ["cat", "cats", "dog", "dogs", "bird", "birds"]


@pytest.mark.slow
def test_the_verb_attends_to_its_subject_and_agrees_with_it(trained):
    example = trained("decoder")
    right, attention = [], []
    for subject, other in itertools.product(SUBJECTS, SUBJECTS):
        verb = languages.SUBJECTS[subject.removesuffix("s")] + ("" if subject.endswith("s") else "s")
        text = f"the {subject} near the {other}"
        p, tokens = probabilities(example, text, verb)
        right.append(tokens["vocabulary"][p[-1].argmax()] == verb)
        attention.append([heads[:, -1, 1] for heads in weights(example, text, verb)[0].values()])
    assert np.mean(right) >= 0.95
    assert np.mean(attention, 0).max() > 0.7                # one head looks at the subject, word 1


@pytest.mark.slow
def test_cross_attention_aligns_each_word_with_its_translation(trained):
    example = trained("encoder-decoder")
    right, alignment = [], []
    for adjective, noun, verb in itertools.product(languages.ADJECTIVES, languages.NOUNS, languages.VERBS):
        text = f"the {adjective} {noun} {verb}"
        p, tokens = probabilities(example, text)
        right.append([tokens["vocabulary"][i] for i in p.argmax(-1)] == tokens["targets"][0])
        found, _ = weights(example, text)
        order = (2, 3) if adjective == languages.BEFORE_THE_NOUN else (3, 2)       # positions of noun and adjective
        cross = found["decoder.blocks.0.cross_attention.attention"]
        alignment.append([cross[:, row, column].max() for row, column in zip((1, 2, 3), (*order, 4))])
    assert np.mean(right) >= 0.95
    assert np.mean(alignment) > 0.6


@pytest.mark.slow
def test_the_masked_word_attends_most_to_the_verb_that_tells_it(trained):
    example = trained("encoder")
    right, attention = [], []
    for subject, other in itertools.product(SUBJECTS, SUBJECTS):
        verb = languages.SUBJECTS[subject.removesuffix("s")] + ("" if subject.endswith("s") else "s")
        text = f"the [MASK] near the {other} {verb}"
        p, tokens = probabilities(example, text, subject)
        right.append(tokens["vocabulary"][p[2].argmax()] == subject)
        attention.append([heads[:, 2] for heads in weights(example, text, subject)[0].values()])
    attention = np.mean(attention, 0)[0]                    # (head, key)
    assert np.mean(right) >= 0.9
    assert 6 in attention.argmax(-1)                        # by how much depends on the processor


@pytest.mark.slow
def test_opinions_with_and_without_a_negation_are_classified(trained):
    """Whether a head looks at the "not" depends on the processor."""
    example = trained("classifier")
    right = []
    for thing, word in itertools.product(languages.THINGS, languages.GOOD + languages.BAD):
        for text in (f"the {thing} was {word}", f"the {thing} was not {word}", f"{word} but not {word}"):
            p, tokens = probabilities(example, text)
            right.append(tokens["classes"][p.argmax()] == tokens["targets"][0][0])
    assert np.mean(right) >= 0.95


def step_of_run(path):
    """The loss of the first step of a run, and its tokens."""
    example = from_run(path)
    inputs, targets, tokens = example.read()
    loss = float(example.criterion(example.model(*inputs), targets))
    assert np.isfinite(loss) and isinstance(example.model, nt.Module) and "after" in example.title
    return example, loss, tokens


def test_a_run_is_read(runs):
    for kind in ("classifier", "tagger", "mlm", "text2text"):
        example, _, tokens = step_of_run(runs / f"{kind}.npz")
        assert example.command == f"numpy-transformer explore --run {kind}.npz"
        assert example.kind == kind and "itself predicts" in tokens["note"]
    with pytest.raises(ValueError, match="'xx' is not a class of this model"):
        from_run(runs / "classifier.npz", target="xx")


SIZES = ["--steps", "1", "--d-model", "8", "--num-heads", "2", "--num-layers", "1", "--d-ff", "16"]


def test_a_language_model_of_characters_is_read(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat. The dog saw the cat and the mat.\n" * 9)
    path = tmp_path / "lm.npz"
    assert main(["train", "lm", *SIZES, "--context", "16", "--text", str(text), "--out", str(path)]) == 0
    example, loss, tokens = step_of_run(path)
    assert tokens["source"] == [list("The␣cat␣sat")] and tokens["targets"] == [[*"he␣cat␣sat", ""]]
    with pytest.raises(ValueError, match="'x' is not among"):
        example.read("xylophone")
    with pytest.raises(ValueError, match="24 tokens.*at most 16"):
        from_run(path, "The cat " * 3)


@pytest.mark.slow
def test_an_encoder_decoder_of_generated_pairs_is_read(tmp_path, capsys):
    path = tmp_path / "reverse.npz"
    assert main(["train", "seq2seq", "--task", "reverse", *SIZES, "--out", str(path)]) == 0
    example, loss, tokens = step_of_run(path)
    assert tokens["source"] == [["[begin]", *"planet", "[end]"]] and tokens["target"][0][0] == "[begin]"
    _, targets, given = example.read("abc", "cba")
    assert given["targets"] == [[*"cba", "[end]"]] and given["target"] == [["[begin]", *"cba"]] and targets.shape == (1, 4)


def test_a_file_that_is_no_run_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="x.npz"):
        from_run(path)
