"""How many bytes of workspace A2/A3 asks for, against formulas of the documents; other targets ask for none."""

from __future__ import annotations

from typing import Any

import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Call
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import Saturation, TileType

SIZES = {"int8": 1, "uint8": 1, "int16": 2, "float16": 2, "int32": 4, "float32": 4}


def tile(kind: str, rows: int, cols: int, **options: Any) -> pto.Tile:
    made = pto.Tile("vec", kind, rows, cols, **options)
    made.storage.bits[:] = 0
    return made


def up(number: int, unit: int) -> int:
    return sum(1 for _ in range(0, number, unit)) * unit


def remarks(call: Any, tmp: pto.Tile) -> list[str]:
    return [found.expected for found in call(tmp).findings if found.rule == "CP-TMP-01"]


def refused(call: Any, tmp: pto.Tile) -> str:
    """What a refusal of a workspace asks for."""
    with pytest.raises(pto.VerifyError) as refusal:
        call(tmp)
    (found,) = refusal.value.findings
    assert found.rule == "CP-TMP-01"
    return found.expected


def check(call: Any, needed: int, written: int = 0) -> None:
    """A workspace of just the bytes draws no remark on A2/A3, and a smaller one does, or is refused if more bytes are
    written; none elsewhere."""
    with pto.target("a2a3"):
        assert remarks(call, pto.Tile("vec", "uint8", 1, max(up(needed, 32), 32))) == []
        if needed > 32 and needed - 32 < written:
            said = f"of the {written} bytes that the headers write"
            assert refused(call, pto.Tile("vec", "uint8", 1, needed - 32)) == said
        elif needed > 32:
            assert remarks(call, pto.Tile("vec", "uint8", 1, needed - 32)) == [f"at least {needed} bytes"]
    for target in ("cpu", "a5", "host"):
        with pto.target(target):
            assert remarks(call, pto.Tile("vec", "uint8", 1, 32)) == []


@pytest.mark.clause("CP-TMP-01")
@pytest.mark.parametrize("shape", [(16, 64), (32, 32), (8, 96), (33, 32), (17, 64), (64, 32)], ids=str)
@pytest.mark.parametrize("kind", ["int8", "float16", "int32"])
def test_a_transpose_needs_the_columns_as_padded_rows(kind: str, shape: tuple[int, int]) -> None:
    rows, cols = shape
    size, padded = SIZES[kind], up(rows, 32 if SIZES[kind] == 1 else 16)
    dst, src = tile(kind, cols, up(rows, 32), valid=(cols, rows)), tile(kind, rows, cols)
    by_squares = up(rows, 32) % (32 if size == 1 else 16) == 0
    written = by_squares * ((cols - 1) * padded + rows) * size
    check(lambda tmp: pto.ttrans(dst, src, tmp=tmp), cols * padded * size, written)


@pytest.mark.clause("CP-TMP-01")
@pytest.mark.parametrize("name", ["trowsum", "trowmax", "trowmin"])
def test_a_row_reduction_needs_a_tile_like_its_source(name: str) -> None:
    dst, src = tile("float32", 8, 8, valid=(5, 1)), tile("float32", 8, 72, valid=(5, 65))
    check(lambda tmp: getattr(pto, name)(dst, src, tmp=tmp), 8 * 72 * 4)
    one_step = tile("float32", 8, 72, valid=(5, 64))
    check(lambda tmp: getattr(pto, name)(dst, one_step, tmp=tmp), 0)
    with pto.target("a2a3"):  # a step of 64 numbers in each of 5 rows of the workspace
        call = lambda tmp: getattr(pto, name)(dst, src, tmp=tmp)  # noqa: E731
        assert remarks(call, tile("float32", 8, 72)) == []
        assert remarks(call, tile("float32", 5, 64)) == ["at least 2304 bytes"]
        said = "of the 1280 bytes that the headers write"
        assert refused(call, tile("float32", 4, 64)) == said


@pytest.mark.clause("CP-TMP-01")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_sums_of_columns_write_half_of_the_rows(target: str) -> None:
    dst, src = tile("float32", 1, 64), tile("float32", 9, 64)
    with pto.target(target):
        call = lambda tmp: pto.tcolsum(dst, src, tmp=tmp)  # noqa: E731
        assert remarks(call, tile("float32", 4, 64)) == []
        assert refused(call, tile("float32", 3, 64)) == f"of the {4 * 64 * 4} bytes that the headers write"


@pytest.mark.clause("CP-TMP-01")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_merged_lists_write_all_pairs(target: str) -> None:
    dst, lists = tile("float32", 1, 64), [tile("float32", 1, 64), tile("float32", 1, 128, valid=(1, 96))]
    with pto.target(target):
        call = lambda tmp: pto.tmrgsort2(dst, *lists, tmp=tmp)  # noqa: E731
        assert remarks(call, tile("float32", 1, 192)) == []
        assert refused(call, tile("float32", 1, 152)) == f"of the {(64 + 96) * 4} bytes that the headers write"


