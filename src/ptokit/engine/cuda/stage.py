"""A program as a kernel: blocks of the program are blocks of threads, tiles lie in shared memory.

The slots of a block are numbers of each thread, which are the same in all threads of a block. A statement that must be
left to Python ends the kernel: the block writes down its slots and its tiles, from which Python goes on.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ptokit.engine.llvm.chip import Chip
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrModule, IrValue
from ptokit.engine.llvm.program.slots import Slots, StateSlot
from ptokit.engine.llvm.program.stage import ENTRY, Stage
from ptokit.program.ir import Program

TID, BLOCK, BLOCKS = (f"llvm.nvvm.read.ptx.sreg.{name}.x" for name in ("tid", "ctaid", "nctaid"))
GPU = Chip(
    lanes=256, lane=TID, barrier="llvm.nvvm.barrier0", piece=16, outlined="alwaysinline nounwind"
)  # fmt: skip
MOST_SHARED = 227 << 10
"""Bytes of shared memory that a block can have."""
STOPPED = 2
"""Words before the slots of a record: what was left (0 if nothing was), and the block."""


class GridStage(Stage):
    """The kernel of a program."""

    def __init__(self, program: Program, slots: Slots, chip: Chip = GPU) -> None:
        super().__init__(program, slots, chip)

    @property
    def is_shared(self) -> bool:
        """Whether the tiles fit shared memory."""
        return self.slots.arena <= MOST_SHARED

    def _entry(self, module: IrModule) -> tuple[IrBuilder, IrValue]:
        parameters = [(PTR, "launch"), (PTR, "records"), (I64, "first"), (I64, "stop")]
        code = module.function(ENTRY, "ptx_kernel void", parameters)
        state, launch = code.memory(8 * self.slots.count), code.arguments[0]
        for slot in range(self.slots.count):
            code.store(code.load(I64, code.at(launch, 8 * slot)), code.at(state, 8 * slot))
        return code, state

    def _arena(self) -> IrValue:
        code = self.code
        if not self.is_shared:
            return code.at(self.array(StateSlot.ARENA), self._special(BLOCK) * self.slots.arena)
        name = code.module.outside("arena", "external addrspace(3) global [0 x i8], align 128")
        return code.write(PTR, f"addrspacecast ptr addrspace(3) @{name} to ptr")

    def array(self, slot: int) -> IrValue:
        there = self.code.write("ptr addrspace(1)", f"inttoptr {self.slot(slot)!r} to ptr addrspace(1)")
        return self.code.write(PTR, f"addrspacecast {there!r} to ptr")

    @contextmanager
    def blocks(self) -> Generator[IrValue]:
        _, _, first, stop = self.code.arguments
        with self.code.loop(first + self._special(BLOCK), stop, self._special(BLOCKS)) as self.block:
            yield self.block

    def end(self) -> None:
        self.code.ret()

    def poll(self) -> None:
        """A kernel runs to its end."""

    def leave(self, why: IrValue) -> None:
        """Write down what was left, the block, its slots and its tiles; end this block of threads."""
        code, count = self.code, self.slots.count
        nbytes = 8 * (STOPPED + count) + self.slots.arena
        record = code.at(code.arguments[1], self._special(BLOCK) * nbytes)
        with code.phase():
            with code.when(code.same_lane(0)):
                for place, value in enumerate((why + 1, self.block, *map(self.slot, range(count)))):
                    code.store(value, code.at(record, 8 * place))
            tiles = code.at(record, 8 * (STOPPED + count))
            with code.share(0, code.i64(self.slots.arena // 8)) as k:
                code.store(code.load(I64, code.at(self.arena, k * 8)), code.at(tiles, k * 8))
        code.ret()
        code.begin(code.new_label("unreachable"))

    def _special(self, name: str) -> IrValue:
        return self.code.call(I32, self.code.module.declare(name, "i32 ()")).to("zext", I64)
