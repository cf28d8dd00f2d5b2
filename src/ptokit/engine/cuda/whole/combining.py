"""Values that are combined into memory: one after the other, in registers (the results of A-16); in any order, by many
threads."""

from __future__ import annotations

from ptokit.engine.llvm.compute.elements import from_single, single
from ptokit.engine.llvm.emit import IrBuilder, IrValue, element_of, lanes_of, vector
from ptokit.engine.llvm.numbers import NATIVE, bits_of, combined, narrow, widen
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine


class Sum:
    """What a cell holds while values are combined into it.

    Floats that the processor adds as they are stay numbers, and a NaN gets its bits in the end: it stays a NaN.
    """

    def __init__(self, code: IrBuilder, combine: Combine, dtype: DType, *, wide: bool = False) -> None:
        """With `wide`, sums are kept in float32."""
        self.code, self.combine, self.dtype, self.wide = code, combine, dtype, wide
        self.plain = combine is Combine.ADD and dtype.name in NATIVE
        self.kind = "float" if wide else NATIVE[dtype.name] if self.plain else bits_of(dtype)
        """The type of one sum."""

    def begin(self, bits: IrValue) -> IrValue:
        if self.wide:
            return single(self.code, self.dtype, bits)
        return widen(self.code, self.dtype, bits) if self.plain else bits

    def add(self, total: IrValue, bits: IrValue) -> IrValue:
        """The sum with one more value."""
        if self.wide or self.plain:
            return total + self.begin(bits)
        return combined(self.code, self.combine, self.dtype, total, bits)

    def end(self, total: IrValue) -> IrValue:
        """The bits of the cell."""
        if self.wide:
            return from_single(self.code, self.dtype, total)
        return narrow(self.code, self.dtype, total) if self.plain else total


def _additions(name: str, kind: str, elements: int, *words: int) -> list[tuple[tuple[str, int], str]]:
    """The instructions that add several words of a type at once."""
    found: list[tuple[tuple[str, int], str]] = []
    for count in words:
        listed = ", ".join(f"${k + 1}" for k in range(count))
        form, given = (f".v{count}", f"{{{listed}}}") if count > 1 else ("", listed)
        found.append(((name, elements * count), f"red.relaxed.gpu.global.add{kind % form} [$0], {given};"))
    return found


REDUCTIONS = {
    80: tuple(_additions("float16", ".noftz%s.f16x2", 2, 1)),
    90: (
        *_additions("float32", "%s.f32", 1, 2, 4),
        *_additions("float16", ".noftz%s.f16x2", 2, 1, 2, 4),
        *_additions("bfloat16", ".noftz%s.bf16x2", 2, 1, 2, 4),
    ),
}
"""The additions to memory by many threads at once that GPUs have from a compute capability on."""
WHOLE = {
    Combine.ADD: ("add", "add"),
    Combine.MAX: ("max", "umax"),
    Combine.MIN: ("min", "umin"),
}
"""The atomic instructions for integers, signed and unsigned."""


def atomically(code: IrBuilder, combine: Combine, dtype: DType, at: IrValue, bits: IrValue) -> None:
    """Combine elements that lie side by side into memory.

    A sum of floats is the hardware's: which NaN it is, is not defined, and the chip may take subnormal numbers for
    zero.
    """
    if not code.chip.lane:  # one thread executes all lanes
        old = code.load(bits.type, at, dtype.size)
        code.store(combined(code, combine, dtype, old, bits), at, dtype.size)
        return
    vectors = dict(code.chip.reductions)
    count = lanes_of(bits.type)
    found = vectors.get((dtype.name, count)) if combine is Combine.ADD else None
    if found:
        assembled(code, found, at, bits)
        return
    for k in range(count):
        value = code.write(element_of(bits.type), f"extractelement {bits!r}, i64 {k}") if count > 1 else bits
        _one(code, combine, dtype, code.at(at, k * dtype.size), value)


def assembled(code: IrBuilder, template: str, at: IrValue, bits: IrValue) -> None:
    """An instruction of the chip over an address of global memory and words of 32 bits."""
    count = lanes_of(bits.type) * int(element_of(bits.type)[1:]) // 32
    words = bits.bits(vector("i32", count))
    parts = [code.write("i32", f"extractelement {words!r}, i64 {k}") if count > 1 else words for k in range(count)]
    there = code.write("ptr addrspace(1)", f"addrspacecast {at!r} to ptr addrspace(1)")
    listed = ", ".join(map(repr, parts))
    registers = ",".join("r" * count)
    code.line(f'  call void asm sideeffect "{template}", "l,{registers},~{{memory}}"({there!r}, {listed})')


def _one(code: IrBuilder, combine: Combine, dtype: DType, at: IrValue, bits: IrValue) -> None:
    if combine is Combine.ADD and dtype.name in NATIVE:
        value = bits.bits(NATIVE[dtype.name])
        code.line(f"  atomicrmw fadd {at!r}, {value!r} monotonic")
    elif dtype.is_integer and dtype.name != "bool" and dtype.size >= 4:
        how = WHOLE[combine][dtype.family == "uint"]
        code.line(f"  atomicrmw {how} {at!r}, {bits!r} monotonic")
    else:
        _exchange(code, combine, dtype, at, bits)


def _exchange(code: IrBuilder, combine: Combine, dtype: DType, at: IrValue, bits: IrValue) -> None:
    """Compare and exchange, until nobody was in between."""
    kind = bits_of(dtype)
    seen = code.variable(kind, code.load(kind, at))
    again, done = code.new_label("again"), code.new_label("exchanged")
    code.begin(again)
    old = seen.get()
    new = combined(code, combine, dtype, old, bits)
    pair = code.write(f"{{ {kind}, i1 }}", f"cmpxchg {at!r}, {old!r}, {new!r} monotonic monotonic")
    seen.set(code.write(kind, f"extractvalue {pair!r}, 0"))
    code.split(code.write("i1", f"extractvalue {pair!r}, 1"), done, again)
    code.begin(done)
