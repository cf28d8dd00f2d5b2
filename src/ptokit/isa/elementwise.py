"""Element-wise arithmetic: tile with tile, tile with scalar, one tile; and tiles made from a scalar."""
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.headers import first_64, one_register, one_type
from ptokit.isa.vocabulary import *

DST = Param("dst", "write", "destination: a plain Vec tile; its valid region is computed")
SRC = Param("src", "read", "a Vec tile of the destination's type and valid region")
SCALAR = Param("scalar", "read", "a number, held in the destination's type", kind="number")

ADD_TYPES = by_target(a2a3=B4, a5=ALL)
MUL_TYPES = by_target(a2a3=B4, a5=ALL - NARROW)
DIV_TYPES = by_target(a2a3=F2, a5=SHORT | LONG | F2)
ABS_TYPES = by_target(a2a3=F2, a5=types("i8 i16 i32") | F2, cpu=types("i8 i16 i32") | F3)
FLOAT_TYPES = by_target(a2a3=F2, a5=F2, cpu=F3, host=F3 | types("f64"))
BIT_TYPES = by_target(a2a3=INTS - LONG, a5=INTS - LONG, cpu=INTS, host=INTS)
SHIFT_TYPES = by_target(a2a3=INTS - LONG, a5=INTS, cpu=INTS, host=INTS)
SCALAR_BIT_TYPES = by_target(a2a3=SHORT, a5=INTS - LONG, cpu=INTS, host=INTS)
SCALAR_SHIFT_TYPES = by_target(a2a3=SHORT, a5=INTS, cpu=INTS, host=INTS)

RELU_TYPES = by_target(a2a3=types("i32 f16 f32"), a5=types("i32 f16 f32"))
ROOT_TYPES = by_target(a2a3=F2, a5=F2, cpu=F2, host=F3 | types("f64"))

REM_TYPES = by_target(a2a3=types("i32 f32"), a5=SHORT | LONG | F2)
FMOD_TYPES = by_target(a2a3=types("f32"), a5=SHORT | F2)
POW_TYPES = by_target(a2a3=(NARROW | SHORT) | types("f32"), a5=NARROW | SHORT | F3, cpu=NARROW | SHORT | F3, host=HOST)

NOT_A2A3 = tuple(target for target in EVERYWHERE if target != "a2a3")
BY_ZERO = {"zero": Fault("CP-DIV-01", None, "keep zeroes out of an integer divisor: tcmps and tsel replace them")}

ONE_REGISTER = one_register()
BINARY = (
    OpRow("tadd", "Add two tiles.", "dst = src0 + src1    integers wrap", ADD_TYPES, "add",
        cpp=Cpp(headers=(one_type("dst", "src0", "src1", on=("cpu",)),))),
    OpRow("tsub", "Subtract two tiles.", "dst = src0 - src1    integers wrap", ADD_TYPES, "sub"),
    OpRow("tmul", "Multiply two tiles.", "dst = src0 * src1    integers wrap", MUL_TYPES, "mul"),
    OpRow("tdiv", "Divide two tiles.", "dst = src0 / src1    floats by IEEE, integers towards zero", DIV_TYPES, "div",
        faults=BY_ZERO, cpp=ONE_REGISTER),
    OpRow("trem", "The remainder of two tiles, with the divisor's sign.",
        "dst = src0 - floor(src0 / src1) * src1    0 or of src1's sign", REM_TYPES, "rem", faults=BY_ZERO,
        in_place=NOT_A2A3, cpp=ONE_REGISTER),
    OpRow("tfmod", "The remainder of two tiles, with the dividend's sign.",
        "dst = src0 - trunc(src0 / src1) * src1    0 or of src0's sign", FMOD_TYPES, "fmod", faults=BY_ZERO,
        in_place=NOT_A2A3),
    OpRow("tpow", "Raise a tile to the power of another.",
        "dst = src0 ** src1    floats within 2 ulp; integers wrap, and below the exponent 0 are truncated", POW_TYPES,
        "pow", in_place=NOT_A2A3),
    OpRow("tmax", "The larger of two tiles.", "dst = src1 if src1 > src0 else src0    so a NaN in src1 loses",
        ADD_TYPES, "max"),
    OpRow("tmin", "The smaller of two tiles.", "dst = src1 if src1 < src0 else src0    so a NaN in src1 loses",
        ADD_TYPES, "min"),
    OpRow("tand", "Bitwise and of two tiles.", "dst = src0 & src1", BIT_TYPES, "and"),
    OpRow("tor", "Bitwise or of two tiles.", "dst = src0 | src1", BIT_TYPES, "or"),
    OpRow("txor", "Bitwise exclusive or of two tiles.", "dst = src0 ^ src1", BIT_TYPES, "xor", in_place=NOT_A2A3),
    OpRow("tprelu", "Multiply negative numbers by a tile of slopes.", "dst = src0 if src0 > 0 else src0 * src1",
        FLOAT_TYPES, "prelu", in_place=NOT_A2A3),
    OpRow("tshl", "Shift left by a tile of counts.", "dst = src0 << src1    0 for counts of the width and more",
        SHIFT_TYPES, "shl"),
    OpRow("tshr", "Shift right by a tile of counts.",
        "dst = src0 >> src1    the sign (0 if unsigned) for counts of the width and more", SHIFT_TYPES, "shr"),
)  # fmt: skip

