"""Comparing and selecting with packed bit masks, and converting between element types."""
# ruff: noqa: F403, F405

from __future__ import annotations

from ptokit.isa.elementwise import DST, SCALAR, SRC
from ptokit.isa.headers import CLAUSE, EIGHT_TO_32, first_64, one_type, typed_in_headers
from ptokit.isa.vocabulary import *

MASK_TYPES = everywhere(types("u8 u16 u32"))
"""No header looks at the type of a mask: its rows are bits."""
CMP_TYPES = by_target(a2a3=types("i32 f16 f32"), a5=ALL)
CMPS_TYPES = by_target(a2a3=types("i16 u16 i32 f16 f32"), a5=ALL)
SEL_TYPES = by_target(a2a3=SHORT | types("f16 bf16 f32"), a5=ALL)
SELS_TYPES = by_target(a2a3=SEL_TYPES["a2a3"], a5=ALL - types("bf16"))
"""pto/npu/a5/TSels.hpp asserts it, line 124."""


MASK = Param("mask", "read", "Vec tile of packed bits, row by row: bit k of byte j stands for column 8j + k")


def bits(mask: TileSpec) -> int:
    """Bits in a row of the mask."""
    return mask.valid_cols * mask.dtype.size * 8


def mask_fits(group: str, mask: str, data: str) -> Rule:
    """A row of bits for every row of data, wide enough."""
    return sized(f"{group}-01", mask, lambda c: f"of {c.values[data].valid_rows} rows, a bit for each column of {data}",
                 lambda c: (c.values[mask].valid_rows == c.values[data].valid_rows
                            and bits(c.values[mask]) >= c.values[data].valid_cols),
                 fix="one uint8 holds 8 columns, one uint16 16, one uint32 32")  # fmt: skip


def masked(group: str, mask: str, data: Names, table: Table[Types]) -> tuple[Rule, ...]:
    """Plain Vec tiles: a mask, and data of one type and valid region."""
    first, *others = data
    return (
        *vec_tiles(f"{group}-01", (mask, *data), nonempty=first, plains=(mask, *data)),
        *(shaped(f"{group}-01", name, first) for name in others),
        mask_fits(group, mask, first),
        typed(f"{group}-02", first, table),
        *(alike(f"{group}-02", name, first) for name in others),
        typed(f"{group}-02", mask, MASK_TYPES, "make the mask a tile of unsigned integers, such as uint8"),
    )


