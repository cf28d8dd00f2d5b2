"""Rows reduced to a column, a column spread over rows, transposition, and gathering inside UB."""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptokit.finding import Fix, OpName, called
from ptokit.isa.elementwise import DIV_TYPES, DST
from ptokit.isa.headers import CLAUSE, SIMULATED, first_64, one_register, typed_in_headers
from ptokit.isa.vocabulary import *

SUM_TYPES = by_target(a2a3=B4, a5=B4 | LONG)
BEST_TYPES = by_target(a2a3=B4, a5=B4 | LONG | NARROW)

PROD_TYPES = by_target(a2a3=B4, a5=B4)

SUM_CPP = Cpp(
    headers=(
        typed_in_headers("src", {"cpu": "i16 i32 f16 bf16 f32"}),
        first_64("src"),
        Rule(CLAUSE, "dst", lambda c: f"of {c.src.rows} rows, as src: the headers compare storage",
             lambda c: c.dst.rows == c.src.rows, on=hazard("cpu"), found=lambda c: f"{c.dst.rows} rows",
             fix="give dst as many rows as src"),
    ),
)  # fmt: skip

REDUCTIONS = (
    OpRow("trowsum", "Sum every row.",
        "dst[i, 0] = src[i, 0] + src[i, 1] + ...    in this order, in float32, rounded once",
        SUM_TYPES, "rowsum", in_place=(), cpp=SUM_CPP),
    OpRow("trowprod", "Multiply the elements of every row.",
        "dst[i, 0] = src[i, 0] * src[i, 1] * ...    in this order, every product rounded; integers wrap",
        PROD_TYPES, "rowprod", in_place=()),
    OpRow("trowmax", "The largest element of every row.",
        "dst[i, 0] = the largest of src[i, :]    a leading NaN stays, a later one loses", BEST_TYPES, "rowmax",
        in_place=(), cpp=one_register("src")),
    OpRow("trowmin", "The smallest element of every row.",
        "dst[i, 0] = the smallest of src[i, :]    a leading NaN stays, a later one loses", BEST_TYPES, "rowmin",
        in_place=(), cpp=one_register("src")),
)  # fmt: skip


def _halves(call: Call) -> int:
    """Half as many rows as are summed (a2a3/TColSum.hpp:77, a5/TColSum.hpp:70)."""
    count, size = call.src.valid_rows // 2, call.src.dtype.size
    return ((count - 1) * call.tmp.stride + call.src.valid_cols) * size if count else 0


BY_HALVES = Workspace(1, used=BOTH_USE_WORKSPACE, touched=_halves)
"""Sums of pairs of rows, which A5 keeps in the workspace as well."""
ONE_ROW = "a plain Vec tile of one row or more; row 0 is written"
THROUGH_FLOAT = Fix(
    "convert with ", OpName("tcvt"), " first (bfloat16: to float32), reduce, and convert the result back"
)


def is_column(tile: TileSpec) -> bool:
    """Row-major, or column-major with one column."""
    return tile.format == "nd" or (tile.format == "dn" and tile.cols == 1)


def column_form(clause: str) -> Rule:
    """A column may be stored as one."""
    return Rule(clause, "dst", "RowMajor + NoneBox, or ColMajor of one column", lambda c: is_column(c.dst),
                fix=AS_COLUMN)  # fmt: skip


def exceeds_a_step(call: Call) -> bool:
    """Rows that are longer than a step of the vector unit."""
    return call.src.valid_cols * call.src.dtype.size > 256


def is_one_step(call: Call) -> bool:
    """Other rows."""
    return not exceeds_a_step(call)


def _first_steps(call: Call) -> int:
    """The first step of each row, in rows of the workspace (TRowReduceOps.hpp:296, 305). Integers are reduced by scalar
    code, four shapes in another way (TRowReduceOps.hpp:244)."""
    rows, cols = call.src.valid
    is_other = call.src.dtype.is_integer or not exceeds_a_step(call) or rows * cols == 8192
    return (
        0
        if is_other or call.tmp.dtype.size != call.src.dtype.size
        else (rows - 1) * call.tmp.stride * call.src.dtype.size + 256
    )


