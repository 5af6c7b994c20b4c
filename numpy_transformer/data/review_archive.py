"""The members of a .tar.gz, read without unpacking it and with an eye on what is not meant to be there."""

import gzip
import tarfile
from pathlib import PureWindowsPath

LARGEST, TOTAL = 10_000_000, 4_000_000_000      # bytes: of one member, of the whole


class RefusedMember(ValueError):
    """A member that no archive of texts has."""


def members(path, pattern, remedy):
    """Yields (name, bytes) of the members whose whole name matches a pattern; all members are checked.

    Raises ValueError, which ends in the remedy, if the archive cannot be read to its end, its checksum is wrong, or
    a member is a link or device, points outside, or is too large.
    """
    try:
        with gzip.open(path) as file:
            stream = Bounded(file)
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                while (member := archive.next()) is not None:
                    archive.members.clear()     # else it would remember them all
                    check_member(path, member, remedy)
                    if member.isreg() and pattern.fullmatch(member.name):
                        yield member.name, archive.extractfile(member).read()
            stream.finish()
    except RefusedMember:
        raise
    except Exception as error:                  # gzip, zlib and tarfile raise many kinds on damaged bytes
        raise ValueError(f"the archive {str(path)!r} cannot be read to its end, so it is truncated, damaged or no "
                         f".tar.gz ({getattr(error, 'strerror', None) or error}); {remedy}") from error


class Bounded:
    """What tarfile needs of a file, within the limits: a few kilobytes of gzip can hold terabytes."""

    def __init__(self, file):
        self.file, self.tell = file, file.tell

    def read(self, size):
        if not 0 <= size <= LARGEST + tarfile.BLOCKSIZE or self.tell() + size > TOTAL:
            raise OSError(f"it unpacks to more than {TOTAL:,} bytes, or {size:,} of them in one piece")
        return self.file.read(size)

    def seek(self, position):
        self.read(position - self.tell())       # forwards only

    def finish(self):
        """Reads the zeros at the end, whereupon gzip compares its checksum."""
        while rest := self.read(1 << 20):
            if rest.strip(b"\0"):
                raise OSError("a header in it is damaged")


def check_member(path, member, remedy):
    place = PureWindowsPath(member.name)        # knows / and \, and C: too
    reason = ("has a path that leads outside" if place.anchor or ".." in place.parts else
              "is neither a file nor a folder" if not (
                  member.isdir() or member.isreg() and not member.issparse()) else
              f"has {member.size:,} bytes, but at most {LARGEST:,} are read" if not 0 <= member.size <= LARGEST else "")
    if reason:
        raise RefusedMember(f"the archive {str(path)!r} is refused, as its member {member.name!r} {reason}; {remedy}")