ROWS_AGAINST_COLS = Rule(
    "CP-HDR-01", "src", "shipping headers compare dst's rows with src's columns and may stop in assert builds",
    lambda c: c.dst.valid_rows == c.src.valid_cols, on=note("a2a3"),
)  # fmt: skip


def is_filled_in_place(tile: TileSpec) -> bool:
    """Whether the A2/A3 headers fill the valid elements of a tile: rows that are valid in part, by extents that the
    tile's type states, are taken for rows that follow each other (TExpandS.hpp:61)."""
    (rows, cols), axis = tile.valid, int(tile.blayout is BLayout.RowMajor)
    count, across, pitch = (rows, cols, tile.cols) if axis else (cols, rows, tile.rows)
    return tile.loc is not TileType.Vec or count == 1 or across == pitch or tile.dynamic[axis]


def filled_elsewhere(name: str) -> Rule:
    """A tile that the headers fill with the scalar first."""
    return Rule(
        "CP-HDR-01", name, "valid over whole rows, or of extents that are known at run time only: the headers fill "
        "the first elements of the tile instead, as if its rows had no padding",
        lambda c: not isinstance(c.operands.get(name), TileSpec) or is_filled_in_place(c.values[name]),
        on=hazard("a2a3"), found=lambda c: f"valid {show_extents(c.values[name].valid)} of "
        f"{c.values[name].rows} x {c.values[name].cols}",
        fix="give the tile dynamic valid extents, or rows that are valid as a whole",
    )  # fmt: skip


BY_FILLING = Cpp(dynamic=(filled_elsewhere("dst"),))
"""Instructions that fill the destination with the scalar first (TBitwiseSOp.hpp:105)."""
BY_FILLING_BOTH = Cpp(dynamic=(filled_elsewhere("dst"), filled_elsewhere(TMP)))
"""The same, and the workspace."""

