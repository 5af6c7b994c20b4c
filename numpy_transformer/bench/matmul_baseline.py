"""The matmuls of a training step alone, in the same sizes and memory layouts: a lower bound for the time of the step."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..threads import set_blas_threads


def matmuls(config, batch):
    """Returns (a, b, out) of every matmul in the forward and backward of `batch` sequences. No two share an array."""
    rng = np.random.default_rng(0)
    T, D, H = config.length, config.d_model, config.heads
    triples = []

    def draw(*shape):
        return rng.standard_normal(shape, np.float32)

    def linear(rows, d_in, d_out, tied=False):
        x, dy = draw(rows, d_in), draw(rows, d_out)
        if tied:                                # the weight is the transpose of an embedding (d_out, d_in)
            w = draw(d_out, d_in).T
            weight_gradient = (dy.T, x, draw(d_out, d_in))
        else:
            w = draw(d_in, d_out)
            weight_gradient = (x.T, dy, draw(d_in, d_out))
        triples.extend([(x, w, draw(rows, d_out)), weight_gradient, (dy, w.T, draw(rows, d_in))])

    def attention():
        for _ in range(4):
            linear(batch * T, D, D)

        def heads():
            return draw(batch, T, H, D // H).swapaxes(1, 2)

        q, k, v, dy, scores = heads(), heads(), heads(), heads(), draw(batch, H, T, T)
        triples.extend([(q, k.mT, draw(*scores.shape)), (scores, v, heads()),                    # forward
                        (scores.mT, dy, heads()), (dy, v.mT, draw(*scores.shape)),               # dv, dP
                        (scores, k, heads()), (scores.mT, q, heads())])                          # dq, dk

    for stack in range(2 if config.kind == "seq2seq" else 1):
        for _ in range(config.layers):
            attention()
            if stack == 1:                      # the decoder of a seq2seq model also attends to the encoder's output
                attention()
            linear(batch * T, D, config.d_ff)
            linear(batch * T, config.d_ff, D)
    if config.kind == "classifier":
        linear(batch, D, 64)
        linear(batch, 64, 2)
    else:
        linear(batch * T, D, config.vocab, tied=config.kind == "lm")
    return triples


def multiply(operations):
    for a, b, out in operations:
        np.matmul(a, b, out=out)


def matmul_baselines(config, threads):
    """Returns two functions that compute all matmuls of a step: with BLAS threads, or with the batch split over threads."""
    whole = matmuls(config, config.batch)
    if threads == 1:
        parts = [whole]
    else:
        ends = [config.batch * n // threads for n in range(threads + 1)]
        parts = [matmuls(config, end - start) for start, end in zip(ends, ends[1:])]
    pool = ThreadPoolExecutor(threads)

    def with_blas_threads():
        before = set_blas_threads(threads)
        multiply(whole)
        set_blas_threads(before or 1)

    def with_python_threads():
        list(pool.map(multiply, parts))

    return with_blas_threads, with_python_threads
