"""Reads zip and tar archives in place. Nothing is unpacked to the disk, and limits stop archives that expand too far."""

import bz2
import contextlib
import gzip
import io
import lzma
import re
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from datetime import datetime, timezone

from .items import A_LINK, Folder, Item, OnDisk, Unreadable
from .text import plausible

NAME = re.compile(r"(.+?)\.(?:zip|tar|tgz|tbz2?|txz|tar\.(?:gz|bz2|xz))", re.I | re.S)
LARGEST = 1 << 26                               # bytes of an archive of one student, and of what is in a tar
LARGEST_CLASS = 1 << 28                         # bytes of the archive of a class in another archive
ENTRIES = 20_000                                # of one student's archive
DEPTH = 4                                       # of archives in archives
DEEPEST = 20                                    # folders in folders; of deeper ones the first and the last are kept
BROKEN = (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, struct.error,
          NotImplementedError, RuntimeError, OverflowError, IndexError, KeyError, MemoryError)
DAMAGED = "is damaged or not an archive at all; create it again and check that it opens on another computer"


def is_archive(name):
    return NAME.fullmatch(name) is not None


def stem_of(name):
    """Returns the name of an archive without its extension."""
    return NAME.fullmatch(name)[1]


class TooMuch(Unreadable):
    """An archive that expands too far."""


@contextlib.contextmanager
def opened(item, whole_class=False):
    """Yields the Folder of an archive, whose files can be read until the end of the block. Raises Unreadable.

    Parameters:
        whole_class : if True, the archive comes from the teacher and may be of any size
    """
    with contextlib.ExitStack() as stack:
        try:
            with item.open() as file:
                start = file.read(4)
            if start[:2] == b"PK":
                source = stack.enter_context(class_file(item)) if whole_class else io.BytesIO(item.read(LARGEST))
                folder = read_zip(source, item, whole_class)
            else:
                folder = read_tar(item, start)
        except Unreadable:
            raise
        except BROKEN as error:
            raise Unreadable(DAMAGED) from error
        yield folder


@contextlib.contextmanager
def class_file(item):
    """Yields the archive of a class as a file on the disk: the file itself, or a copy if it lies in another archive."""
    with item.open() as file:
        if isinstance(item, OnDisk):
            yield file
            return
        if item.size > LARGEST_CLASS:
            raise Unreadable(f"is larger than {LARGEST_CLASS >> 20} MB; unpack the archive around it")
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(file, copy)
            yield copy


@contextlib.contextmanager
def damage_as_unreadable():
    """Turns errors while a file in an archive is read into Unreadable."""
    try:
        yield
    except Unreadable:
        raise
    except BROKEN as error:
        raise Unreadable("is damaged in its archive; create the archive again") from error


@dataclass
class InZip(Item):
    """A file in a zip."""

    archive: zipfile.ZipFile = None
    info: zipfile.ZipInfo = None

    @contextlib.contextmanager
    def open(self):
        with damage_as_unreadable(), self.archive.open(self.info) as file:
            yield file


def read_zip(source, item, whole_class):
    """Returns the Folder with everything in a zip."""
    if not whole_class and directory_size(source) > 200 * ENTRIES:
        raise Unreadable(f"holds more than {ENTRIES} files; hand in only the files with your code")
    archive = zipfile.ZipFile(source)
    infos = archive.infolist()
    if len(infos) > ENTRIES and not whole_class:
        raise Unreadable(f"holds {len(infos)} files, more than {ENTRIES}; hand in only the files with your code")
    top = Folder(item.name, item.where, inside={})
    for info in infos:
        keys = parts(zip_name(info))
        folder = top.folder(keys if info.is_dir() else keys[:-1])
        if keys and not info.is_dir():
            folder.inside[keys[-1]] = InZip(**folder.names_of(keys[-1]), modified=zip_time(info), size=info.file_size,
                                            problem=zip_problem(info), archive=archive, info=info)
    return top


def directory_size(file):
    """Returns the size that a zip gives for its directory, before anything of it is read."""
    file.seek(0, io.SEEK_END)
    file.seek(max(0, file.tell() - 66_000))
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) < end + 16:
        raise Unreadable(DAMAGED)
    return struct.unpack_from("<L", tail, end + 12)[0]


def zip_name(info):
    """Returns the name of an entry. Programs that write UTF-8 without saying so are common; zipfile reads cp437 then."""
    name = info.orig_filename
    if not info.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return name


def parts(name):
    """Returns the names in a path of an archive, without any that would lead out of it. The first one is never left out."""
    names = [part for part in name.replace("\\", "/").split("\0")[0].split("/") if part not in ("", ".", "..")]
    return names if len(names) <= DEEPEST else [names[0], *names[1 - DEEPEST:]]


def zip_time(info):
    """Returns the time of an entry, which is the local time of the computer that wrote it, or None."""
    return plausible(lambda: datetime(*info.date_time).astimezone())


def zip_problem(info):
    if stat.S_ISLNK(info.external_attr >> 16):
        return A_LINK
    if info.flag_bits & 0x1:
        return "is protected by a password; create the archive without one"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is compressed by a method that is not supported; create the archive as an ordinary zip"
    return ""


@dataclass
class InTar(Item):
    """A file in a tar."""

    archive: tarfile.TarFile = None
    info: tarfile.TarInfo = None

    @contextlib.contextmanager
    def open(self):
        with damage_as_unreadable(), self.archive.extractfile(self.info) as file:
            yield file


OPENERS = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}


def read_tar(item, start):
    """Returns the Folder with everything in a tar, which is decompressed in memory up to the limit."""
    data = item.read(LARGEST)
    if start[:2] in OPENERS:
        with OPENERS[start[:2]](io.BytesIO(data)) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise TooMuch(f"holds more than {LARGEST >> 20} MB; hand in only the files with your code")
    archive = tarfile.open(fileobj=io.BytesIO(data), mode="r:")
    top = Folder(item.name, item.where, size=len(data), inside={})
    for count, info in enumerate(archive):
        if count >= ENTRIES:
            raise Unreadable(f"holds more than {ENTRIES} files; hand in only the files with your code")
        keys = parts(info.name)
        folder = top.folder(keys if info.isdir() else keys[:-1])
        if keys and not info.isdir():
            problem = "" if info.isfile() else "is not an ordinary file"
            if info.issym() or info.islnk():
                problem = A_LINK
            folder.inside[keys[-1]] = InTar(**folder.names_of(keys[-1]), size=info.size, problem=problem, archive=archive,
                                            modified=plausible(datetime.fromtimestamp, info.mtime, timezone.utc), info=info)
    return top
