"""Reads .npz files of any origin: the headers of all arrays first, then those arrays that are wanted.

np.load believes a header, and unpacks whatever is compressed. A small file could take all memory in this way.
"""

import os
import zipfile

import numpy as np

from ..file_checks import check_name, count_of

ENDING = ".npy"


class NpzArchive:
    """The arrays of an open .npz file as np.savez writes it, without pickle and without compression.

    Parameters: file : binary file
    Attributes: `shapes`, {name: shape}; `sizes`, {name: bytes}
    Raises: ValueError, or one of the errors of zipfile, unless each array has the bytes that its header announces, and all of
        them together have no more bytes than the file
    """

    def __init__(self, file):
        self.zip = zipfile.ZipFile(file)
        members = self.zip.infolist()
        check_members(members, os.fstat(file.fileno()).st_size)
        self.shapes, self.sizes = {}, {}
        for member in members:
            name = member.filename.removesuffix(ENDING)
            self.shapes[name], self.sizes[name] = self.read_header(member), member.file_size

    def read_header(self, member):
        """Returns the shape of an array whose dtype and size fit the bytes of the file."""
        with self.zip.open(member) as file:
            version = np.lib.format.read_magic(file)
            if version not in ((1, 0), (2, 0)):             # (3, 0) is for names of fields
                raise ValueError(f"an array has the version {version} of the format")
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            start = file.tell()
        name = member.filename.removesuffix(ENDING)
        if dtype.kind not in "biufcU":
            raise ValueError(f"{name} has the dtype {dtype}, which is not one of numbers or text")
        if member.file_size != start + count_of(name, shape) * dtype.itemsize:
            raise ValueError(f"{name} has {member.file_size:,} bytes, which do not make an array {shape} of {dtype}")
        return shape

    def __getitem__(self, name):
        with self.zip.open(f"{name}{ENDING}") as file:       # zipfile compares the checksum
            return np.lib.format.read_array(file, allow_pickle=False)

    def verify(self):
        """Raises ValueError if the bytes of an array have changed."""
        if self.zip.testzip() is not None:
            raise ValueError("the checksum of an array is wrong")


def check_members(members, size):
    """Raises ValueError unless these are arrays, each stored once and as it is, that fit into a file of this size."""
    names = set()
    for member in members:
        check_name(member.filename)
        if not member.filename.endswith(ENDING):
            raise ValueError(f"it holds {member.filename!r}, which is no array")
        if member.filename in names:
            raise ValueError(f"it holds {member.filename!r} twice")
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise ValueError(f"{member.filename!r} is compressed; training saves arrays as they are")
        names.add(member.filename)
    total = sum(member.file_size for member in members)
    if total > size:
        raise ValueError(f"its arrays announce {total:,} bytes, but the file has {size:,}")