SCALARS = (
    OpRow("tadds", "Add a scalar to a tile.", "dst = src + scalar    integers wrap", ADD_TYPES, "add",
        cpp=ONE_REGISTER),
    OpRow("tsubs", "Subtract a scalar from a tile.", "dst = src - scalar    integers wrap", ADD_TYPES, "sub",
        cpp=ONE_REGISTER),
    OpRow("tmuls", "Multiply a tile by a scalar.", "dst = src * scalar    integers wrap", MUL_TYPES, "mul",
        cpp=ONE_REGISTER),
    OpRow("trems", "The remainder by a scalar, with the scalar's sign.",
        "dst = src - floor(src / scalar) * scalar    0 or of scalar's sign", REM_TYPES, "rem", faults=BY_ZERO,
        in_place=NOT_A2A3, cpp=ONE_REGISTER),
    OpRow("tfmods", "The remainder by a scalar, with the tile's sign.",
        "dst = src - trunc(src / scalar) * scalar    0 or of src's sign", FMOD_TYPES, "fmod", faults=BY_ZERO,
        in_place=NOT_A2A3),
    OpRow("tpows", "Raise a tile to a power.",
        "dst = src ** scalar    floats within 2 ulp; integers wrap, and below the exponent 0 are truncated", POW_TYPES,
        "pow", in_place=NOT_A2A3),
    OpRow("tmaxs", "The larger of tile and scalar.", "dst = scalar if scalar > src else src", ADD_TYPES, "max",
        cpp=ONE_REGISTER),
    OpRow("tmins", "The smaller of tile and scalar.", "dst = scalar if scalar < src else src", ADD_TYPES, "min",
        cpp=ONE_REGISTER),
    OpRow("tands", "Bitwise and with a scalar.", "dst = src & scalar", SCALAR_BIT_TYPES, "and", in_place=NOT_A2A3,
        cpp=BY_FILLING),
    OpRow("tors", "Bitwise or with a scalar.", "dst = src | scalar", SCALAR_BIT_TYPES, "or", in_place=NOT_A2A3,
        cpp=BY_FILLING),
    OpRow("txors", "Bitwise exclusive or with a scalar.", "dst = src ^ scalar", SCALAR_BIT_TYPES, "xor",
        in_place=NOT_A2A3, cpp=BY_FILLING_BOTH),
    OpRow("tlrelu", "Multiply negative numbers by a scalar.", "dst = src if src > 0 else src * scalar", FLOAT_TYPES,
        "prelu"),
    OpRow("tshls", "Shift left by a scalar.", "dst = src << scalar    0 for counts of the width and more",
        SCALAR_SHIFT_TYPES, "shl", (ROWS_AGAINST_COLS,), cpp=ONE_REGISTER),
    OpRow("tshrs", "Shift right by a scalar.",
        "dst = src >> scalar    the sign (0 if unsigned) for counts of the width and more", SCALAR_SHIFT_TYPES, "shr",
        (ROWS_AGAINST_COLS,), cpp=ONE_REGISTER),
)  # fmt: skip

UNARY = (
    OpRow("tabs", "The absolute value.", "dst = |src|    the lowest integer stays itself", ABS_TYPES, "abs",
        cpp=Cpp(headers=(one_type("dst", "src", on=("cpu",)),))),
    OpRow("tneg", "Change the sign.", "dst = -src    integers wrap", MUL_TYPES, "neg", cpp=ONE_REGISTER),
    OpRow("texp", "The exponential function.", "dst = e ** src    within 2 ulp", FLOAT_TYPES, "exp"),
    OpRow("tlog", "The natural logarithm.", "dst = ln(src)    within 2 ulp", FLOAT_TYPES, "log"),
    OpRow("tsqrt", "The square root.", "dst = sqrt(src)    correctly rounded", FLOAT_TYPES, "sqrt"),
    OpRow("trecip", "The reciprocal.", "dst = 1 / src    correctly rounded, by IEEE", FLOAT_TYPES, "recip",
        in_place=NOT_A2A3),
    OpRow("trsqrt", "The reciprocal of the square root.", "dst = 1 / sqrt(src)    within 1 ulp, by IEEE", ROOT_TYPES,
        "rsqrt"),
    OpRow("trelu", "Replace negative numbers by zero.", "dst = 0 if src < 0 else src    so a NaN stays", RELU_TYPES,
        "relu"),
    OpRow("tnot", "Invert every bit.", "dst = ~src", BIT_TYPES, "not"),
)  # fmt: skip


