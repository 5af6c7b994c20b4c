"""The state of a Trainer in a checkpoint: everything that its next step depends on."""

import math

import numpy as np

from ..file_checks import MALFORMED, check_form, one_line, reason_of
from .history import History

RESERVED = {"format", "arrays", "step", "best", "data", "optimizer", "schedule", "generators", "workers",
            "ranks"}
MOST_WORKERS = 1024
NONE = type(None)
FORM = {"step": int, "best?": ({str: float}, NONE), "data": {"accumulate": int}, "ranks": int, "workers": (int, NONE),
        "optimizer": {"class": str, "t": int, "lr": float}, "schedule": ({"class": str, "count": int}, NONE),
        "generators": {str: {"bit_generator": str}}}
COLUMNS = ("step", "loss", "lr", "norm", "tokens", "validation")


def state_of(trainer):
    """Returns (arrays, meta). The arrays are weights, optimizer state and history; meta has the counters, the state of the
    random
    generators and the position in the data.
    """
    optimizer, schedule = trainer.optimizer, trainer.schedule
    return live_arrays(trainer) | history_arrays(trainer), {
        "step": trainer.steps, "best": trainer.best,
        "data": {"next_batch": trainer.steps * trainer.accumulate, "accumulate": trainer.accumulate},
        "optimizer": {"class": type(optimizer).__name__, "t": optimizer.t, "lr": optimizer.lr},
        "schedule": schedule and {"class": type(schedule).__name__, "count": schedule.count},
        "generators": states(trainer.model), "workers": trainer.parallel and trainer.workers, "ranks": ranks(trainer)}


def history_arrays(trainer):
    """Returns {history/loss: an entry for each step, ...}"""
    columns = dict.fromkeys([*COLUMNS, *(column for row in trainer.history for column in row)])
    return {f"history/{column}": np.array([row.get(column, math.nan) for row in trainer.history]) for column in columns}


def ranks(trainer):
    return trainer.comm.size if trainer.comm else 1


def restore(trainer, arrays, meta, path):
    """Copies the state of a checkpoint into a trainer. Raises ValueError, and changes nothing, if the two do not match."""
    try:
        check_form(meta, FORM, "meta")
        differs = differences(trainer, arrays, meta)
        history = read_history(arrays)
        if not differs:
            check_states(trainer.model, meta["generators"])
    except (ValueError, *MALFORMED) as error:
        raise ValueError(f"{str(path)!r} is not the checkpoint of a run that can be continued ({reason_of(error)}; it may "
                         "be an average); name one that a Trainer has saved") from error
    if differs:
        raise ValueError(f"{str(path)!r} does not fit this run, nothing was loaded: "
                         + one_line("; ".join(differs), 1000))
    trainer.best = meta["best"]
    trainer.best_weights = trainer.model.state_dict(trained=True) if meta["best"] else {}
    for name, array in live_arrays(trainer).items():
        array[...] = arrays[name]
    trainer.parallel = None
    if meta["workers"] is not None and meta["ranks"] == ranks(trainer):
        trainer.start_workers(meta["workers"])
    for name, rng in generators(trainer.model).items():
        rng.bit_generator.state = meta["generators"][name]
    trainer.optimizer.t, trainer.optimizer.lr = meta["optimizer"]["t"], meta["optimizer"]["lr"]
    if trainer.schedule is not None:
        trainer.schedule.go_to(meta["schedule"]["count"])
    trainer.steps, trainer.history = meta["step"], History(history)


def live_arrays(trainer):
    """Returns {name: the array itself}: model/..., optimizer/m/..., and best/... if early stopping keeps the best weights.
    """
    named = trainer.model.named_state(trained=True)
    names = {id(parameter): name for name, parameter in named}
    arrays = {f"model/{name}": parameter.data for name, parameter in named}
    numbers = {id(parameter): n for n, parameter in enumerate(trainer.optimizer.parameters)}    # of those outside the model
    for part, parameter, value in trainer.optimizer.state_by_parameter():
        arrays[f"optimizer/{part}/{names.get(id(parameter), numbers[id(parameter)])}"] = value
    return arrays | {f"best/{name}": array for name, array in trainer.best_weights.items()}


def generators(model):
    """Returns {dotted name: generator} of all random generators in the model, each once."""
    generators_by_id: dict[int, tuple[str, np.random.Generator]] = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, np.random.Generator):
                generators_by_id.setdefault(id(value), (f"{name}.{key}".strip("."), value))
    return dict(generators_by_id.values())


def check_states(model, states):
    """Raises an error unless these are states of the model's generators. Their own states are not changed."""
    for name, rng in generators(model).items():
        type(rng.bit_generator)().state = states[name]


def states(model):
    return {name: rng.bit_generator.state for name, rng in generators(model).items()}


def differences(trainer, arrays, meta):
    """Describes how a checkpoint differs from this run; [] if it does not."""
    own = state_of(trainer)[1]
    expected = {name: array for name, array in live_arrays(trainer).items() if not name.startswith("best/")}
    if meta["best"]:
        expected |= {name.replace("model/", "best/"): array for name, array in expected.items()
                     if name.startswith("model/")}
    kinds = [{name: f"{array.dtype} {array.shape}" for name, array in group.items() if not name.startswith("history/")}
             for group in (arrays, expected)]
    descriptions = [f"{name} is {kinds[0].get(name, 'missing')} in the file, {kinds[1].get(name, 'missing')} here"
                    for name in kinds[1] | kinds[0] if kinds[0].get(name) != kinds[1].get(name)]
    if len(descriptions) > 2:
        descriptions = [*descriptions[:2], f"and {len(descriptions) - 2} more arrays"]
    theirs = {"optimizer": meta["optimizer"]["class"], "schedule": meta["schedule"] and meta["schedule"]["class"],
              "random generators": kinds_of(meta["generators"]), "batches in a step": meta["data"]["accumulate"]}
    ours = {"optimizer": own["optimizer"]["class"], "schedule": own["schedule"] and own["schedule"]["class"],
            "random generators": kinds_of(own["generators"]), "batches in a step": own["data"]["accumulate"]}
    if (meta["workers"] or 1) not in range(1, MOST_WORKERS + 1):
        descriptions.append(f"{meta['workers']:,} workers in the file, at most {MOST_WORKERS:,} here")
    same_ranks = meta["ranks"] == ranks(trainer)           # with another number of ranks, the number of workers may differ
    if same_ranks and None not in (trainer.workers, meta["workers"]) and trainer.workers != meta["workers"]:
        descriptions.append(f"workers: {meta['workers']} in the file, {trainer.workers} here")
    return descriptions + [f"{what}: {theirs[what]} in the file, {ours[what]} here" for what in ours
                           if theirs[what] != ours[what]]


def kinds_of(generators):
    return {name: state["bit_generator"] for name, state in generators.items()}


def read_history(arrays):
    """Returns the rows of the history; NaN means that nothing was measured."""
    others = [name.removeprefix("history/") for name in arrays if name.startswith("history/")]
    columns = list(dict.fromkeys([*COLUMNS, *others]))
    rows = zip(*(arrays[f"history/{column}"].tolist() for column in columns))
    return [{column: value for column, value in zip(columns, row) if not math.isnan(value)} for row in rows]
