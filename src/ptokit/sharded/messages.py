"""Calls on owners as plain data, and as bytes with a checksum."""

from __future__ import annotations

import json
import struct
from math import prod
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ptokit.isa.dtype import dtype
from ptokit.sharded.errors import ShardedError

Array = np.ndarray[Any, np.dtype[Any]]
Header = dict[str, Any]

HEAD = struct.Struct("<4sIIQ")
"""A mark, the checksum of what follows it, and the bytes of the header and of the arrays."""
MARK = b"PTOr"


class Message(NamedTuple):
    """A call on an owner, or its answer: a header that JSON could hold, and arrays."""

    header: Header
    arrays: tuple[Array, ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)


def type_name(kind: np.dtype[Any]) -> str:
    """An element type in a header."""
    return dtype(kind).name


def type_of(name: object) -> np.dtype[Any]:
    """The element type of a header."""
    return dtype(name).numpy


def packed(message: Message) -> bytes:
    """A message as a record."""
    described = [{"dtype": type_name(array.dtype), "shape": array.shape} for array in message.arrays]
    head = json.dumps({"header": message.header, "arrays": described}).encode()
    data = b"".join(array.tobytes() for array in message.arrays)
    sizes = struct.pack("<IQ", len(head), len(data))
    return HEAD.pack(MARK, crc32(data, crc32(head, crc32(sizes))), len(head), len(data)) + head + data


def unpacked(record: bytes, where: str) -> Message:
    """The message of a record; an error if a byte has changed."""
    try:
        mark, checksum, head_size, data_size = HEAD.unpack_from(record)
    except struct.error:
        raise ShardedError(f"{where}: the record is cut short") from None
    body = memoryview(record)[HEAD.size :]
    sizes = struct.pack("<IQ", head_size, data_size)
    if mark != MARK or len(body) != head_size + data_size or crc32(body, crc32(sizes)) != checksum:
        raise ShardedError(f"{where}: the checksum of the record is wrong")
    described = json.loads(bytes(body[:head_size]))
    arrays, at = [], head_size
    for each in described["arrays"]:
        kind, shape = type_of(each["dtype"]), tuple(each["shape"])
        end = at + prod(shape) * kind.itemsize
        arrays.append(np.frombuffer(body[at:end], np.uint8).copy().view(kind).reshape(shape))
        at = end
    return Message(described["header"], tuple(arrays))