WHOLE_STEPS = Table({"a2a3": exceeds_a_step})
IN_ONE_STEP = Table({"a2a3": is_one_step})


def _by_rows(row: OpRow, params: tuple[Param, ...]) -> tuple[SpecialRoute, ...]:
    """How A2/A3 reduces rows: products and integers end in scalar code for each row (TRowProd.hpp:55, TRowSum.hpp:92,
    TRowMax.hpp:46), column numbers of long rows in a scalar loop (TRowReduceIdxOps.hpp:159); others do without the
    workspace if a row is one step (TRowReduceOps.hpp:287)."""
    cost, own = {"V": COSTS[row.op]}, pipes(params, "V")
    alone = SpecialRoute("step", IN_ONE_STEP, RouteKernel(own, cost=cost, uses_workspace=False))
    if row.op.startswith("rowarg"):
        scalar = (Effect("dst", "write", "S"), Effect(TMP, "read", "S"))
        effects = (Effect("src", "read", "V"), Effect(TMP, "write", "V"), *scalar)
        cost = {**cost, "S": Cost("scalar loop", accesses=4)}
        steps = RouteKernel(effects, handshake=SCALAR_LAST, cost=cost)
        return (SpecialRoute("steps", WHOLE_STEPS, steps), alone)
    by_row = RouteKernel((*own, Effect(TMP, "write", "V", ahead(lambda _: 32))), handshake=WITH_SCALAR_ROWS, cost=cost)
    if row.op == "rowprod":
        return (on_a2a3(by_row),)
    return (SpecialRoute("integers", Table({"a2a3": of_integers}), by_row), alone)


