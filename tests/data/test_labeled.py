"""Labeled texts in every format, valid and broken."""

import gzip
import hashlib
import io
import os
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

from numpy_transformer.data import acl_imdb, review_archive, review_cache
from numpy_transformer.data.labeled import count_files, read_labeled

REVIEWS = {"train/neg/0_3.txt": "dull", "train/neg/10_1.txt": "bad<br /><br />end", "train/neg/2_4.txt": "caf\u00e9",
           "train/pos/0_9.txt": "fine", "test/neg/0_2.txt": "poor", "test/pos/0_10.txt": "great",
           "test/pos/1_7.txt": "fine"}
OTHERS = {"train/unsup/0_0.txt": "?", "train/labeledBow.feat": "9 0:9", "test/pos/._1_7.txt": "x",
          "train/neg/0_3.txt.bak": "x", "README": "Maas"}
TRAINING = [("dull", 0), ("caf\u00e9", 0), ("bad  end", 0), ("fine", 1)]        # 0, 2, 10: by number
TEST = [("poor", 0), ("great", 1), ("fine", 1)]
COUNTS = [f"{group} has {count}, but the published data has 12,500" for group, count in (
    ("train/neg", "3 reviews"), ("train/pos", "1 review"), ("test/neg", "1 review"), ("test/pos", "2 reviews"))]
OVERLAP = "the training set contains 1 of the 3 texts of the test set"


def as_bytes(content):
    return content if isinstance(content, bytes) else content.encode()


def folder(tmp_path, files):
    root = tmp_path / "aclImdb"
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(as_bytes(content))
    return root


