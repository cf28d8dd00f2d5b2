"""The tile of a result that a text does not describe (A-26), and modifiers that it leaves out."""

from __future__ import annotations

import inspect
from itertools import product
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TensorSpec, TileSpec
from ptokit.isa.policy import (
    AccToVec,
    Asymmetric,
    BLayout,
    CmpMode,
    Coalesce,
    Dividend,
    GatherOOB,
    GlobalLayout,
    HistByte,
    IotaOrder,
    MaskPattern,
    MergeEnd,
    Pad,
    PtoEnum,
    ReluMode,
    RoundMode,
    Saturation,
    ScatterAtomicOp,
    ScatterConflict,
    ScatterIndex,
    ScatterOOB,
    SLayout,
    StoreAtomic,
    Symmetric,
    TileType,
    Triangle,
)
from ptokit.isa.unknown import unknown
from ptokit.text.spelling import default_of, result_type

ROW, ELEM = {"coalesce": "row"}, {"coalesce": "elem"}


def table(rows: int, width: Any, kind: str = "float32") -> TensorSpec:
    return TensorSpec(dtype(kind), (1, 1, 1, rows, width), (rows * 8, rows * 8, rows * 8, 8, 1), GlobalLayout.ND)


def index(rows: int, cols: int, *valid: int, **options: Any) -> TileSpec:
    return TileSpec(dtype("int32"), TileType.Vec, rows, cols, *(valid or (rows, cols)), **options)


def is_plain(tile: TileSpec) -> bool:
    return (tile.loc, tile.blayout, tile.slayout, tile.pad) == (
        TileType.Vec, BLayout.RowMajor, SLayout.NoneBox, Pad.Null,
    )  # fmt: skip


@pytest.mark.clause("A-26")
@pytest.mark.parametrize("kind", ["float32", "int16", "uint8"])
@pytest.mark.parametrize(("down", "across", "used"), [(1, 8, 8), (1, 8, 3), (8, 1, 8), (8, 1, 5), (1, 1, 1)])
def test_a_gather_of_rows_has_a_row_for_each_index(down: int, across: int, used: int, kind: str) -> None:
    valid = (1, used) if down == 1 else (used, 1)
    found = result_type("mgather", [table(100, 24, kind), index(down, across, *valid)], ROW)
    assert found is not None and is_plain(found)
    assert (found.dtype.name, found.rows, found.cols) == (kind, max(down, across), 24)
    assert (found.valid, found.dynamic) == ((used, 24), (False, False))


@pytest.mark.clause("A-26")
@pytest.mark.parametrize("dynamic", list(product((False, True), repeat=2)))
def test_a_gather_of_elements_has_the_shape_of_its_index(dynamic: tuple[bool, bool]) -> None:
    found = result_type("mgather", [table(100, 24, "float16"), index(4, 16, 3, 7, dynamic=dynamic)], ELEM)
    assert found is not None and is_plain(found)
    assert (found.dtype.name, found.rows, found.cols, found.valid) == ("float16", 4, 16, (3, 7))
    assert found.dynamic == dynamic


@pytest.mark.clause("A-26")
def test_what_the_sources_leave_open_is_not_inferred() -> None:
    assert result_type("mgather", [table(100, unknown()), index(1, 8)], ROW) is None
    assert result_type("mgather", [table(100, 24), index(2, 8)], ROW) is None
    assert result_type("mgather", [table(100, 24), index(1, 8, 1, 8, dynamic=(False, True))], ROW) is None
    assert result_type("mgather", [table(100, 24), index(8, 1, 8, 1, dynamic=(True, False))], ROW) is None
    assert result_type("mgather", [table(100, 24), table(1, 8, "int32")], ROW) is None
    assert result_type("mgather", [index(8, 8), index(1, 8)], ROW) is None


@pytest.mark.clause("A-26")
@pytest.mark.parametrize("name", ["tadd", "tadds", "tneg", "tshl"])
def test_arithmetic_has_the_type_of_its_first_tile(name: str) -> None:
    first, second = index(4, 16, 3, 7), index(4, 16, 4, 16)
    assert result_type(name, [first, second], {}) == first


