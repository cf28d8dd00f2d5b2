"""`--arg` and `--out`: which files become arrays, and which are refused."""

from __future__ import annotations

import io
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ptokit.cli.arguments import constant, pairs, read_array, value, write_array
from ptokit.cli.problems import Misuse
from ptokit.isa.dtype import dtype
from tests.cli.shell import fine, misuse, saved

X = np.arange(24, dtype="float32").reshape(4, 6)


def npy(header: str, content: bytes = b"", version: int = 1) -> bytes:
    """A file with a header of our own making."""
    text = header.encode("latin1")
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + content


def described(shape: object, kind: str = "<f4", order: bool = False) -> str:
    return f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5", 5), ("-3", -3), ("+7", 7), ("0x10", 16), ("-0X1f", -31), ("0b101", 5), ("0o17", 15), ("007", 7),
        ("1.5", 1.5), ("-2e3", -2000.0), ("inf", float("inf")), (".5", 0.5),
    ],
)  # fmt: skip
def test_numbers(text: str, found: float) -> None:
    made = value("n", text)
    assert made == found and type(made) is type(found)


def test_constants() -> None:
    for text, found in {
        "5": 5, "1.5": 1.5, "true": True, "False": False, "none": None, "clamp": "clamp", "f32": "f32",
        "4,8": (4, 8), "a, 1.5": ("a", 1.5), "x.npy": "x.npy",
    }.items():  # fmt: skip
        assert constant(text) == found and type(constant(text)) is type(found)


def test_zeros_of_a_type_and_shape() -> None:
    for text, kind, shape in (
        ("f32[1000,64]", np.float32, (1000, 64)),
        ("int8[3]", np.int8, (3,)),
        ("bf16[2, 0]", ml_dtypes.bfloat16, (2, 0)),
        ("half[1,2,3,4,5]", np.float16, (1, 2, 3, 4, 5)),
    ):
        made: Any = value("x", text)
        assert (made.dtype, made.shape, made.any()) == (kind, shape, False)


def test_pairs() -> None:
    assert pairs(["a=1", "%b=x=y"], "--arg") == {"a": "1", "b": "x=y"}


def test_a_file_is_mapped_and_never_written(folder: Path) -> None:
    path = saved(folder / "x.npy", X)
    before = path.read_bytes()
    array = read_array("x", str(path))
    assert np.array_equal(array, X)
    array[:] = 7
    del array
    assert path.read_bytes() == before


def test_a_file_that_may_not_be_written_can_be_read_and_changed_in_memory(folder: Path) -> None:
    path = saved(folder / "x.npy", X)
    path.chmod(0o444)
    array = read_array("x", str(path))
    array[0] = 1
    assert array.flags.writeable


@pytest.mark.parametrize(
    "stored",
    [
        np.asfortranarray(X),
        X.astype(">f4"),
        X.T[::-1].astype(">f4"),
        np.zeros((0, 6), "float32"),
        np.array(5, "int32"),
        np.array([True, False]),
    ],
)
def test_what_is_read_is_plain(folder: Path, stored: np.ndarray) -> None:
    array = read_array("x", str(saved(folder / "x.npy", stored)))
    assert np.array_equal(array, stored) and array.shape == stored.shape
    assert array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def test_elements_at_odd_places_are_copied(folder: Path) -> None:
    header = described((4, 6)).rstrip("\n")
    (folder / "x.npy").write_bytes(npy(header + " " * (len(header) % 2) + "\n", X.tobytes()))
    array = read_array("x", "x.npy")
    assert np.array_equal(array, X) and array.flags.aligned


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3", "float8_e5m2", "hifloat8"])
def test_types_without_a_name_are_read_by_the_type_that_is_asked_for(folder: Path, kind: str) -> None:
    element = dtype(kind)
    bits = np.arange(200, dtype=element.bits)
    with (folder / "own.npy").open("wb") as stream:
        write_array(bits.view(element.numpy), stream)
    assert np.array_equal(np.load("own.npy").view(element.bits), bits)
    for stored in (bits, bits.view(f"V{element.size}"), np.load("own.npy")):
        saved(folder / "x.npy", stored)
        array = read_array("x", "x.npy", element)
        assert array.dtype == element.numpy and np.array_equal(array.view(element.bits), bits)