def member(name, content=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, io.BytesIO(content)


def archive(tmp_path, members, name="aclImdb_v1.tar.gz"):
    with tarfile.open(tmp_path / name, "w:gz") as tar:
        for info, content in members:
            tar.addfile(info, content)
    return tmp_path / name


def review_members(files=REVIEWS, prefix="aclImdb/"):
    return [member(prefix + name, as_bytes(content)) for name, content in files.items()]


def write(tmp_path, name, content):
    (tmp_path / name).write_bytes(as_bytes(content))
    return tmp_path / name


def assert_refused(match, paths, **options):
    """read_labeled raises a ValueError of one line that matches."""
    with pytest.raises(ValueError, match=match) as caught:
        read_labeled(paths if isinstance(paths, list) else [paths], **options)
    assert "\n" not in str(caught.value)


def contents(data):
    return data.labels, data.training, data.validation, data.test, data.report


@pytest.mark.parametrize("above", [False, True])
def test_the_folder_is_read_by_number_and_the_other_files_are_left_out(tmp_path, above):
    root = folder(tmp_path, REVIEWS | OTHERS)
    data = read_labeled([tmp_path if above else root])
    assert contents(data) == (["neg", "pos"], TRAINING, [], TEST, COUNTS + [OVERLAP])


@pytest.mark.parametrize("prefix", ["aclImdb/", "./aclImdb/", ""])
def test_the_archive_gives_the_same_as_the_folder(tmp_path, prefix):
    path = archive(tmp_path, review_members(REVIEWS | OTHERS, prefix))
    data = read_labeled([str(path)])
    assert contents(data)[:4] == (["neg", "pos"], TRAINING, [], TEST)
    digest = hashlib.md5(path.read_bytes()).hexdigest()
    assert data.report == [f"'aclImdb_v1.tar.gz' has the MD5 {digest}, but the published archive has "
                           "7c2ac02c03563afcf9b574c7e56c153a", *COUNTS, OVERLAP]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["aclImdb_v1.tar.gz", "aclImdb_v1.tar.gz.cache.npz"]


def test_data_as_published_gives_an_empty_report(tmp_path, monkeypatch):
    files = {name.replace("2_4", "7_8"): text for name, text in REVIEWS.items() if name not in
             ("train/neg/0_3.txt", "train/neg/10_1.txt", "test/pos/1_7.txt")}
    path = archive(tmp_path, review_members(files))
    monkeypatch.setattr(acl_imdb, "PUBLISHED", 1)
    monkeypatch.setattr(acl_imdb, "MD5", hashlib.md5(path.read_bytes()).hexdigest())
    assert read_labeled([path]).report == []


def test_the_last_of_two_members_with_the_same_name_is_read(tmp_path):
    path = archive(tmp_path, review_members() + review_members({"train/pos/0_9.txt": "finer"}))
    assert read_labeled([path]).training == TRAINING[:3] + [("finer", 1)]


def test_progress_is_called_once_per_review_with_and_without_the_cache(tmp_path):
    root, path = folder(tmp_path, REVIEWS | OTHERS), archive(tmp_path, review_members(REVIEWS | OTHERS))
    for source, total in ((root, 7), (path, None)):
        for _ in range(2):
            calls = []
            read_labeled([source], progress=lambda: calls.append(1))
            assert len(calls) == 7 and count_files([source]) == total


@pytest.mark.parametrize("missing", ["train/neg/", "train/pos/", "test/neg/", "test/pos/", "test/"])
def test_the_error_for_partly_unpacked_data_says_what_to_download(tmp_path, missing):
    files = {name: text for name, text in REVIEWS.items() if not name.startswith(missing)}
    match = (f"'.*aclImdb.*' has no reviews such as {missing}.*0_9.txt, so it is only partly unpacked "
             f".*download {acl_imdb.URL} .MD5 7c")
    root = folder(tmp_path, files)
    assert_refused(match, root)
    with pytest.raises(ValueError, match=match):
        count_files([root])
    assert_refused(match, archive(tmp_path, review_members(files)))
    assert not list(tmp_path.glob("*.npz"))


def test_an_empty_folder_of_a_class_is_refused(tmp_path):
    root = folder(tmp_path, REVIEWS | {"train/pos/0_9.txt": " \n"})
    assert_refused("no reviews such as train/pos/0_9.txt", root)
    (root / "train/pos/0_9.txt").unlink()
    assert_refused(r"no reviews such as train/pos/0_9.txt, .* \(1 of 4 folders", root)


def test_empty_reviews_are_dropped_and_counted(tmp_path):
    data = read_labeled([folder(tmp_path, REVIEWS | {"train/pos/7_9.txt": "", "train/pos/8_9.txt": "\n"})])
    assert data.training == TRAINING and "dropped 2 of 3 reviews in train/pos: empty" in data.report
    assert "train/pos has 3 reviews, but the published data has 12,500" in data.report


def test_the_error_names_a_review_that_is_not_utf_8(tmp_path):
    broken = REVIEWS | {"test/neg/0_2.txt": b"caf\xe9"}
    match = "aclImdb.*/test/neg/0_2.txt' is not UTF-8 .byte 0xe9 at offset 3"
    assert_refused(match, folder(tmp_path, broken))
    assert_refused(match, archive(tmp_path, review_members(broken)))


def test_the_error_names_a_file_without_read_permission(tmp_path, monkeypatch):
    def forbidden(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    root, path = folder(tmp_path, REVIEWS), archive(tmp_path, review_members())
    files = [write(tmp_path, "rt.neg", "bad\n"), write(tmp_path, "rt.pos", "good\n")]
    monkeypatch.setattr(os, "scandir", forbidden)
    monkeypatch.setattr("builtins.open", forbidden)
    monkeypatch.setattr(Path, "read_text", forbidden)
    assert_refused("^cannot read '.*aclImdb/train/neg': Permission denied; make it readable, or download it again from",
                   root)
    with pytest.raises(ValueError, match="^cannot read '.*aclImdb/train/neg': Permission denied"):
        count_files([root])
    assert_refused("^cannot read '.*aclImdb_v1.tar.gz': Permission denied", path)
    assert_refused("^cannot read '.*rt.neg': Permission denied; give the path of a readable text file", files)


@pytest.mark.parametrize("name, fields, match", [
    ("/etc/passwd", {}, "'/etc/passwd' has a path that leads outside"),
    ("aclImdb/../../x.txt", {}, "'aclImdb/../../x.txt' has a path that leads"),
    ("..\\x.txt", {}, "leads outside"), ("C:\\x.txt", {}, "leads outside"),
    ("..", {"type": tarfile.DIRTYPE}, "outside"),
    ("aclImdb/l", {"type": tarfile.SYMTYPE, "linkname": "train"}, "'aclImdb/l' is neither a file nor a folder"),
    ("aclImdb/l", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, "is neither a file nor a folder"),
    ("aclImdb/f", {"type": tarfile.FIFOTYPE}, "is neither a file nor a folder"),
    ("aclImdb/d", {"type": tarfile.CHRTYPE}, "is neither a file nor a folder"),
    ("aclImdb/d", {"type": tarfile.BLKTYPE}, "is neither a file nor a folder")])
@pytest.mark.parametrize("first", [False, True])
def test_an_archive_with_an_unsafe_member_is_refused(tmp_path, name, fields, match, first):
    odd, rest = [member(name, **fields)], review_members()
    assert_refused(f"aclImdb_v1.tar.gz' is refused because its member .*{match}",
                   archive(tmp_path, odd + rest if first else rest + odd))
    assert [file.name for file in tmp_path.iterdir()] == ["aclImdb_v1.tar.gz"]


@pytest.mark.slow
def test_an_archive_that_expands_too_much_is_refused(tmp_path, monkeypatch):
    most = archive(tmp_path, [member("aclImdb/x", b"\0" * 10_000_000), *review_members()], "most.tgz")
    assert read_labeled([most]).training == TRAINING
    large = archive(tmp_path, review_members() + [member("aclImdb/x", b"\0" * 10_000_001)])
    assert_refused("'aclImdb/x' has 10,000,001 bytes, but at most 10,000,000 are read", large)
    monkeypatch.setattr(review_archive, "TOTAL", 9_000_000)
    header = archive(tmp_path, [member("a" * 10_001_000), *review_members()], "header.tgz")    # a name of 10 MB
    by_version = "to 10,00.,... in a single read|unpacks to more than 9,000,000 bytes"         # Python 3.14 reads it in pieces
    assert_refused(f"header.tgz' cannot be read .*({by_version})", header)
    monkeypatch.setattr(review_archive, "LARGEST", 30_000_000)
    many = archive(tmp_path, review_members() + [member(f"{i}", b"\0" * 10_000_000) for i in range(5)], "many.tgz")
    assert_refused("many.tgz' cannot be read .*unpacks to more than 9,000,000 bytes", many)


def test_a_sparse_member_is_refused(tmp_path):
    """Or a few hundred bytes could expand to any size that its header gives."""
    sparse = tarfile.TarInfo("aclImdb/train/pos/9_9.txt")
    sparse.size, sparse.pax_headers = 3, {"GNU.sparse.map": "0,3", "GNU.sparse.size": "9000000"}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", format=tarfile.PAX_FORMAT) as made:
        made.addfile(sparse, io.BytesIO(b"abc"))
    (tmp_path / "sparse.tgz").write_bytes(data.getvalue())
    with tarfile.open(tmp_path / "sparse.tgz") as made:
        assert made.next().issparse()
    assert_refused("9_9.txt' is neither a file nor a folder", tmp_path / "sparse.tgz")


def test_a_long_text_of_a_table_is_read_whole(tmp_path):
    (tmp_path / "long.csv").write_text("text,label\n" + 200_000 * "a" + ",x\nb,y\n")
    assert len(read_labeled([tmp_path / "long.csv"]).training[0][0]) == 200_000


@pytest.mark.parametrize("damage", [
    lambda data: data[:len(data) // 2], lambda data: data[:-4], lambda data: b"", lambda data: b"no archive at all",
    lambda data: data[:-8] + bytes([data[-8] ^ 1]) + data[-7:], lambda data: gzip.decompress(data),
    lambda data: gzip.compress(b"plain text" * 99), lambda data: gzip.compress(gzip.decompress(data)[:700]),
    lambda data: gzip.compress(gzip.decompress(data)[:6144] + b"x" * 512 + gzip.decompress(data)[6656:])])
def test_the_error_for_a_damaged_archive_is_one_sentence(tmp_path, damage):
    path = archive(tmp_path, review_members())
    path.write_bytes(damage(path.read_bytes()))
    assert_refused("aclImdb_v1.tar.gz' (cannot be read to its end, so it is truncated, damaged or not a .tar.gz|"
                   "has no reviews).*download it again from https://ai.stanford|.*download https://ai.stanford", path)


def test_the_cache_gives_the_same_data_without_reading_a_review(tmp_path, monkeypatch):
    root = folder(tmp_path, REVIEWS | {"train/neg/3_3.txt": ""})
    first = read_labeled([root])
    assert (tmp_path / "aclImdb.cache.npz").exists()
    monkeypatch.setattr(acl_imdb, "read_files", None)
    assert contents(read_labeled([root])) == contents(first)
    assert contents(read_labeled([f"{tmp_path}/aclImdb/"])) == contents(first)


@pytest.mark.parametrize("change", [
    lambda root: (root / "train/pos/0_9.txt").write_text("finest"),                             # another size
    lambda root: longer(root / "train/neg/0_3.txt"),
    lambda root: os.utime(root / "test/pos/0_10.txt", (5, 5)),                                  # another time
    lambda root: (root / "test/pos/0_10.txt").rename(root / "test/pos/0_8.txt"),                # another name
    lambda root: (root / "train/neg/5_1.txt").write_text("more"), lambda root: (root / "train/neg/2_4.txt").unlink(),
    lambda root: root.with_name("aclImdb.cache.npz").write_bytes(b""),
    lambda root: root.with_name("aclImdb.cache.npz").write_bytes(b"no archive"),
    lambda root: flip(root.with_name("aclImdb.cache.npz"), b"dull"),
    lambda root: np.savez(root.with_name("aclImdb.cache.npz"), meta=np.array("{}")),
    lambda root: np.savez(root.with_name("aclImdb.cache.npz"), meta=np.array([{}], dtype=object))])
def test_the_cache_is_rebuilt_when_the_files_change_or_it_is_damaged(tmp_path, monkeypatch, change):
    root, read = folder(tmp_path, REVIEWS), []
    read_labeled([root])
    change(root)
    monkeypatch.setattr(acl_imdb, "read_files", lambda *given, real=acl_imdb.read_files: read.append(1) or real(*given))
    data = [contents(read_labeled([root])) for _ in range(2)]
    assert read == [1] and data[0] == data[1]
    root.with_name("aclImdb.cache.npz").unlink()
    assert contents(read_labeled([root])) == data[0]


def longer(path):
    """Changes the size of a file but not its time."""
    time = path.stat().st_mtime_ns
    path.write_text("dull and long")
    os.utime(path, ns=(time, time))


def flip(path, where):
    data = path.read_bytes()
    assert data.count(where) == 1
    path.write_bytes(data.replace(where, where[::-1]))


class Trap:
    """An object whose pickle creates a folder when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_cache_cannot_run_code(tmp_path):
    root = folder(tmp_path, REVIEWS)
    np.savez(tmp_path / "aclImdb.cache.npz", meta=np.array([Trap(tmp_path / "trap")], dtype=object))
    assert read_labeled([root]).training == TRAINING and not (tmp_path / "trap").exists()


def test_a_cache_of_another_version_or_archive_is_rebuilt(tmp_path, monkeypatch):
    path = archive(tmp_path, review_members())
    read_labeled([path])
    archive(tmp_path, review_members(REVIEWS | {"train/pos/0_9.txt": "finest of all, indeed"}))
    assert ("finest of all, indeed", 1) in read_labeled([path]).training
    read = []
    monkeypatch.setattr(acl_imdb, "read_archive", lambda *given, real=acl_imdb.read_archive: read.append(1) or
                        real(*given))
    read_labeled([path])
    monkeypatch.setattr(review_cache, "FORMAT", "numpy_transformer reviews, version 2")
    assert not read
    read_labeled([path])
    assert read == [1]


def test_the_cache_is_complete_when_it_is_moved_into_place(tmp_path, monkeypatch):
    root, moved = folder(tmp_path, REVIEWS), []

    def replace(part, target, real=os.replace):
        with np.load(part) as stored:
            moved.append((sorted(stored.files), target.exists()))
        real(part, target)

    monkeypatch.setattr(os, "replace", replace)
    read_labeled([root])
    assert moved == [(["labels", "lengths", "meta", "texts"], False)]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["aclImdb", "aclImdb.cache.npz"]


def test_data_is_read_even_if_the_cache_cannot_be_written(tmp_path, monkeypatch):
    root = folder(tmp_path, REVIEWS)
    (tmp_path / "aclImdb.cache.npz").mkdir()                # root may write anywhere, but not a file over a folder
    for _ in range(2):
        data = read_labeled([root])
        assert data.training == TRAINING and data.test == TEST and len(data.report) == 6
        assert re.match("the cache '.*aclImdb.cache.npz' could not be written, so the next run reads all reviews "
                        "again: [A-Z]", data.report[4])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["aclImdb", "aclImdb.cache.npz"]


def test_an_interrupted_cache_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(review_cache.np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_labeled([folder(tmp_path, REVIEWS)])
    assert [file.name for file in tmp_path.iterdir()] == ["aclImdb"]


def lines(word, count):
    return "".join(f"{word} {i} \n" for i in range(count))


def test_the_suffix_of_a_file_is_its_class_and_its_last_tenth_the_test_set(tmp_path):
    pos, neg = write(tmp_path, "rt.pos", lines("good", 29)), write(tmp_path, "rt.neg", lines("bad", 10))
    calls = []
    data = read_labeled([pos, neg], progress=lambda: calls.append(1))
    assert data.labels == ["neg", "pos"] and data.validation == data.report == [] and calls == [1, 1]
    assert data.training == [(f"bad {i}", 0) for i in range(9)] + [(f"good {i}", 1) for i in range(27)]
    assert data.test == [("bad 9", 0), ("good 27", 1), ("good 28", 1)] and count_files([pos, neg]) == 2


@pytest.mark.parametrize("names, labels", [
    (["b.txt", "a.txt", "c.txt"], ["a", "b", "c"]), (["x.b", "x.a"], ["a", "b"]), (["spam", "ham"], ["ham", "spam"]),
    (["spam", "ham.x"], ["ham", "spam"])])
def test_the_class_is_the_suffix_or_the_stem_of_the_file(tmp_path, names, labels):
    data = read_labeled([write(tmp_path, name, f"text of {name}\n") for name in names])
    assert data.labels == labels and len(data.training) == len(names) and not data.test
    assert all(text.endswith(name) for (text, _), name in zip(data.training, sorted(names)))


def test_texts_are_the_lines_of_the_file_and_latin_1_is_reported(tmp_path):
    one = write(tmp_path, "rt.neg", b"caf\xe9 \x85 bar\n\n \t\nthe end")
    other = write(tmp_path, "rt.pos", "\ufeffcaf\u00e9\r\nol\u00e9\u2028!\r\n")
    data = read_labeled([one, other])
    assert data.training == [("caf\u00e9 \x85 bar", 0), ("the end", 0), ("caf\u00e9", 1), ("ol\u00e9\u2028!", 1)]
    assert data.report == [f"'{one}' is not UTF-8 and was read as latin-1",
                           f"dropped 2 of 4 lines: empty in '{one}' (first: line 2)"]


def test_texts_in_both_sets_are_reported_and_kept(tmp_path):
    one = write(tmp_path, "rt.neg", "same\n" * 20)
    other = write(tmp_path, "rt.pos", lines("good", 9) + "same\n")
    data = read_labeled([one, other])
    assert data.report == ["the training set contains 3 of the 3 texts of the test set"] and len(data.training) == 27


@pytest.mark.parametrize("name, content, match", [
    ("rt.pos", "", "rt.pos' is empty, but each class needs at least 1 text"), ("rt.pos", " \n\n", "rt.pos' is empty"),
    ("rt.pos", "good\n".encode("utf-16"), "rt.pos' has a zero byte at character 3, .*iconv -f UTF-16"),
    ("sub/rt.neg", "good\n", r"'rt', 'rt' must have different suffixes or different stems"),
    ("rt.csv", "good\n", "rt.neg' and '.*rt.csv' cannot be read as labeled texts; give one folder")])
def test_files_that_do_not_give_classes_are_refused(tmp_path, name, content, match):
    (tmp_path / "sub").mkdir()
    assert_refused(match, [write(tmp_path, "rt.neg", "bad\n"), write(tmp_path, name, content)])


def test_the_error_for_missing_data_says_where_to_download_it(tmp_path):
    one = write(tmp_path, "rt.neg", "bad\n")
    for paths in ([tmp_path / "aclImdb"], [one, tmp_path / "rt.pos"]):
        assert_refused(r"does not exist or is not readable; download reviews from https://ai\.stanford\.edu/~amaas/data/"
                       r"sentiment/aclImdb_v1\.tar\.gz \(MD5 7c2ac02c03563afcf9b574c7e56c153a\), or from "
                       r"https://www\.cs\.cornell\.edu/people/pabo/movie-review-data/rt-polaritydata\.tar\.gz .Pang and "
                       "Lee 2005; 5,331", paths)
    assert_refused("^no path of labeled texts was given; give one folder aclImdb", [])
    assert_refused("rt.neg' cannot be read as labeled texts; give one folder aclImdb, its .tar.gz, one .csv", one)
    assert_refused("has no reviews such as train/neg/0_9.txt", tmp_path)


def test_repr(tmp_path):
    data = read_labeled([folder(tmp_path, REVIEWS)])
    assert repr(data) == "Labeled(2 labels, 4 training, 0 validation and 3 test texts)"


TABLE = 'id,text,label\n1,"good, very ""good""",pos\n2,"two\nlines",neg\n3,caf\u00e9,pos\n'


def test_a_table_is_read_by_the_names_of_its_columns(tmp_path):
    data = read_labeled([write(tmp_path, "a.csv", "\ufeff" + TABLE.replace("\n", "\r\n"))])
    assert data.labels == ["neg", "pos"] and data.test == data.validation == data.report == []
    assert data.training == [('good, very "good"', 1), ("two\nlines", 0), ("caf\u00e9", 1)]
    tabs = write(tmp_path, "a.TSV", "stars\treview, in full\n5\tfine, fine\n1\tdull\n")
    data = read_labeled(tabs, text_column="review, in full", label_column="stars")
    assert data.labels == ["1", "5"] and data.training == [("fine, fine", 1), ("dull", 0)]


def test_the_last_tenth_of_each_class_of_a_table_is_the_test(tmp_path):
    rows = [(f"text {i}", "ab"[i % 3 == 0]) for i in range(60)]                 # 40 of a, 20 of b
    data = read_labeled([write(tmp_path, "a.csv", "text,label\n" + "".join(f"{t},{n}\n" for t, n in rows))])
    held_out = [54, 55, 56, 57, 58, 59]                         # the last four of a: 55, 56, 58, 59; of b: 54, 57
    assert data.test == [(f"text {i}", int(i % 3 == 0)) for i in held_out]
    assert data.training == [(f"text {i}", int(i % 3 == 0)) for i in range(60) if i not in held_out]


def test_a_class_too_small_for_the_test_set_is_reported(tmp_path):
    content = "text,label\n" + "".join(f"text {i},a\n" for i in range(10)) + "other,b\n"
    data = read_labeled([write(tmp_path, "a.csv", content)])
    assert data.test == [("text 9", 0)] and data.report == ["no text of the test set has the label 'b'"]


def test_a_column_split_gives_the_sets(tmp_path):
    data = read_labeled([write(tmp_path, "a.csv", "split,text,label\ntest,t,a\ntrain,x,b\nvalidation,v,b\n"
                                "Training,y,a\ndev,w,a\ntest,x,a\n")])
    assert data.training == [("x", 1), ("y", 0)] and data.validation == [("v", 1), ("w", 0)]
    assert data.test == [("t", 0), ("x", 0)]
    assert data.report == ["no text of the test set has the label 'b'",
                           "the training set contains 1 of the 2 texts of the test set"]


def test_rows_without_text_or_label_are_dropped_and_counted(tmp_path):
    path = write(tmp_path, "a.csv", "text,label,x\ngood,pos,\n,neg,1\nlost, ,1\n\nbad,neg,2\n")
    data = read_labeled([path])
    assert data.training == [("good", 1), ("bad", 0)]
    assert data.report == [f"dropped 3 of 5 rows: no text or no label in '{path}' (first: line 3)"]


def test_unclosed_quotation_marks_of_a_tsv_are_plain_characters(tmp_path):
    path = write(tmp_path, "a.tsv", 'text\tlabel\n"good" film\tpos\nbad\tneg\n"so so\tneg\n')
    data = read_labeled([path])
    assert data.training == [('"good" film', 1), ("bad", 0), ('"so so', 0)]
    assert data.report == [f"the quotation marks of '{path}' are not closed and were read as plain characters"]


@pytest.mark.parametrize("content, match", [
    ("review,label\na,b\n", "a.csv' must have one column 'text', but its columns are 'review', 'label'; give one"),
    ("text;label\na;b\n", "one column 'text', but its columns are 'text;label'; .*commas"),
    ("text,text,label\na,b,c\n", "one column 'text', but its columns are 'text', 'text', 'label'"),
    ('text,label\n"a\nb",x\nonly\nd,y\n', "line 4 of '.*a.csv' has 1 column, but the first row has 2"),
    ("text,label\na,x\nwell, well,x\n", "line 3 of '.*a.csv' has 3 columns, but the first row has 2; .*quotation"),
    ('text,label\na,x\n"b,y\nc,x\n', "the row at line 3 of '.*a.csv' cannot be read .*close its quotation"),
    ('text,label\na,x\n"b" c,y\n', "the row at line 3 of"),
    ("text,label,split\na,x,train\nb,y,tset\n", "line 3 of '.*a.csv' has the split 'tset'; write train, validation or"),
    ("text,label,split\na,x,train\nb,y,\n", "line 3 of '.*a.csv' has the split ''"),
    ("text,label,split\na,x,train\nb,y,train\nc,z,test\n", "no training text in '.*a.csv' has the label 'z'"),
    ("text,label\na,x\nb,x\n", "a.csv' has 1 different label .first: 'x'., but a classifier needs 2 to 1,000;"),
    ("text,label\n" + "".join(f"t,{i}\n" for i in range(1001)),
     "has 1,001 different labels .first: '0'., but a classifier needs 2 to 1,000;"),
    ("text,label\n", "a.csv' has no row with both a text and a label"),
    ("text,label\na,\n,b\n", "has no row with both"),
    ("", "a.csv' is empty"), (b"text,label\ncaf\xe9,x\n", "a.csv' is not UTF-8 .byte 0xe9 at offset 14"),
    ("\ntext,label\na,x\n", "a.csv' must have one column 'text', but its columns are")])
def test_the_error_says_why_a_table_cannot_be_read(tmp_path, content, match):
    assert_refused(match, write(tmp_path, "a.csv", content))


def test_given_labels_determine_the_ids_in_every_format(tmp_path):
    table = write(tmp_path, "a.csv", "text,label\na,neg\nb,pos\n")
    files = [write(tmp_path, "rt.neg", "a\n"), write(tmp_path, "rt.pos", "b\n")]
    root = folder(tmp_path, REVIEWS)
    for paths, training in (([table], [("a", 2), ("b", 0)]), (files, [("a", 2), ("b", 0)]),
                            ([root], [(text, 2 - 2 * i) for text, i in TRAINING])):
        data = read_labeled(paths, labels=("pos", "so-so", "neg"))
        assert data.labels == ["pos", "so-so", "neg"] and data.training == training
        assert "no text of the training set has the label 'so-so'" in data.report


def test_the_error_for_an_unknown_label_says_where_it_is(tmp_path):
    only = "but the model knows only 'pos', 'negative'; correct the label, or train"
    table = write(tmp_path, "a.csv", "text,label\na,pos\nb,neg\n")
    assert_refused(f"line 3 of '.*a.csv' has the label 'neg', {only}", table, labels=["pos", "negative"])
    files = [write(tmp_path, "rt.neg", "a\n"), write(tmp_path, "rt.pos", "b\n")]
    assert_refused(f"rt.neg' and '.*rt.pos' has the label 'neg', {only}", files, labels=["pos", "negative"])
    assert_refused(f"aclImdb' has the label 'neg', {only}", folder(tmp_path, REVIEWS), labels=["pos", "negative"])


def test_a_trained_model_needs_only_a_test_set(tmp_path):
    data = read_labeled([write(tmp_path, "a.csv", "text,label,split\na,neg,test\n")], labels=["neg", "pos"])
    assert data.training == [] and data.test == [("a", 0)]
    assert data.report == ["no text of the test set has the label 'pos'"]


@pytest.mark.parametrize("labels, match", [
    ("pos", "labels must be a list of distinct names, got 'pos'"), (["a", "a"], r"distinct names, got \['a', 'a'\]"),
    ([0, 1], "distinct names"), (["a"], "labels has 1 name, but at least 2")])
def test_invalid_labels_of_a_model_are_refused(tmp_path, labels, match):
    assert_refused(match, write(tmp_path, "a.csv", TABLE), labels=labels)
