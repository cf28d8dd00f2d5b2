"""What a sharded table raises; calls on owners as plain data, and as bytes with a checksum."""

from __future__ import annotations

import json
import os
import struct
from functools import reduce
from math import prod
from typing import Any, NamedTuple, NoReturn, SupportsIndex
from zlib import crc32

import numpy as np

from ptokit.isa.dtype import dtype


class ShardedError(RuntimeError):
    """A sharded table could not do what was asked. The message says what holds for the data."""


class OwnerLost(Exception):
    """An owner has ended, or does not answer. Not for users: the driver restarts the owner."""


def check_process(made_by: int, what: str) -> None:
    """Refuse a process with a copy of another process's table: owners answer the process that made it."""
    if os.getpid() != made_by:
        raise ShardedError(f"{what} was made by process {made_by}; process {os.getpid()} has only a copy of it")


class OfOneProcess:
    """What only the process that made it can use: no copy of it, and no message to another process, has it."""

    name, instead = "a sharded table", "pass what gather() returns, or load a checkpoint of it there"
    """For the refusal."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse pickle and copy, also those of Ray and multiprocessing."""
        whose = f"owners answer process {os.getpid()} only"
        raise ShardedError(f"{self.name} cannot be copied or passed to another process: {whose}; {self.instead}")


# --- messages --------------------------------------------------------------------------------------------------------


Array = np.ndarray[Any, np.dtype[Any]]
Header = dict[str, Any]
Buffer = bytes | memoryview

MARK, SUM, SIZES = b"PTOr", struct.Struct("<I"), struct.Struct("<IIQ")
"""How a record begins: a mark, the checksum of the rest without arrays; the checksum of the arrays, the bytes of the
header, those of the arrays."""
HEAD_SIZE = len(MARK) + SUM.size + SIZES.size
WORD, COLUMNS = 8, 1024
"""Bytes of a word, and words of a row, of a checksum."""


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


def packed(message: Message) -> list[Buffer]:
    """A message as a record, in pieces: those of arrays are no copies."""
    data = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in message.arrays]
    described = [{"dtype": type_name(array.dtype), "shape": array.shape} for array in message.arrays]
    head = json.dumps({"header": message.header, "arrays": described}).encode()
    sizes = SIZES.pack(reduce(checksum, data, 0), len(head), message.nbytes)
    return [MARK + SUM.pack(crc32(head, crc32(sizes))) + sizes, head, *[each.data for each in data]]


def checksum(before: int, data: Array) -> int:
    """A checksum of bytes after others: the CRC-32 of the sums of 64-bit words over rows, and over columns.

    It takes a fraction of the time of a CRC-32 of all bytes. Words that change in one row or in one column change it,
    and so do rows that are exchanged or missing.
    """
    words = data[: len(data) // WORD * WORD].view(np.uint64)
    rows = words[: len(words) // COLUMNS * COLUMNS].reshape(-1, COLUMNS)
    rest = data[rows.nbytes :]
    return crc32(rest.data, crc32(rows.sum(1).data, crc32(rows.sum(0).data, before)))


def unpacked(record: bytes, where: str) -> Message:
    """The message of a record; an error if a byte has changed."""
    if len(record) < HEAD_SIZE:
        raise ShardedError(f"{where}: the record is cut short")
    start, body = len(MARK) + SUM.size, memoryview(record)[HEAD_SIZE:]
    data_sum, head_size, data_size = SIZES.unpack_from(record, start)
    is_whole = record[: len(MARK)] == MARK and len(body) == head_size + data_size
    if not is_whole or SUM.pack(crc32(record[start : HEAD_SIZE + head_size])) != record[len(MARK) : start]:
        raise ShardedError(f"{where}: the checksum of the record is wrong")
    described = json.loads(bytes(body[:head_size]))
    data: list[Array] = []
    arrays: list[Array] = []
    at = head_size
    for each in described["arrays"]:
        kind, shape = type_of(each["dtype"]), tuple(each["shape"])
        end = at + prod(shape) * kind.itemsize
        data.append(np.frombuffer(body[at:end], np.uint8).copy())
        arrays.append(data[-1].view(kind).reshape(shape))
        at = end
    if reduce(checksum, data, 0) != data_sum:
        raise ShardedError(f"{where}: the checksum of the record is wrong")
    return Message(described["header"], tuple(arrays))
