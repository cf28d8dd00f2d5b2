"""Comparing and selecting with packed bit masks, and converting between element types."""

from __future__ import annotations

from ptokit.isa.elementwise import DST, SCALAR, SRC
from ptokit.isa.instruction import (
    EVERYWHERE,
    Call,
    Instruction,
    Modifier,
    Param,
    Rule,
    always,
    by_extent,
    error,
    note,
)
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import CmpMode, PtoEnum, RoundMode, Saturation
from ptokit.isa.vector import (
    ALL,
    HOST,
    SHORT,
    Row,
    Text,
    Types,
    alike,
    apply,
    build,
    by_target,
    filled,
    plain,
    shaped,
    typed,
    types,
    vec,
)

BYTES, WORDS = types("u8"), types("u32")
MASK_TYPES = by_target(BYTES, WORDS, BYTES | WORDS, BYTES | WORDS)
CMP_TYPES = by_target(types("i32 f16 f32"), ALL)
CMPS_TYPES = by_target(types("i16 u16 i32 f16 f32"), ALL)
SEL_TYPES = by_target(SHORT | types("f16 bf16 f32"), ALL)

MASK = Param("mask", "read", "Vec tile of packed bits, row by row: bit k of byte j stands for column 8j + k")


def bits(mask: TileSpec) -> int:
    """Columns that a row of the mask has bits for."""
    return mask.valid_cols * mask.dtype.size * 8


def mask_fits(group: str, mask: str, data: str) -> Rule:
    """A row of bits for every row of data, wide enough."""
    return Rule(f"{group}-01", mask, lambda c: f"of {c.values[data].valid_rows} rows, a bit for each column of {data}",
                lambda c: (c.values[mask].valid_rows == c.values[data].valid_rows
                           and bits(c.values[mask]) >= c.values[data].valid_cols),
                on=error(*EVERYWHERE), firm=True, kind=by_extent(),
                fix="one uint8 holds 8 columns, one uint32 holds 32")  # fmt: skip


def masked(group: str, mask: str, data: tuple[str, ...], table: dict[str, Types]) -> tuple[Rule, ...]:
    """Plain Vec tiles: a mask, and data of one type and valid region."""
    first, *others = data
    return (
        *(vec(f"{group}-01", name) for name in (mask, *data)),
        filled(f"{group}-01", first),
        *(plain(f"{group}-01", name) for name in (mask, *data)),
        *(shaped(f"{group}-01", name, first) for name in others),
        mask_fits(group, mask, first),
        typed(f"{group}-02", first, table),
        *(alike(f"{group}-02", name, first) for name in others),
        typed(f"{group}-02", mask, MASK_TYPES, "make the mask of that type: uint8 on a2a3, uint32 on a5"),
    )


ALWAYS_EQ = Rule(
    "CP-HDR-01", "mode", "shipping headers ignore the mode for int32 and compare for equality",
    lambda c: c.mode is CmpMode.EQ or c.values[c.instruction.operands[1].name].dtype.name != "int32", on=note("a2a3"),
    found=lambda c: str(c.mode),
)  # fmt: skip
MASK_DST = Param("dst", "write", f"destination: {MASK.about}")
DATA = Param("src0", "read", "a Vec tile to compare")
OTHER = Param("src1", "read", "a Vec tile of src0's type and valid region")
MODE = Modifier("mode", CmpMode, always(CmpMode.EQ), "what is asked")


def compare(row: Row, *data: Param, others: tuple[str, ...]) -> Instruction:
    """One bit a column."""
    names = tuple(param.name for param in data)
    tiles = tuple(name for name in names if name not in others)
    rules = masked("CP-CMP", "dst", tiles, row.table)  # type: ignore[arg-type]
    return build(row, (MASK_DST, *data), rules, apply("cmp", *names, mode="mode"), modifiers=(MODE,),
                 cpp=f"{row.name.upper()}(dst, {', '.join(names)}, mode)",
                 text=Text(names, inside="cmpMode = #pto<cmp lt>"))  # fmt: skip


TCMP = compare(
    Row("tcmp", "Compare two tiles.", "bit j of row i of dst = src0[i, j] <mode> src1[i, j]    the rest of a row is 0",
        CMP_TYPES, rules=(ALWAYS_EQ,), in_place=()),
    DATA, OTHER, others=(),
)  # fmt: skip
TCMPS = compare(
    Row("tcmps", "Compare a tile with a scalar.",
        "bit j of row i of dst = src[i, j] <mode> scalar    the rest of a row is 0", CMPS_TYPES, rules=(ALWAYS_EQ,),
        in_place=()),
    Param("src", "read", DATA.about), Param("scalar", "read", "a number, held in the source's type", kind="number"),
    others=("scalar",),
)  # fmt: skip
TSEL = build(
    Row("tsel", "Select between two tiles by a mask.", "dst = src0 where the mask's bit is 1, else src1", SEL_TYPES),
    (DST, MASK, Param("src0", "read", SRC.about), Param("src1", "read", SRC.about)),
    masked("CP-SEL", "mask", ("dst", "src0", "src1"), SEL_TYPES),
    apply("sel", "mask", "src0", "src1"),
    cpp="TSEL(dst, mask, src0, src1, tmp)",
    text=Text(("mask", "src0", "src1", "tmp")),
)
TSELS = build(
    Row("tsels", "Select between a tile and a scalar by a mask.", "dst = src where the mask's bit is 1, else scalar",
        SEL_TYPES),
    (DST, MASK, SRC, SCALAR),
    masked("CP-SEL", "mask", ("dst", "src"), SEL_TYPES),
    apply("sel", "mask", "src", "scalar"),
    cpp="TSELS(dst, mask, src, tmp, scalar)",
    text=Text(("mask", "src", "tmp", "scalar")),
)  # fmt: skip

