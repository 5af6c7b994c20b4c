"""What a notebook shows of models and reports has the numbers of the text, and is HTML that needs nothing else."""

import re

import numpy as np
import pytest
from helpers.parsed_html import Page

import numpy_transformer as nt
from numpy_transformer.training.history import History


@pytest.mark.parametrize("model", [
    nt.CausalLanguageModel(11, 12, 2, 2, rng=0), nt.EncoderDecoder(7, 9, 12, 2, 1, 16, tie_weights=False, rng=0),
    nt.LayerNorm(5), nt.ReLU()], ids=lambda model: type(model).__name__)
def test_the_tree_of_a_model_has_the_parameters_of_its_summary(model):
    page = Page(model._repr_html_())
    rows = [row for table in page.tables for row in table]
    counted = [row for row in rows if not row[2].startswith("the same as")]
    assert sorted((row[0].split(".")[0], row[1], row[2]) for row in counted) == sorted(
        (name.split(".")[-1], str(p.data.shape), f"{p.data.size:,}") for name, p in model.named_parameters())
    if counted:
        total = re.search(r"([\d,]+)$", model.summary())[1]
        assert f"{total} parameters" in page.words
        assert sum(int(row[2].replace(",", "")) for row in counted) == int(total.replace(",", ""))
    modules = model.named_modules()
    tied = len(rows) - len(counted)                         # parts that stand in two places are counted once
    assert page.tags.count("b") == len(modules) + page.words.count("the same as") - tied
    assert all(f"{type(module).__name__}(" in page.words for _, module in modules)


def test_a_tied_parameter_is_counted_once():
    model = nt.CausalLanguageModel(11, 12, 2, 1, rng=0)
    same = [row[2] for table in Page(model._repr_html_()).tables for row in table if row[2].startswith("the same as ")]
    first, = {name.removeprefix("the same as ") for name in same}
    assert dict(model.named_parameters())[first].data.shape == (11, 12)


def test_settings_are_escaped():
    class Odd(nt.Module):
        def __init__(self):
            self.mode = "<b>&"
            self.inner = [nt.Linear(2, 3), (nt.Linear(3, 2, bias=False),)]

    page = Page(Odd()._repr_html_())
    assert "Odd(mode='<b>&')" in page.words and "b" not in page.open
    assert "inner.0: Linear" in page.words and "inner.1.0: Linear" in page.words and "15 parameters" in page.words


def test_a_report_shows_the_rows_of_its_text(monkeypatch):
    monkeypatch.setattr("numpy_transformer.layers.Linear.backward", lambda self, dy: 2 * dy @ self.weight.data.T)
    report = nt.gradcheck(nt.Linear(4, 3), np.ones((2, 4)), name="<Linear>")
    page = Page(report._repr_html_())
    table, = page.tables
    text = str(report)
    assert [row[0] for row in table[1:]] == [row.tensor for row in report.rows]
    for row in table[1:]:
        assert re.search(r"\s+".join(map(re.escape, row[:5])), text)
        assert all(remark in text for remark in row[5].split("; ") if remark)
    assert page.marked == ["WRONG"] * 3 and page.captions == ["<Linear>"]


def test_a_tape_shows_its_calls():
    model = nt.FeedForward(4, 6, rng=0)
    with nt.record(model) as tape:
        model(np.ones((2, 4)))
        model.backward(np.ones((2, 4)))
        model(np.ones((3, 4)))
    page = Page(tape._repr_html_())
    assert [row[:2] for row in page.tables[0][1:]] == [
        [call.name or "(model)", type(call.module).__name__] for call in tape.calls]
    assert page.tables[0][1][2:] == ["(2, 4)", "(2, 4)", "yes"]
    assert {row[4] for row in page.tables[0] if "(3, 4)" in row[2]} == {"no"}
    assert page.captions == [f"Tape({len(tape.calls)} calls)"]


def test_a_history_shows_the_measured_steps():
    model = nt.SequenceClassifier(11, 8, 2, 1, dropout=0.0, hidden=4, rng=0)
    batches = [((np.arange(8).reshape(2, 4) + 1,), np.array([0.0, 1.0]))]
    trainer = nt.Trainer(model, nt.BinaryCrossEntropyLoss(), nt.Adam(model.parameters()), workers=1)
    history = trainer.fit(batches, steps=30, validation=lambda: {"validation": 0.5, "f1": 0.25}, every=10)
    assert isinstance(history, list) and history is trainer.history
    page = Page(history._repr_html_())
    titles, *rows = page.tables[0]
    shown = [int(row[titles.index("step")]) for row in rows]
    assert shown == [1, 10, 20, 30] and [row[titles.index("f1")] for row in rows] == ["", "0.25", "0.25", "0.25"]
    for row in rows:
        wanted = history[int(row[0]) - 1]
        assert all(float(cell.replace(",", "")) == pytest.approx(wanted[title], rel=1e-3)
                   for title, cell in zip(titles, row) if cell)
    assert page.captions == ["4 of 30 steps"]


def test_a_history_without_measurements_shows_evenly_spaced_steps():
    history = History({"step": i + 1, "loss": 1 / (i + 1)} for i in range(1000))
    rows = Page(history._repr_html_()).tables[0][1:]
    assert len(rows) == 20 and (rows[0][0], rows[-1][0]) == ("1", "1,000")
    assert Page(History()._repr_html_()).tables == [[]]
