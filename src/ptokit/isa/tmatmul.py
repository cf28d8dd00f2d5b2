"""The cube: matrix products of Left and Right tiles into Acc tiles, and the windows that feed them."""

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.common import names
from ptokit.isa.headers import CLAUSE, IN_UB
from ptokit.isa.headers import typed as typed_in_headers
from ptokit.isa.instruction import (
    EVERYWHERE,
    NPU,
    ByExtent,
    Call,
    Case,
    Cpp,
    Instruction,
    Param,
    Rule,
    Test,
    error,
    is_tile,
    note,
)
from ptokit.isa.kernel import RouteKernel
from ptokit.isa.move import Access, Compute, Input, Move
from ptokit.isa.operand import FRACTAL_ROWS, show_extents
from ptokit.isa.policy import TileType
from ptokit.isa.table import Table
from ptokit.isa.vector import OpRow, Text, alike, build, by_target, filled, located, pipes, typed, types, whole

VEC, MAT, LEFT, RIGHT, ACC = TileType.Vec, TileType.Mat, TileType.Left, TileType.Right, TileType.Acc

LONGEST = 4095
BYTES = "float8_e4m3 float8_e5m2"
EVERY_CUBE = "int8 float16 bfloat16 float32"
ACC_OF = {"int8": "int32", **dict.fromkeys(f"float16 bfloat16 float32 {BYTES}".split(), "float32")}
"""The type that products of a type are summed in."""
MATMUL_TYPES = by_target(types(EVERY_CUBE), *(types(f"{EVERY_CUBE} {BYTES}"),) * 3)
LEFT_FORMS = Table({"cpu": ("nz", "zz"), "a2a3": ("zz",), "a5": ("nz",), "host": ("nz", "zz")})
"""The layouts that a Left tile may have; the first is the default."""

C = Param("dst", "write", "the product: an Acc tile, float32 or (of int8) int32")
CIN = Param("acc", "read", "an Acc tile like dst, to add to; it may be dst")
A = Param("a", "read", "the left matrix: a Left tile")
B = Param("b", "read", "the right matrix: a Right tile of a's type; of 8-bit floats, either one")
BIAS = Param("bias", "read", "a Bias tile of one row, added to every row of the product")


def form(operand: str, forms: Table[tuple[str, ...]], fractal: int) -> Rule:
    """A cube tile has the layout of its memory."""
    return Rule("CP-MM-01", operand, lambda c: f"{' or '.join(c.here(forms))} with {fractal}-byte fractals",
                lambda c: c.values[operand].form in c.here(forms) and c.values[operand].fractal == fractal,
                on=error(*EVERYWHERE), fix="leave blayout=, slayout= and fractal= to the tile's location")  # fmt: skip


def extents(operand: str, text: str, holds: Test) -> Rule:
    """The extents of an operand follow from the others'."""
    return Rule("CP-MM-02", operand, text, holds, on=error(*EVERYWHERE), blocks="execution", kind=ByExtent(),
                fix="a is m x k, b is k x n, dst is m x n; valid regions likewise")  # fmt: skip


RIGHT_FORMS = Table(dict.fromkeys(EVERYWHERE, ("zn",)))
ACC_FORMS = Table(dict.fromkeys(EVERYWHERE, ("nz",)))

