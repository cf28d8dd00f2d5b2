"""Tiles made of parts: arithmetic where one source may be smaller, tiles put into tiles, padding, triangles."""
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.casts import *
from ptokit.isa.elementwise import DST, NOT_A2A3, SCALAR
from ptokit.isa.headers import first_64, one_register
from ptokit.isa.reduce import SOURCES
from ptokit.isa.tload import pad_bits
from ptokit.isa.tmov import ACC, MAT, VEC
from ptokit.isa.vocabulary import *

# --- One source may be smaller -------------------------------------------------------------------------------

PART_TYPES = by_target(a2a3=B4, a5=ALL, cpu=types("i8 u8 i16 i32 f16 bf16 f32"))
PART_MUL_TYPES = by_target(a2a3=B4, a5=UP_TO_32, cpu=types("i8 u8 i16 i32 f16 bf16 f32"))
WHERE_BOTH = "where both are valid, else the one that is"

PARTS = (
    OpRow("tpartadd", "Add two tiles, of which one may be smaller.",
        f"dst = src0 + src1 {WHERE_BOTH}    integers wrap", PART_TYPES, "add", in_place=(), cpp=one_register()),
    OpRow("tpartmul", "Multiply two tiles, of which one may be smaller.",
        f"dst = src0 * src1 {WHERE_BOTH}    integers wrap", PART_MUL_TYPES, "mul", in_place=()),
    OpRow("tpartmax", "The larger of two tiles, of which one may be smaller.",
        f"dst = (src1 if src1 > src0 else src0) {WHERE_BOTH}", PART_TYPES, "max", in_place=(), cpp=one_register()),
    OpRow("tpartmin", "The smaller of two tiles, of which one may be smaller.",
        f"dst = (src1 if src1 < src0 else src0) {WHERE_BOTH}", PART_TYPES, "min", in_place=(), cpp=one_register()),
)  # fmt: skip


def within(call: Call, name: str) -> bool:
    """An operand has at most the rows and columns of the destination."""
    tile = call.values[name]
    return tile.valid_rows <= call.dst.valid_rows and tile.valid_cols <= call.dst.valid_cols


def partial(row: OpRow) -> Instruction:
    """One source has the destination's valid region, the other at most that."""
    rules = (
        *vec_tiles("CP-PRT-01", ("dst", *SOURCES), plains=("dst", *SOURCES)),
        sized("CP-PRT-01", "src0", "of dst's valid region, unless src1 is",
              holds=lambda c: c.dst.valid in (c.src0.valid, c.src1.valid),
              fix="give one source the destination's valid region"),
        *(sized("CP-PRT-01", name, lambda c: f"at most valid {show_extents(c.dst.valid)}, as dst",
                lambda c, name=name: within(c, name), found=valid_of(name), fix="shrink its valid region")
          for name in SOURCES),
        *types_alike("CP-PRT", SOURCES, row.types),
    )  # fmt: skip

    def lower(call: Call) -> tuple[Move | Compute, ...]:
        larger, smaller = SOURCES if call.src0.valid == call.dst.valid else SOURCES[::-1]
        region, dst = call.values[smaller].valid, Access("dst", call.dst.layout)
        inputs = tuple(Input(name, call.values[name].layout, region) for name in SOURCES)
        copied = Compute("copy", call.dst.valid, dst, (whole(call, larger),))
        if min(region) == 0:
            return (copied,)
        combined = Compute(row.op, region, dst, inputs)
        return (combined,) if region == call.dst.valid else (copied, combined)

    about = "a plain Vec tile: dst's valid region, or for one of the sources less"
    return build(row, (DST, *(Param(name, "read", about) for name in SOURCES)), rules, lower)


# --- Multiples -----------------------------------------------------------------------------------------------

AXPY_TYPES = by_target(a2a3=F2, a5=F2, cpu=F3, host=F3 | types("f64"))
WIDENS = {("float16", "float32")}
"""Source and destination types of `taxpy`, if they differ."""
AXPY_PARAMS = (
    Param("dst", "update", "a plain Vec tile, to which the multiple is added"),
    Param("src", "read", "a Vec tile of its valid region and type; float16 for float32, too"),
    replace(SCALAR, about="the factor, a number held in the source's type", typed_as="src"),
)


