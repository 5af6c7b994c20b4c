"""Every kind of component opens in the page, also those that the tiny models do not have, and a class of the reader's own."""

import numpy as np
import pytest
from helpers.browser import Page

import numpy_transformer as nt
from numpy_transformer.checks.samples import SAMPLES

MODELS = ("CausalLanguageModel, rotary, rms, swiglu, grouped", "CausalLanguageModel, flash", "MaskedLanguageModel, some positions",
          "EncoderDecoder, post-norm, learned, tied", "SequenceClassifier")


def model_page(name):
    """The page of a model of the contract table, with random targets."""
    sample = next(sample for sample in SAMPLES if sample.name == name)
    model, inputs = sample.make()
    shape = model.eval()(*inputs).shape
    rng = np.random.default_rng(1)
    if len(shape) == 1:
        return nt.explore(model, inputs, rng.integers(0, 2, shape), nt.BinaryCrossEntropyLoss(), proof=False)
    return nt.explore(model, inputs, rng.integers(0, shape[-1], shape[:-1]), nt.CrossEntropyLoss(), proof=False)


def open_all(page, document):
    """Opens each component once per class and kind, and a number of each of its arrays; returns the classes."""
    seen = set()
    for part in [*document["ops"], *document["groups"]]:
        key = part.get("class") or part["kind"]
        if key in seen:
            continue
        seen.add(key)
        page.go(f"op={part['id']}")
        panel = page.find(f"#view-component [data-op='{part['id']}']")
        assert part["label"] in panel.text
        for value in [*part["inputs"].values(), *part.get("parameters", {}).values(), *part["outputs"].values()]:
            for ref in (value, f"grad {value}"):
                if ref in document["arrays"]:
                    cell = ",".join("0" for _ in shape_of(document["arrays"], ref))
                    page.go(f"op={part['id']}&ref={ref}" + f"&cell={cell}" * bool(cell))
                    assert page.script("return document.querySelector('#number h2 [data-ref]')?.dataset.ref") == ref
        assert not page.script("return document.querySelector('#number .disagreement')?.textContent ?? ''"), part["id"]
    assert page.errors() == []
    return seen


def shape_of(arrays, ref):
    while "same" in arrays[ref]:
        ref = arrays[ref]["same"]
    return arrays[ref]["shape"]


@pytest.mark.parametrize("name", MODELS)
def test_each_component_of_a_model_opens(driver, tmp_path, name):
    explorer = model_page(name)
    page = Page(driver).open(explorer.save(tmp_path / "page.html").as_uri())
    seen = open_all(page, explorer.document)
    wanted = {"rotary": {"RMSNorm", "RotaryEmbedding", "SwiGLU", "SiLU", "multiply"}, "flash": {"FlashAttention"},
              "some": {"select", "GELU", "LayerNorm"}, "tied": {"CrossAttention", "LearnedPositionalEmbedding", "Unembedding"},
              "SequenceClassifier": {"BinaryCrossEntropyLoss"}}
    assert next(names for key, names in wanted.items() if key in name) <= seen, seen


def test_a_class_of_the_readers_own_shows_its_arrays(driver, tmp_path):
    class Cube(nt.Module):
        """y = x³."""

        def forward(self, x):
            self.remember(x)
            return x ** 3

        def backward(self, dy):
            return 3 * self.recall() ** 2 * dy

    class Mine(nt.Module):
        def __init__(self):
            self.linear, self.cube = nt.Linear(3, 2, rng=0), Cube()

        def forward(self, x):
            return self.cube(self.linear(x))

        def backward(self, dy):
            return self.linear.backward(self.cube.backward(dy))

    model, x = Mine(), np.random.default_rng(0).standard_normal((4, 3))
    explorer = nt.explore(model, x, np.array([0, 1, 1, 0]))
    page = Page(driver).open(explorer.save(tmp_path / "page.html").as_uri(), "op=cube&ref=cube:y&cell=2,1")
    y = model.eval()(x)
    np.testing.assert_allclose(float(page.find("#number h2 [data-ref='cube:y']").get_attribute("data-value")), y[2, 1], rtol=1e-6)
    assert "Cube" in page.text("#number") and "x³" in page.text("#view-component")
    assert "return x ** 3" in page.text("#view-component")             # its source
    assert {"Cube", "Linear"} <= open_all(page, explorer.document)
