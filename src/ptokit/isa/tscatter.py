"""TSCATTER: elements of a tile into another tile, each to the row its index names."""
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.headers import first_64
from ptokit.isa.vocabulary import *

TSCATTER_INDICES = tuple(dtype(name) for name in ("int16", "int32", "uint16", "uint32"))
INDEX_WIDTH = {8: 4, 4: 4, 2: 2, 1: 2}
"""Bytes of an index, by bytes of the data (TS-TYPE-05, -06, -07)."""
TYPES = Table(dict.fromkeys(FAMILIES, frozenset(BASE)))
READINGS: Table[ScatterIndex] = Table({})
"""Targets where the index is always read as this (A-72)."""

CPU = ("A-52",)
"""The decision that gives the simulator the rules of A2/A3 and A5."""

ZEROES_FIRST = Table({"a2a3": True, "a5": True})
"""Targets whose kernel clears the whole destination before a flat scatter."""


@case("row index")
def by_row(call: Call) -> bool:
    """As in the documents: the index is a row number."""
    return call.index is ScatterIndex.Row


def index_width(rule: str, data: int) -> Rule:
    """The index has the width of the data, but at least two bytes."""
    width = INDEX_WIDTH[data]
    return Rule(
        rule, "idx", f"of {width} bytes for {data}-byte data", lambda c: c.idx.dtype.size == width,
        when=Case(f"{data}-byte data",
                  lambda c: c.dst.dtype.size == data and (data < 8 or c.dst.dtype in c.lookup(TYPES))),
        found=lambda c: f"{c.idx.dtype} for {c.dst.dtype}", fix=f"use int{8 * width} or uint{8 * width} indices",
        elsewhere=CPU,
    )  # fmt: skip


def vec_tile(operand: str) -> Rule:
    """TS-LOC-01 for one operand."""
    return routing(
        "TS-LOC-01", operand, "a Vec tile", lambda c: is_tile(c.values[operand], TileType.Vec), kind="H-09",
        elsewhere=CPU, fix=Fix(OpName("tload"), " or ", OpName("tmov"), " the data into a Vec tile first"),
    )  # fmt: skip


def valid_inside(operand: str) -> Rule:
    """TS-SHAPE-01 for one operand."""
    return sized(
        "TS-SHAPE-01", operand, "valid within its padded extents",
        lambda c: (c.values[operand].valid_rows <= c.values[operand].rows
                   and c.values[operand].valid_cols <= c.values[operand].cols), fix=SHRINK, elsewhere=CPU,
    )  # fmt: skip


def unboxed(operand: str) -> Rule:
    """A-52: plain row-major tiles."""
    return Rule(
        "A-52", operand, "RowMajor + NoneBox", lambda c: is_nd_tile(c.values[operand]), kind="H-09", fix=PLAIN_TILE
    )


EXPAND = Fix(
    "no target moves rows of a tile by one index each: ", OpName("tscatter"), " takes a row number for every element, "
    "so repeat the column, ", called("trowexpand", "wide", "idx"), "; or scatter the rows to memory with ",
    called("mscatter"),
)  # fmt: skip
FLAT = option("index", ScatterIndex.Flat)


only_flat = Case("flat only", lambda c: c.lookup(READINGS) is ScatterIndex.Flat)


def is_one_a_row(call: Call) -> bool:
    """Whether an index has one number for each row of the source."""
    return call.src.valid_cols > 1 and call.idx.valid in ((call.src.valid_rows, 1), (1, call.src.valid_rows))


def is_covered(call: Call) -> bool:
    """Every index has an element of the source; flat offsets may be fewer than these."""
    if by_row(call):
        return call.idx.valid == call.src.valid
    return call.idx.valid_rows <= call.src.valid_rows and call.idx.valid_cols <= call.src.valid_cols


