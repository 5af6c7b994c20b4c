"""numpy-transformer train: trains a model of each kind, saves it, and resumes bit for bit."""

import contextlib
import json
import os
from pathlib import Path

from ..tasks import TASKS, fine_tuning
from ..tasks.runs import find_base, load_run, outline_run
from ..tasks.settings import with_names
from ..tasks.task import shorten_warmup
from ..threads import adapt_threads
from ..training import mpi
from ..training.checkpoint import Checkpoint, average_checkpoints, write_checkpoint
from .parser import add_command, option
from .settings import add_settings, given_settings, resumed_settings
from .train_files import check_outputs, remove_kept
from .train_film import start_film

MAY_CHANGE_ON_RESUME = ("steps", "epochs", "validate_every", "save_every", "patience", "average", "text", "source",
                        "target", "data")


def add_to_parser(commands):
    parser = commands.add_parser("train", help="train a model: language model, translator, classifier, tagger, BERT, T5",
                                 description="Train a model and save it, so that it can be used and resumed.")
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for task in TASKS.values():
        sub = add_command(kinds, task.name, run, help=task.title,
                          description=f"Train {task.title}. Ctrl-C finishes the step and saves. --resume continues, and "
                                      "ends with exactly the weights of an uninterrupted run.")
        sub.add_argument("--config", choices=task.configurations, help=with_names(task.configuration_help, option))
        sub.add_argument("--out", metavar="RUN.npz", default=f"{task.name}.npz", help="file of the checkpoint")
        sub.add_argument("--resume", action="store_true", help="continue the run in --out, with its settings")
        sub.add_argument("--overwrite", action="store_true", help="replace the run in --out")
        sub.add_argument("--curves", metavar="FILE.png", help="draw the learning curves at the end")
        sub.add_argument("--film", metavar="PAGE.html", help="record the training as a page that plays it: losses, predictions, "
                                                             "attention, weights and gradients")
        add_settings(sub, "data", task.data_settings, task.configurations)
        add_settings(sub, "model", task.model_settings, task.configurations)
        add_settings(sub, "training", task.training_settings, task.configurations)


def run(arguments):
    comm = mpi.world()
    saved = mpi.gather(comm, lambda: check_outputs(arguments) if mpi.is_first(comm) else None)[0]
    with mpi.together(comm):
        if saved:
            task, trainer, checkpoint = prepare_resumed(arguments, saved, comm)
        else:
            task, trainer, checkpoint = prepare_new(arguments, comm)
    if saved:
        trainer.load(checkpoint.path)
        say(f"resuming at step {trainer.steps:,}")
    else:
        save_settings(trainer, checkpoint, arguments.overwrite)
    with mpi.together(comm):
        film = start_film(arguments.film, trainer, task) if mpi.is_first(comm) else None
    train(trainer, task, checkpoint, film)
    if mpi.is_first(comm):
        finish(trainer, task, checkpoint, arguments.curves)


def prepare_new(arguments, comm):
    """(task, trainer, checkpoint) of a new run."""
    kind = TASKS[arguments.kind]
    given = given_settings(arguments, kind.all_settings())
    pretrained = load_pretrained(kind, given, arguments.out)
    configuration = kind.choose_configuration(arguments.config, given, pretrained and pretrained.meta)
    settings = kind.default_settings(configuration, **given)
    check_epochs(settings, given)
    if pretrained:
        settings = fine_tuning.adopt(settings, given, kind, pretrained)
    check_unused(given, kind, settings)
    check_configuration(configuration, settings)
    task = kind(settings, pretrained and pretrained.tokenizers, pretrained and pretrained.meta)
    if "warmup" not in given:
        shorten_warmup(settings)                # --epochs may have resulted in few steps
    if pretrained:
        model, lines = fine_tuning.start_from_run(task, pretrained)
        more = fine_tuning.meta_of(task, pretrained)
    else:
        model, lines = task.make_model(), []
        more = {"origin": task.origin} if task.origin else {}
    print_task(task, model, comm)
    say(*lines)
    return task, task.make_trainer(adapt_threads(model), comm), make_checkpoint(arguments.out, task, configuration, more)


def prepare_resumed(arguments, saved, comm):
    """(task, trainer, checkpoint) of the run whose meta is `saved`; its arrays are not loaded yet."""
    kind, configuration = TASKS[arguments.kind], saved["config"]
    if arguments.config not in (None, configuration):
        raise ValueError(f"--config is {configuration} in the run that is resumed, not {arguments.config}; leave it out, or "
                         "start a new run under another --out")
    given = given_settings(arguments, kind.all_settings())
    settings = resumed_settings(saved["settings"], given, MAY_CHANGE_ON_RESUME)
    check_epochs(settings, given)
    task = kind(settings, outline_run(arguments.out).tokenizers, saved if settings.get("pretrained") else None)
    if saved["corpus"] != task.corpus:
        raise ValueError(f"the texts are not those with which the run in {arguments.out!r} was started; restore them, or "
                         "start a new run under another --out")
    check_same_model(task, saved, arguments.out)
    if "base" in saved:
        model, _ = fine_tuning.start_from_run(task, load_run(find_base(saved["base"], arguments.out)))
    else:
        model = task.make_model()
    print_task(task, model, comm)
    more = {name: saved[name] for name in ("base", "lora", "origin") if name in saved}
    return task, task.make_trainer(adapt_threads(model), comm), make_checkpoint(arguments.out, task, configuration, more)


