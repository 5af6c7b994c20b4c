"""Checkpoints that are named by what a user has: a name on a hub, a cache of downloads, shards without an index."""

import shutil

import numpy as np
import pytest
from helpers.small_checkpoints import SMALL

from numpy_transformer.pretrained import load_pretrained
from numpy_transformer.pretrained.safetensors import TensorFile, write_safetensors


def same(folder, family="gpt2"):
    expected = load_pretrained(SMALL / family).state_dict()
    found = load_pretrained(folder).state_dict()
    return all(np.array_equal(found[name], array) for name, array in expected.items())


@pytest.mark.parametrize("name, folder", [("gpt2", "gpt2"), ("owner/name-2.5_b", "name-2.5_b")])
def test_a_name_on_a_hub(name, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"there is no such folder.*`hf download {name} --local-dir {folder}`"):
        load_pretrained(name)


@pytest.mark.parametrize("name", ["./gpt2", "model.bin", "a/b/c", "../x", "two words"])
def test_what_can_be_no_name_on_a_hub(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="no such folder.; name a folder that holds config.json"):
        load_pretrained(name)


def cache(root, *versions, main=None):
    """The cache of a model: its files lie in blobs, to which the snapshots link."""
    for version in versions:
        folder = root / "snapshots" / version
        folder.mkdir(parents=True)
        (root / "blobs").mkdir(exist_ok=True)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(SMALL / "gpt2" / name, root / "blobs" / f"{version}-{name}")
            (folder / name).symlink_to(root / "blobs" / f"{version}-{name}")
    if main is not None:
        (root / "refs").mkdir(parents=True)
        (root / "refs" / "main").write_text(main + "\n")
    return root


def test_the_cache_of_a_model(tmp_path):
    root = cache(tmp_path / "models--owner--name", "abc", "def", main="def")
    (root / "snapshots" / "abc" / "config.json").unlink()
    assert same(root) and same(root / "snapshots")
    assert same(cache(tmp_path / "models--one", "abc"))                             # its only version needs no name


@pytest.mark.parametrize("versions, main, words", [
    (["abc", "def"], None, "does not say in refs/main which version it is; it has the versions abc, def; name"),
    (["abc"], "../../elsewhere", "has no version '../../elsewhere', which refs/main names; it has the versions abc;"),
    ([], None, "download it again")])
def test_a_cache_without_the_version(versions, main, words, tmp_path):
    root = cache(tmp_path / "models--name", *versions, main=main)
    (root / "snapshots").mkdir(exist_ok=True, parents=True)
    with pytest.raises(ValueError, match=words):
        load_pretrained(root)


def test_a_cache_of_several_models_and_a_lost_file(tmp_path):
    root = cache(tmp_path / "hub" / "models--name", "abc")
    with pytest.raises(ValueError, match="is a cache of 1 downloads; name the folder of one of them, such as .*models--name"):
        load_pretrained(tmp_path / "hub")
    (root / "blobs" / "abc-model.safetensors").unlink()
    with pytest.raises(ValueError, match="it is a link to .*abc-model.safetensors.*, which is missing; download"):
        load_pretrained(root)


def test_an_older_folder_of_sentence_transformers(tmp_path):
    shutil.copytree(SMALL / "bert", tmp_path / "x" / "0_BERT")
    (tmp_path / "x" / "modules.json").write_text("[]")
    with pytest.raises(ValueError, match="keeps the encoder of its modules.json in 0_BERT; copy the files of that folder"):
        load_pretrained(tmp_path / "x")


def shards(folder, names):
    """GPT-2 in as many files, without an index."""
    folder.mkdir()
    shutil.copy(SMALL / "gpt2" / "config.json", folder)
    arrays = dict(TensorFile(SMALL / "gpt2" / "model.safetensors"))
    for n, name in enumerate(names):
        write_safetensors(folder / name, {key: arrays[key] for key in sorted(arrays)[n::len(names)]})
    return folder


def test_shards_without_an_index(tmp_path):
    assert same(shards(tmp_path / "x", [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]))


@pytest.mark.parametrize("names, words", [
    (["model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"],
     "has 2 of 3 shards and lacks model-00002-of-00003.safetensors; copy"),
    (["model-00001-of-999999999.safetensors"], "has 1 of 999999999 shards and lacks model-000000002-of-999999999"),
    (["model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"], "2 of 2 shards and lacks model-00002-of"),
    (["a-00001-of-00001.safetensors", "b-00001-of-00001.safetensors"], r"several checkpoints \(a-...-of-00001 and b-"),
    (["weights.safetensors"], "if weights.safetensors holds the weights of the whole model, rename it to model.safet")])
def test_shards_that_are_not_complete(names, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        load_pretrained(shards(tmp_path / "x", names))
