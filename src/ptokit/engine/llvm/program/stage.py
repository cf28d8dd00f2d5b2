"""How the code of instructions addresses the state's slots, the tiles and the arrays."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager

from ptokit.engine.llvm.compute.units import GroupSums
from ptokit.engine.llvm.compute.wide import Panels
from ptokit.engine.llvm.emit import CPU, I32, I64, PTR, Chip, IrBuilder, IrModule, IrValue, Variable
from ptokit.engine.llvm.numbers import from_integer, is_byte_float
from ptokit.engine.llvm.program.expressions import Evaluator
from ptokit.engine.llvm.program.independent import Page
from ptokit.engine.llvm.program.slots import ALIGNMENT, SIGNALS, Reason, Slots, StateSlot
from ptokit.engine.llvm.program.tiles import HeldTile
from ptokit.engine.storage import ADDRESS_SPACE
from ptokit.isa.dtype import DType
from ptokit.isa.policy import TileType
from ptokit.program.bounds import available, edges
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Bounds, Expr, ExtentVar, Var, apply
from ptokit.program.instr_calls import offset_in
from ptokit.program.ir import Constant, Given, Loop, Operand, Program, Stmt, TileUse, View
from ptokit.program.ir import Number as NumberOperand
from ptokit.program.symbolic import SymbolicNumber

ENTRY = "run_blocks"
"""The function: on a CPU `i64 (state, first block, stop)`, which returns the block it did not finish, or `stop`."""
MOST_GIVEN = 1 << 40
"""Whole numbers of a launch that code is made for; the reference engine takes greater ones."""


class Stage:
    """The function of a program, and access to slots, tiles and arrays."""

    def __init__(self, program: Program, slots: Slots, chip: Chip = CPU) -> None:
        self.program, self.slots = program, slots
        self.code, self.state = self._entry(IrModule(chip))
        self.arena = self._arena()
        self.passed: set[str] = set()
        """Tiles that hold nothing: what would be moved through them is moved directly."""
        self.held: dict[str, HeldTile] = {}
        """Tiles in registers."""
        self.pages: Mapping[int, Page] = {}
        """Scatters that are deferred, by the numbers of their statements."""
        self.sums: dict[str, GroupSums] = {}
        """What those hold that were declared."""
        self.panels: dict[str, Panels] = {}
        """Tiles of pipelined loops, and their views."""
        self.copies: dict[str, IrValue] = {}
        """Where the copies of those lie that the code is about."""
        self.bounds: dict[Var, Bounds] = {
            BLOCK_IDX: (0, MOST_GIVEN),
            BLOCK_NUM: (1, MOST_GIVEN),
            **{var: (0 if isinstance(var, ExtentVar) else -MOST_GIVEN, MOST_GIVEN) for var in slots.launch_numbers},
            **dict.fromkeys(slots.addressed, (0, ADDRESS_SPACE)),
        }
        """Proven bounds of the variables."""

    # --- entry and exits

    def _entry(self, module: IrModule) -> tuple[IrBuilder, IrValue]:
        """The function, and the address of the slots."""
        code = module.function(ENTRY, I64, [(PTR, "state"), (I64, "first"), (I64, "stop")], "optnone noinline")
        return code, code.arguments[0]

    def _arena(self) -> IrValue:
        return self.slot(StateSlot.ARENA).to("inttoptr", PTR)

    @contextmanager
    def blocks(self) -> Generator[IrValue]:
        """A loop over the blocks."""
        _, first, stop = self.code.arguments
        with self.code.loop(first, stop) as self.block:
            yield self.block

    def end(self) -> None:
        """After the last block."""
        self.code.ret(self.code.arguments[2])

    def poll(self) -> None:
        """Return if the launch was stopped; let Python check for signals from time to time."""
        code, left = self.code, self.slot(StateSlot.BUDGET) - 1
        self.put(StateSlot.BUDGET, left)
        with code.when(left.compare("eq", 0)):
            self.leave(code.i64(SIGNALS * Reason.COUNT))
        flag = self.slot(StateSlot.STOP).to("inttoptr", PTR)
        found = code.write(I32, f"load volatile i32, {flag!r}, align 4")
        with code.when(found.compare("ne", 0)):
            code.ret(self.block)

    def settle(self, fine: IrValue) -> None:
        """If `fine`, nothing of this block is left to Python from here on."""

    def leave(self, why: IrValue) -> None:
        """Call Python for a statement, which is in `why` with the reason; return from the function if that fails."""
        code = self.code
        target = self.slot(StateSlot.FALLBACK).to("inttoptr", PTR)
        failed = code.write(I32, f"call i32 {target.name}({why!r})")
        with code.when(failed.compare("ne", 0)):
            code.ret(self.block)

    def leave_for(self, stmt: Stmt, reason: IrValue | int = Reason.MISSED) -> None:
        """Leave the code for a statement: Python runs it."""
        why = reason if isinstance(reason, IrValue) else self.code.i64(reason)
        self.leave(why + self.slots.numbers[id(stmt)] * Reason.COUNT)

    @contextmanager
    def fast_path(
        self, stmt: Stmt, reason: Variable | None = None, fused: Stmt | None = None
    ) -> Generator[tuple[str, str]]:
        """The code of a statement. Yields two labels: where Python runs it, with what it was `fused` with; the end."""
        code = self.code
        slow, done = code.new_label("slow"), code.new_label("done")
        yield slow, done
        code.jump(done)
        code.begin(slow)
        self.leave_for(stmt, reason.get() if reason else Reason.MISSED)
        if fused is not None:
            self.leave_for(fused, Reason.AFTER)
        code.begin(done)

    # --- slots, tiles, arrays

    def slot(self, slot: int) -> IrValue:
        """The value of a slot of the state."""
        return self.code.load(I64, self.code.at(self.state, 8 * slot))

    def put(self, slot: int, value: IrValue) -> None:
        """Store a value in a slot of the state."""
        self.code.store(value, self.code.at(self.state, 8 * slot))

    def enter(self, loop: Loop, start: IrValue, iteration: IrValue) -> None:
        """Begin an iteration of a loop."""
        self.put(StateSlot.ITERATION, iteration)
        self.put(self.slots.variables[loop.var], start + iteration * loop.step)

    def evaluator(self) -> Evaluator:
        """An evaluator for expressions at this point of the code."""
        return Evaluator(self.code, self._variable, self.bounds)

    def _variable(self, var: Var) -> IrValue:
        known = self.slots.variables
        return self.slot(known[var] if var in known else self.slots.addressed[var])

    def part(self, start: int, nbytes: int) -> IrValue:
        """Where a part of the arena lies."""
        del nbytes
        return self.code.at(self.arena, start)

    def tile(self, name: str) -> IrValue:
        """Where a tile begins."""
        if name in self.passed or name in self.held:
            return IrValue(self.code, PTR, "null")
        if name in self.copies:
            return self.copies[name]
        spec = self.program.tiles[name].spec
        if name in self.slots.tiles:
            return self.part(self.slots.tiles[name], spec.nbytes)
        return self.code.at(self.memory(spec.loc), self.slot(self.slots.addresses[name]))

    def alignment(self, operand: Operand) -> int:
        """Bytes that the address of an operand is known to be a multiple of."""
        is_whole = isinstance(operand, TileUse) and operand.window is None and operand.tile in self.slots.tiles
        return ALIGNMENT if is_whole else 1

    def reserve(self, nbytes: int, lanes: int, apart: Collection[str]) -> int:
        """Make room for copies of so many bytes, and have at least so many lanes; how many copies there are, if any.

        The tiles `apart` need no other room.
        """
        del nbytes, lanes, apart
        return 0

    def memory(self, loc: TileType) -> IrValue:
        """Where a memory of tiles at addresses begins."""
        return self.part(self.slots.memory[loc], self.slots.extent(loc))

    def spare(self) -> IrValue:
        """Where a result is stored that may not be written in place."""
        return self.part(self.slots.spare, self.slots.spare_size)

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
        return self.code.at(self.array(slot), at * argument.dtype.size)

    def array(self, slot: int) -> IrValue:
        """The address of an array, which a slot holds."""
        return self.slot(slot).to("inttoptr", PTR)

    def number(self, name: str) -> IrValue:
        """The address of a floating-point number of the launch."""
        return self.array(self.slots.arrays[name])

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
            return self.number(operand.name)
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
