"""numpy-transformer train: a model of each kind; saved, and resumed bit for bit."""

import contextlib
import os
import sys
from pathlib import Path

from ..training import carry_over, mpi
from ..training.checkpoint import Checkpoint, average_checkpoints, check_writable, read_checkpoint, write_checkpoint
from .parser import add_command
from ..tasks import (RECIPES, all_settings, default_settings, idle_rates, load_tokenizers, make_model, make_trainer,
                      shorten_warmup)
from ..tasks.runs import check_meta, load_run
from .settings import add_settings, given_settings, resumed_settings

MAY_CHANGE = ("steps", "epochs", "validate_every", "save_every", "patience", "average", "text", "source", "target",
              "data")


def add(commands):
    parser = commands.add_parser("train", help="train a model: of language, of pairs of texts, of classes, of tags",
                                 description="Train a model, and save it so that it can be used and resumed.")
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for recipe in RECIPES.values():
        sub = add_command(kinds, recipe.name, run, help=recipe.title,
                          description=f"Train {recipe.title}. Ctrl-C finishes the step and saves; --resume goes on, "
                                      "and ends with the weights of a run that nobody disturbed.")
        sub.add_argument("--config", choices=recipe.presets, help=recipe.config_help)
        sub.add_argument("--out", metavar="RUN.npz", default=f"{recipe.name}.npz", help="where the run is saved")
        sub.add_argument("--resume", action="store_true", help="go on with the run in --out, with its settings")
        sub.add_argument("--overwrite", action="store_true", help="replace the run in --out")
        sub.add_argument("--curves", metavar="FILE.png", help="draw the learning curves at the end")
        add_settings(sub, "data", recipe.source, recipe.presets)
        add_settings(sub, "model", recipe.model, recipe.presets)
        add_settings(sub, "training", recipe.training, recipe.presets)


def run(arguments):
    comm = mpi.world()
    saved = mpi.gather(comm, lambda: look_at(arguments) if mpi.is_first(comm) else None)[0]
    with mpi.together(comm):
        recipe, trainer, checkpoint = prepare(arguments, saved, comm)
    settings = recipe.settings
    if saved:
        trainer.load(checkpoint.path)
        say(f"resuming at step {trainer.steps:,}")
    else:
        begin(trainer, checkpoint, arguments.overwrite)
    if trainer.steps < settings["steps"]:
        try:
            trainer.fit(recipe.batches, settings["steps"] - trainer.steps, recipe.validate(trainer.model),
                        settings["validate_every"], patience=settings["patience"] or None, checkpoint=checkpoint,
                        title=arguments.kind, watch="validation" if settings["watch"] == "loss" else settings["watch"])
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(f"{str(stop) or 'interrupted'}; --resume goes on") from stop
    if mpi.is_first(comm):
        finish(trainer, recipe, checkpoint, arguments.curves)


def prepare(arguments, saved, comm):
    """(recipe, trainer, checkpoint) of a new run, or of the one whose meta is `saved`."""
    kind, out = RECIPES[arguments.kind], Path(arguments.out)
    preset = saved["config"] if saved else kind.preset(arguments)
    if arguments.config not in (None, preset):
        raise ValueError(f"--config is {preset} in the run that is resumed, not {arguments.config}; leave it out, or "
                         "begin another run under another --out")
    given = given_settings(arguments, all_settings(kind))
    settings = (resumed_settings(saved["settings"], given, MAY_CHANGE) if saved else
                default_settings(kind, preset, **given))
    check_epochs(settings, given)
    tokenizers, pretrained = saved and load_tokenizers(saved), None
    if not saved:
        check_idle(given, kind, settings)
        if settings.get("pretrained"):
            pretrained = load_run(settings["pretrained"], "mlm")
            if os.path.realpath(pretrained.path) == os.path.realpath(out):
                raise ValueError(f"--pretrained and --out are both {str(out)!r}; name another file with --out")
            settings, tokenizers = adopt(settings, given, kind.decided, pretrained), pretrained.tokenizers
    recipe = kind(settings, tokenizers)
    if not saved and "warmup" not in given:
        shorten_warmup(settings)                # --epochs may have come to few steps
    if saved and saved["corpus"] != recipe.corpus:
        raise ValueError(f"the texts are not those with which the run in {str(out)!r} was begun; restore them, or "
                         "begin another run under another --out")
    model = make_model(recipe)
    ranks = f" on {comm.size} MPI ranks" if comm else ""
    say(*recipe.report, recipe.description,
        f"{model.num_parameters():,} parameters, {settings['steps']:,} steps of {settings['batch_size']} sequences{ranks}")
    if pretrained:
        say(*carried(model, pretrained))
    meta = {"kind": kind.name, "config": preset, "settings": settings, "model": recipe.config(),
            "tokenizers": [tokens.to_json() for tokens in recipe.tokenizers], "corpus": recipe.corpus}
    checkpoint = Checkpoint(out, settings["save_every"], settings["average"], meta)
    return recipe, make_trainer(recipe, model, comm), checkpoint


def check_epochs(settings, given):
    """--steps instead of the epochs of a configuration or of the run; not both."""
    if "steps" in given and "epochs" in given:
        raise ValueError(f"--epochs {given['epochs']} and --steps {given['steps']} both say how long to train; give "
                         "one of them")
    if "steps" in given and "epochs" in settings:
        settings["epochs"] = None


