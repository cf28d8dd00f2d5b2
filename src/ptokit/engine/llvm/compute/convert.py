"""Conversions between element types, as `engine/compute.py` defines them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ptokit.engine.compute import largest
from ptokit.engine.llvm.compute.elements import double, from_double, from_single, is_float, lanes_for, single
from ptokit.engine.llvm.emit import IrBuilder, IrValue, like
from ptokit.engine.llvm.numbers import bits_of, intrinsic, real
from ptokit.isa.dtype import DType
from ptokit.isa.policy import RoundMode, Saturation

LARGEST_WHOLE = 2.0**63


def _away(code: IrBuilder, x: IrValue) -> IrValue:
    """To the nearest, ties away from zero; a zero result is positive."""
    whole = intrinsic(code, "trunc", x)
    far = intrinsic(code, "fabs", x - whole).compare("oge", real(code, x.type, 0.5))
    step = intrinsic(code, "copysign", real(code, x.type, 1.0), x)
    return whole + code.select(far, step, real(code, x.type, 0.0))


def _odd(code: IrBuilder, x: IrValue) -> IrValue:
    """The odd one of the two neighbours, unless exact."""
    low = intrinsic(code, "floor", x)
    half = low * real(code, x.type, 0.5)
    is_odd = intrinsic(code, "floor", half).compare("one", half)
    return code.select(low.compare("oeq", x) | is_odd, low, low + real(code, x.type, 1.0))


def _rounding(name: str) -> Callable[[IrBuilder, IrValue], IrValue]:
    return lambda code, x: intrinsic(code, name, x)


ROUNDINGS: Mapping[RoundMode, Callable[[IrBuilder, IrValue], IrValue]] = {
    RoundMode.NONE: _rounding("trunc"),
    RoundMode.Rint: _rounding("rint"),
    RoundMode.Round: _away,
    RoundMode.Floor: _rounding("floor"),
    RoundMode.Ceil: _rounding("ceil"),
    RoundMode.Trunc: _rounding("trunc"),
    RoundMode.Odd: _odd,
}


def lanes_of_conversion(src: DType, dst: DType) -> int:
    """Elements that are converted at once: those to whole numbers go through 64 bits."""
    return 8 if is_float(src) and not is_float(dst) else lanes_for(src, dst)


def convert(code: IrBuilder, src: DType, dst: DType, bits: IrValue, mode: RoundMode, saturation: Saturation) -> IrValue:
    """Elements of one type as elements of another."""
    saturate = saturation is Saturation.On
    if not is_float(src):
        return (_whole_to_float if is_float(dst) else _whole_to_whole)(code, src, dst, bits, saturate)
    if is_float(dst):
        return _float_to_float(code, src, dst, bits, mode, saturate)
    return _float_to_whole(code, dst, ROUNDINGS[mode](code, double(code, src, bits)), saturate)


def _clamped(code: IrBuilder, value: IrValue, low: IrValue, high: IrValue, signs: str) -> IrValue:
    """Not less than `low`, not more than `high`; a NaN stays."""
    kept = code.select(value.compare(f"{signs}lt", low), low, value)
    return code.select(kept.compare(f"{signs}gt", high), high, kept)


def _within(code: IrBuilder, value: IrValue, limit: float) -> IrValue:
    return _clamped(code, value, real(code, value.type, -limit), real(code, value.type, limit), "o")


def _whole_to_whole(code: IrBuilder, src: DType, dst: DType, bits: IrValue, saturate: bool) -> IrValue:
    if saturate:
        result, source = np.iinfo(dst.numpy), np.iinfo(src.numpy)
        low, high = max(int(result.min), int(source.min)), min(int(result.max), int(source.max))
        signs = "u" if src.family == "uint" else "s"
        bits = _clamped(code, bits, code.same(bits, low), code.same(bits, high), signs)
    into = like(bits.type, bits_of(dst))
    return bits.to("trunc" if dst.size < src.size else "zext" if src.family == "uint" else "sext", into)


def _whole_to_float(code: IrBuilder, src: DType, dst: DType, bits: IrValue, saturate: bool) -> IrValue:
    wide = like(bits.type, "double" if dst.name == "float64" else "float")
    value = bits.to("uitofp" if src.family == "uint" else "sitofp", wide)
    if saturate and largest(dst.numpy) < LARGEST_WHOLE:
        value = _within(code, value, largest(dst.numpy))
    return from_single(code, dst, value)


def _float_to_float(code: IrBuilder, src: DType, dst: DType, bits: IrValue, mode: RoundMode, saturate: bool) -> IrValue:
    """To the nearest, ties to even; a conversion to the type itself rounds to whole numbers instead."""
    value = single(code, src, bits)
    if src is dst:
        return bits if mode is RoundMode.NONE else from_single(code, dst, ROUNDINGS[mode](code, value))
    if saturate:
        value = _within(code, value, min(largest(src.numpy), largest(dst.numpy)))
    if src.name == "float64":
        return from_double(code, dst, value)
    return from_single(code, dst, value.to("fpext", like(value.type, "double")) if dst.name == "float64" else value)


def _float_to_whole(code: IrBuilder, dst: DType, whole: IrValue, saturate: bool) -> IrValue:
    """Whole numbers in float64, clamped or wrapped; a NaN becomes zero."""
    into, kind = like(whole.type, bits_of(dst)), like(whole.type, "i64")
    if not saturate:
        return _wrapped(code, whole).to("trunc", into)
    if dst.size == 8:
        return intrinsic(code, "fptoui.sat" if dst.family == "uint" else "fptosi.sat", whole, into=kind)
    limits, found = np.iinfo(dst.numpy), intrinsic(code, "fptosi.sat", whole, into=kind)
    low, high = code.constant(kind, int(limits.min)), code.constant(kind, int(limits.max))
    return _clamped(code, found, low, high, "s").to("trunc", into)


def _wrapped(code: IrBuilder, whole: IrValue) -> IrValue:
    """The last 64 bits: beyond 63 of them, the fraction shifted to its place, of which nothing may be left."""
    found = intrinsic(code, "fptosi.sat", whole, into=like(whole.type, "i64"))
    raw = whole.bits(found.type)
    shift = ((raw >> 52) & 0x7FF) - 1075
    inside = shift.compare("ult", 64)
    size = ((raw & ((1 << 52) - 1)) | (1 << 52)) << code.select(inside, shift, 0)
    signed = code.select(raw.compare("slt", 0), 0 - size, size)
    fits = intrinsic(code, "fabs", whole).compare("olt", real(code, whole.type, LARGEST_WHOLE))
    return code.select(fits, found, code.select(inside, signed, 0))
