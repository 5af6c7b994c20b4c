"""numpy-transformer info: what the file of a run, or the folder of a published model, holds; and whether it is sound."""

import os
import re

import numpy as np

from ..data import frame_source, marks, read_prompt
from ..data.plurals import counted
from ..data.text import read_text
from ..tasks import TASKS
from ..tasks.encoder import ENCODERS
from ..tasks.imported_runs import describe_sizes, describe_tokenizer, describe_vectors, run_of_folder
from ..tasks.options import is_published
from ..tasks.runs import IMPORTED, PAIRS, SCRIPT, TITLES, load_run, merged_weights, outline_run, use_of
from .evaluate import describe_context
from .generate import standard_input
from .parser import add_command
from .terminal import wrap

FILE_NAME = re.compile(r"\S*[/\\]\S*|\S+\.\w{1,5}")      # one word with a separator of folders, or with an ending
PART = re.compile(r".*\.blocks\.\d+|(?:encoder|decoder)\.\w+|\w+")       # the beginning of a parameter's name


def add_to_parser(commands):
    parser = add_command(commands, "info", run_info, help="show what a run or the folder of a published model holds",
                         description="Print where a model came from, its configuration, progress and parameters. No weight "
                                     "is read, except for --check.")
    parser.add_argument("file", metavar="FILE", help="a run, written by `train` or `import`; or the folder of a published "
                                                     "model, or a .bin file of llama2.c")
    parser.add_argument("--parameters", action="store_true", help="list every parameter with its shape")
    parser.add_argument("--check", metavar="TEXT", help="measure the loss on this text or on that of the file of "
                                                        "this name (at least 8 tokens, better 100; - reads it from "
                                                        "standard input), and whether undoing one of the common mistakes "
                                                        "of a conversion would lower it")


def run_info(arguments):
    is_missing = not os.path.exists(arguments.file) and not arguments.file.endswith(".npz")    # perhaps a name on a hub
    is_folder = os.path.isdir(arguments.file) or arguments.file.endswith(".bin") or is_missing
    if arguments.check is not None:
        text, what = text_to_check(arguments.check)
        run = run_of_folder(arguments.file) if is_folder else load_run(arguments.file)
        print(wrap(f"The check reads {what}."))
        print_findings(run, text)
        return
    run = run_of_folder(arguments.file, weights=False) if is_folder else outline_run(arguments.file)
    meta, model = run.meta, run.model
    print(f"{run.path}: {TITLES[use_of(meta)]}")
    print_origin(run)
    if meta["config"] != IMPORTED:
        print_progress(run)
    for side, tokens in sides_and_tokenizers(run.tokenizers):
        print(wrap(f"tokenizer of the {side}: {describe_tokenizer(tokens)}", indent="  ", first_indent=""))
    if not run.tokenizers:
        print("tokenizer: none in the folder (tokenizer.json)")
    if run.meta["corpus"].get("labels"):
        print(wrap(f"labels: {', '.join(run.labels)}", indent="  ", first_indent=""))
    print_settings(run)
    print("\nparameters")
    print(model.summary() if arguments.parameters else summary_of_parts(model))


def text_to_check(given):
    """(the text for --check, what it is): that of a file if there is one of this name, else the words themselves.

    Raises: ValueError for a file that cannot be read, and for what can only be the name of a file that is missing.
    """
    if given == "-":
        return standard_input().read(), "the text of standard input"
    if os.path.exists(given):
        return read_text(given), f"the text in the file {given!r}"
    if FILE_NAME.fullmatch(given):
        raise ValueError(f"--check {given!r} looks like the name of a file, but there is none; name one that exists, or give "
                         "a text of several words")
    beginning = given if len(given) <= 40 else given[:40] + "..."
    return given, f"the text {beginning!r} itself, since no file has this name"


def sides_and_tokenizers(tokenizers):
    """List of (side, tokenizer); one for both sides of an encoder-decoder that has one vocabulary."""
    if len(tokenizers) == 2 and tokenizers[0].to_json() == tokenizers[1].to_json():
        return [("source and the target", tokenizers[0])]
    return list(zip(("source", "target") if len(tokenizers) > 1 else ("text",), tokenizers))


def print_origin(run):
    """Prints the family to which a model belongs, and its sizes; nothing for a model of no published family."""
    if not is_published(run.meta):
        return
    from ..pretrained import remarks  # only published models need it

    origin = run.meta["origin"]
    named = origin["config"].get("architectures") or []
    names = "".join(f", {name}" for name in named[:1])
    what = "a model"                            # published, or one of our own with the same architecture
    if run.settings.get("preset"):
        what = f"the architecture of {run.settings['preset']}, a model"
    print(f"{what} of the family {origin['family']}{names}: {describe_sizes(run.meta['model'])}")
    for line in describe_vectors(run.meta["model"], run.settings):
        print(wrap(line, indent="  ", first_indent=""))
    for remark in remarks(run.model):
        print(wrap(remark))