RULES = (
    vec_tile("dst"),
    vec_tile("src"),
    vec_tile("idx"),
    data_type("dst", TYPES),
    Rule("TS-TYPE-01", "dst", lambda c: f"one of {names(c.lookup(TYPES))}", lambda c: c.dst.dtype in c.lookup(TYPES),
         found=type_of("dst"), fix="convert the data, or run on the host profile", elsewhere=CPU),
    Rule("TS-TYPE-02", "dst", "of another type than an 8-bit float", lambda c: c.dst.dtype not in (*FLOAT8, HIFLOAT8),
         kind="H-44", found=type_of("dst"), fix="scatter the bytes as uint8", elsewhere=CPU),
    Rule("TS-TYPE-03", "idx", f"one of {names(TSCATTER_INDICES)}", lambda c: c.idx.dtype in TSCATTER_INDICES,
         kind="H-08", found=type_of("idx"), fix="hold the indices in a 16-bit or 32-bit integer tile", elsewhere=CPU),
    Rule("TS-TYPE-03", "idx", "an integer type", lambda c: c.idx.dtype.is_integer, on=error("host"), kind="H-08",
         found=type_of("idx"), blocks="execution", fix="hold the indices in an integer tile", elsewhere=CPU),
    same_type("TS-TYPE-04", "src", "dst", kind="H-08", fix="give both one type", blocks="execution",
              elsewhere=CPU),
    replace(index_width("A-72", 8), on=error("a5")),
    index_width("TS-TYPE-05", 4),
    index_width("TS-TYPE-06", 2),
    index_width("TS-TYPE-07", 1),
    valid_inside("dst"),
    valid_inside("src"),
    valid_inside("idx"),
    extents_positive("A-55", "src", *EVERYWHERE),
    unboxed("dst"),
    unboxed("src"),
    unboxed("idx"),
    anywhere("A-52", "idx", lambda c: f"valid {show_extents(c.src.valid)}, as the source", is_covered,
             found=valid_of("idx"), kind=ByExtent("H-09"),
             fix=lambda c: EXPAND if is_one_a_row(c) else "give the index tile the source's valid shape"),
    anywhere("A-52", "src", lambda c: f"at most {c.dst.valid_cols} valid columns, as the destination",
             lambda c: c.src.valid_cols <= c.dst.valid_cols, when=by_row,
             found=lambda c: f"{c.src.valid_cols} valid columns", kind=ByExtent("H-09"),
             fix="widen the destination's valid region, or shrink the source's"),
    Rule("TS-SEM-01", "idx", "shipping headers take the index as a flat offset and clear the destination first",
         lambda c: not by_row(c), on=note(*NPU), when=~only_flat, fix=Fix(FLAT, " follows the headers")),
    Rule("A-72", "index", "flat, or left out: the headers have no other reading", lambda c: not by_row(c),
         on=error(*NPU), when=only_flat, found="row", fix=Fix("write flat offsets, with ", FLAT)),
)  # fmt: skip


def lower(call: Call) -> tuple[Move, ...]:
    """Row: dst[idx[i, j], j] = src[i, j] (TS-SEM-01). Flat: the index is an element of the padded tile."""
    dst = call.dst
    index = Index(Access("idx", call.idx.layout), Side.DST, IndexUnit.ROW, dst.rows, Remap.REFUSE, cast=is_cast(call))
    place = dst.layout
    if by_row(call):
        index = replace(index, valid=dst.valid)
    elif is_nd_tile(dst):
        index = replace(index, unit=IndexUnit.ELEMENT, capacity=dst.rows * dst.cols, width=dst.cols, valid=dst.valid)
    else:  # a flat offset counts storage, in any layout
        index, place = replace(index, unit=IndexUnit.ELEMENT, capacity=dst.rows * dst.cols), flat()
    move = Move(
        call.src.valid if by_row(call) else call.idx.valid, Access("dst", place), Access("src", call.src.layout), index
    )
    if by_row(call) or not call.lookup(ZEROES_FIRST):
        return (move,)
    return (Move((1, dst.rows * dst.cols), Access("dst", flat()), Fill()), move)


ON_S = Handshake(before=(("V", "S"),), body=("S",), after=(("S", "V"),))
"""The scalar pipe works in the place of the vector pipe: the caller's flags are those of a vector instruction."""


def on_pipe(pipe: str, cost: Cost, handshake: Handshake) -> RouteKernel:
    """One pipe reads and writes every operand."""
    effects = (Effect("src", "read", pipe), Effect("idx", "read", pipe), Effect("dst", "update", pipe))
    return RouteKernel(effects, cost={pipe: cost}, handshake=handshake)


INDEX = Modifier("index", ScatterIndex, always(ScatterIndex.Row), "what the index counts",
                 text=Attribute("index", suffix=True), by_target=READINGS)  # fmt: skip

ROW_LOOP = Cost("scalar loop", accesses=3)
FLAT_LOOP = Cost("scalar loop", accesses=3, zeroed=lambda call, _outside: call.dst.nbytes)


MOST = 2**15
"""Offsets that an index of 16 bits holds."""


