"""Published models as runs: what the file holds that `import` writes, and what can be done with it."""

from pathlib import Path

from ..data import PretrainedTokenizer, StoryTokenizer
from ..data.plurals import counted
from ..data.tokenizer_files import REMEDY, has_tokenizer, needed_files
from ..data.tokenizer_settings import read_json, sentence_config
from ..file_checks import check_form, one_line, quoted, shown
from .runs import IMPORTED, MODELS, Run

LONGEST_SOURCE = 512                            # T5 limits no length; published ones are trained on 512 tokens
SIZES = {"num_layers": "{:,} blocks", "num_decoder_layers": "{:,} of them in the decoder", "d_model": "{:,} wide",
         "num_heads": "{:,} heads", "num_kv_heads": "{:,} of them for keys and values",
         "d_ff": "feed-forward layers of {:,}", "max_len": "at most {:,} tokens"}


def read_tokenizer(path, files, config, story_file=None):
    """Returns the tokenizer of a published model.

    Parameters:
        path : the model's folder, or a .bin file of llama2.c
        files : {name: text} of the small files of the folder
        config : dict, its config.json
        story_file : path of the tokenizer.bin of a .bin file, or None for the one beside it

    Raises: ValueError if there is none, or if the model reads no texts.
    """
    check_reads_texts(path, config)
    if Path(path).is_file():
        tokenizer_path = Path(path).parent / "tokenizer.bin"
        if story_file is None and not tokenizer_path.is_file():
            raise ValueError(f"there is no tokenizer.bin beside {str(path)!r}; name that of the model")
        return StoryTokenizer.read(story_file or tokenizer_path)
    if not has_tokenizer(files):
        raise ValueError(without_tokenizer(path, config))
    return PretrainedTokenizer.from_files(files, config)


def without_tokenizer(path, config):
    """Returns a sentence about a folder that has no tokenizer: a run of ours was exported to it, or files are missing."""
    from ..pretrained import is_exported  # only published models need it

    if is_exported(path):
        return (f"{str(path)!r} was exported here, without a tokenizer: one that was made for a run, such as of characters or "
                "words, has no file that others read; use the run itself (.npz), or nt.load_pretrained(folder) with ids")
    older = needed_files(config)
    return (f"{str(path)!r} has no tokenizer.json{f', nor {older}' if older else ''}; copy the tokenizer's files of the model "
            f"there, or {REMEDY}")


def check_reads_texts(path, config):
    """Raises ValueError for a model of images, which only Python can use."""
    if config.get("model_type") == "vit":
        raise ValueError(f"{str(path)!r} holds a model of images, and the commands are about texts; use it in Python: "
                         "nt.load_pretrained(folder)(images)")


def run_of_folder(path, weights=True):
    """Returns a Run of a published model in its folder, as if it had been imported; without tokenizers if the folder has
    none.

    With weights=False, no weight is read, and the model has none.
    """
    from ..pretrained import load_pretrained, open_checkpoint, outline_pretrained  # only published models need it

    config, _, files = open_checkpoint(path)
    check_reads_texts(path, config)
    tokenizer = read_tokenizer(path, files, config) if has_tokenizer(files) else None
    model = load_pretrained(path) if weights else outline_pretrained(path)
    meta = meta_of(model, tokenizer)
    return Run(str(path), model, [tokenizer] * len(meta["tokenizers"]), meta, {})


def describe_sizes(options):
    """Returns one line with the sizes of a model, from the arguments of its class."""
    latent = options.get("latent")              # of latent attention, which has no heads of keys and values
    sizes = [text.format(options[name]) for name, text in SIZES.items()
             if options.get(name) is not None and not (latent and name == "num_kv_heads")]
    if latent:
        sizes.append(f"keys and values from latent vectors of {latent['d_latent']:,}")
    windows = [window for window in options.get("windows", []) if window is not None]
    if windows:
        sizes.append(f"sliding windows of {windows[0]:,} tokens in {counted(len(windows), 'block')}")
    mixture = options.get("router", options)
    if "top_k" in mixture:
        sizes.append(f"mixtures of {mixture['num_experts']:,} experts, {mixture['top_k']:,} for each token")
    return ", ".join(sizes)


def describe_vectors(options, settings):
    """Returns [a line] on how `embed` and `similar` make one vector of a text, for the model of an imported sentence
    encoder and the settings of its run.
    """
    if "embedding_pool" not in options:
        return []
    pool = "the mean of all outputs" if options["embedding_pool"] == "mean" else "the output of the first token"
    more = [f", the first {settings['truncate_dim']} numbers of it" if "truncate_dim" in settings else "",
            f"; {settings['prompt']!r} is put before each text" if settings.get("prompt") else ""]
    return [f"sentence vectors: {pool}, {'scaled to length 1' if options['normalize'] else 'not normalized'}{''.join(more)}"]