def adopt(settings, given, decided, pretrained):
    """The settings, with those that a pretrained run decides. Raises ValueError for an option that differs."""
    if pretrained.settings["positions"] == "learned":
        decided = (*decided, "max_len")         # as long as the table
    theirs = {name: pretrained.settings[name] for name in decided}
    for name in decided:
        if name in given and given[name] != theirs[name]:
            raise ValueError(f"--{name.replace('_', '-')} is {theirs[name]} in the pretrained run {pretrained.path!r}, "
                             f"not {given[name]}; leave it out, or pretrain a model with it")
    return settings | theirs


def carried(model, pretrained):
    """Carry the weights over by name; lines that say which."""
    names = carry_over(model, pretrained.model.state_dict())
    yield f"{len(names.carried)} arrays carried over from {pretrained.path!r}"
    yield f"new: {', '.join(names.new) or 'none'}"
    yield f"left out: {', '.join(names.left_out) or 'none'}"


def say(*lines):
    """Print at once; where nobody reads any more the run goes on."""
    with contextlib.suppress(OSError):
        print(*lines, sep="\n", flush=True)


def look_at(arguments):
    """The meta of the run to resume, or None for a new one, after a check that everything can be written.

    Nothing is replaced unless asked for, and nothing but a run is ever replaced.
    """
    saved = find_run(arguments, Path(arguments.out))
    check_writable(arguments.out)
    check_picture(arguments.curves, arguments.out)
    return saved


def find_run(arguments, out):
    if arguments.resume and arguments.overwrite:
        raise ValueError("--resume goes on with a run, --overwrite replaces it; give one of them")
    if not out.exists():
        if arguments.resume:
            print(f"there is no {str(out)!r} yet: beginning anew", file=sys.stderr)
        return None
    if not out.is_file():
        raise ValueError(f"cannot write {str(out)!r}: it is no ordinary file; name another one with --out")
    if not arguments.resume and not arguments.overwrite:
        raise ValueError(f"{str(out)!r} is there already; --resume goes on with it, --overwrite replaces it, --out "
                         "names another file")
    meta = check_meta(read_checkpoint(out)[1], out)
    if arguments.overwrite:
        return None
    if meta["kind"] != arguments.kind:
        raise ValueError(f"{str(out)!r} holds a run of `train {meta['kind']}`, not of `train {arguments.kind}`; name "
                         "another file with --out")
    return meta


def check_picture(path, out):
    """Raises ValueError now if the curves could not be drawn there, or would replace anything but a picture."""
    if path is None:
        return
    path = Path(path)
    if path.suffix.lower() != ".png" or os.path.realpath(path) == os.path.realpath(out):
        raise ValueError(f"--curves {str(path)!r} must end in .png and not be the run itself: the curves are a picture")
    check_writable(path)
    if path.exists() and not path.read_bytes()[:4] == b"\x89PNG":
        raise ValueError(f"{str(path)!r} is there already and is no picture; name another file with --curves")


def check_idle(given, kind, settings):
    """Options that would do nothing are mistakes."""
    for names, remedy in kind.idle(settings) + idle_rates(settings):
        for name in names:
            if name in given:
                raise ValueError(f"--{name.replace('_', '-')} would do nothing: {remedy}")


def begin(trainer, checkpoint, overwrite):
    """Save at once, so that a run that is killed early has its settings."""
    with mpi.together(trainer.comm):
        if trainer.rank == 0 and checkpoint.keep:
            remove_kept(checkpoint, overwrite)
    checkpoint.save(trainer, keep=False)


def remove_kept(checkpoint, overwrite):
    """Remove what an earlier run of this name has left beside its file."""
    for path in filter(Path.exists, [*checkpoint.kept(), checkpoint.beside("average")]):
        if not overwrite:
            raise ValueError(f"{str(path)!r} is there already, from another run of this name; --overwrite replaces it, "
                             "--out names another file")
        path.unlink()


def finish(trainer, recipe, checkpoint, curves):
    """Say what came out, average the last saves, draw the curves."""
    settings = recipe.settings
    watch = settings["watch"]
    if trainer.steps < settings["steps"]:
        say(f"stopped early: {settings['patience']} validations brought no better {watch}; a larger --patience goes on")
    if trainer.best:
        say(f"best validation {watch} {trainer.best[watch]:.4f} at step {trainer.best['step']:,}")
    elif trainer.history and "validation" in trainer.history[-1]:
        say(f"validation loss {trainer.history[-1]['validation']:.4f} over {len(recipe.validation)} batches")
    say(f"saved {str(checkpoint.path)!r} at step {trainer.steps:,}")
    say(*recipe.results(trainer.model))
    if checkpoint.keep:
        kept = checkpoint.kept()
        trainer.model.load_state_dict(average_checkpoints(kept))
        path = checkpoint.beside("average")
        arrays = {f"model/{name}": array for name, array in trainer.model.state_dict().items()}
        write_checkpoint(path, arrays, {**checkpoint.meta, "step": trainer.steps, "averaged": [p.name for p in kept]})
        loss = recipe.validate(trainer.model)()
        loss = loss["validation"] if isinstance(loss, dict) else loss
        say(f"saved {str(path)!r}, the mean of {len(kept)} saves: validation loss {loss:.4f}")
    if curves:
        from .. import views                    # matplotlib is slow to import
        views.learning_curves({checkpoint.path.name: trainer.history}).savefig(curves, dpi=110, format="png")
        say(f"drew {curves!r}")