PLACES = (
    located("CP-MM-01", "dst", ACC),
    located("CP-MM-01", "a", LEFT),
    located("CP-MM-01", "b", RIGHT),
    form("dst", ACC_FORMS, 1024),
    form("a", LEFT_FORMS, 512),
    form("b", RIGHT_FORMS, 512),
    filled("CP-MM-02", "a"),
    filled("CP-MM-02", "b"),
)
MATRICES = (
    extents("b", "of as many rows, and valid rows, as a has columns",
            lambda c: c.b.rows == c.a.cols and c.b.valid_rows == c.a.valid_cols),
    extents("dst", "of a's rows and b's columns, and valid so",
            lambda c: (c.dst.rows, c.dst.cols, *c.dst.valid) == (c.a.rows, c.b.cols, c.a.valid_rows, c.b.valid_cols)),
)  # fmt: skip
LIMITS = (
    extents("a", f"of at most {LONGEST} valid rows and columns", lambda c: max(c.a.valid) <= LONGEST),
    extents("b", f"of at most {LONGEST} valid columns", lambda c: c.b.valid_cols <= LONGEST),
    typed("CP-MM-03", "a", MATMUL_TYPES),
    Rule("CP-MM-03", "b", lambda c: f"of a's element type, {c.a.dtype}, or an 8-bit float as it is",
         lambda c: c.b.dtype is c.a.dtype or {c.a.dtype, c.b.dtype} <= types(BYTES), on=error(*EVERYWHERE),
         blocks="execution", found=lambda c: str(c.b.dtype), fix="tcvt converts between types"),
    Rule("CP-MM-03", "dst", lambda c: f"of the type that sums of {c.a.dtype} products have",
         lambda c: c.dst.dtype.name == ACC_OF[c.a.dtype.name], on=error(*EVERYWHERE), blocks="execution",
         when=Case("a known input type", lambda c: c.a.dtype.name in ACC_OF),
         found=lambda c: str(c.dst.dtype), fix="int32 for int8, float32 for the floats"),
)  # fmt: skip
SIXTEEN_ROWS = Rule(
    "CP-HDR-01", "a", "shipping headers compute 16 rows for m == 1, so 16 rows of dst are written",
    lambda c: c.a.valid_rows != 1, on=note("a2a3"),
)  # fmt: skip
PRODUCT_RULES = (*PLACES, *MATRICES, *LIMITS, SIXTEEN_ROWS)

ACC_RULES = (
    located("CP-MM-01", "acc", ACC),
    form("acc", ACC_FORMS, 1024),
    extents("acc", "of dst's shape and valid region",
            lambda c: (c.acc.rows, c.acc.cols, *c.acc.valid) == (c.dst.rows, c.dst.cols, *c.dst.valid)),
    alike("CP-MM-03", "acc"),
)  # fmt: skip
BIAS_RULES = (
    located("CP-MM-01", "bias", TileType.Bias),
    Rule("CP-MM-01", "bias", "RowMajor + NoneBox", lambda c: c.bias.form == "nd", on=error(*EVERYWHERE),
         fix="make the tile without blayout= and slayout="),
    extents("bias", "one row of at least dst's valid columns",
            lambda c: (c.bias.rows, c.bias.valid_rows) == (1, 1) and c.bias.valid_cols >= c.dst.valid_cols),
    alike("CP-MM-03", "bias"),
)  # fmt: skip


PRODUCT_CPP = Cpp(headers=(typed_in_headers("a", {"cpu": EVERY_CUBE}),))


def product(row: OpRow, params: tuple[Param, ...], rules: tuple[Rule, ...], *addends: str) -> Instruction:
    """A matrix product, and what is added to it."""

    def lower(call: Call) -> tuple[Move | Compute, ...]:
        inputs = tuple(
            replace(whole(call, name), shape=(1, call.dst.valid_cols)) if name == "bias" else whole(call, name)
            for name in ("a", "b", *addends)
        )
        return (Compute(row.op, call.dst.valid, Access("dst", call.dst.layout), inputs),)

    text = Text(tuple(param.name for param in params[1:]), row.name.replace("_", "."))
    return build(replace(row, cpp=PRODUCT_CPP), params, rules, lower, pipe="M", text=text)


# Later rules assume that every operand is a tile in its memory, so the locations come first.
TMATMUL = product(
    OpRow("tmatmul", "Multiply two matrices.", "dst = a @ b    summed in float32, or exactly in int32", MATMUL_TYPES,
        "matmul", in_place=()),
    (C, A, B),
    PRODUCT_RULES,
)  # fmt: skip
TMATMUL_ACC = product(
    OpRow("tmatmul_acc", "Multiply two matrices and add.",
        "dst = acc + a @ b    summed in float32, or int32 that wraps", MATMUL_TYPES, "matmul"),
    (C, CIN, A, B),
    (*ACC_RULES[:1], *PRODUCT_RULES, *ACC_RULES[1:]),
    "acc",
)  # fmt: skip
TMATMUL_BIAS = product(
    OpRow("tmatmul_bias", "Multiply two matrices and add a row.", "dst = a @ b + bias    bias is added to every row",
        MATMUL_TYPES, "matmul", in_place=()),
    (C, A, B, BIAS),
    (*BIAS_RULES[:1], *PRODUCT_RULES, *BIAS_RULES[1:]),
    "bias",
)  # fmt: skip


