"""Traces as files: they come back as they were, and no file does harm."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.traces.traced_calls import LookupKind, TracedCall


def small() -> pto.IndexTrace:
    """Calls with indices of every type, one of them without any."""
    rows = LookupKind("gather", (10, 4), "float32", 4, oob="clamp", index="int32")
    more = LookupKind("scatter", (5,), "float16", 2, table=1, unit="elem", atomic="add", index="int64")
    other = LookupKind("index_select", (3, 7), "bfloat16", 2, table=2, axis=1, index="uint32")
    calls = [
        TracedCall(rows, np.array([1, -2, 3], "int32")),
        TracedCall(more, np.array([-1, 1 << 40], "int64")),
        TracedCall(rows, np.array([], "int32")),
        TracedCall(other, np.array([4_000_000_000], "uint32")),
        TracedCall(rows, np.array([9], "int32")),
    ]
    return pto.IndexTrace(calls, "a test", sample=5, seed=7, seen=9, missed=1, cut="6 indices")


def content(trace: pto.IndexTrace) -> list[Any]:
    calls = [(call.what, call.indices.dtype, call.indices.tolist()) for call in trace.calls]
    return [calls, trace.source, trace.sample, trace.seed, trace.seen, trace.missed, trace.cut]


def saved(folder: Path) -> Path:
    small().save(folder / "trace.npz")
    return folder / "trace.npz"


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    assert content(pto.IndexTrace.load(saved(tmp_path))) == content(small())


def test_an_empty_trace_comes_back(tmp_path: Path) -> None:
    pto.IndexTrace().save(tmp_path / "empty.npz")
    assert content(pto.IndexTrace.load(tmp_path / "empty.npz")) == content(pto.IndexTrace())


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    first = saved(tmp_path).read_bytes()
    assert saved(tmp_path).read_bytes() == first


def test_numpy_reads_the_file(tmp_path: Path) -> None:
    with np.load(saved(tmp_path), allow_pickle=False) as members:
        assert members["int32"].tolist() == [1, -2, 3, 9]
        assert json.loads(members["header"].tobytes())["format"] == 2


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved(tmp_path).read_bytes()

    def fail(stream: io.BytesIO, **_: object) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="No space"):
        small().save(tmp_path / "trace.npz")
    assert [each.name for each in tmp_path.iterdir()] == ["trace.npz"]
    assert (tmp_path / "trace.npz").read_bytes() == before


@pytest.mark.parametrize("stated", [{"source": "x" * 20_000}, {"seen": 1 << 62}, {"seed": -1}])
def test_what_could_not_be_read_is_not_written(stated: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in its header"):
        pto.IndexTrace(**stated).save(tmp_path / "trace.npz")
    assert not list(tmp_path.iterdir())


# --- files that are no traces


def refused(path: Path) -> str:
    with pytest.raises(ValueError, match="is no index trace") as problem:
        pto.IndexTrace.load(path)
    return str(problem.value)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole = saved(tmp_path).read_bytes()
    for end in (0, 1, 21, 22, 100, len(whole) // 2, len(whole) - 23, len(whole) - 1):
        (tmp_path / "cut.npz").write_bytes(whole[:end])
        refused(tmp_path / "cut.npz")


def test_damaged_bytes_are_refused_or_harmless(tmp_path: Path) -> None:
    whole = saved(tmp_path).read_bytes()
    rng, damaged = random.Random(1), tmp_path / "damaged.npz"
    for _ in range(300):
        changed = bytearray(whole)
        changed[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        damaged.write_bytes(changed)
        try:
            trace = pto.IndexTrace.load(damaged)
        except ValueError:
            continue
        assert content(trace) == content(small())  # a field of the archive that nobody reads


def members_of(trace: pto.IndexTrace, folder: Path) -> dict[str, bytes]:
    trace.save(folder / "whole.npz")
    with zipfile.ZipFile(folder / "whole.npz") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(folder: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(folder / "made.npz", "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return folder / "made.npz"


def npy(array: np.ndarray[Any, Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


def test_compressed_members_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = {**members_of(small(), tmp_path), "int64.npy": npy(np.zeros(1 << 22, "int64"))}
    path = written(tmp_path, bomb, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda *_: pytest.fail("it was read"))
    assert "is compressed" in refused(path)


def test_a_stated_size_that_is_not_there_is_refused(tmp_path: Path) -> None:
    header = {"descr": "<i8", "fortran_order": False, "shape": (1 << 50,)}
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, header)
    path = written(tmp_path, {**members_of(small(), tmp_path), "int64.npy": stream.getvalue()})
    assert "states 1,125,899,906,842,624 elements and has 0 bytes" in refused(path)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("int64", np.array([1, "a"], object)),
        ("int64", np.zeros(2, "int32")),
        ("int64", np.zeros((2, 1), "int64")),
        ("calls", np.zeros(3, "int64")),
        ("calls", np.array([0, -1], "int64")),
        ("calls", np.array([99, 1], "int64")),
        ("calls", np.array([0, 1 << 60], "int64")),
        ("calls", np.array([0, 1], "int64")),
        ("header", np.frombuffer(b"[" * 100_000, np.uint8)),
        ("header", np.frombuffer(b"{}", np.uint8)),
        ("header", np.frombuffer(b"\xff\xfe", np.uint8)),
    ],
)
def test_other_members_are_refused(name: str, array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    data = npy(array, allow_pickle=True)
    refused(written(tmp_path, {**members_of(small(), tmp_path), f"{name}.npy": data}))


def test_more_members_are_refused(tmp_path: Path) -> None:
    members = members_of(small(), tmp_path)
    assert "members" in refused(written(tmp_path, {**members, "more.npy": b""}))
    assert "directory" in refused(written(tmp_path, {**members, **{str(k): b"" for k in range(1000)}}))


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 1}, {"format": 3}, {"source": 1}, {"sample": -1}, {"seed": None}, {"seen": -1}, {"seen": True},
        {"cut": "x" * 20_000}, {"kinds": {}}, {"kinds": [{}]},
    ],
)  # fmt: skip
def test_other_headers_are_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    members = members_of(small(), tmp_path)
    header = json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())
    data = npy(np.frombuffer(json.dumps({**header, **changed}).encode(), np.uint8))
    refused(written(tmp_path, {**members, "header.npy": data}))


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "x"}, {"kind": ["gather"]}, {"shape": [-1]}, {"shape": 3}, {"shape": [1 << 40, 1 << 40]},
        {"shape": [1] * 40}, {"dtype": "os.system('x')"}, {"itemsize": 0}, {"axis": 5}, {"oob": None},
        {"index": "int8"}, {"table": True}, {"unit": "row", "shape": []}, {"more": 1},
    ],
)  # fmt: skip
def test_other_kinds_are_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    members = members_of(small(), tmp_path)
    header = json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())
    header["kinds"][0] |= changed
    data = npy(np.frombuffer(json.dumps(header).encode(), np.uint8))
    refused(written(tmp_path, {**members, "header.npy": data}))