PAIRS_A2A3 = {
    "float32": "f16 f32 bf16 i16 i32 i64", "float16": "f32 i32 i16 i8 u8", "bfloat16": "f32 i32", "int16": "f16 f32",
    "int32": "f32 i16 i64 f16", "int64": "f32 i32", "uint8": "f16", "int8": "f16",
}  # fmt: skip
PAIRS_A5 = {
    "float32": "f16 f32 bf16 i16 i32 i64 f8E4M3FN f8E5M2", "float16": "f32 i32 i16 i8 u8", "bfloat16": "f32 i32 f16",
    "int16": "u8 f16 f32 u32 i32", "int32": "f32 i16 u16 i64 u8", "int64": "f32 i32", "uint8": "f16 u16",
    "int8": "f16 i16 i32", "uint32": "u8 u16 i16",
}  # fmt: skip


def pairs(*tables: dict[str, str]) -> frozenset[tuple[str, str]]:
    """(source, destination) names of every table."""
    return frozenset((src, dst.name) for table in tables for src, row in table.items() for dst in types(row))


CVT_PAIRS = {
    "cpu": pairs(PAIRS_A2A3, PAIRS_A5),
    "a2a3": pairs(PAIRS_A2A3),
    "a5": pairs(PAIRS_A5),
    "host": pairs(PAIRS_A2A3, PAIRS_A5) | {(a.name, a.name) for a in HOST if a.is_float},
}
"""What converts into what."""

WRAPS = frozenset({
    ("float16", "uint8"), ("float16", "int8"), ("float32", "int16"), ("float16", "int16"), ("int64", "int32"),
    ("int32", "int16"),
})  # fmt: skip
"""The pairs that do not saturate unless asked to."""


def pair(call: Call) -> tuple[str, str]:
    """From what to what."""
    return call.src.dtype.name, call.dst.dtype.name


def default_saturation(call: Call) -> PtoEnum:
    """Off for six pairs, on for the others."""
    known = isinstance(call.src, TileSpec) and isinstance(call.dst, TileSpec)
    return Saturation.Off if known and pair(call) in WRAPS else Saturation.On


TCVT = build(
    Row("tcvt", "Convert a tile to another element type.",
        "dst = src in dst's type    floats round to integers by the mode, to floats to nearest even", CVT_PAIRS,  # type: ignore[arg-type]
        in_place=()),
    (Param("dst", "write", "destination: a plain Vec tile"), Param("src", "read", "a Vec tile of its valid region")),
    (
        vec("CP-CVT-01", "dst"), vec("CP-CVT-01", "src"), filled("CP-CVT-01"), plain("CP-CVT-01", "dst"),
        plain("CP-CVT-01", "src"), shaped("CP-CVT-01", "src"),
        Rule("CP-CVT-02", "dst",
             lambda c: "of a type that src converts to: "
             + ", ".join(f"{a} to {b}" for a, b in sorted(c.here(CVT_PAIRS))),
             lambda c: pair(c) in c.here(CVT_PAIRS), on=error(*EVERYWHERE), firm=True,
             found=lambda c: f"{c.src.dtype} to {c.dst.dtype}", fix="go by way of float32 or float16"),
        Rule("CP-CVT-02", "saturation", "on for this pair: A2/A3 saturates it whatever is asked",
             lambda c: c.saturation is Saturation.On or pair(c) in WRAPS, on=error("a2a3"),
             found=lambda c: str(c.saturation), fix='leave saturation= out, or give "on"'),
        Rule("CP-HDR-01", "round", "the shipping simulator rounds to odd only where a value is a tie",
             lambda c: c.round is not RoundMode.Odd, on=note("cpu"), found=lambda c: str(c.round)),
        Rule("CP-HDR-01", "saturation", "the shipping simulator does not saturate unless asked to",
             lambda c: c.saturation is Saturation.Off, on=note("cpu"), found=lambda c: str(c.saturation)),
    ),
    apply("cvt", "src", mode="round", saturation="saturation"),
    modifiers=(
        Modifier("round", RoundMode, always(RoundMode.Rint), "how fractions become integers"),
        Modifier("saturation", Saturation, default_saturation, "clamp to dst's range or wrap", "on, but for six pairs"),
    ),
    cpp="TCVT(dst, src, mode, saturation)",
    text=Text(("src",), inside="rmode = #pto<round_mode FLOOR>", after="satMode = #pto<saturation_mode ON>"),
)  # fmt: skip

SELECT = (TCMP, TCMPS, TSEL, TSELS, TCVT)
"""The instructions, as data."""
