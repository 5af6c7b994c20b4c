"""The architectures of current models at toy size: each is built, checked, trained, and saved as its family saves."""

import inspect
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.model_cards import card

import numpy_transformer as nt
from numpy_transformer.data import CharTokenizer
from numpy_transformer.models.current_models import PRESETS
from numpy_transformer.pretrained import load_pretrained, save_pretrained

every_preset = pytest.mark.parametrize("name", PRESETS)


def ids(shape, seed=0):
    return np.random.default_rng(seed).integers(1, 64, shape)


@every_preset
def test_the_gradients_of_each_preset_are_right(name):
    report = nt.gradcheck(nt.preset(name, rng=0), ids((2, 9)), directions=1, name=name)
    assert report.ok, str(report)
    assert report.worst("central") <= 1e-6 and report.worst("complex") <= 1e-12


@pytest.mark.slow
@every_preset
def test_the_gradients_of_each_preset_are_right_entry_by_entry(name):
    report = nt.gradcheck(nt.preset(name, rng=0), ids((2, 9)), name=name)
    assert report.ok, str(report)


@every_preset
def test_each_preset_learns_in_twenty_steps(name):
    """The next token is one more than this one, so a step of training can learn it."""
    model = nt.preset(name, rng=1)
    optimizer = nt.AdamW(model.parameters(trained=True), 1e-2)
    criterion = nt.CrossEntropyLoss()
    losses = []
    for step in range(20):
        batch = (ids((8, 1), seed=step) + np.arange(9)) % 64
        model.zero_grad()
        losses.append(criterion(model(batch[:, :-1]), batch[:, 1:]))
        model.backward(criterion.backward())
        optimizer.step()
    assert losses[0] > 4.0 and losses[-1] < losses[0] - 0.5      # ln 64 = 4.16 at first


@every_preset
def test_each_preset_is_saved_and_read_as_its_family_is(name, tmp_path):
    model = nt.preset(name, rng=2).eval()
    save_pretrained(model, tmp_path / "folder")
    again = load_pretrained(tmp_path / "folder")
    np.testing.assert_array_equal(again(ids((2, 9))), model(ids((2, 9))))
    assert json.loads((tmp_path / "folder" / "config.json").read_text())["architectures"] == [PRESETS[name].architecture]


@pytest.mark.slow
@every_preset
def test_transformers_reads_a_preset(name, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = nt.preset(name, rng=2).eval()
    save_pretrained(model, tmp_path / "folder")
    theirs = getattr(transformers, PRESETS[name].architecture).from_pretrained(tmp_path / "folder").eval()
    text = ids((2, 9))
    with torch.no_grad():
        logits = theirs(torch.tensor(text)).logits.numpy()
    assert abs(model(text) - logits).max() < 1e-4 * abs(logits).max()


@every_preset
def test_each_preset_can_be_pickled(name):
    model = nt.preset(name, rng=6).eval()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(ids((2, 9))), model(ids((2, 9))))


@every_preset
def test_sizes_can_be_given(name):
    assert inspect.signature(nt.preset).parameters.keys() == {"name", "rng", "sizes"}
    small, large = nt.preset(name, rng=0), nt.preset(name, vocab_size=70, d_model=32, num_heads=4, num_layers=3, max_len=20, rng=0)
    blocks = [getattr(model, "decoder", None) or model.encoder for model in (small, large)]
    assert [len(stack.blocks) for stack in blocks] == [2, 3] and large.max_len == 20
    assert large.eval()(ids((2, 9))).shape == (2, 9, 70) and small.eval()(ids(9)).shape == (9, 64)
    with pytest.raises(ValueError, match="max_len"):
        large(ids((1, 21)))


@every_preset
def test_the_same_seed_gives_the_same_weights(name):
    first, second, other = (nt.preset(name, rng=seed).state_dict() for seed in (3, 3, 4))
    assert all(np.array_equal(first[key], second[key]) for key in first)
    assert not all(np.array_equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if not preset.architecture.endswith("MaskedLM")])
def test_a_decoder_sees_no_later_token_and_reads_with_a_cache(name):
    model = nt.preset(name, rng=5).astype(np.float64).eval()
    text = ids((2, 12))
    logits = model(text)
    changed = text.copy()
    changed[:, 7] = (changed[:, 7] + 1) % 64
    same = np.isclose(model(changed), logits, rtol=1e-12, atol=1e-14).all(-1)
    assert same[:, :7].all() and not same[:, 7].any()
    cache = nt.KeyValueCache()
    parts = [model(part, cache=cache) for part in np.split(text, [5, 6, 9], axis=1)]
    np.testing.assert_allclose(np.concatenate(parts, 1), logits, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("call, message", [
    (lambda: nt.preset("gpt5"), "preset = 'gpt5' is unknown; choose one of 'gpt2', 'llama3'"),
    (lambda: nt.preset("llama3", num_experts=4), "llama3 has no size 'num_experts'; it has vocab_size, d_model, .*num_kv_heads$"),
    (lambda: nt.preset("mixtral", experts_per_token=5), "experts_per_token = 5 is more than num_experts = 4; choose at most"),
    (lambda: nt.preset("llama3", d_model=15), "d_model = 15 is not divisible by num_heads = 2"),
    (lambda: nt.preset("qwen3", num_layers=0), "num_layers must be a whole number of at least 1, got 0"),
    (lambda: nt.preset("mistral", window=2.5), "window must be a whole number"),
])
def test_bad_arguments_are_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_programs_of_the_page_print_what_it_says(capsys):
    page = (Path(__file__).parents[2] / "lessons" / "MODELS.md").read_text(encoding="utf-8")
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})
    out = capsys.readouterr().out
    assert out.endswith("True\n") and "WRONG" not in out and out.count("  ok") > 20