def few(operand: str) -> Rule:
    """Flat offsets of an operand's elements fit into the index type."""
    return Rule(
        "TS-SEM-01", operand, f"at most {MOST} elements for 16-bit row indices: the headers take flat offsets",
        lambda c: c.idx.dtype.size > 2 or c.values[operand].elements <= MOST, on=note(*FAMILIES), when=by_row,
        found=lambda c: f"{c.values[operand].elements} elements", fix="scatter into smaller tiles",
    )  # fmt: skip


STEPS: dict[str, tuple[str, Modifiers]] = {
    "scatter": ("tscatter", (ScatterIndex.Flat,)), "count": ("tci", (IotaOrder.Ascending,)), "add": ("tadd", ()),
    "add number": ("tadds", ()), "times number": ("tmuls", ()), "and": ("tand", ()), "or": ("tor", ()),
    "fill": ("texpands", ()), "subtract column": ("trowexpandsub", ()),
}  # fmt: skip
"""The instructions that C++ uses to make flat offsets of rows, and to keep what the headers clear."""

CPP = Cpp(
    unmodelled_any=Table({"a5": frozenset({"int64", "uint64"})}),  # a5/TScatter.hpp:87
    flat=FlatIndex(by_row, ZEROES_FIRST, STEPS),
    headers=(
        replace(first_64("idx", "src"), on=note("a5@2026.08")),
        few("dst"),
        few("idx"),
        Rule("TS-SEM-01", "dst", "another tile than src and idx: the headers take flat offsets, made in a workspace",
             lambda c: not c.repeats, on=note(*FAMILIES), when=by_row, fix="scatter into another tile"),
    ),
    slices=(
        Rule("SL-04", "dst", "a whole tile, as src and idx: row numbers are converted to offsets for whole tiles only",
             lambda _: False, on=note(*FAMILIES), when=by_row, found="slices",
             fix=Fix("copy the slices into tiles of their own first (", called("tmov"), "), or scatter with ", FLAT)),
    ),
)  # fmt: skip
"""The headers use the index as an offset into the tile."""

TSCATTER = Instruction(
    name="tscatter",
    summary="Scatter elements of a tile into another tile, each to the row its index names.",
    meaning=(
        "row:  dst[idx[i, j], j] = src[i, j]         elements that no index names keep their content",
        "flat: dst.storage[idx[i, j]] = src[i, j]    for every index; a2a3 and a5 clear the destination first",
    ),
    operands=(
        Param("dst", "update", "destination tile: Vec", contiguous="always", in_part=True),
        Param("src", "read", "source tile: Vec, of the destination's type"),
        Param("idx", "read", "Vec tile of the source's valid shape; 4-byte for 4-byte data, else 2-byte", role="index"),
    ),
    modifiers=(INDEX,),
    pages=Pages(documents=("CO", "TS")),
    text=OpText(inside=("maskPattern",), listed=True, one_type=True, reordered=True, newer_inside=True),
    spellings={
        "C++": ("TSCATTER(dst, src, idx)", "TSCATTER(dst, src, idx, events...)"),
        "PTO-AS": ("%dst = tscatter %src, %idx : !pto.tile<...>, !pto.tile<...> -> !pto.tile<...>",),
        **Text(("src", "idx")).spellings("tscatter", (INDEX,)),
    },
    rules=RULES,
    lower=lower,
    route=lambda call: f"tscatter.{call.index.text}",
    kernels={
        "a2a3": {"tscatter.row": on_pipe("S", ROW_LOOP, ON_S), "tscatter.flat": on_pipe("S", FLAT_LOOP, ON_S)},
        "a5": dict.fromkeys(("tscatter.row", "tscatter.flat"), on_pipe("V", INDEXED, Handshake())),
    },
    cpp=CPP,
    reports=FaultReports(
        repeats=Repeats(
            levels=hazard(*EVERYWHERE),
            same="H-17",
            folded="H-17",
            targets="cpu, a2a3 and a5 keep the last writer today, but the result is implementation-defined",
        ),
        faults={
            "outside": Fault("TS-HAZ-01", "H-12", "keep indices inside the destination tile"),
            "below": Fault("TS-HAZ-03", "H-12", "keep indices inside the destination tile"),
            "shared": Fault("A-52", None, "scatter into another tile: hardware does not promise this order"),
            "padding": Fault("TS-HAZ-01", "H-12", "keep indices below the valid rows: beyond them lies padding"),
        },
    ),
    destination=Destination(writes_padding=True),
)
