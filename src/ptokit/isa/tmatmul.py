"""The cube: matrix products of Left and Right tiles into Acc tiles, and the windows that feed them."""
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.casts import *
from ptokit.isa.headers import CLAUSE, IN_UB, typed_in_headers
from ptokit.isa.vocabulary import *

VEC, MAT, LEFT, RIGHT, ACC = TileType.Vec, TileType.Mat, TileType.Left, TileType.Right, TileType.Acc

LONGEST = 4095
BYTES = "float8_e4m3 float8_e5m2"
EVERY_CUBE = "int8 float16 bfloat16 float32"
ACC_OF = {"int8": "int32", **dict.fromkeys(f"float16 bfloat16 float32 {BYTES}".split(), "float32")}
"""The type that products of a type are summed in."""
MATMUL_TYPES = everywhere(types(f"{EVERY_CUBE} {BYTES}"), a2a3=types(EVERY_CUBE))
LEFT_FORMS = Table({"cpu": ("nz", "zz"), "a2a3": ("zz",), "a5": ("nz",), "host": ("nz", "zz")})
"""The layouts that a Left tile may have; the first is the default."""

C = Param("dst", "write", "the product: an Acc tile, float32 or (of int8) int32")
CIN = Param("acc", "read", "an Acc tile like dst, to add to; it may be dst")
A = Param("a", "read", "the left matrix: a Left tile")
B = Param("b", "read", "the right matrix: a Right tile of a's type; of 8-bit floats, either one")
BIAS = Param("bias", "read", "a Bias tile of one row, added to every row of the product")


GROUP = 32
"""Elements along k with one scale."""