EQUAL_ONLY = Rule(
    CLAUSE, "mode", "eq for int32: shipping headers ignore the mode and compare for equality",
    lambda c: c.mode is CmpMode.EQ or c.values[c.instruction.operands[1].name].dtype.name != "int32", on=note("a2a3"),
    found=lambda c: c.mode.text, fix=Fix("compare as float32: ", OpName("tcvt"), " converts"),
)  # fmt: skip
AS_HALVES = Rule(
    CLAUSE, "src", "of no 16-bit integers: shipping headers compare them as float16",
    lambda c: c.src.dtype.name not in ("int16", "uint16"), on=note("a2a3"), found=type_of("src"),
    fix=Fix("compare as float32: ", OpName("tcvt"), " converts"),
)  # fmt: skip
BY_MODE = Rule(
    CLAUSE, "round", "rint to a float of at most the same size: shipping headers round by the mode",
    lambda c: not c.dst.dtype.is_float or c.round in (RoundMode.NONE, RoundMode.Rint)
    or c.dst.dtype == c.src.dtype or c.dst.dtype.size > c.src.dtype.size,
    on=note("a2a3"), found=lambda c: c.round.text, fix="leave the mode out",
)  # fmt: skip
INVERTED = Rule(
    CLAUSE, "dst", "of uint8 for ne: shipping headers invert as many bytes as the rows of the mask have columns",
    lambda c: c.mode is not CmpMode.NE or _last_bit(c) <= 8 * inverted_bytes(c), on=note("a2a3"), found=type_of("dst"),
    fix="make the mask a tile of uint8",
)  # fmt: skip
ONE_STRIDE = Rule(
    CLAUSE, "src1", "of the row stride of src0, or of one row: shipping headers mix the strides of 4-byte types",
    lambda c: c.src0.dtype.size != 4 or c.src0.stride == c.src1.stride or c.src0.valid_rows == 1,
    on=note("a5"), found=lambda c: f"{c.src1.stride}, not {c.src0.stride}", fix="give both tiles one shape",
)  # fmt: skip
PACKS_ROWS = Rule(
    CLAUSE, "dst", "of rows without padding, a bit for every column of src: the simulator packs whole rows of src",
    lambda c: (c.dst.valid_rows == 1 or c.dst.valid_cols == c.dst.cols) and c.src.cols <= bits(c.dst),
    on=note("cpu"), fix="make the mask as wide as src, all of it valid",
)  # fmt: skip
ONE_RUN = Rule(
    CLAUSE, "mask", "of exactly a bit for each valid column of dst: the simulator reads all rows as one run",
    lambda c: c.dst.valid_rows == 1 or bits(c.mask) == c.dst.valid_cols,
    on=note("cpu"), fix="narrow the mask, or widen the valid region",
)  # fmt: skip
BYTE_MASK = Rule(
    CLAUSE, "mask", "of uint8: the simulator reads 8 bits of each element", lambda c: c.mask.dtype.size == 1,
    on=note("cpu"), found=type_of("mask"), fix="use a uint8 mask",
)  # fmt: skip
OTHER_TYPE = Rule(
    CLAUSE, "dst", "of another type than src: the simulator copies floats of one type and rounds none",
    lambda c: c.dst.dtype != c.src.dtype, on=note("cpu"), found=type_of("dst"), fix="convert to int32 and back",
)  # fmt: skip
NOT_ODD = Rule(
    CLAUSE, "round", "another mode than odd: the simulator rounds to odd only where a value is a tie",
    lambda c: c.round is not RoundMode.Odd, on=note("cpu"), found=lambda c: c.round.text, fix="choose another mode",
)  # fmt: skip

BY_DIFFERENCE = Table({"cpu": True})
"""Targets whose headers compare by a small difference, so that no number equals an infinite one."""
CMP_CPP = Cpp(
    headers=(
        EQUAL_ONLY,
        INVERTED,
        first_64("src0"),
        ONE_STRIDE,
        typed_in_headers("src0", {"cpu": "i32 f16 f32"}, Case("a uint8 mask", lambda c: c.dst.dtype.size == 1)),
        typed_in_headers("src0", {"cpu": EIGHT_TO_32}, Case("a uint32 mask", lambda c: c.dst.dtype.size == 4)),
        typed_in_headers("dst", {"cpu": "u8 u32"}),
    )
)
CMPS_CPP = Cpp(
    headers=(EQUAL_ONLY, INVERTED, AS_HALVES, first_64("src"), PACKS_ROWS),
    finite=Case("eq or ne", lambda c: c.lookup(BY_DIFFERENCE) and c.mode in (CmpMode.EQ, CmpMode.NE)),
)
SEL_CPP = Cpp(headers=(ONE_RUN, BYTE_MASK, first_64("dst"), one_type("dst", "src0", "src1", on=FAMILIES)))
CVT_CPP = Cpp(
    call="TCVT(dst, src, tmp, round, saturation)",
    headers=(OTHER_TYPE, NOT_ODD, BY_MODE),
    unmodelled_any=Table({"a2a3": frozenset({"int4"})}),  # a2a3/TCvt.hpp:595
)

MASK_DST = Param("dst", "write", f"destination: {MASK.about}")
DATA = Param("src0", "read", "a Vec tile to compare")
OTHER = Param("src1", "read", "a Vec tile of src0's type and valid region")
MODE = Modifier("mode", CmpMode, always(CmpMode.EQ), "how elements are compared", positional=True,
                text=Attribute("cmpMode", "cmp", inside=True, brief="cmp", example=CmpMode.LT))  # fmt: skip