def check_same_model(task, saved, path):
    """Raises ValueError unless the settings of a run describe its model, which outline_run has compared with its weights.

    A run that has started from another one is its own base: its model is made from that description, not from the settings.
    """
    if not task.settings.get("pretrained") and json.loads(json.dumps(task.model_config())) != saved["model"]:
        raise ValueError(f"{path!r} is damaged (its settings do not describe its model); start a new run under another --out")


def print_task(task, model, comm):
    ranks = f" on {comm.size} MPI ranks" if comm else ""
    say(*task.report, task.description,
        f"{model.num_parameters():,} parameters; {task.settings['steps']:,} steps with batches of "
        f"{task.settings['batch_size']:,}{ranks}")


def make_checkpoint(out, task, configuration, more):
    """The Checkpoint of a run; `more` is what its meta says about the run that it started from."""
    meta = {"kind": task.name, "config": configuration, "settings": task.settings, "model": task.model_config(),
            "tokenizers": [tokens.to_json() for tokens in task.tokenizers], "corpus": task.corpus, **more}
    return Checkpoint(Path(out), task.settings["save_every"], task.settings["average"], meta)


def check_epochs(settings, given):
    """--steps replaces the epochs of a configuration or of the run; both together are refused."""
    if "steps" in given and "epochs" in given:
        raise ValueError(f"--epochs {given['epochs']} and --steps {given['steps']} both say how long to train; give "
                         "only one of them")
    if "steps" in given and "epochs" in settings:
        settings["epochs"] = None


def check_unused(given, kind, settings):
    """Raises ValueError for an option that this run would not use."""
    for names, remedy in kind.unused_settings(settings):
        for name in names:
            if name in given:
                switched_off = given[name] is False
                shown = option(f"no_{name}") if switched_off else option(name)
                raise ValueError(f"{shown} would have no effect: {with_names(remedy, option)}")


def check_configuration(configuration, settings):
    """Raises ValueError for a configuration that is made for pretrained weights, without any."""
    if configuration in ("fine-tune", "lora") and not settings["pretrained"]:
        raise ValueError(f"--config {configuration} is for pretrained weights; give --pretrained, or choose another --config")
    if configuration == "fine-tune" and settings["lora"]:
        raise ValueError(f"--config fine-tune trains all weights, and --lora {settings['lora']} does not; leave one of "
                         "them out")


def load_pretrained(kind, given, out):
    """The run that --pretrained names, or None."""
    path = given.get("pretrained")
    if not path:
        return None
    pretrained = load_run(path, *kind.starts_from)
    if os.path.realpath(pretrained.path) == os.path.realpath(out):
        raise ValueError(f"--pretrained and --out are both {str(out)!r}; name another file with --out")
    return pretrained


def say(*lines):
    """Prints at once. If nothing reads standard output any more, the run continues."""
    with contextlib.suppress(OSError):
        print(*lines, sep="\n", flush=True)


def save_settings(trainer, checkpoint, overwrite):
    """Saves before the first step, so that a run that is killed early can be resumed with its settings."""
    with mpi.together(trainer.comm):
        if trainer.rank == 0 and checkpoint.keep:
            remove_kept(checkpoint, overwrite)
    checkpoint.save(trainer, keep=False)


def train(trainer, task, checkpoint, film=None):
    """Trains to the last step. A film is saved however the training ends."""
    s = task.settings
    if trainer.steps >= s["steps"]:
        return
    try:
        trainer.fit(task.batches, s["steps"] - trainer.steps, task.make_validation(trainer.model), s["validate_every"],
                    patience=s["patience"] or None, checkpoint=checkpoint, title=task.name,
                    watch="validation" if s["watch"] == "loss" else s["watch"], after_step=film and film.watch)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{str(stop) or 'interrupted'}; --resume continues") from stop
    finally:
        if film:
            say(film.save())


def finish(trainer, task, checkpoint, curves):
    """Prints the results, averages the last saves and draws the curves."""
    report_validation(trainer, task)
    say(f"saved {str(checkpoint.path)!r} at step {trainer.steps:,}")
    say(*task.results(trainer.model))
    if checkpoint.keep:
        save_average(trainer, task, checkpoint)
    if curves:
        from .. import views  # matplotlib is slow to import
        views.write_figure(views.learning_curves({checkpoint.path.name: trainer.history}), curves)
        say(f"drew {curves!r}")


def report_validation(trainer, task):
    settings, watch = task.settings, task.settings["watch"]
    if trainer.steps < settings["steps"]:
        say(f"stopped early: the {watch} did not improve in {settings['patience']} validations; a larger --patience "
            "continues")
    if trainer.best:
        say(f"best validation {watch} {trainer.best[watch]:.4f} at step {trainer.best['step']:,}")
    elif trainer.history and "validation" in trainer.history[-1]:
        say(f"validation loss {trainer.history[-1]['validation']:.4f}, {len(task.validation):,} batches")


def save_average(trainer, task, checkpoint):
    """Writes the mean of the weights of the last saves next to the run."""
    kept = checkpoint.kept()
    trainer.model.load_state_dict(average_checkpoints(kept), trained=True)
    path = checkpoint.path_with_tag("average")
    arrays = {f"model/{name}": array for name, array in trainer.model.state_dict(trained=True).items()}
    write_checkpoint(path, arrays, {**checkpoint.meta, "step": trainer.steps, "averaged": [p.name for p in kept]})
    measured = task.make_validation(trainer.model)()
    loss = measured["validation"] if isinstance(measured, dict) else measured
    say(f"saved {str(path)!r}, the mean of {len(kept)} saves: validation loss {loss:.4f}")
