"""Guards against slow spots in a training step: float64, slow functions of NumPy, loops over the batch."""

import sys
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.small_configs import SMALL
from helpers.ufuncs import Recorded, record

import numpy_transformer as nt

B, T, D, V = 4, 6, 8, 11


def language_model(layers=2, length=T, dropout=0.1, **options):
    return nt.CausalLanguageModel(V, D, 2, layers, max_len=length, dropout=dropout, rng=0, **options)


def config_model(name):
    return lambda layers=2, length=T: replace(SMALL[name], layers=layers, length=length, dropout=0.1).model()


KINDS = {**{name: partial(language_model, activation=name) for name in ("relu", "gelu", "gelu_tanh", "swiglu")},
         "flash": partial(language_model, dropout=0.0, activation="relu", attention="flash"),
         "llama": partial(language_model, activation="swiglu", norm_layer="rms", positions="rotary", num_kv_heads=1),
         "seq2seq": config_model("seq2seq"), "classifier": config_model("classifier")}
every_kind = pytest.mark.parametrize("kind", KINDS)


def ids_for(kind, batch=B, length=T):
    sizes = replace(SMALL[kind if kind in SMALL else "tiny"], batch=batch, length=length)
    return sizes.batch_of_ids()


@every_kind
def test_no_float64_in_a_step_of_float32(kind):
    """In what any ufunc takes or gives, what is remembered, and the gradients; the optimizer by itself."""
    model = KINDS[kind]()
    calls, held, loss = record(model, *ids_for(kind), nt.CrossEntropyLoss())
    assert loss.dtype == np.float32 and len(calls) > 100 and held
    for ufunc, method, inputs, outputs, _ in calls:
        dtypes = {x.dtype for x in (*inputs, *outputs) if isinstance(x, np.ndarray) and x.ndim}
        assert np.float64 not in dtypes, f"{ufunc.__name__} {method} of {[np.shape(x) for x in inputs]}"
    assert {x.dtype for x in held if x.dtype.kind == "f"} == {np.dtype(np.float32)}
    assert {p.grad.dtype for p in model.parameters()} == {np.dtype(np.float32)}
    model = KINDS[kind]()
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), nt.AdamW(model.parameters()), clip=1e-3, workers=1)
    trainer.step([ids_for(kind)])
    Recorded.calls = []
    trainer.optimizer.update(*[x.view(Recorded) for x in trainer.optimizer.buffers[0].arrays()])
    assert len(Recorded.calls) > 10 and {x.dtype for call in Recorded.calls for x in (*call[2], *call[3])
                                         if isinstance(x, np.ndarray)} == {np.dtype(np.float32)}


@every_kind
def test_slow_functions_are_not_called(kind, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("slower than a matmul")

    for name in ("dot", "einsum", "tensordot", "inner", "vectorize", "apply_along_axis"):
        monkeypatch.setattr(np, name, refuse)
    calls, *_ = record(KINDS[kind](), *ids_for(kind), nt.CrossEntropyLoss())
    embeddings = 1 + (kind == "seq2seq")
    assert [ufunc for ufunc, method, *_ in calls if method == "at"] == [np.add] * embeddings        # nowhere else
    wide = [ufunc.__name__ for ufunc, method, inputs, *_ in calls
            if method == "reduce" and ufunc is np.add and np.size(inputs[0]) >= B * T * D and inputs[0].ndim > 2]
    assert len(wide) <= 1 + (kind == "classifier"), wide        # learned positions, over the batch; others are matmuls


def work_of_a_step(kind, batch=B, length=T):
    """Lines of Python that a second step goes through, each turn of a loop anew, and functions that it calls."""
    model = KINDS[kind](length=length)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), nt.AdamW(model.parameters()), clip=1e-3, workers=1)
    ids, work = ids_for(kind, batch, length), Counter()
    trainer.step([ids])

    def trace(frame, event, argument):
        work[event] += 1
        return trace

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(lambda frame, event, argument: work.update([event]) if event == "c_call" else None)
    try:
        trainer.step([ids])
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return work


@every_kind
def test_no_loop_over_the_batch_or_the_text(kind):
    """Blocks of GELU, flash attention and AdamW are loops, but these sizes lie within one block."""
    work = work_of_a_step(kind)
    assert work["line"] > 500 and work["c_call"] > 50
    assert work_of_a_step(kind, batch=4 * B) == work == work_of_a_step(kind, length=4 * T)