ONE_ROW = (
    Rule("CP-MM-05", "a", "of one row, which is valid", lambda c: (c.a.rows, c.a.valid_rows) == (1, 1),
         on=error(*EVERYWHERE), blocks="execution", kind=ByExtent(),
         found=lambda c: f"{c.a.rows} rows, {c.a.valid_rows} valid", fix="use tmatmul for several rows"),
    Rule("CP-MM-05", "b", "of as many valid rows as a has valid columns", lambda c: c.b.valid_rows == c.a.valid_cols,
         on=error(*EVERYWHERE), blocks="execution", kind=ByExtent(), fix="a is 1 x k, b is k x n"),
    Rule("CP-MM-05", "dst", "of one valid row and b's valid columns", lambda c: c.dst.valid == (1, c.b.valid_cols),
         on=error(*EVERYWHERE), blocks="execution", kind=ByExtent(), fix="a is 1 x k, b is k x n, dst is 1 x n"),
)  # fmt: skip
"""Of a product with a row; the tiles may be padded to any size."""


def of_one_row(first: tuple[Rule, ...] = (), last: tuple[Rule, ...] = ()) -> tuple[Rule, ...]:
    """The rules of a product with a row, and those of what is added."""
    return tuple(replace(rule, id="CP-MM-05") for rule in (*first, *PLACES, *ONE_ROW, *LIMITS, *last))


TGEMV = product(
    OpRow("tgemv", "Multiply a row by a matrix.", "dst = a @ b    summed in float32, or exactly in int32", MATMUL_TYPES,
        "matmul", in_place=()),
    (C, A, B),
    of_one_row(),
)  # fmt: skip
TGEMV_ACC = product(
    OpRow("tgemv_acc", "Multiply a row by a matrix and add.",
        "dst = acc + a @ b    summed in float32, or int32 that wraps", MATMUL_TYPES, "matmul"),
    (C, CIN, A, B),
    of_one_row(ACC_RULES[:1], ACC_RULES[1:]),
    "acc",
)  # fmt: skip
TGEMV_BIAS = product(
    OpRow("tgemv_bias", "Multiply a row by a matrix and add a row.", "dst = a @ b + bias", MATMUL_TYPES, "matmul",
        in_place=()),
    (C, A, B, BIAS),
    of_one_row(BIAS_RULES[:1], BIAS_RULES[1:]),
    "bias",
)  # fmt: skip

PATHS = {(MAT, LEFT): "MTE1", (MAT, RIGHT): "MTE1", (ACC, MAT): "FIX", (VEC, VEC): "V"}
"""Source and destination memory, and the pipe between them."""


def aligned(call: Call) -> bool:
    """A window of fractals begins at a fractal, one of plain rows at a 32-byte block."""
    row, col = call.row.value, call.col.value
    if call.src.form == "nd":
        return col * call.src.dtype.size % 32 == 0
    return row % FRACTAL_ROWS == 0 and col % call.src.dtype.c0 == 0


def inside(call: Call) -> bool:
    """The window lies in the source's valid region; on devices, in all of a Mat tile."""
    rows, cols = (call.src.rows, call.src.cols) if call.src.loc is MAT and call.family in NPU else call.src.valid
    return call.row.value + call.dst.valid_rows <= rows and call.col.value + call.dst.valid_cols <= cols


def extract_route(call: Call) -> str:
    """`textract.mat.left`, and so on."""
    return f"textract.{call.src.loc.text}.{call.dst.loc.text}"


def lower_extract(call: Call) -> tuple[Move | Compute, ...]:
    """Copy a window of the source."""
    corner = (("row", call.row.value), ("col", call.col.value))
    rows, cols = call.row.value + call.dst.valid_rows, call.col.value + call.dst.valid_cols
    src = Input("src", call.src.layout, (max(call.src.valid_rows, rows), max(call.src.valid_cols, cols)))
    return (Compute("window", call.dst.valid, Access("dst", call.dst.layout), (src,), corner),)