def mask_rows(call: Call) -> ByteRows:
    """What A5 stores: the bits of a step of the vector unit, of 4-byte types those of two (TCmp.hpp:83, 128), of 8-byte
    types a whole register (Int64Binary.hpp:115)."""
    data: TileSpec = call.values[call.instruction.operands[1].name]
    lanes = {1: 256, 2: 128, 4: 128, 8: 256}[data.dtype.size]
    return ByteRows(data.valid_rows, -(-data.valid_cols // lanes) * lanes // 8, call.dst.stride * call.dst.dtype.size)


def step_bits(call: Call) -> ByteRows:
    """What A2/A3 stores: the bits of a step of the vector unit (TCmp.hpp:92, TCmps.hpp:88)."""
    data: TileSpec = call.values[call.instruction.operands[1].name]
    lanes = 256 // data.dtype.size
    return ByteRows(data.valid_rows, -(-data.valid_cols // lanes) * lanes // 8, call.dst.stride * call.dst.dtype.size)


def inverted_bytes(call: Call) -> int:
    """`ne` on A2/A3 inverts what equality gave: as many bytes as the rows of the mask have columns (TCmp.hpp:106)."""
    return call.dst.valid_rows * call.dst.cols // 2 * 2


def _last_bit(call: Call) -> int:
    """Bits of the mask up to the last one that stands for a column."""
    data: TileSpec = call.values[call.instruction.operands[1].name]
    return (data.valid_rows - 1) * call.dst.stride * call.dst.dtype.size * 8 + data.valid_cols


def inverted(call: Call) -> tuple[Effect, ...]:
    """What `ne` writes on A2/A3."""
    count = inverted_bytes(call)
    return (Effect("dst", "write", "V", lambda _: ByteRows(1, count)),) if call.mode is CmpMode.NE else ()


def compare(row: OpRow, *data: Param, others: tuple[str, ...]) -> Instruction:
    """One bit per column."""
    names = tuple(param.name for param in data)
    tiles = tuple(name for name in names if name not in others)
    rules, params = masked("CP-CMP", "dst", tiles, row.types), (MASK_DST, *data)
    stored = RouteKernel((*pipes(params, "V"), Effect("dst", "write", "V", mask_rows)))
    by_steps = RouteKernel((*pipes(params, "V"), Effect("dst", "write", "V", step_bits)), besides=inverted)
    return build(row, params, rules, apply("cmp", *names, mode="mode"), modifiers=(MODE,),
                 special=(SpecialRoute("", Table({"a5": None}), stored), on_a2a3(by_steps)),
                 cpp=f"{row.name.upper()}(dst, {', '.join(names)}, mode)")  # fmt: skip


TCMP = compare(
    OpRow("tcmp", "Compare two tiles.",
        "bit j of row i of dst = src0[i, j] <mode> src1[i, j]    the rest of a row is 0",
        CMP_TYPES, in_place=(), cpp=CMP_CPP),
    DATA, OTHER, others=(),
)  # fmt: skip
TCMPS = compare(
    OpRow("tcmps", "Compare a tile with a scalar.",
        "bit j of row i of dst = src[i, j] <mode> scalar    the rest of a row is 0", CMPS_TYPES, in_place=(),
        cpp=CMPS_CPP),
    Param("src", "read", DATA.about),
    Param("scalar", "read", "a number, held in the source's type", kind="number", typed_as="src"),
    others=("scalar",),
)  # fmt: skip


SEL_PARAMS = (DST, MASK, Param("src0", "read", SRC.about), Param("src1", "read", SRC.about))
SELS_PARAMS = (DST, MASK, SRC, SCALAR)
ONE_MASK = ahead(lambda call: 16 if call.dst.dtype.size == 2 else 8)
"""Bytes of the workspace that keep the address of a row's mask (TSel.hpp:51)."""
SELECTS = on_a2a3(RouteKernel((*pipes(SEL_PARAMS, "V"), Effect(TMP, "write", "V", ONE_MASK))))
SELECTS_SCALAR = on_a2a3(
    RouteKernel(
        (
            Effect(TMP, "write", "S", ahead(lambda c: c.src.dtype.size)),
            *pipes(SELS_PARAMS, "V"),
            Effect(TMP, "read", "V", ahead(lambda _: 16)),
        ),
        handshake=Handshake(body=("S", "V"), between=(("S", "V"),)),
        cost={"S": Cost("scalar accesses", accesses=1)},
    )
)
"""The scalar pipe writes the scalar before any flag (TSels.hpp:35)."""
TSEL = build(
    OpRow("tsel", "Select between two tiles by a mask.", "dst = src0 where the mask's bit is 1, else src1",
        cpp=SEL_CPP),
    SEL_PARAMS,
    masked("CP-SEL", "mask", ("dst", "src0", "src1"), SEL_TYPES),
    apply("sel", "mask", "src0", "src1"),
    cpp="TSEL(dst, mask, src0, src1, tmp)",
    text=Text(("mask", "src0", "src1", "tmp")),
    workspace=Workspace(3, lambda _: row_of(dtype("uint32"), 16)),
    special=(SELECTS,),
)  # fmt: skip
TSELS = build(
    OpRow("tsels", "Select between a tile and a scalar by a mask.", "dst = src where the mask's bit is 1, else scalar",
        cpp=Cpp(headers=(first_64("dst"),))),
    SELS_PARAMS,
    masked("CP-SEL", "mask", ("dst", "src"), SELS_TYPES),
    apply("sel", "mask", "src", "scalar"),
    cpp="TSELS(dst, mask, src, tmp, scalar)",
    text=Text(("mask", "src", "tmp", "scalar")),
    workspace=Workspace(2, lambda c: row_of(c.src.dtype, 32 // c.src.dtype.size)),
    special=(SELECTS_SCALAR,),
)  # fmt: skip

PAIRS_A2A3 = {
    "float32": "f16 f32 bf16 i16 i32 i64", "float16": "f32 i32 i16 i8 u8", "bfloat16": "f32 i32", "int16": "f16 f32",
    "int32": "f32 i16 i64 f16", "int64": "f32 i32", "uint8": "f16", "int8": "f16",
}  # fmt: skip
PAIRS_A5 = {
    "float32": "f16 f32 bf16 i16 i32 i64 f8E4M3FN f8E5M2", "float16": "f32 i32 i16 i8 u8", "bfloat16": "f32 i32 f16",
    "int16": "u8 f16 f32 u32 i32", "int32": "f32 i16 u16 i64 u8", "int64": "f32 i32", "uint8": "f16 u16",
    "int8": "f16 i16 i32", "uint32": "u8 u16 i16", "float8_e4m3": "f32", "float8_e5m2": "f32",
}  # fmt: skip


def pairs(*tables: dict[str, str]) -> frozenset[tuple[str, str]]:
    """(source, destination) names of every table."""
    return frozenset((src, dst.name) for table in tables for src, row in table.items() for dst in types(row))


CVT_PAIRS = Table(
    {
        "cpu": pairs(PAIRS_A2A3, PAIRS_A5),
        "a2a3": pairs(PAIRS_A2A3),
        "a5": pairs(PAIRS_A5),
        "host": pairs(PAIRS_A2A3, PAIRS_A5) | {(a.name, a.name) for a in HOST if a.is_float},
    }
)
"""By target: the supported conversions."""

WRAPS = frozenset({
    ("float16", "uint8"), ("float16", "int8"), ("float32", "int16"), ("float16", "int16"), ("int64", "int32"),
    ("int32", "int16"),
})  # fmt: skip
"""The pairs that do not saturate by default."""


def pair(call: Call) -> tuple[str, str]:
    """The source type and the destination type."""
    return call.src.dtype.name, call.dst.dtype.name


def default_saturation(call: Call) -> PtoEnum:
    """Off for six pairs, on for the others."""
    known = isinstance(call.src, TileSpec) and isinstance(call.dst, TileSpec)
    return Saturation.Off if known and pair(call) in WRAPS else Saturation.On


SATURATES = option("saturation", Saturation.On)
ROUND = Attribute(
    "rmode", "round_mode", upper=True, inside=True, synonyms=(("CAST_RINT", "RINT"),), brief="rnd",
    short=(("rne", "RINT"), ("rna", "ROUND"), ("rtz", "TRUNC"), ("rtn", "FLOOR"), ("rtp", "CEIL")),
    example=RoundMode.Floor,
)  # fmt: skip

NARROWING = Table({"a2a3": frozenset({("float32", "int16"), ("float16", "int16"), ("float16", "int8")})})
"""By target: conversions that need a workspace when they do not saturate."""


def narrowed(call: Call) -> TileSpec | None:
    """The workspace of a conversion that wraps."""
    src = call.src
    if call.saturation is not Saturation.Off or pair(call) not in call.lookup(NARROWING, ()):
        return None
    across, down = -(-src.cols // 64), min(src.rows, 255) - 1
    size = max(256 * min(across, 255), 32 * (down * -(-src.cols // 8) + 8)) if src.dtype.size == 4 else 256
    return row_of(dtype("uint8"), size)


def wrapped(call: Call) -> int:
    """How many bytes of the workspace a conversion to integers that wraps writes: 64 elements of 4 bytes, and to int8
    as many of 2 bytes behind the first half (TCvt.hpp:405, 493)."""
    if narrowed(call) is None:
        return 0
    if call.src.dtype.size == 4:
        return call.tmp.nbytes
    count = min(64, call.src.valid_cols)
    return 4 * count if call.dst.dtype.size == 2 else 128 + 2 * count


CVT_PARAMS = (
    Param("dst", "write", "destination: a plain Vec tile"), Param("src", "read", "a Vec tile of its valid region")
)  # fmt: skip
TCVT = build(
    OpRow("tcvt", "Convert a tile to another element type.",
        "dst = src in dst's type    floats round to integers by the mode, to floats to nearest even",
        in_place=(), cpp=CVT_CPP),
    CVT_PARAMS,
    (
        *vec_tiles("CP-CVT-01", ("dst", "src"), plains=("dst", "src")),
        shaped("CP-CVT-01", "src"),
        needed("CP-CVT-02", "dst", lambda c: "of a type that src converts to: "
               + ", ".join(f"{a} to {b}" for a, b in sorted(c.lookup(CVT_PAIRS))),
               lambda c: pair(c) in c.lookup(CVT_PAIRS), found=lambda c: f"{c.src.dtype} to {c.dst.dtype}",
               fix="convert through float32 or float16"),
        Rule("CP-CVT-02", "saturation", "on for this pair: A2/A3 saturates it whatever is asked",
             lambda c: c.saturation is Saturation.On or pair(c) in WRAPS, on=error("a2a3"),
             found=lambda c: str(c.saturation),
             fix=Fix("leave ", Option("saturation", Saturation), " out, or give ", SATURATES)),
        Rule("CP-HDR-01", "saturation", "the shipping simulator does not saturate unless asked to",
             lambda c: c.saturation is Saturation.Off, on=note("cpu"), found=lambda c: str(c.saturation)),
    ),
    apply("cvt", "src", mode="round", saturation="saturation"),
    modifiers=(
        Modifier("round", RoundMode, always(RoundMode.Rint),
                 "how fractions are rounded to integers, also from a float type to itself", text=ROUND,
                 positional=True),
        Modifier("saturation", Saturation, default_saturation, "clamp to dst's range or wrap",
                 f"off for {', '.join(' to '.join(each) for each in sorted(WRAPS))}; on for the others",
                 Attribute("satMode", "saturation_mode", upper=True, brief="sat"), positional=True),
    ),
    cpp="TCVT(dst, src, mode, saturation)",
    workspace=Workspace(1, narrowed),
    special=(on_a2a3(RouteKernel((*pipes(CVT_PARAMS, "V"), Effect(TMP, "write", "V", ahead(wrapped))))),),
    op_text=OpText(reordered=True, stored=("ins", "outs", "ins")),
)  # fmt: skip

SELECT = (TCMP, TCMPS, TSEL, TSELS, TCVT)
