"""A cache of reviews beside the data they were read from, as one .npz without pickle."""

import json
import os

import numpy as np

FORMAT = "numpy_transformer reviews, version 1"


def cache_path(path):
    """aclImdb.cache.npz beside the folder aclImdb; aclImdb_v1.tar.gz.cache.npz beside that archive."""
    return path.with_name(path.name + ".cache.npz")


def save_cache(path, mark, groups, report):
    """Writes {group: texts} and the report; returns a list with a sentence if that cannot be done.

    It is written under another name and moved into place, so that nobody ever reads half of it.
    """
    target = cache_path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    texts = [text.encode() for group in groups.values() for text in group]
    meta = json.dumps({"format": FORMAT, "mark": mark, "groups": list(groups), "report": report})
    try:
        with open(part, "wb") as file:
            np.savez(file, meta=np.array(meta), texts=np.frombuffer(b"".join(texts), np.uint8),
                     lengths=np.array([len(text) for text in texts]),
                     labels=np.repeat(np.arange(len(groups)), [len(group) for group in groups.values()]))
        os.replace(part, target)
    except OSError as error:
        return [f"no cache was written, so that the next load takes as long: {error.strerror or error} "
                f"({str(target)!r})"]
    finally:
        discard(part)
    return []


def discard(part):
    try:
        part.unlink(missing_ok=True)
    except OSError:                             # a folder that may not be written to
        pass


def load_cache(path, mark, progress=None):
    """(groups, report) as they were saved, or None if there is no whole cache of this version with this mark."""
    try:
        with np.load(cache_path(path), allow_pickle=False) as stored:
            meta = json.loads(str(stored["meta"]))
            if (meta["format"], meta["mark"]) != (FORMAT, mark):
                return None
            texts, lengths, labels = (stored[name] for name in ("texts", "lengths", "labels"))
        groups = [[] for _ in meta["groups"]]
        ends = np.cumsum(lengths)
        if len(texts) != ends[-1] or len(ends) != len(labels):
            return None
        texts = texts.tobytes()
        for start, end, label in zip((ends - lengths).tolist(), ends.tolist(), labels.tolist()):
            groups[label].append(texts[start:end].decode())
    except Exception:                           # whatever is wrong with it: it is only a cache, and is made anew
        return None
    if progress:
        for _ in range(len(ends)):
            progress()
    return dict(zip(meta["groups"], groups)), meta["report"]
