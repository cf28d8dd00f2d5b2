"""Readers of foreign bytes: files and memory that were changed are refused or read, in bounded time and memory.

Each reader runs in a process of its own, with a limit on its memory. `PTOKIT_FUZZ` asks for more inputs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

import ptokit as pto
from ptokit.cli.arguments import read_array
from ptokit.cli.calibrate import read_trace
from ptokit.cli.problems import Misuse
from ptokit.cxx import record as recording
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.program import program_of
from ptokit.cxx.recording import LaunchArgument, Recording
from ptokit.cxx.shared import ITEMS, SharedBuffer, Sizes
from ptokit.cxx.trace import Places, TraceError, TraceReader
from ptokit.finding import VerifyError
from ptokit.machine.costs import read_costs
from ptokit.sharded.files import Checkpoint, load_ranges, read_manifest, save_array, write_manifest
from ptokit.sharded.messages import ShardedError
from ptokit.sharded.placement import PlacedRange, TablePlacement
from tests.cxx.building import COMPILER, library
from tests.traces.test_trace_files import small

FUZZ = int(os.environ.get("PTOKIT_FUZZ", "1"))
SECONDS = 30
"""What one input may take, at the very most."""
MEMORY = 1 << 30
"""Bytes of address space that a reader may take besides what its process has at first."""
NUMBERS = (0, 1, 2, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
TEXTS = (b"-1", b"0", b"1e999", b"NaN", b"9" * 400, b"null", b"[]", b"{}", b'""', b"\0", b"\xff", b"[" * 2000, b"true")


# --- inputs

Change = Callable[[random.Random, bytes], bytes]


def changed(seed: int, data: bytes, changes: Sequence[Change]) -> bytes:
    """Bytes with some changes; the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        data = rng.choice(changes)(rng, data) if data else b"\0"
    return data


def flip(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def number(rng: random.Random, data: bytes) -> bytes:
    """A number of 2, 4 or 8 bytes in the place of another one."""
    size = rng.choice((2, 4, 8))
    at = rng.randrange(len(data)) // size * size
    return (data[:at] + (rng.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "little") + data[at + size :])[
        : len(data)
    ]


def near(rng: random.Random, data: bytes) -> bytes:
    """A number of 8 bytes that is one more or one less, or that of another place."""
    at, other = (rng.randrange(max(len(data) // 8, 1)) * 8 for _ in range(2))
    value = int.from_bytes(data[at : at + 8], "little") + rng.choice((-1, 1))
    new = rng.choice(((value % (1 << 64)).to_bytes(8, "little"), data[other : other + 8]))
    return (data[:at] + new + data[at + 8 :])[: len(data)]


def text(rng: random.Random, data: bytes) -> bytes:
    """A number or a word of a text in the place of another one."""
    ends = [k for k, byte in enumerate(data) if byte in b',:[]{}" \n']
    first, last = sorted(rng.choices(ends or [0], k=2))
    return data[: first + 1] + rng.choice(TEXTS) + data[min(last, first + 40) :]


def cut(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 8, 64, len(data))) :]


def repeated(rng: random.Random, data: bytes) -> bytes:
    first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:last] + data[first : first + 200] + data[last:]


IN_PLACE = (flip, number, near)
"""Changes that leave everything at its place."""
BINARY, TEXT = (*IN_PLACE, cut, repeated), (flip, text, text, cut, repeated)
ARRAYS = (64, 4096)
"""Bytes of the arrays of the recording."""


@cache
def recorded() -> bytes:
    """The memory of a recording: the counts of its areas, then their bytes."""
    if not COMPILER:
        pytest.skip("needs a C++ compiler")
    kept: list[SharedBuffer] = []

    def shared_buffer(sizes: Sizes, arrays: Sequence[int]) -> SharedBuffer:
        kept.append(SharedBuffer(sizes, arrays))
        return kept[-1]

    given = [recording.ArrayArgument(name, np.zeros(16, np.int32)) for name in ("in", "count")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "SharedBuffer", shared_buffer)
        recording.record(library("values"), "counts", given)
    (shared,) = kept
    counts = [shared.get(f"{area}_used") for area in ITEMS]
    areas = [
        shared.bytes[shared.places[area] :][: ITEMS[area] * count].tobytes()
        for area, count in zip(ITEMS, counts, strict=True)
    ]
    return np.array([*counts, shared.get("base")], np.uint64).tobytes() + b"".join(areas)


def trace_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        small().save(Path(folder, "file.npz"))
        return Path(folder, "file.npz").read_bytes()


def members() -> dict[str, np.ndarray]:
    """The arrays of an index trace."""
    with np.load(io.BytesIO(trace_file())) as archive:
        return {name: archive[name] for name in archive.files}


def npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.arange(24, dtype="float32").reshape(4, 6))
    return stream.getvalue()


