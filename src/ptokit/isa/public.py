"""What the headers and pages of the public repository have otherwise than the documents (A-72): by revision and family,
each difference with the line that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ptokit.isa import mscatter, reduce, tscatter
from ptokit.isa.common import LONG, SCATTER_TYPES, is_elem, types
from ptokit.isa.dtype import HIFLOAT8
from ptokit.isa.elementwise import TCI
from ptokit.isa.instruction import Call
from ptokit.isa.kernel import Cost, RouteKernel, elem_launch, padded_launch, row_launch, slot_launch
from ptokit.isa.mgather import ONE_FLAGS, TAKES_ANY_LAYOUT
from ptokit.isa.policy import Coalesce, ScatterAtomicOp, ScatterConflict, ScatterIndex
from ptokit.isa.table import Difference, Revision, Table
from ptokit.isa.unknown import certain


def differs(
    instruction: str,
    text: str,
    source: str,
    tables: Mapping[Table[Any], Any] | None = None,
    *,
    dropped: str = "",
    kernels: Mapping[str, RouteKernel] | None = None,
) -> Difference:
    """A row; `dropped` are ids of rules."""
    changes = Revision(tables or {}, frozenset(dropped.split()), kernels=kernels or {})
    return Difference(instruction, text, source, changes)


def nz_suffix(call: Call) -> str:
    """NZ tables have kernels of their own on A2/A3."""
    return ".nz" if mscatter.into_nz(call) else ""


def a5_suffix(call: Call) -> str:
    """A single element goes through the scalar pipe; for the last writer, the lanes of the table search."""
    if is_elem(call) and certain(lambda: call.src.valid == (1, 1)):
        return ".scalar"
    is_last = call.atomic is ScatterAtomicOp.NONE and call.conflict is ScatterConflict.Last
    return ".last" if is_last else ""


NZ_KERNELS = {
    f"{route}.nz": replace(kernel, lower=mscatter.lower_nz, rows=None) for route, kernel in mscatter.A2A3.items()
}
ROW, ELEM = replace(mscatter.SIMT, launch=row_launch), replace(mscatter.SIMT, launch=elem_launch, by_element=True)
SIMT_KERNELS = {
    "mscatter.row": ROW,
    "mscatter.elem": ELEM,
    "mscatter.row.last": replace(ROW, launch=slot_launch, launched="table"),
    "mscatter.elem.last": replace(ELEM, launch=padded_launch, launched="table"),
    "mscatter.elem.scalar": RouteKernel(
        mscatter.touches("S", "S", "S"), handshake=ONE_FLAGS, cost={"S": Cost("element scatter")}, by_element=True
    ),
}

STATE_2026_08 = "2026-08-21, hw-native-sys/pto-isa 3186c381"
A2A3, A5, PAGES = "include/pto/npu/a2a3", "include/pto/npu/a5", "docs/isa"
ADD_TYPES = ("int8", "int16", "int32", "float16", "bfloat16", "float32")
MODES = {mscatter.MODES: Coalesce.Row}
BY_SHAPE = "MS-MODE-04 A-05 MS-SHAPE-01"
STATED = "the mode is stated, not given by the index shape, and Row if it is not; a row index is valid"
FLAT = "the index is a flat offset into the destination's storage, never a row number; flat is the default"

A2A3_2026_08 = (
    differs("mscatter", f"{STATED} [1, R]", f"{A2A3}/MScatter.hpp:460, 478",
            {**MODES, mscatter.ROW_INDEX: (mscatter.line,)}, dropped=BY_SHAPE),
    differs("mscatter", "the index is row-major without boxes; a ColMajor column is refused",
            f"{A2A3}/MScatter.hpp:413", {mscatter.TILE_FORMATS: (("nd",), ("nd",))}),
    differs("mscatter", "tables with outer dims: an index counts the rows of all of them, Stride[3] apart",
            f"{A2A3}/MScatter.hpp:518", dropped="MS-SHAPE-02"),
    differs("mscatter", "row: a source may be narrower than the table, whose other columns stay",
            f"{A2A3}/MScatter.hpp:222", dropped="A-19"),
    differs("mscatter", "NZ tiles into NZ tables: rows with every logical column, elements by block columns",
            f"{A2A3}/MScatter.hpp:251, 348, 423", {mscatter.NZ_TABLES: True, mscatter.SUFFIXES: nz_suffix},
            kernels=NZ_KERNELS),
    differs("mscatter", "atomic add for int8, int16 and bfloat16, too; not for uint32", f"{A2A3}/MScatter.hpp:29",
            dict.fromkeys((mscatter.ADD_TYPES, mscatter.HEADER_ADD_TYPES), ADD_TYPES)),
    differs("mscatter", "no atomic max and min", f"{A2A3}/MScatter.hpp:447", {mscatter.ORDER_TYPES: ()}),
    differs("mscatter", "repeated destinations are defined: the kernel is sequential, and the last writer wins",
            f"{PAGES}/MSCATTER.md:52; {A2A3}/MScatter.hpp:225, 327", {mscatter.IN_ORDER: True}, dropped="MS-CONF-02"),
    differs("mscatter", "atomic add and the policies for indices outside are documented for A2/A3",
            f"{PAGES}/MSCATTER.md:60; {A2A3}/MScatter.hpp:478", dropped="A-18"),
    differs("tscatter", FLAT, f"{A2A3}/TScatter.hpp:52", {tscatter.READINGS: ScatterIndex.Flat}),
)  # fmt: skip
A5_2026_08 = (
    differs("mscatter", f"{STATED} [1, R] or [R, 1]", f"{A5}/MScatter.hpp:453, 483",
            {**MODES, mscatter.ROW_INDEX: (mscatter.line, mscatter.column)}, dropped=BY_SHAPE),
    differs("mscatter", "source and index may be ColMajor, without boxes",
            f"{PAGES}/MSCATTER.md:291; {A5}/MScatter.hpp:98", {mscatter.TILE_FORMATS: (("nd", "dn"), ("nd", "dn"))},
            dropped="CO-LAY-06"),
    differs("mscatter", "tables with outer dims: a row index counts Shape[3] only, an element index all elements",
            f"{A5}/MScatter.hpp:507, 519", {mscatter.TABLE_ROWS: mscatter.inner_rows}, dropped="MS-SHAPE-02"),
    differs("mscatter", "hifloat8, too", f"{A5}/MScatter.hpp:27", {SCATTER_TYPES: SCATTER_TYPES["a5"] | {HIFLOAT8}},
            dropped="MS-TYPE-04"),
    differs("mscatter", "atomic add for bfloat16, too", f"{A5}/MScatter.hpp:36",
            {mscatter.ADD_TYPES: (*mscatter.ADD_TYPES["a5"], "bfloat16")}),
    differs("mscatter", "atomic max and min for uint32, too", f"{A5}/MScatter.hpp:38",
            {mscatter.ORDER_TYPES: (*mscatter.ORDER_TYPES["a5"], "uint32")}),
    differs("mscatter", "ScatterConflict is Last by default, so that repeated destinations are defined",
            f"{A5}/MScatter.hpp:484", {mscatter.CONFLICTS: ScatterConflict.Last}),
    differs("mscatter", "as many threads as the source needs, or with Last the table; one element by the scalar pipe",
            f"{A5}/MScatter.hpp:313, 322, 349, 361, 524", {mscatter.SUFFIXES: a5_suffix}, kernels=SIMT_KERNELS),
    differs("tscatter", FLAT, f"{A5}/TScatter.hpp:75", {tscatter.READINGS: ScatterIndex.Flat}),
    differs("tscatter", "int64 and uint64, too, with an index of 4 bytes", f"{A5}/TScatter.hpp:87, 95",
            {tscatter.TYPES: tscatter.TYPES["a5"] | LONG}),
    differs("tci", "without a workspace, a loop of the scalar pipe", f"{A5}/Tci.hpp:41",
            kernels={"tci": TCI.kernels["a2a3"]["tci"]}),
    differs("mgather", "into L1: the header, too, refuses tables that are not Layout::ND", f"{A5}/MGather.hpp:461",
            {TAKES_ANY_LAYOUT: False}),
    differs("trowexpandsub", "int8 and uint8, too", f"{A5}/TRowExpandSub.hpp:72; {PAGES}/TROWEXPANDSUB.md:82",
            {reduce.ROW_SUB_TYPES: reduce.ROW_SUB_TYPES["a5"] | types("i8 u8")}),
    differs("trowexpanddiv", "int8, uint8 and bfloat16, too",
            f"{A5}/TRowExpandDiv.hpp:85; {PAGES}/TROWEXPANDDIV.md:82",
            {reduce.ROW_DIV_TYPES: reduce.ROW_DIV_TYPES["a5"] | types("i8 u8 bf16")}),
)  # fmt: skip
