"""How the code of instructions addresses the state's slots, the tiles and the arrays."""

from __future__ import annotations

from ptokit.engine.llvm.chip import Chip
from ptokit.engine.llvm.emit import I64, PTR, IrModule, IrValue
from ptokit.engine.llvm.numbers import from_integer, is_byte_float
from ptokit.engine.llvm.program.expressions import Evaluator
from ptokit.engine.llvm.program.slots import Slots, StateSlot
from ptokit.engine.llvm.program.symbolic import SymbolicNumber
from ptokit.engine.storage import ADDRESS_SPACE
from ptokit.isa.dtype import DType
from ptokit.program.bounds import available, edges
from ptokit.program.calls import offset_in
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Bounds, Expr, Var, apply
from ptokit.program.ir import Constant, Given, Operand, Program, TileUse, View
from ptokit.program.ir import Number as NumberOperand

ENTRY = "run_blocks"
"""The function: `i64 (state, first block, stop)`, which returns the block it did not finish, or `stop`."""
MOST_GIVEN = 1 << 40
"""Whole numbers of a launch that code is made for; the reference engine takes greater ones."""


class Stage:
    """The function of a program, and access to slots, tiles and arrays."""

    def __init__(self, program: Program, slots: Slots, chip: Chip) -> None:
        self.program, self.slots = program, slots
        parameters = [(PTR, "state"), (I64, "first"), (I64, "stop")]
        self.code = IrModule(chip).function(ENTRY, I64, parameters, "optnone noinline")
        self.state = self.code.arguments[0]
        self.arena = self.slot(StateSlot.ARENA).to("inttoptr", PTR)
        self.bounds: dict[Var, Bounds] = {
            BLOCK_IDX: (0, MOST_GIVEN),
            BLOCK_NUM: (0, MOST_GIVEN),
            **dict.fromkeys(slots.given, (-MOST_GIVEN, MOST_GIVEN)),
            **dict.fromkeys(slots.addressed, (0, ADDRESS_SPACE)),
        }
        """Proven bounds of the variables."""

    def slot(self, slot: int) -> IrValue:
        """The value of a slot of the state."""
        return self.code.load(I64, self.code.at(self.state, 8 * slot))

    def put(self, slot: int, value: IrValue) -> None:
        """Store a value in a slot of the state."""
        self.code.store(value, self.code.at(self.state, 8 * slot))

    @property
    def word(self) -> IrValue:
        """Where the lanes of a block share a number."""
        return self.code.at(self.arena, self.slots.word)

    def evaluator(self) -> Evaluator:
        """An evaluator for expressions at this point of the code."""
        return Evaluator(self.code, self._variable, self.bounds)

    def _variable(self, var: Var) -> IrValue:
        known = self.slots.variables
        return self.slot(known[var] if var in known else self.slots.addressed[var])

    def tile(self, name: str) -> IrValue:
        """Where a tile begins."""
        if name in self.slots.tiles:
            return self.code.at(self.arena, self.slots.tiles[name])
        memory = self.slots.memory[self.program.tiles[name].spec.loc]
        return self.code.at(self.arena, self.slot(self.slots.addresses[name]) + memory)

    def view(self, evaluator: Evaluator, view: View, span: int | SymbolicNumber, slow: str) -> IrValue:
        """The address of a block of an argument; code goes to `slow` if it leaves the argument."""
        argument = self.program.tensors[view.argument]
        offset: Expr = argument.offset
        conditions: list[Expr] = []
        for start, size, most, stride in zip(view.starts, view.sizes, argument.shape, argument.stride, strict=True):
            conditions += [apply("ge", start, 0), apply("ge", size, 0), apply("le", apply("add", start, size), most)]
            offset = apply("add", offset, apply("mul", start, stride))
        slot = self.slots.arrays[argument.array]
        at, count = evaluator.value(offset), evaluator.value_of(span)
        available = self.slot(slot + 1)
        inside = at.compare("sge", 0), at.compare("sle", available - count)
        evaluator.require([*(c for c in conditions if not isinstance(c, int)), *inside], slow)
        return self.code.at(self.slot(slot).to("inttoptr", PTR), at * argument.dtype.size)

    def _tile_operand(self, evaluator: Evaluator, use: TileUse, slow: str) -> IrValue:
        decl = self.program.tiles[use.tile]
        limits = [*zip(use.valid, available(decl, use), strict=True)]
        limits += [(start, most - size) for start, size, most in edges(decl, use)]
        conditions = [c for e, most in limits for c in (apply("ge", e, 0), apply("le", e, most))]
        evaluator.require([c for c in conditions if not isinstance(c, int)], slow)
        base = self.tile(use.tile)
        if use.window is None:
            return base
        return self.code.at(base, evaluator.value(offset_in(decl.spec, use.window)) * decl.spec.dtype.size)

    def operand(self, evaluator: Evaluator, operand: Operand, span: int | SymbolicNumber, slow: str) -> IrValue:
        """The address of an operand; code goes to `slow` if it is invalid."""
        if isinstance(operand, TileUse):
            return self._tile_operand(evaluator, operand, slow)
        if isinstance(operand, View):
            return self.view(evaluator, operand, span, slow)
        if isinstance(operand, Given):
            return self.slot(self.slots.arrays[operand.name]).to("inttoptr", PTR)
        if isinstance(operand, Constant):
            return self._constant(operand.dtype, operand.bits)
        return self._number(evaluator, operand, slow)

    def _constant(self, dtype: DType, bits: int) -> IrValue:
        data = bits.to_bytes(dtype.size, "little")
        return IrValue(self.code, PTR, f"@{self.code.module.table(f'bits_{data.hex()}', data)}")

    def _number(self, evaluator: Evaluator, operand: NumberOperand, slow: str) -> IrValue:
        """A computed number as an element in memory."""
        if operand.is_position:
            evaluator.require([apply("ge", operand.value, 0)], slow)
            return self._constant(operand.dtype, 0)
        value, dtype = evaluator.value(operand.value), operand.dtype
        kind = f"i{8 * dtype.size}"
        spot = self.code.variable(kind, self.code.constant(kind, 0))
        if dtype.is_float:
            most = 0 if is_byte_float(dtype) else 1 << 10
            evaluator.guard(slow, value.compare("sge", -most), value.compare("sle", most))
            bits = from_integer(self.code, dtype, value) if most else self.code.constant(kind, 0)
        else:
            bits = value.to("trunc", kind)
            back = bits.to("sext" if dtype.family == "int" else "zext", I64)
            evaluator.guard(slow, back.compare("eq", value))
        spot.set(bits)
        return spot.pointer
