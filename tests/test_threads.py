"""BLAS threads, and work on several threads: the order of its results, its errors, and that it changes no result."""

import threading

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer import parameter as parameter_module
from numpy_transformer import threads
from numpy_transformer.layers import fast
from numpy_transformer.models import parallel
from numpy_transformer.training import optimizers


@pytest.fixture(params=[1, 3])
def blas_threads(request, monkeypatch):
    """The number of threads that the matmuls seem to use."""
    monkeypatch.setattr(threads, "blas_threads", lambda: request.param)
    return request.param


def test_blas_threads_are_set_and_the_number_before_is_returned():
    before = threads.set_blas_threads(2)
    try:
        assert before >= 1 and threads.blas()[0]() == 2
        assert threads.set_blas_threads(1) == 2 and threads.blas()[0]() == 1
    finally:
        threads.set_blas_threads(before)


def test_cores_are_those_that_this_process_may_use(monkeypatch):
    assert threads.cores() >= 1
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda pid: {1, 4, 6}, raising=False)
    assert threads.cores() == 3
    monkeypatch.delattr(threads.os, "sched_getaffinity")
    monkeypatch.setattr(threads.os, "cpu_count", lambda: None)
    assert threads.cores() == 1


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_results_have_the_order_of_the_items(count):
    seen = set()

    def square(n):
        seen.add(threading.current_thread().name)
        return n * n

    assert threads.in_threads(square, range(7), count) == [n * n for n in range(7)]
    assert len(seen) <= count and threads.in_threads(square, [], count) == []


@pytest.mark.parametrize("bad", [0, 1, 5])
def test_an_error_is_raised_after_all_threads_have_ended(bad):
    running = set()

    def work(n):
        running.add(n)
        try:
            if n == bad:
                raise KeyError(n)
        finally:
            running.discard(n)

    with pytest.raises(KeyError):
        threads.in_threads(work, range(6), 3)
    assert not running
    assert threads.in_threads(abs, [-1, -2], 2) == [1, 2]


def test_work_within_a_thread_stays_in_it():
    """Otherwise all threads could wait for threads that are waiting themselves."""
    def inner(n):
        return threading.current_thread().name

    def outer(n):
        return [threading.current_thread().name, *threads.in_threads(inner, range(4), 4)]

    for names in threads.in_threads(outer, range(8), 4):
        assert len(set(names)) == 1


def test_threads_have_the_error_state_of_the_caller():
    with np.errstate(divide="raise"):
        for count in (1, 2):
            with pytest.raises(FloatingPointError):
                threads.in_threads(lambda n: np.ones(1) / np.zeros(1), range(2), count)
    with np.errstate(divide="ignore"):
        threads.in_threads(lambda n: np.ones(1) / np.zeros(1), range(2), 2)         # a warning would be an error


def test_blocks_cover_everything_once():
    for n, size in ((0, 4), (1, 4), (8, 4), (9, 4)):
        found = [list(range(n))[block] for block in threads.blocks(n, size)]
        assert sum(found, []) == list(range(n)) and all(len(part) <= size for part in found)


def test_activations_in_blocks_are_those_of_the_whole(blas_threads, monkeypatch):
    x = np.random.default_rng(0).standard_normal((7, 11))
    whole = {kind: nt.GELU(kind)(x) for kind in ("none", "tanh")}
    monkeypatch.setattr(fast, "BLOCK", 8)
    for kind, y in whole.items():
        gelu = nt.GELU(kind)
        np.testing.assert_array_equal(gelu(x), y)
        np.testing.assert_allclose(gelu.backward(np.ones_like(x)), nt.GELU(kind).value_and_slope(x)[1], rtol=1e-14)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_in_blocks_of_rows_is_that_of_a_loop(blas_threads, monkeypatch, label_smoothing):
    monkeypatch.setattr(fast, "BLOCK", 12)      # two rows
    rng = np.random.default_rng(1)
    logits, targets = 3 * rng.standard_normal((3, 5, 6)), rng.integers(0, 6, (3, 5))
    targets[1, 2:4] = -1
    criterion = nt.CrossEntropyLoss(label_smoothing, ignore_id=-1)
    losses, gradients = [], np.zeros_like(logits)
    for row in np.ndindex(3, 5):
        if targets[row] >= 0:
            p = np.exp(logits[row]) / sum(np.exp(logits[row]))
            q = np.full(6, label_smoothing / 6)
            q[targets[row]] += 1 - label_smoothing
            losses.append(-sum(q * np.log(p)))
            gradients[row] = 2.5 * (p - q) / 13
    before = logits.copy()
    assert criterion(logits, targets) == pytest.approx(sum(losses) / 13, rel=1e-13)
    np.testing.assert_allclose(criterion.backward(2.5), gradients, rtol=1e-12, atol=1e-16)
    np.testing.assert_array_equal(logits, before)