@pytest.mark.clause("CP-TMP-01")
def test_selections_need_a_row() -> None:
    mask, data = tile("uint8", 4, 32), tile("float32", 4, 16)
    with pto.target("a2a3"):
        assert remarks(lambda tmp: pto.tsel(data, mask, data, data, tmp=tmp), pto.Tile("vec", "uint32", 1, 16)) == []
        small = pto.Tile("vec", "uint32", 1, 8)
        assert remarks(lambda tmp: pto.tsel(data, mask, data, data, tmp=tmp), small) == ["at least 64 bytes"]
        assert remarks(lambda tmp: pto.tsels(data, mask, data, 1, tmp=tmp), small) == []


@pytest.mark.clause("CP-TMP-01")
def test_an_indexed_gather_needs_a_tile_like_its_index() -> None:
    """Of 2-byte elements, in rows as long as the destination's; 4-byte ones are found without."""
    dst, src, idx = tile("float16", 4, 32, valid=(4, 16)), tile("float16", 4, 32), tile("int32", 4, 24, valid=(4, 16))
    with pto.target("a2a3"):
        call = lambda tmp: pto.tgather(dst, src, idx, tmp=tmp)  # noqa: E731
        assert remarks(call, tile("int32", 4, 32)) == []
        assert remarks(call, tile("int32", 4, 28)) == [f"at least {4 * 32 * 4} bytes"]
        assert refused(call, tile("int32", 4, 24)) == f"of the {(3 * 32 + 16) * 4} bytes that the headers write"
        words = tile("float32", 4, 32, valid=(4, 16))
        assert remarks(lambda tmp: pto.tgather(words, tile("float32", 4, 32), idx, tmp=tmp), tile("int32", 1, 8)) == []


@pytest.mark.clause("CP-TMP-01")
@pytest.mark.parametrize(
    "shape", [(1, 16), (1, 640), (1, 4160), (4, 64), (4, 80), (2, 640), (40, 64), (300, 32)], ids=str
)
def test_a_conversion_that_wraps_needs_what_the_documents_allow_at_most(shape: tuple[int, int]) -> None:
    """float16: 256 bytes. float32 to int16: the documents' maximum over all valid extents of the tile."""
    rows, cols = shape
    src, dst = tile("float32", rows, cols), tile("int16", rows, cols)
    with pto.target("a2a3"):
        (said,) = remarks(lambda tmp: pto.tcvt(dst, src, saturation="off", tmp=tmp), tile("uint8", 1, 32))
        needed = int(said.split()[2])
        for narrow in ("int16", "int8"):
            half, out = tile("float16", rows, up(cols, 32)), tile(narrow, rows, up(cols, 32))
            call = lambda tmp, out=out, half=half: pto.tcvt(out, half, saturation="off", tmp=tmp)  # noqa: E731
            assert remarks(call, tile("uint8", 1, 224)) == ["at least 256 bytes"]
            assert remarks(call, tile("uint8", 1, 256)) == []
        assert remarks(lambda tmp: pto.tcvt(dst, src, saturation="on", tmp=tmp), tile("uint8", 1, 32)) == []
    most = max(
        max(256 * min(across // 64, 255), documented_rest(down, across, cols) if across % 64 else 0)
        for down in range(1, rows + 1)
        for across in range(1, cols + 1)
    )
    assert needed == most if cols >= 64 else most <= needed <= 256 + most


def spec(kind: str, rows: int, cols: int) -> TileSpec:
    return TileSpec(dtype(kind), TileType.Vec, rows, cols, rows, cols)


def test_a_workspace_is_a_vec_tile_that_is_valid_as_a_whole() -> None:
    plain, mask = spec("float32", 16, 64), spec("uint8", 16, 32)
    calls = {
        "ttrans": ({"dst": spec("float32", 64, 16), "src": plain}, (), (64, 16)),
        "trowsum": ({"dst": spec("float32", 16, 8), "src": plain}, (), (16, 64)),
        "tsel": ({"dst": plain, "mask": mask, "src0": plain, "src1": plain}, (), (1, 16)),
        "tsels": ({"dst": plain, "mask": mask, "src": plain, "scalar": None}, (), (1, 8)),
        "tcvt": ({"dst": spec("int8", 16, 64), "src": spec("float16", 16, 64)}, (None, Saturation.Off), (1, 256)),
    }
    for name, (operands, modifiers, shape) in calls.items():
        workspace = INSTRUCTIONS[name].workspace
        assert workspace is not None
        needed = workspace.needed(Call(INSTRUCTIONS[name], operands, modifiers, "a2a3"))
        assert needed is not None
        assert (needed.loc, (needed.rows, needed.cols), needed.valid) == (TileType.Vec, shape, shape), name
        assert needed.addr is None and needed.format == "nd"


def documented_rest(rows: int, cols: int, pitch: int) -> int:
    """32*((min(VR,255)-1)*rowStride/8 + ceil((VC%64)/8))"""
    return 32 * ((min(rows, 255) - 1) * pitch // 8 + -(-(cols % 64) // 8))