def manifest() -> bytes:
    """A checkpoint: its manifest."""
    with tempfile.TemporaryDirectory() as folder:
        _checkpoint(folder)
        return Path(folder, "manifest.json").read_bytes()


NAMES = tuple(f"shard-{owner}-{owner:016x}.npy" for owner in range(2))


def _checkpoint(folder: str) -> None:
    array = np.arange(40, dtype="float32").reshape(10, 4)
    pieces = PlacedRange(0, 6, 0), PlacedRange(6, 10, 1)
    files = [
        save_array(os.path.join(folder, name), array[p.start : p.stop]) for name, p in zip(NAMES, pieces, strict=True)
    ]
    placement = TablePlacement(10, 2, pieces)
    write_manifest(Checkpoint(folder, (10, 4), np.dtype("float32"), "rows", placement, tuple(files)))


COSTS = b'{"format": 1, "target": "a5", "costs": {"issue cycles": 4.0, "flag cycles": 12}}'
MEASURED = (
    b'{"format": 1, "target": "a5", "measurements": [{"operator": "copy", "elements": 1024, "microseconds": [2.5, 3]}, '
    b'{"kernel": "k:double", "args": {"x": "f32[4,16]", "n": 3}, "grid": 2, "microseconds": 7, "launch": true}]}'
)
TABLE = (
    b"Op Name,OP Type,Task Duration(us),Block Dim,Input Shapes,Input Data Types,Output Shapes,Output Data Types\n"
    b'double,double,12.5,4,"""4,16;4,16""",FLOAT;FLOAT,"""4,16""",FLOAT\nother,other,3,1,"""8""",INT32,"""8""",INT32\n'
)


# --- readers