DEFAULTS: dict[tuple[str, str], PtoEnum | None] = {
    ("mgather", "coalesce"): Coalesce.Row,  # MG-MODE-02
    ("mgather", "oob"): GatherOOB.Undefined,  # MG-API-01
    ("mgather", "executor"): None,
    ("mscatter", "coalesce"): Coalesce.Row,  # an index of one column, as below
    ("mscatter", "atomic"): ScatterAtomicOp.NONE,  # MS-ATOM-01, MS-API-02
    ("mscatter", "oob"): ScatterOOB.Undefined,
    ("mscatter", "conflict"): ScatterConflict.Default,
    ("tscatter", "index"): ScatterIndex.Row,
    **dict.fromkeys((("tstore", "atomic"), ("tstore_fp", "atomic")), StoreAtomic.NONE),
    **{
        (f"{name}{end}", "relu"): ReluMode.NONE
        for name in ("tstore", "tmov", "textract", "tinsert")
        for end in ("", "_fp")
    },
    **dict.fromkeys((("tmov", "acc_to_vec"), ("tmov_fp", "acc_to_vec")), AccToVec.Vec0),
    ("thistogram", "byte"): HistByte.BYTE_3,  # the highest of four
    ("tdivs", "dividend"): Dividend.Tile,
    ("tci", "order"): IotaOrder.Ascending,
    ("ttri", "half"): Triangle.Lower,
    **dict.fromkeys((("tcmp", "mode"), ("tcmps", "mode")), CmpMode.EQ),
    ("tcvt", "round"): RoundMode.Rint,
    ("tcvt", "saturation"): Saturation.On,
    ("tgather_mask", "pattern"): MaskPattern.P1111,
    **{(f"tmrgsort{count}", "end"): MergeEnd.Merged for count in (2, 3, 4)},
    ("tquant", "quant"): Symmetric.INT8_SYM,
    ("tquant_asym", "quant"): Asymmetric.INT8_ASYM,
}


@pytest.mark.clause("MG-L1-05", "MG-L1-06")
def test_a_gather_with_a_scratch_moves_elements() -> None:
    coalesce = INSTRUCTIONS["mgather"].modifiers[0]
    sources = [table(100, 24), table(8, 16, "int32")]
    assert default_of(INSTRUCTIONS["mgather"], coalesce, sources) is Coalesce.Row
    assert default_of(INSTRUCTIONS["mgather"], coalesce, [*sources, table(8, 16)]) is Coalesce.Elem


def test_modifiers_that_are_left_out() -> None:
    listed = {(name, each.name): each for name, instruction in INSTRUCTIONS.items() for each in instruction.modifiers}
    assert listed.keys() == DEFAULTS.keys()
    sources = {"mgather": [table(100, 24), index(1, 8)], "mscatter": [index(8, 16), index(8, 1), table(100, 24)]}
    for (name, which), modifier in listed.items():
        given = sources.get(name, [index(8, 16), index(8, 16)])
        found = default_of(INSTRUCTIONS[name], modifier, given)
        assert found is DEFAULTS[name, which], (name, which)
        in_python = inspect.signature(getattr(pto, name)).parameters.get(which)
        if in_python and in_python.default not in (None, in_python.empty):
            assert in_python.default is DEFAULTS[name, which], (name, which)


@pytest.mark.parametrize("form", [(1, 16, BLayout.RowMajor), (16, 1, BLayout.ColMajor)], ids=["row", "column"])
def test_a_run_of_elements_is_stored_to_a_tensor_that_holds_all_of_them(form: tuple[int, int, BLayout]) -> None:
    rows, cols, layout = form
    tile = pto.Tile("vec", "float32", rows, cols, blayout=layout).write(1)
    for shape in ((16,), (4, 4)):
        pto.tstore(pto.GlobalTensor(array := np.zeros(shape, "f4")), tile)
        assert (array == 1).all()
    with pytest.raises(pto.VerifyError, match="TT-01"):
        pto.tstore(pto.GlobalTensor(np.zeros(15, "f4")), tile)
