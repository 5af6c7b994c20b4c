"""Reads the members of a .tar.gz without unpacking it, and refuses an archive with unsafe members."""

import gzip
import tarfile
from pathlib import PureWindowsPath

LARGEST, TOTAL = 10_000_000, 4_000_000_000      # bytes: of one member, of the whole


class RefusedMember(ValueError):
    """Raised for a member that an archive of texts does not contain."""


def members(path, pattern, remedy):
    """Yields (name, bytes) of the members whose full name matches a pattern; every member is checked.

    Parameters:
        path : path of the archive
        pattern : compiled regular expression
        remedy : str, what the user can do; error messages end with it

    Raises:
        ValueError if the archive cannot be read to its end, its checksum is wrong, or a member is a link or a device,
        has a path outside the archive, or is too large.
    """
    try:
        with gzip.open(path) as file:
            stream = BoundedReader(file)
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                while (member := archive.next()) is not None:
                    archive.members.clear()     # or tarfile keeps all of them in memory
                    check_member(path, member, remedy)
                    if member.isreg() and pattern.fullmatch(member.name):
                        yield member.name, archive.extractfile(member).read()
            stream.finish()
    except RefusedMember:
        raise
    except Exception as error:                  # gzip, zlib and tarfile raise many types for damaged data
        raise ValueError(f"the archive {str(path)!r} cannot be read to its end, so it is truncated, damaged or "
                         f"not a .tar.gz ({getattr(error, 'strerror', None) or error}); {remedy}") from error


class BoundedReader:
    """File interface for tarfile with size limits, because a few kilobytes of gzip can expand to terabytes."""

    def __init__(self, file):
        self.file = file
        self.tell = file.tell

    def read(self, size):
        if not 0 <= size <= LARGEST + tarfile.BLOCKSIZE or self.tell() + size > TOTAL:
            raise OSError(f"it unpacks to more than {TOTAL:,} bytes, or to {size:,} in a single read")
        return self.file.read(size)

    def seek(self, position):
        self.read(position - self.tell())       # only forward

    def finish(self):
        """Reads the zeros at the end, after which gzip compares its checksum."""
        while rest := self.read(1 << 20):
            if rest.strip(b"\0"):
                raise OSError("one of its headers is damaged")


def check_member(path, member, remedy):
    """Raises RefusedMember for an unsafe member."""
    place = PureWindowsPath(member.name)        # understands /, \ and C:
    leads_outside = place.anchor or ".." in place.parts
    is_plain = member.isdir() or (member.isreg() and not member.issparse())
    if leads_outside:
        reason = "has a path that leads outside"
    elif not is_plain:
        reason = "is neither a file nor a folder"
    elif not 0 <= member.size <= LARGEST:
        reason = f"has {member.size:,} bytes, but at most {LARGEST:,} are read"
    else:
        return
    raise RefusedMember(f"the archive {str(path)!r} is refused because its member {member.name!r} {reason}; {remedy}")