def print_progress(run):
    """Prints how far the training came, which weights are used, and the loss at the start and at the end."""
    meta = run.meta
    if meta["config"] == SCRIPT:
        print(f"saved by a script after {counted(meta['step'], 'step')} of training")
    else:
        print(f"step {meta['step']:,} of {run.settings['steps']:,}, configuration {meta['config']}")
    if "base" in meta:
        how = f"LoRA of rank {meta['lora']['rank']}" if "lora" in meta else "some of its weights frozen"
        print(f"began with {meta['base']['file']!r} and holds only the weights that were trained ({how})")
    if meta.get("averaged"):
        print(f"weights: the mean of {len(meta['averaged'])} saves, {meta['averaged'][0]} to {meta['averaged'][-1]}")
    elif meta.get("best"):
        watch = run.settings.get("watch", "validation")
        print(f"weights: the best, of step {meta['best']['step']:,}, validation {watch} {meta['best'][watch]:.4f}")
    losses = run.arrays.get("history/loss", np.array([]))
    if len(losses) > 1:
        print(f"training loss {losses[0]:.4f} at step 1, {losses[-1]:.4f} at step {len(losses):,}")
    measured = run.arrays.get("history/validation", np.array([]))
    for step in np.flatnonzero(np.isfinite(measured))[-1:]:
        print(f"latest validation loss {measured[step]:.4f} at step {step + 1:,}")


def print_settings(run):
    """Prints the settings that the run uses, then the names of the others."""
    of_train = run.meta["config"] not in (IMPORTED, SCRIPT)
    unused = set() if not of_train else {name for names, _ in TASKS[run.kind].unused_settings(run.settings) for name in names}
    print("\nsettings")
    width = max(map(len, run.settings))
    print("\n".join(f"  {name:<{width}}  {value}" for name, value in run.settings.items() if name not in unused))
    if unused:
        print("  not used: " + ", ".join(name for name in run.settings if name in unused))


def summary_of_parts(model):
    """A table of the parts of a model with their numbers of parameters; equal blocks of a stack share one line."""
    sizes = {}
    for name, parameter in model.named_parameters():
        part = PART.match(name)[0]
        sizes[part] = sizes.get(part, 0) + parameter.data.size
    equal = {}                                  # parts with the same size, and the same name but for a number at its end
    for part, size in sizes.items():
        equal.setdefault((re.sub(r"\.\d+$", "", part), size), []).append(part)
    rows = []
    for (stack, size), parts in equal.items():
        several = len(parts) > 1
        rows.append((stack if several else parts[0], f"{len(parts)} x {size:,}" if several else "",
                     f"{len(parts) * size:,}"))
    rows.append((f"total of {type(model).__name__}", "", f"{model.num_parameters():,}"))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(f"{name:<{widths[0]}}  {times:>{widths[1]}}  {size:>{widths[2]}}" for name, times, size in rows)


def print_findings(run, text):
    """Prints what the doctor for conversions finds with a text."""
    from ..pretrained.conversion_checks import diagnose  # only this option needs it

    if not run.tokenizers:
        raise ValueError(f"{run.path!r} has no tokenizer.json, without which --check cannot read a text")
    merged_weights(run)                         # of LoRA
    tokens = run.tokenizers[0]
    named = getattr(tokens, "special", {})
    options = {"tokenizer_size": tokens.vocab_size, "special_ids": sorted({*named.values()}), "progress": True}
    if run.kind in ENCODERS:
        reader = run.reader
        ids = np.concatenate([[reader.cls_id], reader.pieces(text), reader.end]).astype(np.intp)    # not truncated
        options |= {"mask_id": reader.mask_id, "special_ids": sorted(reader.special_names),
                    "tokenizer_size": reader.vocab_size}
    elif run.kind in PAIRS:
        ids = frame_source(tokens, text)
        options |= {"start_id": marks(tokens).begin, "end_id": marks(tokens).end, "sentinels": sentinels(tokens)}
    else:
        ids = read_prompt(tokens, text)
        print(wrap(describe_context(getattr(tokens, "begin", []), tokens, 1)))
    print(diagnose(run.model, ids, **options))


def sentinels(tokens):
    """The ids of T5's tokens <extra_id_0>, <extra_id_1> and so on, which stand for what was left out of a text."""
    if not hasattr(tokens, "special"):
        return []
    ids = [tokens.tokenizer.token_to_id(f"<extra_id_{n}>") for n in range(100)]
    return [i for i in ids if i is not None]