def compare_sizes(tokens, options):
    """Returns sentences about ids of the tokenizer, or of the end of a text, that the model does not know."""
    known = options.get("vocab_size", options.get("src_vocab"))
    beyond = [i for i in getattr(tokens, "stop", ()) if i >= known]
    sentences = []
    if beyond:
        sentences.append(f"The files name {shown(beyond)} as an id that ends a text (eos_token_id), but the model has only "
                         f"{known:,} tokens: no text ends with it.")
    if tokens.vocab_size <= known:
        return sentences
    return [*sentences,
            f"The ids of the tokenizer go up to {tokens.vocab_size - 1:,}, but the model has only {known:,} tokens: "
            "it cannot read a text that contains one of the others. Unless the model is known for this, the two do not "
            "belong together."]


def describe_tokenizer(tokens):
    """Returns one line: the kind of a tokenizer, its size, and the special ids that it has."""
    special = {name: i for name, i in getattr(tokens, "special", {}).items() if i is not None}
    names = ", ".join(f"{name} {i} {tokens.token(i)}" for name, i in special.items())
    return f"{tokens.to_json()['kind']}, {tokens.vocab_size:,} tokens" + (f"; special: {names}" if names else "")


def checkpoint_of(model, tokenizer):
    """Returns (arrays, meta) of the run of a published model, which load_run turns into the same model again."""
    arrays = {f"model/{name}": parameter.data for name, parameter in model.named_parameters()}
    arrays |= {f"unused/{name}": array for name, array in model.origin.unused.items()}
    return arrays, meta_of(model, tokenizer)


def meta_of(model, tokenizer):
    origin, kind = model.origin, task_of_model(model)
    files = {name: text for name, text in origin.files.items() if name != "tokenizer.json"}     # it is in the tokenizer
    sides = 2 if kind == "text2text" else 1     # source and target have the same tokenizer
    tokenizers = [tokenizer.to_json()] * sides if tokenizer else []
    return {"kind": kind, "config": IMPORTED, "settings": settings_of(kind, origin), "model": origin.options,
            "tokenizers": tokenizers, "corpus": labels_in_config(kind, origin.config), "step": 0, "best": None,
            "origin": {"family": origin.family, "config": origin.config, "files": files}}


def task_of_model(model):
    """Returns the kind of task that a published model serves, by its class."""
    if type(model) is MODELS["text2text"]:
        return "text2text"                      # not "seq2seq", which has the same class
    return next(kind for kind, model_class in MODELS.items() if type(model) is model_class)


def settings_of(kind, origin):
    """Returns the settings that the commands need besides the model itself."""
    if kind == "lm":
        windows = origin.options.get("windows", [None])
        shortest = min(windows) if None not in windows else origin.options["max_len"]       # some block sees the whole text
        return {"context": min(origin.options["max_len"], shortest), "seed": 1}
    longest = origin.options.get("max_len", LONGEST_SOURCE)
    if kind == "text2text" and "max_len" not in origin.options:
        longest = length_in(origin.config, "n_positions", LONGEST_SOURCE)
    of_tokenizer = read_json(origin.files, "tokenizer_config.json")     # 10^30 there stands for no limit
    lengths = length_in(sentence_config(origin.files), "max_seq_length", longest), of_tokenizer.get("model_max_length")
    settings = {"max_len": min(longest, *(n for n in lengths if isinstance(n, int) and n >= 3)), "seed": 1}
    if "embedding_pool" in origin.options:      # the folder says how vectors are made
        from ..pretrained import vector_settings  # only published models need it

        settings |= vector_settings(origin.files)
    if kind == "classifier":
        settings |= {"text_column": "text", "label_column": "label"}
    return settings


def length_in(config, name, default):
    """Returns the number of tokens that a file of the folder names, or the default if it names none."""
    length = default if config.get(name) is None else config[name]
    if not isinstance(length, int) or length < 3:
        raise ValueError(f"{name} is {quoted(length)} in the model's folder, which is no number of tokens of at least 3; "
                         "copy the original file")
    return length


def labels_in_config(kind, config):
    """Returns what a published classifier or tagger says of its labels: their names, and whether they exclude each other."""
    if kind not in ("classifier", "tagger"):
        return {}
    labels = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}     # transformers' default
    try:
        check_form(labels, {str: str}, "id2label")
        names = [labels[number] for number in sorted(labels, key=int)]
    except ValueError as error:
        raise ValueError(f"config.json does not name its labels by numbers ({one_line(error)}); copy the original file") \
            from error
    if config.get("problem_type") == "multi_label_classification":
        return {"labels": names, "exclusive": False}
    return {"labels": names}