EXTRACT_RULES = (
    Rule("CP-EXT-01", "src", "a tile", lambda c: is_tile(c.src), on=error(*EVERYWHERE), blocks="route",
         fix="tload brings memory into a tile"),
    Rule("CP-EXT-01", "dst", "a tile", lambda c: is_tile(c.dst), on=error(*EVERYWHERE), blocks="route",
         fix="tstore takes a tile to memory"),
    Rule("CP-EXT-01", "dst", "reached by one of " + ", ".join(f"{a.text} to {b.text}" for a, b in PATHS),
         lambda c: (c.src.loc, c.dst.loc) in PATHS, on=error(*EVERYWHERE), blocks="execution",
         found=lambda c: f"{c.src.loc.text} to {c.dst.loc.text}", fix="move it through another memory"),
    filled("CP-EXT-01"),
    Rule("CP-EXT-01", "src", "large enough for the window", inside, on=error(*EVERYWHERE),
         blocks="execution", kind=ByExtent(),
         found=lambda c: f"valid {show_extents(c.src.valid)} for {show_extents(c.dst.valid)} at "
                         f"({c.row.value}, {c.col.value})",
         fix="shrink dst's valid region or move the window"),
    Rule("CP-EXT-01", "src", "cut at a 32-byte block of a row, or at a fractal", aligned, on=error(*NPU),
         found=lambda c: f"a window at ({c.row.value}, {c.col.value})",
         fix="move the window to a whole block"),
    Rule("CP-EXT-02", "src", lambda c: f"one of {names(c.here(MATMUL_TYPES))} on its way to the cube",
         lambda c: c.src.dtype in c.here(MATMUL_TYPES), on=error(*EVERYWHERE),
         when=Case("from Mat", lambda c: c.src.loc is MAT), found=lambda c: str(c.src.dtype),
         fix="tcvt converts between types"),
    Rule("CP-EXT-02", "src", "a number type", lambda c: c.src.dtype.family in ("int", "uint", "float", "raw"),
         on=error(*EVERYWHERE), blocks="execution", found=lambda c: str(c.src.dtype), fix="view the bytes as uint8"),
    alike("CP-EXT-02", "src"),
)  # fmt: skip
EXTRACT_PARAMS = (
    Param("dst", "write", "destination: Left, Right, Mat or Vec"),
    Param("src", "read", "source: Mat, Acc or Vec"),
    Param("row", "read", "a number: the window's first row", kind="position"),
    Param("col", "read", "a number: the window's first column", kind="position"),
)
EXTRACT_KERNELS = {
    f"textract.{a.text}.{b.text}": RouteKernel(pipes(EXTRACT_PARAMS, pipe)) for (a, b), pipe in PATHS.items()
}
EXTRACT_CPP = Cpp(
    headers=(
        typed_in_headers("dst", {"a5": "i8 i32 f16 bf16 f32 f8E4M3FN f8E5M2"}, IN_UB),
        Rule(CLAUSE, "dst", lambda c: f"at most {c.src.rows} x {c.src.cols}, as src: the headers compare storage",
             lambda c: c.dst.cols <= c.src.cols and (c.dst.rows <= c.src.rows or c.dst.form != "nd"), on=error("a5"),
             when=IN_UB, found=lambda c: f"{c.dst.rows} x {c.dst.cols}", fix="make dst no larger than src"),
    ),
)  # fmt: skip
TEXTRACT = replace(
    build(OpRow("textract", "Copy a window of a tile.", "dst[i, j] = src[row + i, col + j]    over dst's valid region",
              in_place=(), cpp=EXTRACT_CPP), EXTRACT_PARAMS, EXTRACT_RULES, lower_extract),
    route=extract_route,
    kernels=dict.fromkeys(NPU, EXTRACT_KERNELS),
)  # fmt: skip

CUBE = (TMATMUL, TMATMUL_ACC, TMATMUL_BIAS, TGEMV, TGEMV_ACC, TGEMV_BIAS, TEXTRACT)