def test_other_types_are_not_reinterpreted_by_default(folder: Path) -> None:
    saved(folder / "x.npy", X)
    assert read_array("x", "x.npy", dtype("int32")).dtype == np.float32
    assert read_array("x", "x.npy", dtype("bf16")).dtype == np.float32
    made: Any = value("x", "i32:x.npy")
    assert np.array_equal(made, X.view("int32"))


class Bomb:
    """A pickle that leaves a mark."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("boom",)


def object_file() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb()], object), allow_pickle=True)
    return stream.getvalue()


def zip_file() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=X)
    return stream.getvalue()


HOSTILE = {
    "empty": b"",
    "text": b"not an array\n",
    "only the magic": b"\x93NUMPY",
    "unknown version": npy(described((4,)), version=9),
    "objects": object_file(),
    "a bare pickle": pickle.dumps(Bomb()),
    "an archive": zip_file(),
    "truncated header": npy(described((4,)))[:-20],
    "truncated data": npy(described((4, 6)), X.tobytes()[:-1]),
    "no data": npy(described((4, 6))),
    "a huge promise": npy(described((1 << 40, 1 << 10)), b"1234"),
    "a promise past 64 bits": npy(described((1 << 62, 1 << 62, 4)), b"1234"),
    "a promise that wraps round to nothing": npy(described((1 << 32, 1 << 30)), b""),
    "a promise that wraps round to four bytes": npy(described(((1 << 62) + 1, 4)), b"\0" * 16),
    "negative extents": npy(described((-4, -6)), X.tobytes()),
    "one negative extent": npy(described((-1,)), X.tobytes()),
    "extents of truth": npy(described("(True, 2.5)"), X.tobytes()),
    "no header at all": npy("\n"),
    "a header that is code": npy("__import__('os').mkdir('boom')\n"),
    "a header that is deep": npy("(" * 9000 + ")" * 9000 + "\n"),
    "a header that is long": npy("{" + " " * 60000 + "}\n"),
    "a header of 4 GiB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 1000,
    "unknown keys": npy("{'descr': '<f4', 'shape': (4,), 'order': 1}\n"),
    "an unknown type": npy(described((4,), "<q9"), X.tobytes()),
    "strings": npy(described((2,), "<U4"), b"\0" * 32),
    "dates": npy(described((2,), "<M8[s]"), b"\0" * 16),
    "records": npy("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,)}\n", b"\0" * 8),
    "elements without size": npy(described((1 << 40,), "|V0")),
    "raw elements": npy(described((4,), "|V2"), b"\0" * 8),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_files_are_refused_in_a_line(folder: Path, what: str) -> None:
    (folder / "x.npy").write_bytes(HOSTILE[what])
    with pytest.raises(Misuse) as refusal:
        read_array("x", "x.npy")
    assert "\n" not in str(refusal.value) and "x.npy" in str(refusal.value)
    message = misuse("run", "kernels:double", "--arg", "x=x.npy", "--arg", "out=f32[4,16]", "--out", "out=y.npy")
    assert message.startswith("ptokit: --arg x")
    assert not (folder / "boom").exists() and not (folder / "y.npy").exists()


def test_only_regular_files_are_arrays(folder: Path) -> None:
    os.mkfifo(folder / "pipe.npy")
    for file in ("/dev/zero", ".", "pipe.npy"):
        assert "not a regular file" in misuse("run", "kernels:double", "--arg", f"x={file}")


def test_arrays_that_do_not_fit_the_kernel_are_said_so(folder: Path) -> None:
    saved(folder / "x.npy", np.zeros((2,) * 7, "float32"))
    assert "`x`" in misuse("check", "kernels:double", "--arg", "x=x.npy", "--arg", "out=f32[4,16]")


def test_an_array_without_dims_is_a_number(folder: Path) -> None:
    saved(folder / "n.npy", np.array(3))
    words = ("--arg", "n=n.npy", "--arg", "x=f32[8,16]", "--arg", "out=f32[8,16]")
    assert "accepted" in fine("check", "kernels:shift", *words)


def test_the_file_that_is_written_is_a_plain_array(folder: Path) -> None:
    saved(folder / "x.npy", np.asfortranarray(np.ones((4, 16), "float32")))
    fine(
        "run", "kernels:double", "--arg", "x=x.npy", "--arg", "out=f32[4,16]", "--out", "out=y.npy", "--out", "x=z.npy"
    )
    assert np.array_equal(np.load(folder / "y.npy"), np.full((4, 16), 2, "float32"))
    assert np.load(folder / "z.npy").flags.c_contiguous
