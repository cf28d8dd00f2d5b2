"""Every type that an instruction does not take is refused, and every one that it takes is not."""

from __future__ import annotations

import numpy as np
import pytest

import ptokit as pto
from tests.compute.tables import EVERY, TARGETS, TYPES, types


def tile(kind: str, rows: int = 32, cols: int = 32, **options) -> pto.Tile:
    made = pto.Tile("vec", kind, rows, cols, **options)
    made.storage.bits[:] = 1
    return made


def call(name: str, kind: str, target: str) -> pto.Event:
    mask = "uint32" if target == "a5" else "uint8"
    column = tile(kind, 32, 1, blayout="col_major")
    operands = {
        "tcmp": [tile(mask), tile(kind), tile(kind)],
        "tcmps": [tile(mask), tile(kind), 1],
        "tsel": [tile(kind), tile(mask), tile(kind), tile(kind)],
        "tsels": [tile(kind), tile(mask), tile(kind), 1],
        "texpands": [tile(kind), 1],
        "tci": [tile(kind, 1), 1],
        "tgather": [tile(kind), tile(kind), tile("int32")],
    }
    if name in ("trowexpand", "tcolexpand"):
        given = [tile(kind), column if name == "trowexpand" else tile(kind, 1)]
    elif name.startswith("tcolexpand"):
        given = [tile(kind), tile(kind), tile(kind, 1)]
    elif name.startswith("trowexpand"):
        given = [tile(kind), tile(kind), column]
    elif name in operands:
        given = operands[name]
    elif name.startswith(("trow", "tcol")) or name in ("tabs", "tneg", "texp", "tlog", "tsqrt", "trecip", "ttrans"):
        given = [tile(kind), tile(kind)]
    elif name.endswith("s"):
        given = [tile(kind), tile(kind), 1]
    else:
        given = [tile(kind), tile(kind), tile(kind)]
    return getattr(pto, name)(*given)


@pytest.mark.parametrize("target", TARGETS)
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


@pytest.mark.parametrize("name", ["tadd", "tcmp", "trowsum", "tmatmul", "textract"])
def test_arrays_are_not_tiles(name: str) -> None:
    array = np.zeros((16, 16), "float32")
    count = 2 if name in ("trowsum", "textract") else 3
    with pytest.raises(TypeError, match="wrap the array"):
        getattr(pto, name)(*[array] * count)
    with pytest.raises(pto.VerifyError):
        getattr(pto, name)(*[pto.GlobalTensor(array)] * count)


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