TAXPY = build(
    OpRow("taxpy", "Add a multiple of a tile.", "dst = dst + src * scalar    in dst's type: the product is rounded, "
        "then the sum", in_place=()),
    AXPY_PARAMS,
    (
        *vec_tiles("CP-AXP-01", ("dst", "src"), plains=("dst", "src")),
        shaped("CP-AXP-01", "src"),
        typed("CP-AXP-02", "dst", AXPY_TYPES),
        needed("CP-AXP-02", "src", lambda c: f"of dst's element type, {c.dst.dtype}, or float16 for float32",
               lambda c: c.src.dtype is c.dst.dtype or (c.src.dtype.name, c.dst.dtype.name) in WIDENS,
               found=type_of("src"), fix=CONVERT),
    ),
    apply("axpy", "dst", "src", "scalar"),
)  # fmt: skip

# --- Tiles put into tiles ------------------------------------------------------------------------------------

A2A3_PATHS = {(VEC, VEC): "V", (ACC, MAT): "FIX"}
A5_PATHS = {**A2A3_PATHS, (VEC, MAT): "MTE3", (ACC, VEC): "FIX"}
INSERT_PATHS = Table({"cpu": A5_PATHS, "a2a3": A2A3_PATHS, "a5": A5_PATHS, "host": {(VEC, VEC): "V"}})
"""Source and destination memory, and the pipe between them."""
INSERTED = Table(dict.fromkeys(("cpu", "a5"), (HIFLOAT8,)))
"""Types that are no numbers, and are inserted all the same."""
BY_VALID = Table({"cpu": True})
"""Targets that compare with the valid region of the destination; the others with all of it."""


def begins_at_box(tile: TileSpec, row: int, col: int) -> bool:
    """Whether a window begins at a box, or at any row where rows of boxes follow each other, or at any column where
    columns do (a5/TInsert.hpp:616 asserts rows only)."""
    rows, cols = tile.box
    return (row % rows == 0 or tile.format == "nz") and (col % cols == 0 or tile.format == "zn")


def room(call: Call) -> tuple[int, int]:
    """The rows and columns that a window may reach."""
    return call.dst.valid if call.lookup(BY_VALID) else (call.dst.rows, call.dst.cols)


def fits_into(call: Call) -> bool:
    """Whether the source fits at the window's corner."""
    (rows, cols), row, col = room(call), call.row.value, call.col.value
    return row + call.src.valid_rows <= rows and col + call.src.valid_cols <= cols


def lower_insert(call: Call) -> tuple[Move | Compute, ...]:
    """Copy the source into a window of the destination, or convert it on its way."""
    return (copied(call, call.src.valid, call.dst.layout.cut(call.row.value, call.col.value), call.src.layout),)


INSERT_RULES = (
    routing("CP-INS-01", "src", "a tile", lambda c: is_tile(c.src), fix=BRING),
    routing("CP-INS-01", "dst", "a tile", lambda c: is_tile(c.dst), fix=TAKE),
    needed("CP-INS-01", "dst",
           lambda c: "reached by one of " + ", ".join(f"{a.text} to {b.text}" for a, b in c.lookup(INSERT_PATHS)),
           lambda c: (c.src.loc, c.dst.loc) in c.lookup(INSERT_PATHS),
           found=lambda c: f"{c.src.loc.text} to {c.dst.loc.text}", fix="move it through another memory"),
    filled("CP-INS-01", "src"),
    sized("CP-INS-01", "dst", "large enough: the window lies in it", fits_into,
          found=lambda c: f"{show_extents(room(c))} for {show_extents(c.src.valid)} at ({c.row.value}, {c.col.value})",
          fix="shrink src's valid region or move the window"),
    needed("CP-INS-01", "dst", "cut at a box", lambda c: begins_at_box(c.dst, c.row.value, c.col.value),
           when=Case("a destination with boxes, but for one element within UB",  # tinsert_common.hpp:153
                     lambda c: c.dst.format not in ("nd", "dn")
                     and not (c.src.loc is c.dst.loc is VEC and c.src.valid == (1, 1))),
           found=lambda c: f"a window at ({c.row.value}, {c.col.value})", fix="move the window to a whole box"),
    needed("CP-INS-02", "src", "a number type of at most 4 bytes", lambda c: c.src.dtype.size <= 4
           and (c.src.dtype.is_integer or c.src.dtype.is_float or c.src.dtype in c.lookup(INSERTED, ())),
           found=type_of("src"), fix="view the bytes as uint8"),
    needed("CP-INS-02", "src",
           lambda c: f"of dst's element type, {c.dst.dtype}; from Acc float32 for 16-bit floats, too",
           lambda c: c.src.dtype is c.dst.dtype
           or (c.src.loc is ACC and (c.src.dtype.name, c.dst.dtype.name) in NARROWED), when=~SCALED,
           found=type_of("src"), fix=CONVERT),
    *fix_rules(SCALED_TO_TILES),
)  # fmt: skip
INSERT_PARAMS = (
    Param("dst", "update", "destination: Vec or Mat", in_part=True),
    Param("src", "read", "source: Vec or Acc"),
    Param("row", "read", "a number: the window's first row", kind="position"),
    Param("col", "read", "a number: the window's first column", kind="position"),
    SCALE,
)
TINSERT = replace(
    build(OpRow("tinsert", "Put a tile into a window of another one.",
              "dst[row + i, col + j] = src[i, j]    over src's valid region; the rest of dst stays", in_place=(),
              cpp=Cpp("TINSERT(dst, src, scale, row, col)", relu_template("dst", "src"),
                      unmodelled=SHORT_ACCUMULATORS)),
          INSERT_PARAMS, INSERT_RULES, lower_insert, modifiers=(RELU,),
          text=Text(("src", "row", "col"), orders=(("src", "row", "col", "scale"),))),
    route=by_part("tinsert", "src"),
    kernels={
        family: {
            f"tinsert.{a.text}.{b.text}": RouteKernel(pipes(INSERT_PARAMS, pipe))
            for (a, b), pipe in INSERT_PATHS[family].items()
        }
        | {f"tinsert.vec.vec.{ELEMENT}": scalar_loop(INSERT_PARAMS, accesses=2)}
        for family in NPU
    },
)  # fmt: skip


