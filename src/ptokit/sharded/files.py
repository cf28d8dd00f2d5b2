"""Parts of tables in files, and checkpoints: `.npy` files, and a manifest that names them with their checksums."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np

from ptokit._version import __version__
from ptokit.atomic import write_file, write_files
from ptokit.brief import brief
from ptokit.isa.dtype import dtype
from ptokit.sharded.messages import Array, ShardedError, type_name, type_of
from ptokit.sharded.placement import PlacedRange, TableGrid, TablePlacement

FORMAT = 1
"""The version of manifests."""
MANIFEST = "manifest.json"
LOCK = ".ptokit-checkpoint.lock"
MOST_MANIFEST = 1 << 26
BLOCK = 1 << 24
"""Bytes that are read at a time."""
NAME = re.compile(r"shard-\d{1,9}-[0-9a-f]{16}\.npy")
LEFT = re.compile(rf"\.ptokit-{NAME.pattern}-[0-9a-f]{{16}}\.tmp")
"""What an owner leaves that is killed while it writes a file."""


@dataclass(frozen=True)
class SavedFile:
    """A file that an owner wrote: its checksum is that of all its bytes."""

    file: str
    crc32: int
    bytes: int


@dataclass(frozen=True)
class FileRange:
    """Rows and columns of a two-dimensional array in a `.npy` file."""

    file: str
    rows: tuple[int, int]
    columns: tuple[int, int]
    crc32: int | None = None
    bytes: int = 0
    """Checksum and size of the whole file, if they are checked when the range is read."""
    stamp: tuple[int, ...] | None = None
    """Size, time and number of a file that is not ptokit's, which must not have changed."""


def new_name(owner: int) -> str:
    """A file name that nothing else uses."""
    return f"shard-{owner}-{secrets.token_hex(8)}.npy"


class _Summed:
    """A stream that sums what is written."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.crc32, self.bytes = stream, 0, 0

    def write(self, data: Any) -> int:
        self.crc32 = crc32(data, self.crc32)
        self.bytes += len(data)
        return self._stream.write(data)


def save_array(path: str, array: Array) -> SavedFile:
    """Write an array atomically. Types that NumPy does not know are written as integers."""
    plain = array if array.dtype.isbuiltin == 1 else array.view(dtype(array.dtype).bits)
    found: list[SavedFile] = []

    def write(stream: BinaryIO) -> None:
        summed = _Summed(stream)
        np.lib.format.write_array(summed, np.ascontiguousarray(plain), allow_pickle=False)  # pyright: ignore[reportArgumentType]
        found.append(SavedFile(path, summed.crc32, summed.bytes))

    write_files({path: write})
    return found[0]


def check_file(saved: SavedFile) -> None:
    """Raise if a file is not what was written."""
    checksum, size = 0, 0
    try:
        with open(saved.file, "rb", buffering=0) as stream:
            while block := stream.read(BLOCK):
                checksum, size = crc32(block, checksum), size + len(block)
    except OSError as problem:
        raise ShardedError(f"cannot read {saved.file}: {problem.strerror}") from problem
    if (checksum, size) != (saved.crc32, saved.bytes):
        found = f"{size} bytes with checksum {checksum:08x}"
        raise ShardedError(f"{saved.file} is corrupt: {found} instead of {saved.bytes} with {saved.crc32:08x}")


def stamp_of(path: str) -> tuple[int, ...]:
    """What changes when a file does."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns, status.st_ino


def mapped(path: str, kind: np.dtype[Any] | None = None, mode: str = "r") -> Array:
    """A memory-mapped `.npy` file in C order. `kind` is the type of its elements if NumPy does not know it."""
    try:
        array = np.asarray(np.lib.format.open_memmap(path, mode))  # pyright: ignore[reportArgumentType]
    except MemoryError:
        raise
    except Exception as problem:  # any error of NumPy over a damaged header
        raise ShardedError(f"cannot read {path}: {problem}") from problem
    if not array.flags.c_contiguous:
        raise ShardedError(f"{path} is in Fortran order; write it in C order: np.save(path, np.ascontiguousarray(a))")
    if kind is None or array.dtype == kind:
        return array
    if array.dtype.itemsize != kind.itemsize or array.dtype.hasobject:
        raise ShardedError(f"{path} has elements of {array.dtype}; expected {kind}")
    return array.view(kind)


def in_two_dims(array: Array) -> Array:
    """An array as rows of elements."""
    return array.reshape(len(array), prod(array.shape[1:])) if array.ndim else array.reshape(1, 1)


def load_ranges(ranges: list[FileRange], kind: np.dtype[Any], shape: tuple[int, int], axis: int) -> Array:
    """The parts of an owner, one after the other. A single range of a foreign file stays mapped, copied on write."""
    parts: list[Array] = []
    for each in ranges:
        if each.crc32 is not None:
            check_file(SavedFile(each.file, each.crc32, each.bytes))
        if each.stamp is not None and stamp_of(each.file) != tuple(each.stamp):
            raise ShardedError(f"{each.file} has changed since the table was made from it")
        whole = in_two_dims(mapped(each.file, kind, "r" if each.stamp is None else "c"))
        parts.append(whole[slice(*each.rows), slice(*each.columns)])
    if len(parts) == 1 and ranges[0].stamp is not None and parts[0].shape == shape:
        return parts[0]
    array = np.empty(shape, kind)
    if parts:
        joined = np.concatenate([part.view(dtype(kind).bits) for part in parts], axis)
        if joined.shape != shape:
            raise ShardedError(f"files have {joined.shape} elements for {shape}")
        array.view(dtype(kind).bits)[...] = joined
    return array


