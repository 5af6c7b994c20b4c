"""numpy-transformer import and export: published models become runs, and runs become folders that transformers reads."""

import os
from pathlib import Path

import numpy as np

from ..outputs import check_folder_kind, check_output
from ..tasks.imported_runs import (checkpoint_of, compare_sizes, describe_sizes, describe_tokenizer, describe_vectors,
                                   labels_in_config, read_tokenizer)
from ..tasks.options import is_published
from ..tasks.runs import IMPORTED, TITLES, check_meta, load_run, merged_weights, use_of
from ..training.checkpoint import read_checkpoint, write_checkpoint
from ..training.progress import Progress
from .parser import add_command
from .terminal import wrap

MORE = {"lm": "evaluate --text FILE, plot, explore, train lm --pretrained",
        "mlm": "plot, explore, train mlm, classifier or tagger --pretrained",
        "classifier": "evaluate --data FILE, embed, similar, plot, explore, train classifier --pretrained",
        "multi-label": "embed, similar, plot, explore, train classifier --pretrained",
        "regression": "train classifier --pretrained",
        "tagger": "evaluate --data FILE, embed, similar, plot, explore, train tagger --pretrained",
        "encoder": "train classifier or tagger --pretrained",
        "text2text": "evaluate --data FILE, plot, explore, train text2text --pretrained"}


def add_to_parser(commands):
    parser = add_command(
        commands, "import", run_import, help="make a run of a published model: GPT-2, LLaMA, BERT, T5 and their relatives",
        description="Read a published model and save it as a run, which the other commands use like one that was trained "
                    "here. Nothing is downloaded.")
    parser.add_argument("folder", metavar="FOLDER", help="folder with config.json, *.safetensors and tokenizer.json, the "
                                                         "cache of such a folder, a LoRA adapter, or a .bin file of "
                                                         "llama2.c")
    parser.add_argument("--out", metavar="RUN.npz", required=True, help="file of the run")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32", help="type of the weights in memory "
                                                                                           "and in the file")
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer.bin of a .bin file (default: the one beside it)")
    parser.add_argument("--base", metavar="FOLDER", help="folder of the model that a LoRA adapter changes (default: the one "
                                                         "that its adapter_config.json names)")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --out")

    parser = add_command(
        commands, "export", run_export, help="save an imported or fine-tuned model as a folder that transformers reads",
        description="Save a model that was imported, fine-tuned from an imported one, trained with --preset, or made by "
                    "nt.preset and saved by nt.save_run, in the layout of its family. The weights of LoRA are merged.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `import`, by `train KIND --pretrained`, by `train lm "
                                                        "--preset`, or by nt.save_run")
    parser.add_argument("folder", metavar="FOLDER", help="folder to write; other files in it stay as they are, but the files "
                                                         "of another model are not replaced")


def run_import(arguments):
    from ..pretrained import describe_adapter, load_pretrained, open_checkpoint, remarks  # only published models need it

    check_out(arguments)
    path = arguments.folder
    config, arrays, files = open_checkpoint(path, arguments.base)
    if arguments.tokenizer and not Path(path).is_file():
        raise ValueError(f"--tokenizer names the tokenizer of a .bin file, but {path!r} is a folder, which has its own "
                         "tokenizer.json; leave it out")
    tokenizer = read_tokenizer(path, files, config, arguments.tokenizer)
    del arrays
    with ArrayProgress() as progress:
        model = load_pretrained(path, np.dtype(arguments.dtype), progress, arguments.base)
    sentences = [*describe_adapter(path, arguments.base), *remarks(model), *compare_sizes(tokenizer, model.origin.options)]
    arrays, meta = checkpoint_of(model, tokenizer)
    write_checkpoint(arguments.out, arrays, meta)
    size = os.path.getsize(arguments.out)
    for sentence in sentences:
        print(wrap(sentence))
    print(f"{model.origin.family}: {describe_sizes(model.origin.options)}")
    print(f"{model.num_parameters():,} parameters in {arguments.dtype}")
    for line in describe_vectors(model.origin.options, meta["settings"]):
        print(wrap(line, indent="  ", first_indent=""))
    print(wrap(f"tokenizer: {describe_tokenizer(tokenizer)}", indent="  ", first_indent=""))
    print(f"saved {arguments.out!r} ({size / 1e6:,.2f} MB), {TITLES[use_of(meta)]}")
    print(wrap(f"other commands for it: info, export, {MORE[use_of(meta)]}", indent="  ", first_indent=""))


class ArrayProgress:
    """A progress bar whose number of arrays is known when the first one has been read."""

    bar = None

    def __call__(self, count, total):
        if self.bar is None:
            self.bar = Progress(total, "reading", "array")
        self.bar.advance()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.bar is not None:
            self.bar.__exit__(*error)


def check_out(arguments):
    """Raises ValueError if the run cannot be written, or would replace anything but a run, before the folder is read."""
    check_output(arguments.out)
    if os.path.exists(arguments.out):
        if not arguments.overwrite:
            raise ValueError(f"{arguments.out!r} exists already; --overwrite replaces it, --out names another file")
        check_meta(read_checkpoint(arguments.out, lambda names: [])[1], arguments.out)


def run_export(arguments):
    from ..pretrained import save_pretrained  # only published models need it

    check_folder_kind(arguments.folder)
    run = load_run(arguments.file)
    model = run.model
    if not is_published(run.meta):
        raise ValueError(f"{run.path!r} was trained from scratch here, and only an imported model, one fine-tuned from it, or "
                         "one trained with --preset has a family that transformers knows; export one of these")
    merged_weights(run)                         # of LoRA
    if labels_in_config(run.kind, model.origin.config).get("labels") != run.meta["corpus"].get("labels"):
        names = {str(number): label for number, label in enumerate(run.labels)}
        model.origin.config |= {"id2label": names, "label2id": {label: int(number) for number, label in names.items()}}
    if "problem_type" in model.origin.config and run.meta["config"] != IMPORTED:
        model.origin.config["problem_type"] = "single_label_classification"
    files = getattr(run.tokenizer, "files", {})
    model.origin.files = model.origin.files | files
    save_pretrained(model, arguments.folder)
    print(f"saved {arguments.folder!r}: {model.num_parameters():,} parameters, family {model.origin.family}; "
          f"transformers reads it with {auto_class(run.kind)}.from_pretrained")
    if not files:
        print(wrap(f"The tokenizer ({type(run.tokenizer).__name__}) has no form that transformers reads, so the folder has "
                   "none; the ids are those of the run."))


def auto_class(kind):
    """The class of transformers that reads a model of this kind."""
    return {"lm": "AutoModelForCausalLM", "mlm": "AutoModelForMaskedLM", "text2text": "AutoModelForSeq2SeqLM",
            "classifier": "AutoModelForSequenceClassification", "tagger": "AutoModelForTokenClassification",
            "encoder": "AutoModel"}[kind]