def test_a_product_is_added_block_by_block(monkeypatch):
    monkeypatch.setattr(fast, "LARGE_PRODUCT", 10)
    rng = np.random.default_rng(2)
    total, a, b = (rng.standard_normal(shape) for shape in ((7, 5), (7, 3), (3, 5)))
    wanted = total + a @ b
    fast.add_product(total, a, b)
    np.testing.assert_allclose(total, wanted, rtol=1e-13)


def small_model():
    rng = np.random.default_rng(3)
    model = nt.CausalLanguageModel(13, 8, 2, 2, max_len=6, rng=rng)
    ids = rng.integers(0, 13, (2, 4, 6))
    return model, (ids[0], ids[1])


def trained(optimizer, steps=3):
    """(weights, norms) after a few steps."""
    model, batch = small_model()
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), optimizer(model), clip=0.5, workers=1)
    return [trainer.step([batch])["norm"] for _ in range(steps)], model


@pytest.mark.parametrize("optimizer", [lambda model: nt.AdamW(model.parameters(), lr=0.01),
                                       lambda model: nt.SGD(model.parameters(), lr=0.1, momentum=0.9)])
def test_large_parameters_and_threads_do_not_change_a_step(blas_threads, monkeypatch, optimizer):
    norms, model = trained(optimizer)
    for module in (parameter_module, optimizers):
        monkeypatch.setattr(module, "LARGE", 50)
    monkeypatch.setattr(optimizers, "BLOCK", 16)
    monkeypatch.setattr(optimizers, "CLIPPED", 20)
    found, other = trained(optimizer)
    assert found == pytest.approx(norms, rel=1e-6)
    for (name, p), q in zip(model.named_parameters(), other.parameters()):
        np.testing.assert_allclose(q.data, p.data, rtol=0, atol=2e-6, err_msg=name)


def test_a_large_parameter_keeps_its_array_and_its_gradient_gives_its_memory_back(monkeypatch):
    for module in (parameter_module, optimizers):
        monkeypatch.setattr(module, "LARGE", 50)
    model, batch = small_model()
    arrays = [p.data for p in model.parameters()]
    optimizer = nt.AdamW(model.parameters())
    assert [p.data is array for p, array in zip(model.parameters(), arrays)] == [array.size >= 50 for array in arrays]
    nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, workers=1).step([batch])
    assert all(p.has_grad for p in model.parameters())
    assert all(np.shares_memory(p.data, array) for p, array in zip(model.parameters(), arrays) if array.size >= 50)
    for p in model.parameters():
        parameter_module.forget_grad(p)
        assert p.has_grad == (p.data.size < 50) and not p.grad.any()


def test_a_run_with_large_parameters_resumes_bit_for_bit(blas_threads, monkeypatch, tmp_path):
    for module in (parameter_module, optimizers):
        monkeypatch.setattr(module, "LARGE", 50)

    def trainer():
        model, batch = small_model()
        return nt.Trainer(model, nt.CrossEntropyLoss(), nt.AdamW(model.parameters(), lr=0.01), clip=0.5, workers=1), batch

    whole, batch = trainer()
    for _ in range(4):
        whole.step([batch])
    first, second = trainer()[0], trainer()[0]
    for _ in range(2):
        first.step([batch])
    first.save(tmp_path / "run.npz")
    second.load(tmp_path / "run.npz")
    for _ in range(2):
        second.step([batch])
    for p, q in zip(whole.model.parameters(), second.model.parameters()):
        np.testing.assert_array_equal(p.data, q.data)


