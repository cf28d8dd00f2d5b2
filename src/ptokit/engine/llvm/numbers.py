"""Arithmetic on elements, as bits in registers: the exact results of A-16, one lane or many at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ptokit.engine.compute import accumulate
from ptokit.engine.llvm.emit import IrBuilder, IrValue, element_of, lanes_of, like
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine

NATIVE = {"float16": "half", "float32": "float", "float64": "double"}
"""Element types that LLVM computes with as they are. (Its bfloat vectors are wrong on AArch64, so never those.)"""

NAN = {"half": "0xH7E00", "float": "0x7FF8000000000000", "double": "0x7FF8000000000000"}
"""The quiet NaN that comes out of arithmetic, as LLVM writes it."""

SHORT = {"half": "f16", "float": "f32", "double": "f64"}
"""Floats in the names of intrinsics."""


def bits_of(dtype: DType, count: int = 1) -> str:
    """The type of elements in registers: whole numbers of their width."""
    return like(f"<{count} x i1>" if count > 1 else "i1", f"i{8 * dtype.size}")


def is_byte_float(dtype: DType) -> bool:
    """Whether it is a float of one byte, which a table of all pairs serves."""
    return dtype.is_float and dtype.size == 1


def computes(dtype: DType) -> bool:
    """Whether there is arithmetic for elements of this type."""
    return dtype.is_integer or dtype.name in NATIVE or dtype.name == "bfloat16" or is_byte_float(dtype)


def lanes_at_once(dtype: DType) -> int:
    """Elements that arithmetic takes at a time: 64 bytes of them, one where a table is looked up."""
    return 1 if is_byte_float(dtype) else 64 // dtype.size


def real(code: IrBuilder, kind: str, number: float) -> IrValue:
    """A floating-point constant that the type holds exactly, the same in every lane."""
    if element_of(kind) == "half":
        return code.constant(kind, f"0xH{int(np.float16(number).view(np.uint16)):04X}")
    return code.constant(kind, f"0x{int(np.float64(number).view(np.uint64)):016X}")


def intrinsic(code: IrBuilder, name: str, *values: IrValue, into: str = "") -> IrValue:
    """Call an intrinsic of LLVM that works lane by lane; `into` is the result type, if it differs."""
    kinds = [*([into] if into else []), values[0].type]
    return code.call(kinds[0], ".".join(["llvm", name, *map(_short, kinds)]), *values)


def _short(kind: str) -> str:
    """A type in the name of an intrinsic."""
    lanes, element = lanes_of(kind), element_of(kind)
    return f"{f'v{lanes}' if lanes > 1 else ''}{SHORT.get(element, element)}"


def widen(code: IrBuilder, dtype: DType, bits: IrValue) -> IrValue:
    """Elements as floats to compute with: bfloat16 and floats of one byte as float, the others as they are."""
    if dtype.name in BYTE_FORMATS:
        return _widen_byte(code, dtype, bits)
    if dtype.name == "bfloat16":
        return (bits.to("zext", like(bits.type, "i32")) << 16).bits(like(bits.type, "float"))
    return bits.bits(like(bits.type, NATIVE[dtype.name]))


def canonical(code: IrBuilder, value: IrValue) -> IrValue:
    """The value; a single quiet NaN stands for every NaN."""
    quiet = code.constant(value.type, NAN[element_of(value.type)])
    return code.select(value.compare("uno", value), quiet, value)


def narrow(code: IrBuilder, dtype: DType, value: IrValue) -> IrValue:
    """The result of `widen` as elements again: rounded to the nearest, ties to even, NaNs canonical."""
    if dtype.name in BYTE_FORMATS:
        return _narrow_byte(code, BYTE_FORMATS[dtype.name], value)
    if dtype.name != "bfloat16":
        return canonical(code, value).bits(like(value.type, f"i{8 * dtype.size}"))
    short = rounded(dtype, value)
    return code.select(value.compare("uno", value), code.constant(short.type, 0x7FC0), short)


def rounded(dtype: DType, value: IrValue) -> IrValue:
    """The same without canonical NaNs; NaNs of sums of two elements stay NaNs."""
    if dtype.name != "bfloat16":
        return value.bits(like(value.type, f"i{8 * dtype.size}"))
    raw = value.bits(like(value.type, "i32"))
    odd = (raw << 15) >> 31  # in this form one instruction adds it, and one adds the rest and takes the upper half
    return ((raw + odd + 0x7FFF) >> 16).to("trunc", like(value.type, "i16"))


def added_lanes(value: IrValue) -> IrValue:
    """All lanes of a vector added, half with half."""
    code, element = value.code, element_of(value.type)
    while (half := lanes_of(value.type) // 2) > 0:
        if half == 1:
            halves = [code.write(element, f"extractelement {value!r}, i64 {k}") for k in range(2)]
        else:
            chosen = (", ".join(f"i32 {first + k}" for k in range(half)) for first in (0, half))
            text = f"shufflevector {value!r}, {value.type} poison, <{half} x i32>"
            halves = [code.write(f"<{half} x {element}>", f"{text} <{lanes}>") for lanes in chosen]
        value = halves[0] + halves[1]
    return value


def from_integer(code: IrBuilder, dtype: DType, value: IrValue) -> IrValue:
    """A small whole number (64 bits wide) as one element."""
    kind = NATIVE.get(dtype.name, "float")
    return narrow(code, dtype, value.to("sitofp", kind))


@dataclass(frozen=True)
class ByteFormat:
    """A float of one byte: sign, exponent, fraction."""

    fraction: int
    """Bits of the fraction."""
    bias: int
    top: int
    """The code of an overflow: infinity, or the NaN of a format without one."""
    nan: int


BYTE_FORMATS = {"float8_e4m3": ByteFormat(3, 7, 0x7F, 0x7F), "float8_e5m2": ByteFormat(2, 15, 0x7C, 0x7E)}


def _widen_byte(code: IrBuilder, dtype: DType, bits: IrValue) -> IrValue:
    """Through half, which e5m2 is the first byte of, and which holds every e4m3 divided by 256."""
    wide, single = bits.to("zext", like(bits.type, "i16")), like(bits.type, "float")
    if dtype.name == "float8_e5m2":
        return (wide << 8).bits(like(bits.type, "half")).to("fpext", single)
    scaled = (((wide & 0x7F) << 7) | ((wide & 0x80) << 8)).bits(like(bits.type, "half")).to("fpext", single)
    is_nan = (bits & 0x7F).compare("eq", 0x7F)
    return code.select(is_nan, code.constant(single, NAN["float"]), scaled * real(code, single, 256.0))


def _narrow_byte(code: IrBuilder, form: ByteFormat, value: IrValue) -> IrValue:
    """Normal numbers by rounding their bits, smaller ones by adding a float whose last bit is the format's."""
    raw, drop = value.bits(like(value.type, "i32")), 23 - form.fraction
    size = raw & 0x7FFFFFFF
    normal = ((size + ((size >> drop) & 1) + ((1 << (drop - 1)) - 1)) >> drop) - ((127 - form.bias) << form.fraction)
    magic = real(code, value.type, 2.0 ** (24 - form.bias - form.fraction))
    small = (size.bits(value.type) + magic).bits(raw.type) - magic.bits(raw.type)
    is_small = size.compare("ult", (128 - form.bias) << 23)
    found = code.select(is_small, small, code.select(normal.compare("ult", form.top), normal, form.top))
    is_nan = value.compare("uno", value) | found.compare("eq", form.nan)
    signed = found | ((raw >> 24) & 0x80)
    return code.select(is_nan, code.constant(raw.type, form.nan), signed).to("trunc", like(value.type, "i8"))