def read_recording(data: bytes) -> None:
    counts = np.frombuffer(data[: 8 * (len(ITEMS) + 1)].ljust(8 * (len(ITEMS) + 1), b"\0"), np.uint64).tolist()
    shared = SharedBuffer(Sizes(1000, 1 << 20), ARRAYS)
    at = 8 * (len(ITEMS) + 1)
    lengths = np.frombuffer(recorded()[:at], np.uint64).tolist()
    for area, count, length in zip(ITEMS, counts[:-1], lengths, strict=False):
        part = np.frombuffer(data[at : at + ITEMS[area] * length], np.uint8)
        shared.bytes[shared.places[area] :][: part.size] = part
        shared.set(f"{area}_used", count)
        at += ITEMS[area] * length
    shared.set("base", counts[-1])
    places = Places()
    for k, offset in enumerate(shared.offsets):
        places.add(counts[-1] + offset, ARRAYS[k], k)
    reader = TraceReader(
        shared, places, [LaunchArgument(f"a{k}", "int32", (size // 4,)) for k, size in enumerate(ARRAYS)]
    )
    try:
        reader.advance()
        launches = reader.launches()
        reader.check_whole(1)
        reader.outside()
        whole = Recording("a2a3", [() for _ in reader.sites], [*reader.calls], launches)
    finally:
        shared.close_file()
    for launch in launches:
        with contextlib.suppress(VerifyError):
            program_of(whole, launch, SourceTexts())


def read_checkpoint(data: bytes, seed: int) -> None:
    """A manifest, or a file that it names. Every second manifest gets the checksum that it should have."""
    with tempfile.TemporaryDirectory() as folder:
        _checkpoint(folder)
        rng = random.Random(seed)
        if rng.random() < 0.3:
            file = Path(folder, rng.choice(NAMES))
            file.write_bytes(changed(seed, file.read_bytes(), BINARY))
        else:
            Path(folder, "manifest.json").write_bytes(_summed(data) if rng.random() < 0.8 else data)
        found = read_manifest(folder)
        for owner in range(min(found.placement.owners, 4)):
            shape = found.grid.part_shape(sum(stop - start for start, stop, _ in found.placement.spans(owner)))
            load_ranges(found.ranges(found.placement, owner), found.dtype, shape, int(found.by != "rows"))


def _summed(data: bytes) -> bytes:
    with contextlib.suppress(ValueError, RecursionError):
        content = json.loads(data)
        if isinstance(content, dict):
            content.pop("checksum", None)
            content["checksum"] = crc32(json.dumps(content, sort_keys=True).encode())
            return json.dumps(content).encode()
    return data


def read_header(data: bytes, seed: int) -> None:
    read_members({**members(), "header": np.frombuffer(data, np.uint8)}, seed)


def read_calls(data: bytes, seed: int) -> None:
    read_members({**members(), "calls": np.frombuffer(data[: len(data) // 8 * 8], np.int64)}, seed)


def read_members(arrays: dict[str, np.ndarray], seed: int) -> None:
    """An index trace of these arrays, whose archive is whole. What is read can be shown."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    in_file(lambda file: str(pto.IndexTrace.load(file)), stream.getvalue(), seed)


def in_file(call: Callable[[str], object], data: bytes, seed: int) -> None:
    """Read a file with these bytes."""
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        file.write(data)
        file.flush()
        call(file.name)


@dataclass(frozen=True)
class Reader:
    """A reader of bytes, and what it may raise."""

    read: Callable[[bytes, int], object]
    refusals: tuple[type[Exception], ...]
    originals: Callable[[], Sequence[bytes]]
    changes: Sequence[Change]
    inputs: int = 150


READERS = {
    "index trace": Reader(partial(in_file, pto.IndexTrace.load), (ValueError,), lambda: [trace_file()], BINARY),
    "header of an index trace": Reader(read_header, (ValueError,), lambda: [members()["header"].tobytes()], TEXT),
    "calls of an index trace": Reader(read_calls, (ValueError,), lambda: [members()["calls"].tobytes()], BINARY),
    "array": Reader(partial(in_file, partial(read_array, "x")), (Misuse,), lambda: [npy()], BINARY),
    "recording": Reader(lambda data, _: read_recording(data), (TraceError,), lambda: [recorded()], IN_PLACE, 300),
    "costs": Reader(partial(in_file, read_costs), (ValueError,), lambda: [COSTS], TEXT),
    "measurements": Reader(
        lambda data, _: read_trace(data, "t", ["double"]), (Misuse,), lambda: [MEASURED, TABLE], TEXT
    ),
    "checkpoint": Reader(read_checkpoint, (ShardedError,), lambda: [manifest()], TEXT),
}


def inputs(name: str, first: int, count: int) -> Iterator[tuple[int, bytes]]:
    """Changed inputs of a reader, by their seeds."""
    originals, changes = READERS[name].originals(), READERS[name].changes
    return ((seed, changed(seed, originals[seed % len(originals)], changes)) for seed in range(first, first + count))


def work(names: Sequence[str], first: int, times: int) -> None:
    """Let readers read changed inputs, each in a copy of this process."""
    for name in names:
        made = [*inputs(name, first, READERS[name].inputs * times)]
        if not (child := os.fork()):
            read(name, made)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, name


def read(name: str, made: Sequence[tuple[int, bytes]]) -> None:
    """Read changed inputs under a limit of memory. The last seed that is printed is that of a failure."""
    reader = READERS[name]
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for seed, data in made:
        print(f"{name}, seed {seed}", file=sys.stderr)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        assert len(refusal(reader, data, seed)) < 3000
        faulthandler.cancel_dump_traceback_later()


def refusal(reader: Reader, data: bytes, seed: int) -> str:
    """Why bytes are refused; empty if they are read."""
    try:
        reader.read(data, seed)
    except reader.refusals as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize("names", [[*READERS][:4], [*READERS][4:]], ids=", ".join)
def test_changed_bytes_are_refused_or_read(names: list[str]) -> None:
    given = [name for name in names if name != "recording" or COMPILER]
    code = f"import tests.test_readers as readers; readers.work({given!r}, 0, {FUZZ})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.parametrize("name", READERS)
def test_originals_are_read_and_most_changes_are_others(name: str) -> None:
    if name == "recording" and not COMPILER:
        pytest.skip("needs a C++ compiler")
    for data in READERS[name].originals():
        READERS[name].read(data, 0 if name != "checkpoint" else 2)
    made = [data for _, data in inputs(name, 0, 50)]
    assert made == [data for _, data in inputs(name, 0, 50)]
    assert len({*made}) > 40
