"""Values that are combined into a cell one after the other, in registers: the results of A-16."""

from __future__ import annotations

from ptokit.engine.llvm.compute.elements import from_single, single
from ptokit.engine.llvm.emit import IrBuilder, IrValue
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
