"""Where the files of a checkpoint are: in the folder that was named, in one inside it, or not on this computer."""

import re
from pathlib import Path

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")     # such as "gpt2" or "owner/name"
FILES = (".bin", ".gguf", ".json", ".npz", ".pt", ".safetensors", ".txt", ".zip")     # endings of what is no such name
CACHED = "models--"                             # the folders of a cache of downloads begin with this


def find_folder(path, pickled):
    """Returns the folder with the files of the checkpoint that a path names: the folder itself, or the snapshot in a cache.

    Parameters: path : str or Path; pickled : (Path) -> sentence about a file of torch, or None for another file
    Raises: ValueError that says how to get a folder if there is none.
    """
    folder = Path(path)
    if folder.is_file():
        raise ValueError(pickled(folder) or f"{str(path)!r} is not the folder of a checkpoint (it is a file); name a folder "
                                            "that holds config.json and model.safetensors")
    if not folder.is_dir():
        raise ValueError(f"{str(path)!r} is not the folder of a checkpoint (there is no such folder); "
                         f"{how_to_get(str(path))}")
    if (folder / "config.json").exists():
        return folder
    if (folder / "snapshots").is_dir():
        return snapshot(folder)
    if folder.name == "snapshots":
        return snapshot(folder.parent)
    inner = next(iter(sorted(folder.glob("0_*/config.json"))), None)
    if inner is not None and (folder / "modules.json").exists():
        raise ValueError(f"{str(path)!r} keeps the encoder of its modules.json in {inner.parent.name}; copy the files of "
                         "that folder beside modules.json, and name this folder again")
    cached = sorted(each.name for each in folder.glob(f"{CACHED}*") if each.is_dir())
    if cached:
        raise ValueError(f"{str(path)!r} is a cache of {len(cached)} downloads; name the folder of one of them, such as "
                         f"{str(folder / cached[0])!r}")
    return folder


def how_to_get(name):
    """Returns what to do about a folder that is not there."""
    if not HUB_NAME.fullmatch(name) or name.endswith(FILES):
        return "name a folder that holds config.json and model.safetensors"
    local = name.rpartition("/")[2]
    return (f"if {name!r} is the name of a model on a hub, download its files first, because nothing is downloaded here: "
            f"`hf download {name} --local-dir {local}`, a command of the library huggingface_hub, makes the folder {local!r}")


def snapshot(root):
    """Returns the folder of the latest version in the cache of one model: the one that refs/main names, or the only one.

    Raises: ValueError if the cache has none, or several and no refs/main.
    """
    versions = sorted(each.name for each in (root / "snapshots").iterdir() if each.is_dir())
    try:
        wanted = (root / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        wanted = None
    if wanted is None and len(versions) == 1:
        wanted = versions[0]
    if wanted in versions:
        return root / "snapshots" / wanted
    found = f"it has the versions {', '.join(versions)}; name the folder of one of them" if versions else "download it again"
    missing = "does not say in refs/main which version it is"
    if wanted:
        missing = f"has no version {wanted!r}, which refs/main names"
    raise ValueError(f"the cache {str(root)!r} {missing}; {found}")