def _positions_workspace(call: Call) -> TileSpec:
    """On A2/A3: the row, the largest elements so far and, of 2-byte types, their rows, each of one step of the vector
    unit (TColReduceIdx.hpp:129). The page names two of these for 2-byte types only."""
    size, valid = call.src.dtype.size, call.src.valid_cols
    longest = call.src.cols if is_unknown(valid) else valid
    step = -(-min(longest * size, 256) // BLOCK) * BLOCK // size
    cols = step * (3 if size == 2 else 2)
    return replace(call.src, rows=1, cols=cols, valid_rows=1, valid_cols=cols, dynamic=(False, False), addr=None)


def _by_columns(row: OpRow, params: tuple[Param, ...]) -> tuple[SpecialRoute, ...]:
    """How A2/A3 finds positions in columns: the workspace may be written beyond its tile."""
    beyond = Effect(TMP, "write", "V", ahead(lambda call: _positions_workspace(call).nbytes))
    kernel = RouteKernel((*pipes(params, "V"), beyond), cost={"V": COSTS[row.op]})
    return (on_a2a3(kernel),)


def reduction(row: OpRow, *, by_row: bool, group: str = "", numbers: Table[Types] | None = None) -> Instruction:
    """Each row to an element of column 0 of the destination, or each column to one of row 0. The results are numbers
    of elements, of the types `numbers`, or else elements."""
    kept, lost = ("row", "column") if by_row else ("column", "row")
    group = group or ("CP-RED" if by_row else "CP-COL")

    def extents(tile: TileSpec) -> tuple[int, int]:
        return tile.valid if by_row else (tile.valid_cols, tile.valid_rows)

    def lower(call: Call) -> tuple[Compute, ...]:
        shape = (call.src.valid_rows, 1) if by_row else (1, call.src.valid_cols)
        return (Compute(row.op, shape, Access("dst", call.dst.layout), (whole(call, "src"),)),)

    rules = (
        *vec_tiles(f"{group}-01", ("dst", "src"), nonempty="src", plains=("src",)),
        column_form(f"{group}-01") if by_row else plain(f"{group}-01", "dst"),
        sized(f"{group}-01", "dst", lambda c: f"of {extents(c.src)[0]} valid {kept}s and a valid {lost}",
              lambda c: extents(c.dst)[0] == extents(c.src)[0] and extents(c.dst)[1] >= 1, found=valid_of("dst"),
              fix=f"give dst as many valid {kept}s as src"),
        typed(f"{group}-02", "src", row.types, THROUGH_FLOAT),
        typed(f"{group}-02", "dst", numbers, "make dst of int32 or uint32") if numbers
        else alike(f"{group}-02", "dst", "src"),
    )  # fmt: skip
    about = "a Vec tile, N x 1 or wider; column 0 is written" if by_row else ONE_ROW
    params = (Param("dst", "write", f"destination: {about}"), Param("src", "read", "a plain Vec tile"))
    if by_row or numbers:
        touched = _first_steps if row.op in ("rowsum", "rowmax", "rowmin") else Workspace.touched
        workspace = Workspace(1, same_as("src") if by_row else _positions_workspace, touched=touched)
        special = (_by_rows if by_row else _by_columns)(row, params)
        return build(row, params, rules, lower, cpp=f"{row.name.upper()}(dst, src, tmp)", text=Text(("src", "tmp")),
                     workspace=workspace, special=special)  # fmt: skip
    has_workspace = row.op == "colsum"
    blocks = Effect("dst", "write", "V", ahead(lambda c: -(-c.dst.valid_cols * c.dst.dtype.size // BLOCK) * BLOCK))
    copied = RouteKernel((*pipes(params, "V"), blocks), cost={"V": COSTS[row.op]})
    return build(row, params, rules, lower, text=Text(("src",)), workspace=BY_HALVES if has_workspace else None,
                 op_text=OpText(inside=("isBinary",)) if has_workspace else PLAIN_TEXT,
                 special=(on_a2a3(copied),))  # fmt: skip


POSITION_TYPES = by_target(a2a3=F2, a5=F2)
NUMBER_TYPES = everywhere(types("i32 u32"))

POSITIONS = (
    OpRow("trowargmax", "The column of the largest element of every row.",
        "dst[i, 0] = the first j of the largest src[i, j]    a leading NaN stays, a later one loses",
        POSITION_TYPES, "rowargmax", in_place=()),
    OpRow("trowargmin", "The column of the smallest element of every row.",
        "dst[i, 0] = the first j of the smallest src[i, j]    a leading NaN stays, a later one loses",
        POSITION_TYPES, "rowargmin", in_place=()),
)  # fmt: skip


def position(row: OpRow, *, by_row: bool) -> Instruction:
    """The number of the best element of each row, or of each column."""
    return reduction(row, by_row=by_row, group="CP-ARG", numbers=NUMBER_TYPES)


def expands(**types: str) -> Cpp:
    """The headers spread a column through a workspace of their own, and have some element types only."""
    return Cpp(headers=(typed_in_headers("dst", types),), uses_hidden=True)


EXPAND_CPP = expands(cpu=SIMULATED)
A5_TYPES = B4 | types("u16 u32 bf16 i8 u8")
ROW_EXPAND_TYPES = by_target(a2a3=B4, a5=A5_TYPES)
ROW_SUB_TYPES = by_target(a2a3=B4, a5=B4 | types("u16 u32 bf16"))
ROW_DIV_TYPES = by_target(a2a3=DIV_TYPES["a2a3"], a5=DIV_TYPES["a5"] - LONG)
NO_ZERO = {"zero": Fault("CP-DIV-01", None, "keep zeroes out of an integer divisor")}

EXPANSIONS = (
    OpRow("trowexpandadd", "Add a number to each row.", "dst[i, j] = src0[i, j] + src1[i]    integers wrap",
        ROW_EXPAND_TYPES, "add", cpp=EXPAND_CPP),
    OpRow("trowexpandmax", "The larger of a tile and a number for each row.",
        "dst[i, j] = src1[i] if src1[i] > src0[i, j] else src0[i, j]",
        ROW_EXPAND_TYPES, "max", cpp=EXPAND_CPP),
    OpRow("trowexpandmin", "The smaller of a tile and a number for each row.",
        "dst[i, j] = src1[i] if src1[i] < src0[i, j] else src0[i, j]",
        ROW_EXPAND_TYPES, "min", cpp=EXPAND_CPP),
    OpRow("trowexpandmul", "Multiply rows by a number each.", "dst[i, j] = src0[i, j] * src1[i]    integers wrap",
        ROW_EXPAND_TYPES, "mul", cpp=expands(cpu=f"{SIMULATED} u8")),
    OpRow("trowexpandsub", "Subtract a number from each row.", "dst[i, j] = src0[i, j] - src1[i]    integers wrap",
        ROW_SUB_TYPES, "sub", cpp=EXPAND_CPP),
    OpRow("trowexpanddiv", "Divide rows by a number each.",
        "dst[i, j] = src0[i, j] / src1[i]    floats by IEEE, integers towards zero",
        ROW_DIV_TYPES, "div", cpp=EXPAND_CPP, faults=NO_ZERO),
)  # fmt: skip


EXPDIF_TYPES = by_target(a2a3=F2, a5=F2, cpu=F2, host=F3 | types("f64"))
TROWEXPANDEXPDIF = OpRow("trowexpandexpdif", "Subtract a number from each row, and take the exponential.",
    "dst[i, j] = e ** (src0[i, j] - src1[i])    the difference is rounded; within 2 ulp of it", EXPDIF_TYPES,
    "exp", cpp=Cpp(uses_hidden=True))  # fmt: skip


ANY_LAYOUT = Table({"host": True})
"""Targets that allow sources of any layout."""


def is_full(call: Call, name: str) -> bool:
    """An operand that has an element for each of the destination's."""
    tile = call.values[name]
    return tile.valid == call.dst.valid and (tile.format == "nd" or call.lookup(ANY_LAYOUT, False))


def is_per_row(call: Call, name: str) -> bool:
    """One number a row: a ColMajor column, or a row-major 32-byte block that repeats."""
    tile = call.values[name]
    column = tile.format == "dn" and tile.valid_cols == 1
    block = tile.format == "nd" and tile.valid_cols == tile.dtype.c0
    return tile.valid_rows == call.dst.valid_rows and (column or block)


def spread(call: Call, name: str) -> Input:
    """An operand, broadcast to the lanes (i, j) of the destination."""
    tile = call.values[name]
    if is_full(call, name):
        return whole(call, name)
    if tile.valid_cols == 1:
        return Input(name, tile.layout, (tile.valid_rows, 1))
    return Input(name, Layout(tile.layout.rows, (Term(1, 1, tile.valid_cols),)), call.dst.valid)


SOURCES = ("src0", "src1")
PER_ROW = tuple(
    sized("CP-RXP-01", name, "of dst's valid region, or a ColMajor column, or a row-major 32-byte block a row",
          lambda c, name=name: is_full(c, name) or is_per_row(c, name), fix=Fix("a column is N x 1 with ", COL_MAJOR))
    for name in SOURCES
)  # fmt: skip
ONE_FULL = sized(
    "CP-RXP-01", "src0", "of dst's valid region, unless src1 is",
    holds=lambda c: is_full(c, "src0") or is_full(c, "src1"),
    fix="give one source the destination's valid region, row-major",
)  # fmt: skip


def exp_of_difference(read: Callable[[Call, str], Input]) -> Lower:
    """The difference first, then the exponential in its place."""
    subtract = apply("sub", *SOURCES, read=read)

    def lower(call: Call) -> tuple[Move | Compute, ...]:
        return *subtract(call), *apply("exp", "dst")(call)

    return lower


def expansion(row: OpRow, lower: Lower | None = None) -> Instruction:
    """One source has the destination's shape, the other a number for each row, in either order."""
    rules = (
        *vec_tiles("CP-RXP-01", ("dst", *SOURCES), plains=("dst",)),
        ONE_FULL,
        *PER_ROW,
        *types_alike("CP-RXP", SOURCES, row.types),
    )
    params = (DST, *(Param(name, "read", "Vec tile: dst's valid region, or one number a row") for name in SOURCES))
    return build(row, params, rules, lower or apply(row.op, *SOURCES, read=spread), workspace=Workspace(2))


TRANS_TYPES = by_target(a2a3=UP_TO_32, a5=UP_TO_32 | BYTE_FLOATS, cpu=ALL | BYTE_FLOATS)


def transposed(call: Call) -> Input:
    """The source with rows and columns exchanged."""
    layout = call.src.layout
    return Input("src", Layout(layout.cols, layout.rows), (call.src.valid_cols, call.src.valid_rows))


TRANS_PARAMS = (DST, Param("src", "read", "a plain Vec tile of the destination's type"))


def is_no_square(call: Call) -> bool:
    """Rows of the destination that are no whole squares: A2/A3 moves elements one by one (TTrans.hpp:239)."""
    return call.dst.stride % (32 if call.dst.dtype.size == 1 else 16) != 0


SQUARES = on_a2a3(
    RouteKernel((*pipes(TRANS_PARAMS, "V"), Effect("dst", "write", "V", in_ub("dst", 32))), cost={"V": INDEXED})
)
"""Whole blocks are copied from the workspace (TTrans.hpp:272)."""
ONE_BY_ONE = SpecialRoute("elements", Table({"a2a3": is_no_square}), scalar_loop(TRANS_PARAMS, accesses=2))


def transposed_workspace(call: Call) -> TileSpec:
    """The source transposed, its rows padded."""
    src = call.src
    unit = 32 if src.dtype.size == 1 else 16
    cols = -(-src.rows // unit) * unit
    return TileSpec(src.dtype, TileType.Vec, src.cols, cols, src.cols, cols)


def _transposed_bytes(call: Call) -> int:
    """The source transposed (TTrans.hpp:237, 272)."""
    (rows, cols), unit = call.src.valid, 32 if call.src.dtype.size == 1 else 16
    return ((cols - 1) * -(-rows // unit) * unit + rows) * call.src.dtype.size


TTRANS = build(
    OpRow("ttrans", "Transpose a tile.", "dst[j, i] = src[i, j]    over the source's valid region", in_place=()),
    TRANS_PARAMS,
    (
        *vec_tiles("CP-TRN-01", ("dst", "src"), nonempty="src", plains=("src", "dst")),
        sized("CP-TRN-01", "dst", lambda c: f"valid {show_extents(tuple(c.src.valid)[::-1])}, as src transposed",
              lambda c: c.dst.valid == c.src.valid[::-1], found=valid_of("dst"),
              fix="give dst as many valid rows as src has valid columns, and the reverse"),
        *(Rule("CP-TRN-01", name, "of rows that are a multiple of 32 bytes",
               lambda c, name=name: c.values[name].burst_bytes % 32 == 0, on=error("a5"),
               found=lambda c, name=name: f"{c.values[name].burst_bytes} bytes", fix=PAD_TILE)
          for name in ("dst", "src")),
        *types_alike("CP-TRN", ("src",), TRANS_TYPES),
    ),
    lambda c: (Compute("copy", (c.src.valid_cols, c.src.valid_rows), Access("dst", c.dst.layout), (transposed(c),)),),
    cost={"V": INDEXED},
    cpp="TTRANS(dst, src, tmp)",
    text=Text(("src", "tmp")),
    workspace=Workspace(1, transposed_workspace, touched=_transposed_bytes),
    special=(SQUARES, ONE_BY_ONE),
)  # fmt: skip

TGATHER_TYPES = by_target(a2a3=SHORT | types("f16 bf16 f32"), a5=ALL | BYTE_FLOATS, cpu=ALL | BYTE_FLOATS)
TGATHER_INDICES = by_target(a2a3=types("i32 u32"), a5=SHORT, cpu=SHORT, host=INTS - NARROW)


BY_ROW = Fix(
    "no target gathers rows of a tile by one index each: make element numbers, row * Cols + column, with ",
    called("trowexpand"), ", ", called("tmuls"), ", ", called("tci"), " and ", called("tcolexpandadd"),
    "; or gather the rows from memory with ", called("mgather"),
)  # fmt: skip


def is_one_a_row(call: Call) -> bool:
    """Whether an index has one number for each row of the destination."""
    return call.dst.valid_cols > 1 and call.idx.valid in ((call.dst.valid_rows, 1), (1, call.dst.valid_rows))


def lower_gather(call: Call) -> tuple[Move | Compute, ...]:
    """The index is an element number of the padded source; one outside is undefined (as for `tscatter`)."""
    src = call.src
    index = Index(
        Access("idx", call.idx.layout), Side.SRC, IndexUnit.ELEMENT, src.rows * src.cols, Remap.REFUSE, width=src.cols,
        valid=src.valid,
    )  # fmt: skip
    return (Move(call.dst.valid, Access("dst", call.dst.layout), Access("src", src.layout), index),)


AS_PAIRS = Rule(
    CLAUSE, "idx", "of the data's width, or of 2 bytes for bytes: shipping headers take other ones for pairs or halves",
    lambda c: c.idx.dtype.size == max(c.dst.dtype.size, 2), on=note("a5"),
    when=Case("data of 1 or 4 bytes", lambda c: c.dst.dtype.size in (1, 4)), found=type_of("idx"),
    fix=Fix(OpName("tcvt"), " to another type of indices first"),
)  # fmt: skip
"""The headers have loops for both widths of indices of 2-byte data only (a5/TGather.hpp:57, 137)."""


GATHER_PARAMS = (
    DST, Param("src", "read", "a Vec tile of the destination's type", contiguous="always"),
    Param("idx", "read", "Vec tile of element numbers, of the destination's valid region", role="index"),
)  # fmt: skip
OF_WORDS = SpecialRoute(
    "words", Table({"a2a3": lambda call: call.dst.dtype.size == 4}),
    RouteKernel(pipes(GATHER_PARAMS, "V"), cost={"V": INDEXED}, uses_workspace=False),
)  # fmt: skip
"""Addresses of 4-byte elements are made in the destination (TGather.hpp:66)."""
TGATHER = build(
    OpRow("tgather", "Gather elements of a tile by their numbers.",
        "dst[i, j] = src.element[idx[i, j]]    element r * Cols + c is src[r, c]", in_place=(),
        cpp=Cpp(headers=(typed_in_headers("idx", {"cpu": "i32 u32"}), first_64("dst"), AS_PAIRS)),
        faults={
            "outside": Fault("CP-GAT-03", "H-12", "keep indices inside the source tile"),
            "padding": Fault("CP-GAT-03", "H-12", "the index names the source's padding"),
            "shared": Fault("CP-GAT-03", None, "gather into another tile: hardware does not promise this order"),
        }),
    GATHER_PARAMS,
    (
        *vec_tiles("CP-GAT-01", ("dst", "src", "idx"), plains=("dst", "src", "idx")),
        shaped("CP-GAT-01", "idx", fix=lambda c: BY_ROW if is_one_a_row(c) else "give both tiles one valid region"),
        *types_alike("CP-GAT", ("src",), TGATHER_TYPES),
        typed("CP-GAT-02", "idx", TGATHER_INDICES),
        Rule("CP-GAT-02", "idx", "of 4 bytes for 8-byte data", lambda c: c.idx.dtype.size == 4, on=error("a5"),
             when=Case("8-byte data", lambda c: c.dst.dtype.size == 8), found=type_of("idx"),
             fix="use int32 or uint32 indices"),
    ),
    lower_gather,
    cost={"V": INDEXED},
    cpp="TGATHER(dst, src, idx, tmp)",
    text=Text(("src", "idx", "tmp")),
    workspace=Workspace(
        2, lambda c: replace(c.idx, cols=max(c.idx.cols, c.dst.cols), addr=None), like="idx",
        touched=lambda c: ((c.dst.valid_rows - 1) * c.dst.stride + c.dst.valid_cols) * c.idx.dtype.size,
    ),
    special=(OF_WORDS,),
    op_text=OpText(inside=("maskPattern",), listed=True, one_type=True, reordered=True,
              stored=("ins", "outs", "outs", "ins", "ins", "ins")),
)  # fmt: skip

REDUCE = (
    *(reduction(row, by_row=True) for row in REDUCTIONS),
    *(position(row, by_row=True) for row in POSITIONS),
    *map(expansion, EXPANSIONS),
    expansion(TROWEXPANDEXPDIF, exp_of_difference(spread)),
    TTRANS,
    TGATHER,
)