def exchanged(name, change):
    """A preset after an edit that no config.json can describe."""
    model = nt.preset(name, rng=0).eval()
    change(model.decoder.blocks[0])
    return model


def without_rotary(block):
    block.attention.rotary = None


def with_a_wider_window(block):
    block.attention.attention.score_changes[0].window += 1


def with_one_expert_for_each_token(block):
    block.feed_forward.router.top_k = 1


def with_a_plain_feed_forward(block):
    block.feed_forward = nt.FeedForward(16, 24, rng=0)


def with_layer_norm(block):
    block.norm1 = nt.LayerNorm(16)


def with_other_frequencies(block):
    block.attention.rotary.frequencies = block.attention.rotary.frequencies / 2


@pytest.mark.parametrize("name, change, part", [
    ("qwen3", without_rotary, r"decoder.blocks.0.attention.rotary is None instead of RotaryEmbedding"),
    ("mistral", with_a_wider_window, r"decoder.blocks.0.attention.attention.score_changes.0.window is 5 instead of 4"),
    ("mixtral", with_one_expert_for_each_token, r"decoder.blocks.0.feed_forward.router.top_k is 1 instead of 2"),
    ("llama3", with_a_plain_feed_forward, r"decoder.blocks.0.feed_forward is FeedForward instead of SwiGLU"),
    ("llama3", with_layer_norm, r"decoder.blocks.0.norm1 is LayerNorm instead of RMSNorm"),
    ("llama3", with_other_frequencies, r"decoder.blocks.0.attention.rotary.frequencies has other values")])
def test_an_edited_preset_is_not_saved_as_another_model(name, change, part, tmp_path):
    characters = CharTokenizer("".join(map(chr, range(64, 128))))
    model = exchanged(name, change)
    with pytest.raises(ValueError, match=part) as refused:
        save_pretrained(model, tmp_path / "folder")
    assert "config.json" in str(refused.value)
    with pytest.raises(ValueError, match=part) as refused:
        nt.save_run(tmp_path / "run.npz", model, characters)
    assert "merge_lora" not in str(refused.value) and not list(tmp_path.iterdir())


def test_a_preset_that_was_trained_frozen_and_read_by_is_still_the_same(tmp_path):
    """Dropout, frozen weights, longer rotary tables and LoRA updates, which are merged, make no other model."""
    model = nt.add_lora(nt.preset("gpt-oss", max_len=200, rng=0), 2, rng=1)
    for _, part in model.named_modules():
        if isinstance(part, nt.Dropout):
            part.p = 0.5
    model.eval()(ids((1, 150)))
    save_pretrained(model, tmp_path / "folder")
    np.testing.assert_allclose(load_pretrained(tmp_path / "folder")(ids((1, 150))), model(ids((1, 150))), atol=1e-5)


def test_the_page_of_preset_names_every_size_with_its_default():
    sizes = {size: default for preset in PRESETS.values() for size, default in preset.sizes.items() if default is not None}
    missing = [f"{size}={default}" for size, default in sizes.items() if f"{size}={default}" not in nt.preset.__doc__]
    assert not missing and "num_kv_heads (half of num_heads" in nt.preset.__doc__
    assert [nt.preset("qwen3", num_heads=heads, d_model=12).decoder.blocks[0].attention.num_kv_heads
            for heads in (1, 3, 6)] == [1, 1, 3]


@every_preset
def test_each_preset_is_quantized_in_groups_of_four_and_saved_with_the_rounded_weights(name, tmp_path):
    model = nt.quantize(nt.preset(name, rng=0), 4, group=4).eval()
    save_pretrained(model, tmp_path / "folder")
    np.testing.assert_allclose(load_pretrained(tmp_path / "folder")(ids((1, 9))), model(ids((1, 9))), rtol=1e-4, atol=1e-5)


def test_each_name_that_add_lora_offers_can_be_chosen():
    with pytest.raises(ValueError, match="no Linear called 'query'; choose among") as refused:
        nt.add_lora(nt.preset("deepseek-v3", rng=0))
    offered = re.findall("'([^']+)'", str(refused.value).partition("choose among")[2])
    assert offered == ["down", "gate", "output", "query.parts.0", "query.parts.1", "rotary_key", "router", "up"]
    for target in offered:
        nt.add_lora(nt.preset("deepseek-v3", rng=0), 2, targets=target)
