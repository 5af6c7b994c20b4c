"""A checkpoint's folder: config.json, the files with weights, and the small files beside them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from ..data.tokenizer_settings import SENTENCE_CONFIGS
from ..file_checks import one_line, quoted, shown
from .places import find_folder
from .safetensors import TensorFile

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SMALL_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
               "vocab.txt", "merges.txt", "generation_config.json", "chat_template.jinja", "chat_template.json",
               "modules.json", "config_sentence_transformers.json", *SENTENCE_CONFIGS)
NUMBERED = re.compile(r"(?P<name>.+)-(?P<number>\d{1,9})-of-(?P<count>\d{1,9})\.safetensors")
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
OTHER_FORMATS = {"*.h5": "TensorFlow", "*.msgpack": "Flax", "*.gguf": "llama.cpp", "*.onnx": "ONNX"}


class Shards(Mapping):
    """The arrays of several TensorFiles as one Mapping.

    Raises: ValueError for an array that is in two of them
    """

    def __init__(self, files):
        self.owners = {}
        for file in files:
            for name in file:
                if name in self.owners:
                    raise ValueError(f"{name} is in {str(self.owners[name].path)!r} and in {str(file.path)!r}; keep "
                                     "only the files of one checkpoint")
                self.owners[name] = file
        self.entries = {name: file.entries[name] for name, file in self.owners.items()}

    def __getitem__(self, name):
        return self.owners[name][name]

    def __iter__(self):
        return iter(self.owners)

    def __len__(self):
        return len(self.owners)


def read_folder(folder):
    """Returns (config, arrays, files) of a folder: dict, Mapping that reads on demand, {relative path: text}.

    Raises: ValueError that says which file is missing, damaged or of another format.
    """
    folder = find_folder(folder, lambda path: pickled(path) if path.suffix in PICKLES else None)
    config = read_json(folder / "config.json")
    return config, open_arrays(folder), small_files(folder)


def read_json(path):
    """Returns the dict in a JSON file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        archive = next(path.parent.glob("*.zip"), None)
        remedy = "name the folder of a checkpoint as transformers saves it"
        if archive is not None:
            remedy = f"extract {archive.name} first, and name the folder that it gives"
        raise ValueError(f"{str(path.parent)!r} has no {path.name}; {remedy}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot read {str(path)!r}: {error}; copy or download it again") from error
    if not isinstance(content, dict):
        raise ValueError(f"{str(path)!r} does not hold a JSON object; copy or download it again")
    return content


def open_arrays(folder):
    """Returns the arrays of model.safetensors, or of the shards that its index lists, or that are numbered."""
    if (folder / SINGLE).exists():
        return TensorFile(folder / SINGLE)
    if not (folder / INDEX).exists():
        shards = numbered_shards(folder)
        if shards:
            return Shards([TensorFile(path) for path in shards])
        raise ValueError(f"{str(folder)!r} has no {SINGLE}; {other_weights(folder)}")
    listed = read_json(folder / INDEX).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise ValueError(f"{str(folder / INDEX)!r} has no weight_map from names to files; copy or download it again")
    names = sorted(set(listed.values()))
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise ValueError(f"{INDEX} lists {quoted(outside[0])}, which is not a file in the folder itself; copy or "
                         "download it again")
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise ValueError(f"{INDEX} lists {len(names)} files, but the folder lacks {shown(missing)}; copy or download "
                         "the complete checkpoint")
    arrays = Shards([TensorFile(folder / name) for name in names])
    lost = [name for name in listed if name not in arrays]
    if lost:
        raise ValueError(f"{INDEX} lists {one_line(lost[0])} in {one_line(listed[lost[0]])}, which does not have it ({len(lost)} such "
                         "arrays in all); copy or download the files of one checkpoint")
    return arrays


def numbered_shards(folder):
    """Returns the paths of model-00001-of-00003.safetensors and so on, in a folder without an index; [] if there are none.

    Raises: ValueError if some are missing, or if there are those of several checkpoints.
    """
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        match = NUMBERED.fullmatch(path.name)
        if match:
            found.setdefault((match["name"], match["count"]), {})[int(match["number"])] = path
    if len(found) > 1:
        names = " and ".join(f"{name}-...-of-{count}" for name, count in found)
        raise ValueError(f"{str(folder)!r} has shards of several checkpoints ({names}); keep those of one")
    for (name, count), paths in found.items():
        missing = [n for n in range(1, min(int(count), len(paths) + 4) + 1) if n not in paths]
        if missing or len(paths) != int(count):
            number = str(missing[0] if missing else int(count)).zfill(len(count))
            lacks = f"{name}-{number}-of-{count}.safetensors"
            raise ValueError(f"{str(folder)!r} has {len(paths)} of {int(count)} shards and lacks {lacks}; copy or download "
                             "the complete checkpoint")
        return [paths[n] for n in sorted(paths)]
    return []


def other_weights(folder):
    """Returns what to do about a folder without safetensors files."""
    pickles = sorted(path for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        return pickled(pickles[0])
    link = folder / SINGLE
    if link.is_symlink():
        return f"it is a link to {str(link.readlink())!r}, which is missing; download the checkpoint again"
    other = next(iter(sorted(folder.glob("*.safetensors"))), None)
    if other is not None and other.name != "adapter_model.safetensors":
        return f"if {other.name} holds the weights of the whole model, rename it to {SINGLE}"
    for pattern, program in OTHER_FORMATS.items():
        file = next(folder.glob(pattern), None)
        if file is not None:
            return f"{file.name} has the format of {program}; download or convert the weights as {SINGLE}"
    return "copy or download the weights in this format"


def pickled(path):
    """Returns what to do about a file of torch."""
    return (f"{path.name} is a pickle, which can execute any code when it is opened, so it stays closed here; if you "
            "trust it, convert it with transformers: AutoModel.from_pretrained(folder).save_pretrained(other), where "
            "AutoModel is the class for its task")


def small_files(folder):
    """Returns {relative path: text} of the small files of a checkpoint, which save_pretrained gives back."""
    parts = [path.relative_to(folder).as_posix() for path in sorted(folder.glob("[0-9]_*/config.json"))]
    files = {}
    for name in (*SMALL_FILES, *parts):
        if (folder / name).is_file():
            try:
                files[name] = (folder / name).read_bytes().decode()
            except (OSError, ValueError) as error:
                raise ValueError(f"cannot read {str(folder / name)!r}: {error}; copy or download it again") from error
    return files


def is_small_file(name):
    """Returns True for a name that small_files can return: one in the folder itself, or 1_Pooling/config.json."""
    return name in SMALL_FILES or re.fullmatch(r"[0-9]_\w*/config\.json", name) is not None
