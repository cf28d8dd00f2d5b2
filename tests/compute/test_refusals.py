"""Every type, extent and corner that an instruction does not take is refused, and every one that it takes is not."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import ptokit as pto
from tests.compute.tables import EVERY, TARGETS, TYPES, types
from tests.loops import FULL, over

UNARY = {"tabs", "tneg", "texp", "tlog", "tsqrt", "trecip", "trsqrt", "trelu", "tnot", "ttrans"}


def tile(kind: str, rows: int = 32, cols: int = 32, **options) -> pto.Tile:
    made = pto.Tile("vec", kind, rows, cols, **options)
    made.storage.bits[:] = 1
    return made


def operands_of(name: str, kind: str, target: str) -> list[pto.Tile | int]:
    """Operands that a call takes where the target has the type."""
    mask = "uint32" if target == "a5" else "uint8"
    column = tile(kind, 32, 1, blayout="col_major")
    operands = {
        "tcmp": [tile(mask), tile(kind), tile(kind)],
        "tcmps": [tile(mask), tile(kind), 1],
        "tsel": [tile(kind), tile(mask), tile(kind), tile(kind)],
        "tsels": [tile(kind), tile(mask), tile(kind), 1],
        "texpands": [tile(kind), 1],
        "tci": [tile(kind, 1), 1],
        "ttri": [tile(kind), 0],
        "taxpy": [tile(kind), tile(kind), 1],
        "tconcat": [tile(kind), tile(kind, valid=(32, 10)), tile(kind, valid=(32, 22))],
        "tgather": [tile(kind), tile(kind), tile("int32")],
    }
    if name.startswith("tfillpad"):
        given = [tile(kind, pad="zero"), tile(kind)]
    elif name in ("trowexpand", "tcolexpand"):
        given = [tile(kind), column if name == "trowexpand" else tile(kind, 1)]
    elif name.startswith("tcolexpand"):
        given = [tile(kind), tile(kind), tile(kind, 1)]
    elif name.startswith("trowexpand"):
        given = [tile(kind), tile(kind), column]
    elif name in operands:
        given = operands[name]
    elif "arg" in name:
        given = [tile("int32"), tile(kind)]
    elif name.startswith(("trow", "tcol")) or name in UNARY:
        given = [tile(kind), tile(kind)]
    elif name.endswith("s") or name == "tlrelu":
        given = [tile(kind), tile(kind), 1]
    else:
        given = [tile(kind), tile(kind), tile(kind)]
    return given


def call(name: str, kind: str, target: str) -> pto.Event:
    return getattr(pto, name)(*operands_of(name, kind, target))


@over("target", TARGETS)
@pytest.mark.parametrize("name", TYPES)
def test_types(target: str, name: str) -> None:
    with pto.target(target):
        for kind in EVERY:
            if kind in types(name, target):
                call(name, kind, target)
                continue
            with pytest.raises((pto.VerifyError, TypeError)) as refusal:
                call(name, kind, target)
            if isinstance(refusal.value, pto.VerifyError):
                (finding,) = refusal.value.findings
                assert finding.rule.endswith("-02") and kind in finding.message


def products_operands(name: str) -> list[pto.Tile]:
    left, right = pto.Tile("left", "float16", 16, 16).write(1), pto.Tile("right", "float16", 16, 16).write(1)
    dst, acc = (pto.Tile("acc", "float32", 16, 16).write(1) for _ in range(2))
    bias = pto.Tile("bias", "float32", 1, 16).write(1)
    return {"tmatmul": [dst, left, right], "tmatmul_acc": [dst, acc, left, right],
            "tmatmul_bias": [dst, left, right, bias]}[name]  # fmt: skip


@over("target", TARGETS)
@pytest.mark.parametrize("name", [*TYPES, "tmatmul", "tmatmul_acc", "tmatmul_bias"])
def test_every_tile_must_be_a_tile_of_the_right_type(target: str, name: str) -> None:
    """One operand at a time is an array, or, where others have its type, is of another type."""
    with pto.target(target):
        in_cube = name.startswith("tmatmul")
        given = products_operands(name) if in_cube else operands_of(name, types(name, target)[0], target)
        getattr(pto, name)(*given)
        tiles = [(k, each) for k, each in enumerate(given) if isinstance(each, pto.Tile)]
        for k, each in tiles:
            kind = "float16" if each.dtype.name != "float16" else "float32"
            order = "col_major" if each.shape[1] == 1 else each.spec.blayout
            other = pto.Tile(each.spec.loc.text, kind, *each.shape, blayout=order, pad=each.spec.pad, valid=each.valid)
            is_bound = len(tiles) > 1 and (name, k) not in (("tcmps", 1), ("taxpy", 0)) and not (k and "arg" in name)
            # a comparison with a number, and a search, take many types
            for wrong in (pto.GlobalTensor(np.zeros(each.shape, "float32")), *[other] * is_bound):
                with pytest.raises((pto.VerifyError, TypeError)):
                    getattr(pto, name)(*given[:k], wrong, *given[k + 1 :])


@pytest.mark.parametrize("name", ["tadd", "tcmp", "trowsum", "tmatmul", "textract"])
def test_arrays_are_not_tiles(name: str) -> None:
    array = np.zeros((16, 16), "float32")
    count = 2 if name in ("trowsum", "textract") else 3
    with pytest.raises(TypeError, match="wrap the array"):
        getattr(pto, name)(*[array] * count)
    with pytest.raises(pto.VerifyError):
        getattr(pto, name)(*[pto.GlobalTensor(array)] * count)


def test_comparisons_ask_for_equality_by_default() -> None:
    for compare in (pto.tcmp, pto.tcmps):
        masks = [tile("uint8"), tile("uint8")]
        a = pto.Tile("vec", "float32", 32, 32).write(np.arange(1024).reshape(32, 32) % 3)
        b = pto.Tile("vec", "float32", 32, 32).write(1) if compare is pto.tcmp else 1
        compare(masks[0], a, b)
        compare(masks[1], a, b, "eq")
        assert (masks[0].read() == masks[1].read()).all() and (masks[0].read() % 8 == 2).any()


def test_modes_are_names_or_members() -> None:
    mask, a = tile("uint8"), tile("float32")
    pto.tcmp(mask, a, a, pto.CmpMode.GE)
    for bad in ("almost", 3, pto.RoundMode.Floor):
        with pytest.raises(pto.VerifyError):
            pto.tcmp(mask, a, a, bad)  # type: ignore[arg-type]


def test_headers_let_layouts_through_only_where_they_do_not_assert() -> None:
    with pto.target("a5", header=True), pytest.raises(pto.VerifyError):
        pto.tadd(tile("float32", blayout="col_major"), tile("float32"), tile("float32"))


def test_a_type_error_leaves_the_destination_alone() -> None:
    dst = tile("float32")
    with pytest.raises(pto.VerifyError):
        pto.tadd(dst, tile("float32"), tile("int32"))
    assert (dst.storage.bits == 1).all()


INDEX_TYPES = {
    "cpu": ("int16", "uint16", "int32", "uint32"),
    "a2a3": ("int32", "uint32"),
    "a5": ("int16", "uint16", "int32", "uint32"),
    "host": ("int16", "uint16", "int32", "uint32", "int64", "uint64"),
}


@pytest.mark.clause("CP-GAT-02")
@pytest.mark.parametrize("target", INDEX_TYPES)
def test_index_types_of_a_gather_between_tiles(target: str) -> None:
    """Four bytes on A2/A3, two or four elsewhere; the host takes wider ones too."""
    with pto.target(target):
        for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32"):
            tiles = tile("float16"), tile("float16"), tile(kind)
            if kind in INDEX_TYPES[target]:
                pto.tgather(*tiles)
                continue
            with pytest.raises(pto.VerifyError) as refusal:
                pto.tgather(*tiles)
            assert {finding.rule for finding in refusal.value.findings} <= {"CP-GAT-02", "CO-TYPE-03"}, kind


LONGEST = 4095
"""The most valid rows and columns of a product."""
TOO_LARGE = "A-38"
"""On-chip memories do not hold all tiles of such products."""


@pytest.mark.clause("CP-MM-02")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["tmatmul", "tmatmul_acc", "tmatmul_bias"])
def test_extents_of_products_end_at_4095(target: str, name: str) -> None:
    """The longest product has a result; of one more row or column, just the operands that have it are refused."""
    for axis, extent in product("mkn", (LONGEST - 1, LONGEST, LONGEST + 1)):
        whole = {"m": 16, "k": 32, "n": 32, axis: LONGEST + 1}
        m, k, n = ({"m": 2, "k": 3, "n": 4} | {axis: extent}).values()
        with pto.target(target):
            left = pto.Tile("left", "int8", whole["m"], whole["k"], valid=(m, k)).write(1)
            right = pto.Tile("right", "int8", whole["k"], whole["n"], valid=(k, n)).write(2)
            dst, acc = (pto.Tile("acc", "int32", whole["m"], whole["n"], valid=(m, n)).write(7) for _ in range(2))
            bias = pto.Tile("bias", "int32", 1, whole["n"], valid=(1, n)).write(7)
            given = {"tmatmul": (left, right), "tmatmul_acc": (acc, left, right), "tmatmul_bias": (left, right, bias)}
            try:
                getattr(pto, name)(dst, *given[name])
                found = []
                assert (dst.read() == 2 * k + (0 if name == "tmatmul" else 7)).all()
            except pto.VerifyError as refusal:
                assert (dst.read() == 7).all()
                found = [(each.rule, each.operand) for each in refusal.findings if each.rule != TOO_LARGE]
                assert found or target in ("a2a3", "a5")
        assert found == ([("CP-MM-02", "b" if axis == "n" else "a")] if extent > LONGEST else [])


CORNERS = (0, 1, 15, 16, 17, 24, 31, 32, 33, 39, 40, 41)
"""Rows about where fractals begin, and where the last windows do."""
FRACTAL = {"mat": {"blayout": "col_major", "slayout": "row_major"}}


@pytest.mark.clause("CP-EXT-01")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("src", "dst"), [("mat", "left"), ("vec", "vec")])
@pytest.mark.parametrize("kind", ["int8", "float16", "float32"])
def test_corners_of_windows(target: str, src: str, dst: str, kind: str) -> None:
    """A window ends at the last valid row and column at the latest, of L1 on the NPU at the last ones; there it begins
    at a block or a fractal, but for rows in UB on A5."""
    rows, cols, block = 40, 90, 32 // np.dtype(kind).itemsize
    last = (48, 96) if src == "mat" and target in ("a2a3", "a5") else (rows, cols)
    with pto.target(target):
        source = pto.Tile(src, kind, 48, 96, valid=(rows, cols), **FRACTAL.get(src, {})).write(1)
        window = pto.Tile(dst, kind, 32, 32, valid=(8, 26))
        for row in range(42) if FULL else CORNERS:
            for col in (0, 1, block // 2, block, block + 1, 2 * block, 63, 64, 65, 70, 71):
                expected = ["large enough"] if row + 8 > last[0] or col + 26 > last[1] else []
                starts = (src, target) == ("vec", "a5") or (col % block == 0 and (src == "vec" or row % 16 == 0))
                expected += ["cut at"] if target in ("a2a3", "a5") and not starts else []
                try:
                    pto.textract(window, source, row, col)
                    found = []
                except pto.VerifyError as refusal:
                    found = [each.message for each in refusal.findings]
                assert len(found) == len(expected), (row, col, found)
                assert all(part in message for part, message in zip(expected, found, strict=True)), (row, col, found)


@pytest.mark.clause("CP-MM-01", "CP-MM-02", "CP-MM-03")
@pytest.mark.parametrize("target", TARGETS)
def test_addends_of_products_have_the_form_extents_and_type_of_the_result(target: str) -> None:
    """Each operand is wrong in one way, and just the rule about it says so."""
    wrong = {
        "tmatmul_acc": (1, "acc", [
            ("CP-MM-01", "vec", "float32", 16, 16, {}),
            ("CP-MM-01", "acc", "float32", 16, 16, {"fractal": 512}),
            ("CP-MM-01", "acc", "float32", 16, 16, {"slayout": "none_box"}),
            ("CP-MM-02", "acc", "float32", 32, 16, {"valid": (16, 16)}),
            ("CP-MM-02", "acc", "float32", 16, 32, {"valid": (16, 16)}),
            ("CP-MM-03", "acc", "int32", 16, 16, {}),
        ]),
        "tmatmul_bias": (3, "bias", [
            ("CP-MM-01", "vec", "float32", 1, 16, {}),
            ("CP-MM-01", "bias", "float32", 1, 16, {"blayout": "col_major"}),
            ("CP-MM-02", "bias", "float32", 1, 32, {"valid": (1, 15)}),
            ("CP-MM-02", "bias", "float32", 8, 16, {"valid": (1, 16)}),
            ("CP-MM-02", "bias", "float32", 8, 16, {"valid": (8, 16)}),
            ("CP-MM-03", "bias", "int32", 1, 16, {}),
        ]),
    }  # fmt: skip
    with pto.target(target):
        for name, (k, addend, others) in wrong.items():
            for rule, loc, kind, rows, cols, options in others:
                given = products_operands(name)
                given[k] = pto.Tile(loc, kind, rows, cols, **options).write(1)
                with pytest.raises(pto.VerifyError) as refusal:
                    getattr(pto, name)(*given)
                found = [(finding.rule, finding.operand) for finding in refusal.value.findings]
                assert found == [(rule, addend)], (name, loc, kind, rows, cols, options)
