"""The floor of a training step: its matmuls alone, in its own sizes and memory layouts."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..training.process import set_blas_threads


def matmuls(config, batch):
    """(a, b, out) of every matmul in one forward and backward of `batch` sequences, each with arrays of its own."""
    rng = np.random.default_rng(0)
    T, D, H = config.length, config.d_model, config.heads
    found = []

    def draw(*shape):
        return rng.standard_normal(shape, np.float32)

    def linear(rows, d_in, d_out, tied=False):
        x, w, dy = draw(rows, d_in), draw(d_out, d_in).T if tied else draw(d_in, d_out), draw(rows, d_out)
        dw = (dy.T, x, draw(d_out, d_in)) if tied else (x.T, dy, draw(d_in, d_out))
        found.extend([(x, w, draw(rows, d_out)), dw, (dy, w.T, draw(rows, d_in))])

    def attention():
        for _ in range(4):
            linear(batch * T, D, D)

        def heads():
            return draw(batch, T, H, D // H).swapaxes(1, 2)

        q, k, v, dy, scores = heads(), heads(), heads(), heads(), draw(batch, H, T, T)
        found.extend([(q, k.mT, draw(*scores.shape)), (scores, v, heads()),                    # forward
                      (scores.mT, dy, heads()), (dy, v.mT, draw(*scores.shape)),               # dv, dP
                      (scores, k, heads()), (scores.mT, q, heads())])                          # dq, dk

    for stack in range(2 if config.kind == "seq2seq" else 1):
        for _ in range(config.layers):
            for _ in range(1 + stack):          # the second stack attends to the first one too
                attention()
            linear(batch * T, D, config.d_ff)
            linear(batch * T, config.d_ff, D)
    if config.kind == "classifier":
        linear(batch, D, 64)
        linear(batch, 64, 2)
    else:
        linear(batch * T, D, config.vocab, tied=config.kind == "lm")
    return found


def multiply(operations):
    for a, b, out in operations:
        np.matmul(a, b, out=out)


def matmul_baselines(config, threads):
    """Two functions that do all matmuls of a step: with BLAS threads, and with the batch split over Python threads."""
    whole = matmuls(config, config.batch)
    parts = [whole] if threads == 1 else [
        matmuls(config, config.batch * (n + 1) // threads - config.batch * n // threads) for n in range(threads)]
    pool = ThreadPoolExecutor(threads)

    def with_blas_threads():
        before = set_blas_threads(threads)
        multiply(whole)
        set_blas_threads(before or 1)

    def with_python_threads():
        list(pool.map(multiply, parts))

    return with_blas_threads, with_python_threads
