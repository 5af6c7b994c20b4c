"""What test_mpi_ranks.py lets every rank do: `mpiexec -n N python mpi_cases.py CASE FOLDER`.

Each rank writes what it saw to FOLDER/RANK.json.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI
from test_data_parallel import PAD, batch, language_model, pairs, translator

import numpy_transformer as nt
from numpy_transformer.training import mpi, trainer as loop

COMM = MPI.COMM_WORLD


def make(model, comm=COMM, workers=1, **options):
    return nt.Trainer(model, nt.CrossEntropyLoss(0.1, ignore_id=PAD), nt.AdamW(model.parameters(), 0.01, eps=1e-4), clip=1.0,
                      workers=workers, comm=comm, **options)


def model_and_batches(kind):
    """(model, batches, batches a step); the parts of each batch count different numbers of targets."""
    if kind == "pairs":
        return translator(), [pairs(n, 5) for n in range(4)], 2
    model = language_model(dropout=0.3 if kind == "dropout" else 0.0)
    if kind == "lora":
        nt.add_lora(model, 2, alpha=8, rng=1)
    return model, [batch(n, 5, 0.5, empty=(3, 4)) for n in range(4)], 1


def train(kind, comm, steps=6, **options):
    model, batches, accumulate = model_and_batches(kind)
    trainer = make(model, comm, accumulate=accumulate, **options)
    trainer.fit(batches, steps, validation=batches[:1], every=2)
    return {"history": trainer.history, "weights": {k: v.tolist() for k, v in model.state_dict().items()}}


def failure(function):
    """The class and the text of what function() raises."""
    try:
        function()
    except (Exception, KeyboardInterrupt) as error:
        return {"error": type(error).__name__, "text": str(error)}
    return {"error": None}


def fail_on(rank, message="only here"):
    if COMM.rank == rank:
        raise FloatingPointError(message)


def error_in_batches(folder):
    return lambda: make(language_model()).fit(lambda n: fail_on(1) if n == 2 else batch(n), 4)


def error_in_forward(folder):
    def forward(ids):
        fail_on(1)
        return type(model).forward(model, ids)

    model = language_model()
    model.forward = forward
    return lambda: make(model).fit([batch(0)], 4)


def error_in_validation(folder):
    return lambda: make(language_model()).fit([batch(0)], 4, validation=lambda: fail_on(1) or 1.0, every=2)


def error_after_step(folder):
    return lambda: make(language_model()).fit([batch(0)], 4, after_step=lambda trainer: fail_on(1) if trainer.steps == 2 else None)


def error_in_save(folder):
    def fit():
        trainer = make(language_model())
        path = folder / "there" / "run.npz"
        path.parent.mkdir(exist_ok=True)
        checkpoint = nt.Checkpoint(path, every=2)
        COMM.barrier()
        if COMM.rank == 0:
            path.parent.rmdir()
        trainer.fit([batch(0)], 4, checkpoint=checkpoint)
    return fit


def loss_of_one_rank_is_nan(folder):
    model = language_model()
    ids, targets = batch(0, 6)
    ids[ids == 4], ids[-1, 2] = 5, 4            # id 4 occurs in the last rank's part only
    model.embedding.weight.data[4] = np.nan
    return lambda: make(model).fit([(ids, targets)], 4)


def steps_differ(folder):
    return lambda: make(language_model()).fit([batch(0)], 10 + 5 * COMM.rank)


def plans_are_wrong_on_one_rank(folder):
    return lambda: make(language_model()).fit([batch(0)], -1 if COMM.rank == 1 else 3)


def seeds_differ(folder):
    return lambda: make(language_model(seed=COMM.rank // 2)).fit([batch(0)], 3)


def batches_differ(folder):
    return lambda: make(language_model()).fit(lambda n: batch(n + (n == 2 and COMM.rank == 2)), 4)


def weights_differ(folder):
    model = language_model()
    trainer = make(model)
    trainer.fit([batch(0)], 1)
    if COMM.rank == 1:
        model.embedding.weight.data[3, 2] += 1e-15
    return lambda: trainer.save(folder / "run.npz")


def ctrl_c_on_one_rank(folder):
    def batches(n):
        if n == 3 and COMM.rank == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return batch(n)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return lambda: make(language_model()).fit(batches, 100, checkpoint=folder / "run.npz")


def cores_are_shared(folder):
    """Seven cores for three ranks, and a batch that is worth many workers: what each rank takes, as an error's text."""
    def fit():
        mpi.cores = lambda: 7
        loop.workers_for = lambda *batch: 100
        trainer = make(language_model(), workers=None)
        trainer.step([batch(0, 9)])
        seen = [trainer.workers]
        trainer.start_workers(1)
        raise ArithmeticError(seen + [trainer.parallel.blas_threads])
    return fit


def save_with_two_workers(folder):
    return lambda: make(language_model(0.3), workers=2).fit(batch, 3, checkpoint=folder / "run.npz")


def resume(folder):
    def fit():
        trainer = make(language_model(0.3))
        trainer.load(folder / "run.npz")
        trainer.fit(batch, 3)
        trainer.save(folder / "resumed.npz")
    return fit


def save(folder):
    return lambda: make(language_model(0.3)).fit(batch, 3, checkpoint=folder / "run.npz")


def main(case, folder):
    if case.startswith("train "):
        _, kind, workers = case.split()
        seen = train(kind, COMM, workers=int(workers))
    else:
        seen = failure(globals()[case](folder))
    (folder / f"{COMM.rank}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