def bits_of(call: Call) -> TileSpec:
    """A mask: one bit for each element of src0, its rows padded."""
    src = call.src0
    cols = -(-src.cols // (8 * BLOCK)) * BLOCK
    return TileSpec(dtype("uint8"), TileType.Vec, src.rows, cols, src.rows, cols)


def quotients(call: Call) -> TileSpec:
    """A row of the destination, and two elements for each 64 of it, padded."""
    cols, unit = call.dst.cols, call.dst.dtype.c0
    return row_of(call.dst.dtype, -(-(cols + 2 * -(-cols // 64)) // unit) * unit)


def mask_behind(call: Call) -> int:
    """The bytes of its workspace that TREM of A2/A3 writes: a row, and behind it a step of the vector unit, of integers
    the valid columns. The page names two elements for each 64 columns (TRem.hpp:51, 108)."""
    valid, size = call.dst.valid_cols, call.dst.dtype.size
    cols = call.dst.cols if is_unknown(valid) else valid
    filled = cols * size if call.dst.dtype.is_integer else 256
    return call.dst.stride * size + max(filled, 8 * -(-cols // 64))


def quotients_and_mask(call: Call) -> TileSpec:
    """The same as a row, padded."""
    unit = call.dst.dtype.c0
    return row_of(call.dst.dtype, -(-mask_behind(call) // BLOCK) * unit)


WORKSPACES = {
    "txor": Workspace(2, same_as("src0")),
    "txors": Workspace(2, same_as("src")),
    "tprelu": Workspace(2, bits_of),
    "trem": Workspace(2, quotients_and_mask),
    "trems": Workspace(2, quotients),
    "tpow": Workspace(2, same_as("src0")),
    "tpows": Workspace(2, same_as("src")),
}
"""By instruction: the workspace that C++ and text write."""
OPTIONAL = {"trsqrt": Workspace(1)}
"""By instruction: the workspace that they may leave out."""


INTEGERS = Table({"a2a3": of_integers})
SCALAR_LOOPS = frozenset(("tshl", "tshr"))
"""Instructions that A2/A3 carries out element by element (TShl.hpp:29, TShr.hpp:29)."""


IN_PAIRS = frozenset(("tand", "tor", "txor", "tnot"))
"""Instructions that A2/A3 carries out on pairs of bytes (TOr.hpp:42)."""


IN_STEPS = frozenset(("tadd", "tsub", "tmul", "tmax", "tmin", "tshl", "tshr"))
"""Instructions whose rows of 8-byte types A5 goes through in steps of 32 elements (Int64Binary.hpp:244)."""


def whole_steps(call: Call) -> tuple[Effect, ...]:
    """Of rows with more than one step, the last one is written whole: what is left is counted after the mask has
    used it up (Int64Binary.hpp:251, 271)."""
    is_cut = call.dst.dtype.size == 8 and call.dst.valid_cols > 32
    return (Effect("dst", "write", "V", in_ub("dst", 256)),) if is_cut else ()


def special_routes(row: OpRow, params: tuple[Param, ...]) -> tuple[SpecialRoute, ...]:
    """What headers do otherwise than one vector instruction a step does: those of A2/A3, if nothing else is said."""
    own = pipes(params, "V")
    steps = SpecialRoute("", Table({"a5": None}), RouteKernel(own, besides=whole_steps))
    if row.name in SCALAR_LOOPS:
        return (on_a2a3(scalar_loop(params, accesses=3)), steps)
    if row.name in IN_STEPS:
        return (steps,)
    if row.name in IN_PAIRS:
        return (on_a2a3(RouteKernel(own, besides=by_pairs)),)
    if row.op == "pow":  # a loop for integers; floats are corrected one by one (TPow.hpp:208, 170)
        cost = {"V": SLOW, "S": Cost("scalar loop", accesses=4)}
        effects = (*own, Effect(TMP, "write", "V"), *pipes(params, "S"), Effect(TMP, "read", "S"))
        floats = on_a2a3(RouteKernel(effects, handshake=SCALAR_LAST, cost=cost))
        return (SpecialRoute("integers", INTEGERS, scalar_loop(params, accesses=3)), floats)
    if row.op == "rem":  # integers become floats where they are, and only the dividend is turned back (TRem.hpp:81)
        sources = [param.name for param in params[1:] if param.kind != "number"]
        kept = (Effect(name, "write", "V", in_ub(name), name == "src1") for name in sources)
        beyond = (Effect(TMP, "write", "V", ahead(mask_behind)),) if row.name == "trem" else ()
        integers = SpecialRoute("integers", INTEGERS, RouteKernel((*own, *beyond, *kept), cost={"V": SLOW}))
        return (integers, on_a2a3(RouteKernel((*own, *beyond), cost={"V": SLOW})))
    return ()


def arithmetic(row: OpRow, params: tuple[Param, ...], rules: tuple[Rule, ...]) -> Instruction:
    """An operation on the sources, with its workspace."""
    sources, workspace = tuple(param.name for param in params[1:]), WORKSPACES.get(row.name)
    lower, special = apply(row.op, *sources), special_routes(row, params)
    if workspace is None:
        optional = OPTIONAL.get(row.name)
        op_text = OpText(reordered=True) if optional else PLAIN_TEXT
        return build(row, params, rules, lower, workspace=optional, op_text=op_text, special=special)
    names = (*sources, TMP)
    cpp = f"{row.name.upper()}(dst, {', '.join(names)})"
    return build(row, params, rules, lower, cpp=cpp, text=Text(names), workspace=workspace, special=special)


def binary(row: OpRow) -> Instruction:
    """Tile with tile."""
    sources = ("src0", "src1")
    params = (DST, *(replace(SRC, name=name) for name in sources))
    return arithmetic(row, params, tiles_alike("CP-BIN", sources, row.types))


def with_scalar(row: OpRow) -> Instruction:
    """Tile with scalar."""
    return arithmetic(
        row, (DST, SRC, SCALAR), tiles_alike("CP-SCA", ("src",), row.types, one_layout("CP-SCA-01", "src"))
    )


def lower_divide(call: Call) -> tuple[Move | Compute, ...]:
    """Either operand may be the dividend."""
    return apply("div", *(("src", "scalar") if call.dividend is Dividend.Tile else ("scalar", "src")))(call)


def may_replace_divided(call: Call) -> bool:
    """Floats that divide a scalar may not be replaced on A2/A3, which fills the destination with the scalar first
    (TDivS.hpp:67)."""
    return call.dividend is Dividend.Tile or call.src.dtype.is_integer


DIVS_CPP = Cpp(
    call=lambda c: "TDIVS(dst, src, scalar)" if c.dividend is Dividend.Tile else "TDIVS(dst, scalar, src)",
    headers=(
        first_64("dst"),
        Rule("CP-HDR-01", "src", "float: shipping headers divide integers through float, exact to 2^24 (int32) or "
             "2^11 (int16), and destroy src", lambda c: not c.src.dtype.is_integer, on=note("a2a3"),
             found=type_of("src"), fix=Fix(OpName("tcvt"), " to float32 first")),
    ),
)  # fmt: skip


def of_words(call: Call) -> bool:
    """Calls on integers of at most 4 bytes."""
    return of_integers(call) and call.dst.dtype.size < 8


DIVIDED = Table({"a2a3": of_integers, "a5": of_words})
"""The calls that are a scalar loop. On A5 no pipe waits for its end (a5/TDivS.hpp:65), but what follows is issued after
it, and the vendor's test orders that by V."""


TDIVS = build(
    OpRow("tdivs", "Divide a tile by a scalar, or a scalar by a tile.",
        "dst = src / scalar, or scalar / src    floats by IEEE, integers towards zero", op="div",
        faults=BY_ZERO, cpp=DIVS_CPP, in_place={**dict.fromkeys(EVERYWHERE, True), "a2a3": may_replace_divided}),
    (DST, SRC, SCALAR),
    tiles_alike("CP-SCA", ("src",), by_target(a2a3=B4, a5=DIV_TYPES["a5"]), one_layout("CP-SCA-01", "src")),
    lower_divide,
    modifiers=(Modifier("dividend", Dividend, always(Dividend.Tile), "which operand is divided: the first one given",
                        text=Attribute(reverses=Dividend.Scalar), sources=("dividend", "divisor")),),
    cpp="TDIVS(dst, src, scalar) or TDIVS(dst, scalar, src)",
    text=Text(("src", "scalar"), orders=(("scalar", "src"),)),
    special=(SpecialRoute("integers", DIVIDED, scalar_loop((DST, SRC, SCALAR), accesses=2)),),  # TDivS.hpp:170
    destination=Destination(checks_aliases=True),
)  # fmt: skip

EXPANDS_TYPES = by_target(a2a3=UP_TO_32, a5=ALL)
EXPANDS_PARAMS = (replace(DST, about="destination: a Vec tile, or a Mat tile, which is filled whole"), SCALAR)


def in_mat(call: Call) -> bool:
    """A tile in L1, filled by MTE2."""
    return call.dst.loc is TileType.Mat


def lower_expands(call: Call) -> tuple[Move | Compute, ...]:
    """The valid region of a Vec tile, all of a Mat tile."""
    dst, shape = Access("dst", call.dst.layout), call.dst.valid
    if in_mat(call):
        dst, shape = Access("dst", Layout.plain(0, 1)), (1, call.dst.elements)
    return (Compute("copy", shape, dst, (whole(call, "scalar"),)),)


TEXPANDS = replace(
    build(
        OpRow("texpands", "Fill a tile with a scalar.", "dst = scalar    the valid region; all of a Mat tile",
            cpp=replace(BY_FILLING, headers=ONE_REGISTER.headers)),
        EXPANDS_PARAMS,
        (
            located("CP-EXP-01", "dst", TileType.Vec, TileType.Mat),
            filled("CP-EXP-01"),
            Rule("CP-EXP-01", "dst", "NoneBox in UB", lambda c: in_mat(c) or c.dst.format in ("nd", "dn"),
                 on=error(*FAMILIES), fix=PLAIN_TILE),
            typed("CP-EXP-02", "dst", EXPANDS_TYPES),
        ),
        lower_expands,
    ),
    route=by_memory("texpands", "dst"),
    kernels={
        family: {
            "texpands.vec": RouteKernel(pipes(EXPANDS_PARAMS, "V"), besides=by_pairs),
            "texpands.mat": RouteKernel(pipes(EXPANDS_PARAMS, "MTE2"), cost={"MTE2": Cost("fill")}),
        }
        for family in NPU
    },
)  # fmt: skip

DESCENDING = Attribute("descending", words=((IotaOrder.Ascending, False), (IotaOrder.Descending, True)), inside=True)
CI_TYPES = by_target(a2a3=SHORT | F3, a5=SHORT)


def with_workspace(call: Call) -> bool:
    """Calls with a workspace are vector code (a2a3/TCI.hpp:54, a5/Tci.hpp:62)."""
    return call.operands.get(TMP) is not None


def counted(call: Call) -> int:
    """The bytes of its workspace that TCI of A2/A3 writes: 512, and behind them as many elements as there are, or for
    more than a step of the vector unit eight of these; the halves of 2-byte types (TCI.hpp:61, 79, 122, 183)."""
    if call.dst.dtype.size == 2:
        return 1792
    return 2560 if call.dst.valid_cols >= 64 else 512 + 4 * max(call.dst.valid_cols, 8)


COUNTED = RouteKernel((Effect("dst", "write", "V"),))
CI_CPP = Cpp(
    call="TCI(dst, start)",
    template=lambda c: (
        ("decltype({dst})", None),
        (c.dst.dtype.cpp, None),
        (str(int(c.order is IotaOrder.Descending)), None),
    ),
)
TCI = build(
    OpRow("tci", "Count up or down from a number.", "dst[0, j] = start + j, or start - j    integers wrap", cpp=CI_CPP),
    (DST, replace(SCALAR, name="start")),
    (
        vec("CP-CI-01", "dst"),
        filled("CP-CI-01"),
        needed("CP-CI-01", "dst", "a tile of one row", lambda c: c.dst.rows == 1, fix="make the tile 1 x N"),
        typed("CP-CI-02", "dst", CI_TYPES),
    ),
    apply("iota", "start", order="order"),
    modifiers=(Modifier("order", IotaOrder, always(IotaOrder.Ascending), "the order of the numbers", text=DESCENDING),),
    pipe={"a2a3": "S", "a5": "V"},
    cost={"S": Cost("scalar loop", accesses=1)},
    cpp="TCI<Tile, T, descending>(dst, start)",
    workspace=Workspace(1, touched=counted),
    special=(
        SpecialRoute("steps", Table({"a2a3": with_workspace}), replace(COUNTED, effects=(
            *COUNTED.effects, Effect(TMP, "write", "V", ahead(counted))))),
        SpecialRoute("vector", Table({"a5": with_workspace}), COUNTED),
    ),
)  # fmt: skip


def of_first_tile(call: Call) -> TileSpec | None:
    """The first source that is a tile."""
    return next((spec for spec in call.operands.values() if isinstance(spec, TileSpec)), None)


ON_ONE_TILE = (arithmetic(row, (DST, SRC), tiles_alike("CP-UNA", ("src",), row.types)) for row in UNARY)
BUILT = (*map(binary, BINARY), *map(with_scalar, SCALARS), TDIVS, *ON_ONE_TILE, TEXPANDS, TCI)
ELEMENTWISE = tuple(replace(each, destination=replace(each.destination, type=of_first_tile)) for each in BUILT)