def takes(call: Call) -> bool:
    """Whether the destination is a tile that an accumulator reaches, with room for the window."""
    is_reached = is_tile(call.dst) and (ACC, call.dst.loc) in call.lookup(INSERT_PATHS)
    return is_reached and fits_into(call) and begins_at_box(call.dst, call.row.value, call.col.value)


TINSERT_FP = with_factors(
    TINSERT,
    Cpp("TINSERT_FP(dst, src, fp, row, col)", relu_template("dst", "src", "fp")),
    SCALED_TO_TILES,
    takes,
)

CONCAT_TYPES = by_target(cpu=UP_TO_32, a2a3=UP_TO_32, a5=UP_TO_32)


def lower_concat(call: Call) -> tuple[Move | Compute, ...]:
    """One source beside the other."""
    first, second = (Access(name, call.values[name].layout) for name in SOURCES)
    beside = Access("dst", call.dst.layout.cut(0, call.src0.valid_cols))
    return Move(call.src0.valid, Access("dst", call.dst.layout), first), Move(call.src1.valid, beside, second)


def joined_blocks(call: Call) -> ByteRows:
    """A2/A3 copies a source in whole blocks of 32 bytes: the last one that it copies (TConcat.hpp:40, 48)."""
    size, first = call.dst.dtype.size, call.src0.valid_cols
    is_whole = first * size % 32 == 0
    end = first * size + -(-call.src1.valid_cols * size // 32) * 32 if is_whole else -(-first * size // 32) * 32
    return ByteRows(call.dst.valid_rows, end, call.dst.stride * size)


def is_joined_inside_a_block(call: Call) -> bool:
    """The second source begins inside a block of the destination."""
    return call.src0.valid_cols * call.dst.dtype.size % 32 != 0


BOTH_WIDTHS = "give dst the valid columns of both sources"
CONCAT_PARAMS = (DST, *(Param(name, "read", "a plain Vec tile of dst's type and valid rows") for name in SOURCES))
BY_BLOCKS = RouteKernel((*pipes(CONCAT_PARAMS, "V"), Effect("dst", "write", "V", joined_blocks)))
BY_ELEMENT = RouteKernel(
    (
        Effect("src0", "read", "V"),
        Effect("dst", "write", "V"),
        Effect("src1", "read", "S"),
        Effect("dst", "write", "S"),
        Effect("dst", "write", "V", joined_blocks),
    ),
    handshake=Handshake(body=("V", "S"), between=(("V", "S"), ("MTE2", "S"))),
    cost={"S": Cost("scalar loop", accesses=2)},
)
"""A scalar loop takes the second source element by element, and no pipe waits for it (TConcat.hpp:52)."""
BY_EITHER = replace(
    BY_ELEMENT,
    effects=(*BY_ELEMENT.effects, Effect("src1", "read", "V")),
    handshake=replace(BY_ELEMENT.handshake, is_ordered=False),
)
"""Columns that are known at run time only decide which of the two it is."""
TCONCAT = build(
    OpRow("tconcat", "Put two tiles side by side.",
        "dst[i, j] = src0[i, j]; dst[i, src0's columns + j] = src1[i, j]    over their valid regions", in_place=()),
    CONCAT_PARAMS,
    (
        *vec_tiles("CP-CAT-01", ("dst", *SOURCES), plains=("dst", *SOURCES)),
        *(filled("CP-CAT-01", name) for name in SOURCES),
        *(sized("CP-CAT-01", name, lambda c: f"of {c.dst.valid_rows} valid rows, as dst",
                lambda c, name=name: c.values[name].valid_rows == c.dst.valid_rows, found=valid_of(name),
                fix="give all tiles the same valid rows")
          for name in SOURCES),
        sized("CP-CAT-01", "dst", lambda c: f"of {c.src0.valid_cols} + {c.src1.valid_cols} valid columns",
              lambda c: c.dst.valid_cols == c.src0.valid_cols + c.src1.valid_cols, found=valid_of("dst"),
              on=error(*NOT_A2A3), fix=BOTH_WIDTHS),
        sized("CP-CAT-01", "dst", lambda c: f"of at least {c.src0.valid_cols} + {c.src1.valid_cols} valid columns",
              lambda c: c.dst.valid_cols >= c.src0.valid_cols + c.src1.valid_cols, found=valid_of("dst"),
              on=error("a2a3"), fix=BOTH_WIDTHS),  # TConcat.hpp:95; A5 asserts that they are equal
        *types_alike("CP-CAT", SOURCES, CONCAT_TYPES),
    ),
    lower_concat,
    special=(
        SpecialRoute("elements", Table({"a2a3": is_joined_inside_a_block}), BY_ELEMENT),
        SpecialRoute("either", Table({"a2a3": undecided(is_joined_inside_a_block)}), BY_EITHER),
        on_a2a3(BY_BLOCKS),
    ),
)  # fmt: skip

# --- Padding -------------------------------------------------------------------------------------------------

FILL_COST = Cost("fill")
FILL_TYPES = by_target(cpu=UP_TO_32 | BYTE_FLOATS, a2a3=UP_TO_32, a5=UP_TO_32 | BYTE_FLOATS)
IN_L1 = Case("Mat tiles", lambda c: c.dst.loc is MAT)


def fills(call: Call) -> tuple[Move, ...]:
    """The pad value below the source's valid region and beside it."""
    dst, (rows, cols) = call.dst, call.src.valid
    fill = Fill(pad_bits(dst.dtype, Pad.Zero if dst.pad is Pad.Null else dst.pad))
    below = dst.rows if dst.loc is MAT else dst.valid_rows
    block = -(-cols // dst.box[1]) * dst.box[1]
    parts = (
        ((rows, block - cols), dst.layout.cut(0, cols)),
        ((rows, dst.cols - block), dst.layout.cut(0, block)),
        ((below - rows, dst.cols), dst.layout.cut(rows, 0)),
    )
    return tuple(Move(shape, Access("dst", layout), fill) for shape, layout in parts if min(shape) > 0)


def lower_fill(call: Call) -> tuple[Move | Compute, ...]:
    """Copy what is valid, unless it stays where it is, and pad the rest."""
    if call.dst.loc is MAT and "src" in call.repeats:
        return fills(call)
    copied = Move(call.src.valid, Access("dst", call.dst.layout), Access("src", call.src.layout))
    return copied, *fills(call)


def padding(row: OpRow, *, mat: bool = False, expands: bool = False, in_place: bool = False) -> Instruction:
    """Rows and columns beyond the valid ones get the destination's pad value."""
    memories = (VEC, MAT) if mat else (VEC,)
    where = " or ".join(loc.name for loc in memories)
    extents = (
        needed("CP-PAD-01", "dst", lambda c: f"at least {c.src.rows} x {c.src.cols}, as src",
               lambda c: c.dst.rows >= c.src.rows and c.dst.cols >= c.src.cols,
               found=lambda c: f"{c.dst.rows} x {c.dst.cols}", fix="make dst larger")
        if expands else
        needed("CP-PAD-01", "dst", lambda c: f"{c.src.rows} x {c.src.cols}, as src",
               lambda c: (c.dst.rows, c.dst.cols) == (c.src.rows, c.src.cols),
               found=lambda c: f"{c.dst.rows} x {c.dst.cols}", fix="give both tiles the same rows and columns")
    )  # fmt: skip
    rules = (
        *(routing("CP-PAD-01", name, f"a {where} tile", lambda c, name=name: is_tile(c.values[name], *memories),
                  fix=f"move the data into a {where} tile first")
          for name in ("dst", "src")),
        *([needed("CP-PAD-01", "src", "in dst's memory", lambda c: c.src.loc is c.dst.loc,
                  fix=Fix(OpName("tmov"), " moves between memories"))] if mat else []),
        filled("CP-PAD-01", "src"),
        *(needed("CP-PAD-01", name, "RowMajor + NoneBox in UB, NZ in L1",
                 lambda c, name=name: c.values[name].format == ("nz" if c.dst.loc is MAT else "nd"),
                 fix=Fix("leave ", BLAYOUT, " and ", SLAYOUT, " out, but for L1"))
          for name in ("dst", "src")),
        extents,
        sized("CP-PAD-01", "src", lambda c: f"at most valid {show_extents(c.dst.valid)}, as dst",
              lambda c: within(c, "src"), found=valid_of("src"), fix="give dst a larger valid region"),
        needed("CP-PAD-02", "dst", "of a pad value", lambda c: c.dst.pad is not Pad.Null, when=~IN_L1,
               fix=Fix("make the tile with ", option("pad", Pad.Zero, Pad.Max, Pad.Min))),
        *([needed("CP-PAD-02", "dst", "padded with zeroes in L1", lambda c: c.dst.pad in (Pad.Null, Pad.Zero),
                  when=IN_L1, fix=Fix("leave ", Option("pad", Pad), " out"))] if mat else []),
        *types_alike("CP-PAD", ("src",), FILL_TYPES),
    )  # fmt: skip
    params = (
        Param("dst", "write", f"destination: a {where} tile; its pad value fills what src does not"),
        Param("src", "read", "a tile of its type" + (", on the same bytes" if in_place else "")),
    )
    made = build(row, params, rules, lower_fill, destination=Destination(writes_padding=True))

    pipe_of = {VEC: "V", MAT: "MTE2"}
    return replace(
        made,
        route=by_memory(row.name, "dst"),
        kernels={
            family: {
                f"{row.name}.{loc.text}": RouteKernel(
                    pipes(params, pipe_of[loc]), cost={"MTE2": FILL_COST} if loc is MAT else {}
                )
                for loc in memories
            }
            for family in NPU
        },
    )


TFILLPAD = padding(
    OpRow("tfillpad", "Copy a tile and pad it.",
        "dst = src where src is valid, else the pad value    dst's valid rows, all columns; all of a Mat tile"),
    mat=True,
)  # fmt: skip
TFILLPAD_INPLACE = padding(
    OpRow("tfillpad_inplace", "Pad a tile in its place.",
        "dst = src where src is valid, else the pad value    dst's valid rows, all columns"),
    in_place=True,
)  # fmt: skip
TFILLPAD_EXPAND = padding(
    OpRow("tfillpad_expand", "Copy a tile into a larger one and pad it.",
        "dst = src where src is valid, else the pad value    dst's valid rows, all columns",
        in_place=()),
    expands=True,
)  # fmt: skip

# --- Triangles -----------------------------------------------------------------------------------------------

TRI_TYPES = by_target(a2a3=types("i16 u16 i32 u32 f16 f32"), a5=ALL, cpu=types("i16 u16 i32 u32 f16 bf16 f32"))
HALF = Attribute("upperOrLower", number="i32", words=((Triangle.Lower, 0), (Triangle.Upper, 1)), inside=True)
TRI_CPP = Cpp(
    call="TTRI(dst, diagonal)",
    template=lambda c: (("decltype({dst})", None), (str(c.half.value), None)),
    headers=(first_64("dst"),),
)

TTRI = build(
    OpRow("ttri", "Ones on one side of a diagonal, zeroes on the other.",
        "dst[i, j] = j <= i + diagonal, or for the upper half j >= i + diagonal", cpp=TRI_CPP),
    (DST, Param("diagonal", "read", "a number: the column of row 0 that is on the diagonal", kind="number",
                dtype=INT32)),
    (
        *vec_tiles("CP-TRI-01", ("dst",), plains=()),
        plain("CP-TRI-01", "dst"),
        typed("CP-TRI-02", "dst", TRI_TYPES),
    ),
    apply("tri", "diagonal", half="half"),
    modifiers=(Modifier("half", Triangle, always(Triangle.Lower), "the half that is filled with ones", text=HALF),),
    cpp="TTRI<Tile, upper>(dst, diagonal)",
)  # fmt: skip

COMBINED = (
    *map(partial, PARTS), TAXPY, TINSERT, TINSERT_FP, TCONCAT, TFILLPAD, TFILLPAD_INPLACE, TFILLPAD_EXPAND, TTRI,
)  # fmt: skip