# --- Checkpoints -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    """A table in files."""

    folder: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by: str
    placement: TablePlacement
    files: tuple[SavedFile, ...]

    @property
    def grid(self) -> TableGrid:
        """The table as rows of elements."""
        return TableGrid.of(self.shape, self.by)

    def ranges(self, placement: TablePlacement, owner: int) -> list[FileRange]:
        """What an owner of another placement reads."""
        found: list[FileRange] = []
        for start, stop, _ in placement.spans(owner):
            for held in self.placement.pieces:
                first, last = max(start, held.start), min(stop, held.stop)
                if first < last:
                    at = next(at for a, _, at in self.placement.spans(held.owner) if a == held.start) - held.start
                    part = self.grid.rectangle(first + at, last + at)
                    found.append(FileRange(self.files[held.owner].file, *part))
        return found


@contextmanager
def only_writer(folder: str) -> Generator[None]:
    """Keep others from writing a checkpoint into a folder; raises ShardedError if another table does so now.

    The lock ends with its process. File systems without locks, and Windows, have none.
    """
    path = os.path.join(folder, LOCK)
    descriptor = _locked(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


def _locked(path: str) -> int:
    """A file that is open here, and locked."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor, os.path.dirname(path))
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:  # whoever had the lock has removed the file
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, folder: str) -> None:
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock

        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        whose = os.read(descriptor, 200).decode(errors="replace")
        message = f"another table writes a checkpoint into {folder}" + f" ({whose})" * bool(whose)
        raise ShardedError(f"{message}; wait for it, or take another folder") from None
    except (ImportError, OSError):
        return


def write_manifest(checkpoint: Checkpoint) -> None:
    """Make a checkpoint valid: this file is written last. Then remove the files of the previous checkpoint."""
    content = {
        "format": FORMAT,
        "ptokit": __version__,
        "shape": checkpoint.shape,
        "dtype": type_name(checkpoint.dtype),
        "by": checkpoint.by,
        "units": checkpoint.placement.units,
        "owners": checkpoint.placement.owners,
        "pieces": [[piece.start, piece.stop, piece.owner] for piece in checkpoint.placement.pieces],
        "files": [{**asdict(saved), "file": os.path.basename(saved.file)} for saved in checkpoint.files],
    }
    text = json.dumps(content | {"checksum": _checksum(content)}, indent=1)
    write_file(os.path.join(checkpoint.folder, MANIFEST), text.encode())
    kept = {os.path.basename(saved.file) for saved in checkpoint.files}
    for name in os.listdir(checkpoint.folder):
        if LEFT.fullmatch(name) or (NAME.fullmatch(name) and name not in kept):
            with suppress(OSError):
                os.unlink(os.path.join(checkpoint.folder, name))


def read_manifest(folder: str) -> Checkpoint:
    """The checkpoint of a folder."""
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, "rb") as stream:
            content = json.loads(stream.read(MOST_MANIFEST))
    except OSError as problem:
        raise ShardedError(f"no checkpoint in {folder}: {problem.strerror}") from problem
    except (ValueError, RecursionError):
        raise ShardedError(f"{path} is corrupt: it is no JSON") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise ShardedError(f"{path} is of format {brief(found)}; this version of ptokit, {__version__}, reads {FORMAT}")
    if content.pop("checksum", None) != _checksum(content):
        raise ShardedError(f"{path} is corrupt: its checksum is wrong")
    try:
        return _checkpoint(folder, content)
    except (KeyError, TypeError, ValueError) as problem:
        raise ShardedError(f"{path} is no manifest: {problem}") from problem


def _checkpoint(folder: str, content: dict[str, Any]) -> Checkpoint:
    files = [SavedFile(**each) for each in content["files"]]
    if wrong := [each.file for each in files if not NAME.fullmatch(each.file)]:
        raise ValueError(f"{brief(wrong[0])} is no file of a checkpoint")
    placement = TablePlacement(
        content["units"], content["owners"], tuple(PlacedRange(*each) for each in content["pieces"])
    )
    if content["by"] not in ("rows", "columns") or len(files) != placement.owners:
        raise ValueError("one file for each owner is needed")
    named = tuple(SavedFile(os.path.join(folder, each.file), each.crc32, each.bytes) for each in files)
    shape = tuple(int(extent) for extent in content["shape"])
    found = Checkpoint(folder, shape, type_of(content["dtype"]), content["by"], placement, named)
    if min(shape, default=0) < 0 or found.grid.units != placement.units:
        raise ValueError(f"a placement of {placement.units} units does not fit {shape}")
    return found


def _checksum(content: dict[str, Any]) -> int:
    return crc32(json.dumps(content, sort_keys=True).encode())