def test_a_large_parameter_in_fortran_order_is_trained_too(monkeypatch):
    monkeypatch.setattr(optimizers, "LARGE", 5)
    parameter = nt.Parameter(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    optimizer = nt.SGD([parameter], lr=0.5)
    parameter.grad = np.ones((2, 3))
    optimizer.step()
    np.testing.assert_array_equal(parameter.data, np.arange(6.0).reshape(2, 3) - 0.5)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_batches_in_parallel_give_what_they_give_one_by_one(positions):
    """Also where a table of positions grows meanwhile; the model itself is left as it was."""
    model = nt.TextEncoder(19, 8, 2, 2, max_len=300, positions=positions, rng=4).eval()
    rng = np.random.default_rng(5)
    batches = [(rng.integers(1, 19, (2, length)),) for length in (3, 200, 5, 90, 140, 4)]
    wanted = [nt.TextEncoder(19, 8, 2, 2, max_len=300, positions=positions, rng=4).eval().embed(*batch) for batch in batches]
    for count in (1, 2, 4):
        for found, vectors in zip(parallel.in_parallel(nt.TextEncoder.embed, model, batches, count), wanted):
            np.testing.assert_allclose(found, vectors, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", [True, False])
def test_a_large_batch_is_embedded_by_several_threads(monkeypatch, given):
    model = nt.TextEncoder(19, 8, 2, 2, max_len=9, normalize=True, rng=4).eval()
    ids = np.random.default_rng(7).integers(0, 19, (5, 9))
    mask = ids % 3 > 0 if given else None
    alone = model.embed(ids, mask)
    seen = []
    monkeypatch.setattr(parallel, "blas_threads", lambda: 3)
    monkeypatch.setattr(parallel, "WORTHWHILE", 45 * model.num_parameters())
    monkeypatch.setattr(nt.TextEncoder, "vectors", lambda self, ids, mask, vectors=nt.TextEncoder.vectors: (
        seen.append(len(ids)) or vectors(self, ids, mask)))
    np.testing.assert_allclose(model.embed(ids, mask), alone, rtol=1e-5, atol=1e-6)
    assert sorted(seen) == [1, 2, 2] and model.embed(ids[0], mask if mask is None else mask[0]).shape == (8,)
    model.embed(ids[:4])
    assert seen[-1] == 4                        # too little work for threads
    with pytest.raises(ValueError, match="mask"):
        model.embed(ids, np.ones((4, 9), bool))


def test_a_view_of_a_model_shares_its_weights_and_nothing_that_forward_sets():
    model = nt.TextEncoder(19, 8, 2, 2, positions="rotary", rng=6).eval()
    view = parallel.view_of(model)
    assert all(mine is theirs for mine, theirs in zip(view.parameters(), model.parameters(), strict=True))
    assert not {id(m) for _, m in view.named_modules()} & {id(m) for _, m in model.named_modules()}
    assert view.encoder.blocks[0].attention.rotary is view.encoder.blocks[1].attention.rotary
    view(np.array([[1, 2, 3]]))
    assert model.encoder.blocks[0].attention.weights is None and view.encoder.blocks[0].attention.weights is not None


def test_commands_give_large_models_all_cores(monkeypatch):
    from numpy_transformer import threads

    told = []
    monkeypatch.setattr(threads, "set_blas_threads", told.append)
    monkeypatch.setattr(threads, "cores", lambda: 6)
    monkeypatch.setattr(threads, "LARGE_MODEL", 10)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    threads.start_with_one_thread()
    small, large = nt.Linear(2, 3, rng=0), nt.Linear(2, 5, rng=0)
    assert threads.adapt_threads(small) is small and told == [1]
    assert threads.adapt_threads(large) is large and told == [1, 6]
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    threads.start_with_one_thread()
    threads.adapt_threads(large)
    assert told == [1, 6]
