"""numpy-transformer train: a language model, or an encoder-decoder; saved, and resumed bit for bit."""

import sys
from pathlib import Path

from ..training.checkpoint import Checkpoint, average_checkpoints, check_writable, read_checkpoint, write_checkpoint
from ..training.trainer import evaluate
from .parser import add_command
from .recipes import RECIPES, all_settings, default_settings, load_tokenizers, make_model, make_trainer
from .settings import add_settings, resolve

MAY_CHANGE = ("steps", "validate_every", "save_every")


def add(commands):
    parser = commands.add_parser("train", help="train a language model or an encoder-decoder",
                                 description="Train a model, and save it so that it can be used and resumed.")
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for recipe in RECIPES.values():
        sub = add_command(kinds, recipe.name, run, help=recipe.title,
                          description=f"Train {recipe.title}. Ctrl-C finishes the step and saves; --resume goes on, "
                                      "and ends with the weights of a run that nobody disturbed.")
        sub.add_argument("--config", choices=recipe.presets, help="named settings; each can still be changed")
        sub.add_argument("--out", metavar="RUN.npz", default=f"{recipe.name}.npz", help="where the run is saved")
        sub.add_argument("--resume", action="store_true", help="go on with the run in --out, with its settings")
        sub.add_argument("--overwrite", action="store_true", help="replace the run in --out")
        sub.add_argument("--curves", metavar="FILE.png", help="draw the learning curves at the end")
        add_settings(sub, "data", recipe.source, recipe.presets)
        add_settings(sub, "model", recipe.model, recipe.presets)
        add_settings(sub, "training", recipe.training, recipe.presets)


def run(arguments):
    out = Path(arguments.out)
    saved = look_at(out, arguments)
    check_writable(out)
    if arguments.curves:
        check_writable(arguments.curves)
    kind = RECIPES[arguments.kind]
    preset = saved["config"] if saved else kind.preset(arguments)
    if arguments.config not in (None, preset):
        raise ValueError(f"--config {arguments.config} differs from the {preset} with which the run was begun; leave it "
                         "out to resume, or begin another run under another --out")
    settings = resolve(arguments, all_settings(kind), default_settings(kind, preset), saved and saved["settings"],
                       MAY_CHANGE)
    recipe = kind(settings, saved and load_tokenizers(saved))
    if saved and saved["corpus"] != recipe.corpus:
        raise ValueError(f"the texts are not those with which the run in {str(out)!r} was begun; restore them, or begin "
                         "another run under another --out")
    model = make_model(recipe)
    print(*recipe.report, recipe.description, sep="\n")
    print(f"{model.num_parameters():,} parameters, {settings['steps']:,} steps of {settings['batch_size']} sequences")
    trainer = make_trainer(recipe, model)
    meta = {"kind": kind.name, "config": preset, "settings": settings, "model": recipe.config(),
            "tokenizers": [tokens.to_json() for tokens in recipe.tokenizers], "corpus": recipe.corpus}
    checkpoint = Checkpoint(out, settings["save_every"], settings["average"], meta)
    if saved:
        trainer.load(out)
        print(f"resuming at step {trainer.steps:,}")
    elif checkpoint.keep:
        for old in checkpoint.kept():           # of the run that is replaced
            old.unlink()
    trainer.fit(recipe.batches, max(settings["steps"] - trainer.steps, 0), validation=recipe.validation,
                every=settings["validate_every"], patience=settings["patience"] or None, checkpoint=checkpoint,
                title=kind.name)
    finish(trainer, recipe, checkpoint, arguments.curves)


def look_at(out, arguments):
    """The meta of the run to resume, or None. Nothing is replaced unasked."""
    if arguments.resume and arguments.overwrite:
        raise ValueError("--resume goes on with a run, --overwrite replaces it; give one of them")
    if out.exists() and not arguments.overwrite:
        if not arguments.resume:
            raise ValueError(f"{str(out)!r} is there already; --resume goes on with it, --overwrite replaces it, --out "
                             "names another file")
        meta = read_checkpoint(out)[1]
        if meta.get("kind") != arguments.kind:
            raise ValueError(f"{str(out)!r} holds a run of {meta.get('kind')!r}, not of {arguments.kind!r}; name "
                             "another file with --out")
        return meta
    if arguments.resume:
        print(f"there is no {str(out)!r} yet: beginning anew", file=sys.stderr)
    return None


def finish(trainer, recipe, checkpoint, curves):
    """Say what came out, average the last saves, draw the curves."""
    if trainer.best:
        print(f"best validation loss {trainer.best['loss']:.4f} at step {trainer.best['step']:,}")
    elif trainer.history and "validation" in trainer.history[-1]:
        print(f"validation loss {trainer.history[-1]['validation']:.4f} over {len(recipe.validation)} batches")
    print(f"saved {str(checkpoint.path)!r} at step {trainer.steps:,}")
    if checkpoint.keep:
        kept = checkpoint.kept()
        trainer.model.load_state_dict(average_checkpoints(kept))
        path = checkpoint.path.with_name(f"{checkpoint.path.stem}.average.npz")
        arrays = {f"model/{name}": array for name, array in trainer.model.state_dict().items()}
        write_checkpoint(path, arrays, {**checkpoint.meta, "step": trainer.steps, "averaged": [p.name for p in kept]})
        loss = evaluate(trainer.model, trainer.criterion, recipe.validation)
        print(f"saved {str(path)!r}, the mean of {len(kept)} saves: validation loss {loss:.4f}")
    if curves:
        from .. import views                    # matplotlib is slow to import
        views.learning_curves({checkpoint.path.name: trainer.history}).savefig(curves, dpi=110, format="png")
        print(f"drew {curves!r}")