def groups(k: int) -> int:
    """The number of scales of `k` elements."""
    return -(-k // GROUP)


def laid_out(operand: str, forms: Table[tuple[str, ...]], fractal: int) -> Rule:
    """A cube tile has the layout of its memory."""
    return anywhere("CP-MM-01", operand, lambda c: f"{' or '.join(c.lookup(forms))} with {fractal}-byte fractals",
                    lambda c: c.values[operand].format in c.lookup(forms) and c.values[operand].fractal == fractal,
                    fix=Fix("leave ", BLAYOUT, ", ", SLAYOUT, " and ", FRACTAL, " to the tile's location"))  # fmt: skip


def extents(operand: str, text: str, holds: Test) -> Rule:
    """The extents of an operand follow from the others'."""
    return sized("CP-MM-02", operand, text, holds, fix="a is m x k, b is k x n, dst is m x n")  # fmt: skip


RIGHT_FORMS = Table(dict.fromkeys(EVERYWHERE, ("zn",)))
ACC_FORMS = Table(dict.fromkeys(EVERYWHERE, ("nz",)))

PLACES = (
    located("CP-MM-01", "dst", ACC),
    located("CP-MM-01", "a", LEFT),
    located("CP-MM-01", "b", RIGHT),
    laid_out("dst", ACC_FORMS, 1024),
    laid_out("a", LEFT_FORMS, 512),
    laid_out("b", RIGHT_FORMS, 512),
    filled("CP-MM-02", "a"),
    filled("CP-MM-02", "b"),
)


def allocated(operand: str, text: str, holds: Test, enough: Test) -> tuple[Rule, Rule]:
    """Allocated extents agree. Headers take the valid ones and assert nothing of the others (a2a3/TMatmul.hpp:160,
    a5/TMatmul.hpp:173), so there it is enough that they hold these."""
    large = Case("it holds the valid region", lambda c: c.lookup(BY_VALID, False) and enough(c))
    return replace(extents(operand, text, holds), when=~large), Rule(
        "CP-MM-02", operand, f"not {text}; the headers take the valid region", holds, on=note(*NPU), when=large,
        fix="a is m x k, b is k x n, dst is m x n",
    )  # fmt: skip


BY_VALID = Table({"a2a3": True, "a5": True})
MATRICES = (
    *allocated("b", "of as many rows as a has columns", lambda c: c.b.rows == c.a.cols,
               lambda c: c.b.rows >= c.a.valid_cols),
    *allocated("dst", "of a's rows and b's columns", lambda c: (c.dst.rows, c.dst.cols) == (c.a.rows, c.b.cols),
               lambda c: c.dst.rows >= c.a.valid_rows and c.dst.cols >= c.b.valid_cols),
)  # fmt: skip
LIMITS = (
    extents("a", f"of at most {LONGEST} valid rows and columns", lambda c: max(c.a.valid) <= LONGEST),
    extents("b", f"of at most {LONGEST} valid columns", lambda c: c.b.valid_cols <= LONGEST),
    typed("CP-MM-03", "a", MATMUL_TYPES),
    needed("CP-MM-03", "b", lambda c: f"of a's element type, {c.a.dtype}, or an 8-bit float as it is",
           lambda c: c.b.dtype is c.a.dtype or {c.a.dtype, c.b.dtype} <= types(BYTES), found=type_of("b"), fix=CONVERT),
    needed("CP-MM-03", "dst", lambda c: f"of the type that sums of {c.a.dtype} products have",
           lambda c: c.dst.dtype.name == ACC_OF[c.a.dtype.name],
           when=Case("a known input type", lambda c: c.a.dtype.name in ACC_OF), found=type_of("dst"),
           fix="int32 for int8, float32 for the floats"),
)  # fmt: skip
SIXTEEN_ROWS = Rule(
    "CP-HDR-01", "a", "shipping headers compute 16 rows for m == 1, so 16 rows of dst are written",
    lambda c: c.a.valid_rows != 1, on=note("a2a3"),
)  # fmt: skip
PRODUCT_RULES = (*PLACES, *MATRICES, *LIMITS, SIXTEEN_ROWS)

ACC_RULES = (
    located("CP-MM-01", "acc", ACC),
    laid_out("acc", ACC_FORMS, 1024),
    extents("acc", "of dst's shape", lambda c: (c.acc.rows, c.acc.cols) == (c.dst.rows, c.dst.cols)),
    alike("CP-MM-03", "acc"),
)  # fmt: skip
BIAS_RULES = (
    located("CP-MM-01", "bias", TileType.Bias),
    anywhere("CP-MM-01", "bias", "RowMajor + NoneBox", lambda c: c.bias.format == "nd",
             fix=Fix("make the tile without ", BLAYOUT, " and ", SLAYOUT)),
    extents("bias", "one row of at least b's valid columns",
            lambda c: (c.bias.rows, c.bias.valid_rows) == (1, 1) and c.bias.valid_cols >= c.b.valid_cols),
    alike("CP-MM-03", "bias"),
)  # fmt: skip


PRODUCT_CPP = Cpp(
    headers=(typed_in_headers("a", {"cpu": EVERY_CUBE}),),
    unmodelled=Table({"a5": frozenset({"hifloat8", "float32"})}),
)


def product(
    row: OpRow, params: tuple[Param, ...], rules: tuple[Rule, ...], *addends: str, cpp: str = ""
) -> Instruction:
    """A matrix product, and what is added to it; `cpp` is the call in C++ of one with scales."""
    options = (("group", GROUP),) if cpp else ()
    factors = tuple(param.name for param in params if param.name not in ("dst", *addends))

    def lower(call: Call) -> tuple[Move | Compute, ...]:
        (m, k), n = call.a.valid, call.b.valid_cols
        shapes = {"a": (m, k), "b": (k, n), "acc": (m, n), "bias": (1, n)}
        shapes |= {"a_scale": (m, groups(k)), "b_scale": (groups(k), n)}
        inputs = tuple(replace(whole(call, name), shape=shapes[name]) for name in (*factors, *addends))
        return (Compute(row.op, (m, n), Access("dst", call.dst.layout), inputs, options),)

    text = Text(tuple(param.name for param in params[1:]), row.name.replace("_", "."))
    known = row if cpp else replace(row, cpp=replace(PRODUCT_CPP, in_place="acc" if "acc" in addends else ""))
    return build(known, params, rules, lower, pipe="M", text=text, cpp=cpp)


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
    sized("CP-MM-05", "a", "of one row, which is valid", lambda c: (c.a.rows, c.a.valid_rows) == (1, 1),
          found=lambda c: f"{c.a.rows} rows, {c.a.valid_rows} valid",
          fix=Fix("use ", OpName("tmatmul"), " for several rows")),
    sized("CP-MM-05", "b", "of as many valid rows as a has valid columns", lambda c: c.b.valid_rows == c.a.valid_cols,
          fix="a is 1 x k, b is k x n"),
    sized("CP-MM-05", "dst", "of one valid row and b's valid columns", lambda c: c.dst.valid == (1, c.b.valid_cols),
          fix="a is 1 x k, b is k x n, dst is 1 x n"),
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

# --- Products of MX formats: a scale for every 32 elements along k ------------------------------------------------

MX = ("cpu", "a5", "host")
"""The targets that have scales of matrices."""
MX_K = 64
"""The columns of a are a multiple of this."""
SCALED_TYPES = everywhere(types(BYTES), a2a3=types(""))
SCALE_TYPES = everywhere(types("float8_e8m0"), a2a3=types(""))
PRODUCT_TYPES = everywhere(types("float32"), a2a3=types(""))
MX_LEFT, MX_RIGHT = (Table(dict.fromkeys(EVERYWHERE, (name,))) for name in ("zz", "nn"))
A_SCALE = Param(
    "a_scale", "read", "the scales of a: a ScaleLeft tile of float8_e8m0, one for 32 columns of a row", has_scales=True
)
B_SCALE = Param(
    "b_scale", "read", "the scales of b: a ScaleRight tile of float8_e8m0, one for 32 rows of a column", has_scales=True
)


def agree(operand: str, text: str, holds: Test, fix: str = "a is m x k, b is k x n, dst is m x n") -> Rule:
    """The valid extents of an operand follow from the others'."""
    return Rule("CP-MX-02", operand, text, holds, on=error(*MX), blocks="execution", kind=ByExtent(), fix=fix,
                found=valid_of(operand))  # fmt: skip


def of_mx(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Rules of other products, as rules of these."""
    return tuple(replace(rule, id=rule.id.replace("-MM-", "-MX-"), on=error(*MX)) for rule in rules)


MX_PLACES = of_mx((
    located("CP-MX-01", "dst", ACC),
    located("CP-MX-01", "a", LEFT),
    located("CP-MX-01", "a_scale", TileType.ScaleLeft),
    located("CP-MX-01", "b", RIGHT),
    located("CP-MX-01", "b_scale", TileType.ScaleRight),
    laid_out("dst", ACC_FORMS, 1024),
    laid_out("a", ACC_FORMS, 512),
    laid_out("a_scale", MX_LEFT, SCALE_FRACTAL),
    laid_out("b", RIGHT_FORMS, 512),
    laid_out("b_scale", MX_RIGHT, SCALE_FRACTAL),
    filled("CP-MX-02", "a"),
    filled("CP-MX-02", "b"),
))  # fmt: skip
MX_EXTENTS = (
    Rule("CP-MX-02", "a", f"of a multiple of {MX_K} columns", lambda c: c.a.cols % MX_K == 0, on=error(*MX),
         found=lambda c: f"{c.a.cols} columns", fix=Fix("pad the columns, and give ", VALID)),
    agree("b", "of as many valid rows as a has valid columns", lambda c: c.b.valid_rows == c.a.valid_cols),
    agree("dst", "of a's valid rows and b's valid columns", lambda c: c.dst.valid == (c.a.valid_rows, c.b.valid_cols)),
    agree("a_scale", "of a scale for every 32 valid columns of a's valid rows",
          lambda c: c.a_scale.valid_rows >= c.a.valid_rows and c.a_scale.valid_cols >= groups(c.a.valid_cols),
          fix="a_scale is m x ceil(k / 32)"),
    agree("b_scale", "of a scale for every 32 valid rows of b's valid columns",
          lambda c: c.b_scale.valid_cols >= c.b.valid_cols and c.b_scale.valid_rows >= groups(c.a.valid_cols),
          fix="b_scale is ceil(k / 32) x n"),
    *of_mx(LIMITS[:2]),
)  # fmt: skip
MX_TYPES = of_mx((
    typed("CP-MX-03", "a", SCALED_TYPES),
    typed("CP-MX-03", "b", SCALED_TYPES),
    typed("CP-MX-03", "a_scale", SCALE_TYPES, "hold the scales as float8_e8m0"),
    typed("CP-MX-03", "b_scale", SCALE_TYPES, "hold the scales as float8_e8m0"),
    typed("CP-MX-03", "dst", PRODUCT_TYPES, "make dst of float32"),
))  # fmt: skip
MX_RULES = (*MX_PLACES, *MX_EXTENTS, *MX_TYPES)
MX_ADDED = {
    "": ((), ()),
    "acc": (of_mx(ACC_RULES[:1]), (*of_mx(ACC_RULES[1:2]), agree("acc", "of dst's valid region",
            lambda c: c.acc.valid == c.dst.valid, "give both the same valid region"), *of_mx(ACC_RULES[3:]))),
    "bias": (of_mx(BIAS_RULES[:1]), of_mx(BIAS_RULES[1:])),
}  # fmt: skip
"""By what is added: its rules before and after the others."""
MX_ROW = agree("a", "of one valid row", lambda c: c.a.valid_rows == 1, "use tmatmul_mx for several rows")


def mx_product(name: str, what: str, added: str = "", own: tuple[Rule, ...] = ()) -> Instruction:
    """A product of matrices with scales."""
    first, last = MX_ADDED[added]
    params = (C, *((CIN,) if added == "acc" else ()), A, A_SCALE, B, B_SCALE, *((BIAS,) if added == "bias" else ()))
    words = {"": "", "acc": " and add", "bias": " and add a row"}[added]
    sum_ = {"": "", "acc": "acc + ", "bias": "bias + "}[added]
    row = OpRow(
        f"{name}_{added}" if added else name, f"Multiply {what}, both with scales{words}.",
        f"dst = {sum_}sum over k of a[i, k] * a_scale[i, k // 32] * b[k, j] * b_scale[k // 32, j]",
        SCALED_TYPES, "matmul_mx", in_place=EVERYWHERE if added == "acc" else (),
    )  # fmt: skip
    call = f"{name.upper()}({', '.join(param.name for param in params)})"
    return product(row, params, (*first, *MX_RULES, *own, *last), *filter(None, (added,)), cpp=call)


MX_PRODUCTS = tuple(
    mx_product(name, what, added, own)
    for name, what, own in (("tmatmul_mx", "two matrices", ()), ("tgemv_mx", "a row by a matrix", (MX_ROW,)))
    for added in MX_ADDED
)

A2A3_PATHS = {(MAT, LEFT): "MTE1", (MAT, RIGHT): "MTE1", (ACC, MAT): "FIX", (VEC, VEC): "V"}
SCALES = (TileType.ScaleLeft, TileType.ScaleRight)
A5_PATHS = {
    **A2A3_PATHS,
    (ACC, VEC): "FIX",
    (VEC, MAT): "MTE3",
    **dict.fromkeys(((MAT, loc) for loc in SCALES), "MTE1"),
}
PATHS = Table({"cpu": A5_PATHS, "a2a3": A2A3_PATHS, "a5": A5_PATHS, "host": A2A3_PATHS})
"""Source and destination memory, and the pipe between them."""


ANY_COLUMN = Table({"a5": True})
"""Where vector code takes windows from any column (TExtract.hpp:901); elsewhere, single elements
(textract_common.hpp:505)."""


def aligned(call: Call) -> bool:
    """A window of fractals begins at a fractal, one of plain rows at a 32-byte block, one of an accumulator, or on A5
    of fractals in UB (TExtract.hpp:942, 1169), at such a block of any row."""
    row, col = call.row.value, call.col.value
    is_free = call.dst.valid == (1, 1) or (call.src.format == "nd" and call.lookup(ANY_COLUMN, False))
    if call.src.loc is call.dst.loc is VEC and is_free:
        return True
    if call.src.format == "nd":
        return col * call.src.dtype.size % 32 == 0
    if call.src.fractal == SCALE_FRACTAL:
        return row % call.src.box[0] == 0 and col % call.src.box[1] == 0
    is_of_rows = call.src.loc is ACC or (call.src.loc is VEC and call.lookup(ANY_COLUMN, False))
    return (row % FRACTAL_ROWS == 0 or is_of_rows) and col % call.src.dtype.c0 == 0


def inside(call: Call) -> bool:
    """The window lies in the source's valid region; on devices, in all of a Mat tile."""
    rows, cols = (call.src.rows, call.src.cols) if call.src.loc is MAT and call.has_pipes else call.src.valid
    return call.row.value + call.dst.valid_rows <= rows and call.col.value + call.dst.valid_cols <= cols


def cube_types(call: Call) -> Table[Types]:
    """The types of matrices, or of their scales."""
    return SCALE_TYPES if call.dst.loc in SCALES else MATMUL_TYPES


def lower_extract(call: Call) -> tuple[Move | Compute, ...]:
    """Copy a window of the source; one of an accumulator may be converted."""
    if call.src.loc is ACC and (CONVERTS(call) or FROM_ACC(call)):
        src = call.src.layout.cut(call.row.value, call.col.value)
        return (copied(call, call.dst.valid, call.dst.layout, src, call.col.value),)
    row, col = call.row.value, call.col.value
    rows, cols = row + call.dst.valid_rows, col + call.dst.valid_cols
    src = Input("src", call.src.layout, (max(call.src.valid_rows, rows), max(call.src.valid_cols, cols)))
    is_one = certain(lambda: call.dst.valid == (1, 1))
    at_box = not is_unknown(row, col) and (is_one or row % call.src.box[0] == col % call.src.box[1] == 0)
    if at_box:  # a window that begins at a box, or is one element, has a layout: it alone is read
        src, row, col = Input("src", call.src.layout.cut(row, col), call.dst.valid), 0, 0
    corner = (("row", row), ("col", col))
    return (Compute("window", call.dst.valid, Access("dst", call.dst.layout), (src,), corner),)


EXTRACT_RULES = (
    routing("CP-EXT-01", "src", "a tile", lambda c: is_tile(c.src), fix=BRING),
    routing("CP-EXT-01", "dst", "a tile", lambda c: is_tile(c.dst), fix=TAKE),
    needed("CP-EXT-01", "dst",
           lambda c: "reached by one of " + ", ".join(f"{a.text} to {b.text}" for a, b in c.lookup(PATHS)),
           lambda c: (c.src.loc, c.dst.loc) in c.lookup(PATHS), found=lambda c: f"{c.src.loc.text} to {c.dst.loc.text}",
           fix="move it through another memory"),
    filled("CP-EXT-01"),
    sized("CP-EXT-01", "src", "large enough for the window", inside,
          found=lambda c: f"valid {show_extents(c.src.valid)} for {show_extents(c.dst.valid)} at "
                          f"({c.row.value}, {c.col.value})",
          fix="shrink dst's valid region or move the window"),
    Rule("CP-EXT-01", "src", "cut at a 32-byte block of a row, or at a fractal", aligned, on=error(*NPU),
         found=lambda c: f"a window at ({c.row.value}, {c.col.value})",
         fix="move the window to a whole block"),
    anywhere("CP-EXT-02", "src", lambda c: f"one of {names(c.lookup(cube_types(c)))} on its way to the cube",
             lambda c: c.src.dtype in c.lookup(cube_types(c)), when=Case("from Mat", lambda c: c.src.loc is MAT),
             found=type_of("src"), fix=CONVERT),
    needed("CP-EXT-02", "src", "a number type", lambda c: c.src.dtype.family in ("int", "uint", "float", "raw"),
           found=type_of("src"), fix="view the bytes as uint8"),
    cast_type("CP-EXT-02", "src", "dst", lambda c: NARROWED if c.src.loc is ACC else frozenset()),
    *fix_rules(SCALED_TO_TILES),
)  # fmt: skip
EXTRACT_PARAMS = (
    Param("dst", "write", "destination: Left, Right, Mat or Vec", has_scales=True),
    Param("src", "read", "source: Mat, Acc or Vec"),
    Param("row", "read", "a number: the window's first row", kind="position"),
    Param("col", "read", "a number: the window's first column", kind="position"),
    SCALE,
)
EXTRACT_KERNELS = {
    family: {
        f"textract.{a.text}.{b.text}": RouteKernel(pipes(EXTRACT_PARAMS, pipe))
        for (a, b), pipe in PATHS[family].items()
    }
    | {f"textract.vec.vec.{ELEMENT}": scalar_loop(EXTRACT_PARAMS, accesses=2)}
    for family in NPU
}
EXTRACT_CPP = Cpp(
    "TEXTRACT(dst, src, scale, row, col)",
    relu_template("dst", "src"),
    unmodelled=SHORT_ACCUMULATORS,
    headers=(
        typed_in_headers("dst", {"a5": "i8 i32 f16 bf16 f32 f8E4M3FN f8E5M2 hif8 f8E8M0"}, IN_UB),
        Rule(CLAUSE, "dst", lambda c: f"at most {c.src.rows} x {c.src.cols}, as src: the headers compare storage",
             lambda c: c.dst.cols <= c.src.cols and (c.dst.rows <= c.src.rows or c.dst.format != "nd"), on=hazard("a5"),
             when=IN_UB, found=lambda c: f"{c.dst.rows} x {c.dst.cols}", fix="make dst no larger than src"),
    ),
)  # fmt: skip
TEXTRACT = replace(
    build(OpRow("textract", "Copy a window of a tile.", "dst[i, j] = src[row + i, col + j]    over dst's valid region",
              in_place=(), cpp=EXTRACT_CPP), EXTRACT_PARAMS, EXTRACT_RULES, lower_extract, modifiers=(RELU,),
          text=Text(("src", "row", "col"), orders=(("src", "row", "col", "scale"),))),
    route=by_part("textract", "dst"),
    kernels=EXTRACT_KERNELS,
)  # fmt: skip
TEXTRACT_FP = with_factors(
    TEXTRACT,
    Cpp("TEXTRACT_FP(dst, src, fp, row, col)", relu_template("dst", "src", "fp")),
    SCALED_TO_TILES,
    lambda c: is_tile(c.dst) and (ACC, c.dst.loc) in c.lookup(PATHS) and inside(c) and aligned(c),
    lambda c: c.col.value + c.dst.valid_cols,
)

CUBE = (TMATMUL, TMATMUL_ACC, TMATMUL_BIAS, TGEMV, TGEMV_ACC, TGEMV_BIAS, *MX_PRODUCTS, TEXTRACT, TEXTRACT_FP)