def combined(code: IrBuilder, combine: Combine, dtype: DType, old: IrValue, new: IrValue) -> IrValue:
    """The value of a cell after a value is combined into it."""
    if combine is Combine.STORE:
        return new
    if is_byte_float(dtype):
        return _looked_up(code, combine, dtype, old, new)
    if dtype.is_float:
        return FLOATS[combine](code, dtype, old, new)
    return _whole(code, combine, dtype, old, new)


def computed(code: IrBuilder, combine: Combine, dtype: DType, old: IrValue, new: IrValue) -> IrValue:
    """The sum or the product of two floats, as `widen` has them."""
    a, b = widen(code, dtype, old), widen(code, dtype, new)
    return a + b if combine is Combine.ADD else a * b


def _computer(combine: Combine) -> Callable[[IrBuilder, DType, IrValue, IrValue], IrValue]:
    return lambda code, dtype, old, new: narrow(code, dtype, computed(code, combine, dtype, old, new))


def _picker(better: str, tie: str) -> Callable[[IrBuilder, DType, IrValue, IrValue], IrValue]:
    """The greatest or least number: a NaN never counts, and of zeroes the sign decides, which `tie` settles."""

    def pick(code: IrBuilder, dtype: DType, old: IrValue, new: IrValue) -> IrValue:
        a, b = widen(code, dtype, old), widen(code, dtype, new)
        first_number = a.compare("uno", a) & b.compare("ord", b)
        moved = code.select(b.compare(better, a) | first_number, new, old)
        return code.select(a.compare("oeq", b), old.op(tie, new), moved)

    return pick


FLOATS: dict[Combine, Callable[[IrBuilder, DType, IrValue, IrValue], IrValue]] = {
    Combine.ADD: _computer(Combine.ADD),
    Combine.MUL: _computer(Combine.MUL),
    Combine.MAX: _picker("ogt", "and"),
    Combine.MIN: _picker("olt", "or"),
}
WHOLE = {Combine.MAX: ("sgt", "ugt"), Combine.MIN: ("slt", "ult")}
TRUTHS = {Combine.ADD: "or", Combine.MAX: "or", Combine.MIN: "and", Combine.MUL: "and"}


def _whole(code: IrBuilder, combine: Combine, dtype: DType, old: IrValue, new: IrValue) -> IrValue:
    if dtype.name == "bool":
        return old.op(TRUTHS[combine], new)
    if combine is Combine.ADD:
        return old + new
    if combine is Combine.MUL:
        return old * new
    better = WHOLE[combine][dtype.family == "uint"]
    return code.select(new.compare(better, old), new, old)


@lru_cache
def pairs(combine: Combine, dtype: DType) -> bytes:
    """Results for every pair of one-byte elements, at `256 * old + new`: the reference engine's own."""
    every = np.arange(256, dtype=np.uint8)
    cells = np.repeat(every, 256)
    accumulate(cells, np.arange(1 << 16), np.tile(every, 256), combine, dtype)
    return cells.tobytes()


def _looked_up(code: IrBuilder, combine: Combine, dtype: DType, old: IrValue, new: IrValue) -> IrValue:
    assert lanes_of(old.type) == 1
    table = code.module.table(f"{dtype.name}_{combine.name.lower()}", pairs(combine, dtype))
    at = (old.to("zext", "i64") << 8) + new.to("zext", "i64")
    return code.load("i8", code.at(IrValue(code, "ptr", f"@{table}"), at))
