"""Cache of reviews next to the data, in one .npz file without pickle."""

import json
import os
from contextlib import suppress

import numpy as np

from ..training.npz import NpzArchive

FORMAT = "numpy_transformer reviews, version 1"


def cache_path(path):
    """Returns the path of the cache, such as aclImdb.cache.npz for aclImdb, or aclImdb_v1.tar.gz.cache.npz."""
    return path.with_name(path.name + ".cache.npz")


def save_cache(path, fingerprint, groups, report):
    """Writes {group: texts} and the report; returns a list with a sentence if the file cannot be written.

    The file is written under a temporary name and then moved into place, so that no process reads an incomplete cache.
    """
    target = cache_path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    texts = [text.encode() for group in groups.values() for text in group]
    meta = json.dumps({"format": FORMAT, "mark": fingerprint, "groups": list(groups), "report": report})
    try:
        with open(part, "wb") as file:
            np.savez(file, meta=np.array(meta), texts=np.frombuffer(b"".join(texts), np.uint8),
                     lengths=np.array([len(text) for text in texts]),
                     labels=np.repeat(np.arange(len(groups)), [len(group) for group in groups.values()]))
        os.replace(part, target)
    except OSError as error:
        return [f"the cache {str(target)!r} could not be written, so the next run reads all reviews again: "
                f"{error.strerror or error}"]
    finally:
        discard(part)
    return []


def discard(part):
    """Deletes the temporary file if it exists."""
    with suppress(OSError):     # in a folder without write permission it was never created, and save_cache reports that
        part.unlink(missing_ok=True)


def load_cache(path, fingerprint, progress=None):
    """Returns (groups, report) as saved, or None without a complete cache of this version and fingerprint."""
    try:
        with open(cache_path(path), "rb") as file:
            stored = NpzArchive(file)
            meta = json.loads(str(stored["meta"]))
            if (meta["format"], meta["mark"]) != (FORMAT, fingerprint):
                return None
            texts, lengths, labels = (stored[name] for name in ("texts", "lengths", "labels"))
        groups = [[] for _ in meta["groups"]]
        ends = np.cumsum(lengths)
        if len(texts) != ends[-1] or len(ends) != len(labels):
            return None
        texts = texts.tobytes()
        for start, end, label in zip((ends - lengths).tolist(), ends.tolist(), labels.tolist()):
            groups[label].append(texts[start:end].decode())
    except Exception:                           # a damaged cache can raise anything; it is rebuilt from the data
        return None
    if progress:
        for _ in range(len(ends)):
            progress()
    return dict(zip(meta["groups"], groups)), meta["report"]
