"""A program as a kernel: blocks of the program are blocks of threads, tiles lie in shared memory.

The slots of a block are numbers of each thread, which are the same in all threads of a block. A statement that must be
left to Python ends the kernel: the block writes its slots and its tiles into a record, from which Python goes on, and 1
where the slot `STOP` of the launch points. Tiles that do not fit shared memory lie in the record all the time.

A block of threads that will leave nothing to Python can say so before its end: it writes 1 into its byte behind that
word. In such a kernel all of them do, at their end if not before, and the host waits for the bytes.

The kernel is given the slots of the launch, the records, and the blocks to run: `first` and `stop`. With a negative
`first`, every block of threads goes on where its record says. The slots are given by value, unless they are too many.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ptokit.engine.llvm.address import MemoryView
from ptokit.engine.llvm.emit import I1, I64, INVARIANT, PTR, Chip, IrBuilder, IrModule, IrValue, Variable, vector
from ptokit.engine.llvm.move import CodeWriter
from ptokit.engine.llvm.program.execution import store_held
from ptokit.engine.llvm.program.independent import CAPACITY, COUNT, Page
from ptokit.engine.llvm.program.pipelines import MOST_COPIES
from ptokit.engine.llvm.program.slots import ALIGNMENT, Slots, StateSlot
from ptokit.engine.llvm.program.stage import ENTRY, Stage
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM
from ptokit.program.ir import Program

TID, BLOCK, BLOCKS = (f"llvm.nvvm.read.ptx.sreg.{name}.x" for name in ("tid", "ctaid", "nctaid"))
MMA = "llvm.nvvm.mma.m16n8k"
UNITS = {
    "bfloat16": (f"{MMA}16.row.col.bf16", "i32"),
    "float16": (f"{MMA}16.row.col.f32.f32", "<2 x half>"),
    "int8": (f"{MMA}32.row.col.s8", "i32"),
}
GPU = Chip(
    lanes=256, program_lanes=512, lane=TID, barrier="llvm.nvvm.barrier0",
    any="llvm.nvvm.barrier.cta.red.or.aligned.all", piece=16, unrolled=False,
    outlined="alwaysinline convergent nounwind", kernel="ptx_kernel void", block=BLOCK, blocks=BLOCKS,
    by_value="byval", units=tuple(UNITS.items()), has_ptx=True,
)  # fmt: skip
WIDE_UNITS = {90: ("bfloat16", "float16")}
"""By compute capability."""
MOST_BY_VALUE = 4000
"""Bytes of slots that are given by value, at most: all GPUs take parameters of 4,352 bytes."""
MOST_SETTLED = 4088
"""Blocks of threads that can say so, at most."""
SETTLED = 8
"""Where their bytes begin."""
STOPPED = 2
"""Words before the slots of a record: what was left (0 if nothing was), and the block where a launch goes on."""


class GridStage(Stage):
    """The kernel of a program. `shared` bytes of shared memory are known after its last statement."""

    def __init__(
        self,
        program: Program,
        slots: Slots,
        chip: Chip,
        most_shared: int,
        pages: Sequence[Page] = (),
    ) -> None:
        """`most_shared` are the bytes of shared memory of a block; `pages` are of scatters that are recorded."""
        self._most_shared = most_shared
        self.shared = 0
        self._shared: dict[int, tuple[int, int]] = {}
        """Parts of the arena in shared memory: where in it they begin, and their size."""
        self.parts: dict[int, int] = {}
        """Parts of the arena that a record has, and their bytes."""
        self._kept: dict[int, Variable] = {}
        """Slots that change, as variables of the kernel."""
        self._fixed = fixed_slots(slots)
        self.lanes, self._least_lanes = chip.program_lanes or chip.lanes, chip.lanes
        super().__init__(program, slots, replace(chip, lanes=self.lanes))
        self.pages = {page.number: page for page in pages}
        self.settles = False
        """Whether blocks of threads say that they will leave nothing."""
        self._is_settled = self.code.variable(I1, self.code.constant(I1, 0))
        self._why, self._left = self.code.variable(I64, self.code.i64(0)), self.code.new_label("left")

    @property
    def by_value(self) -> bool:
        """Whether the slots are given by value."""
        return 8 * self.slots.count <= MOST_BY_VALUE

    def _entry(self, module: IrModule) -> tuple[IrBuilder, IrValue]:
        how = module.chip.by_value if self.by_value else ""
        given = f"{PTR} {how}([{self.slots.count} x {I64}]) align 8" if how else PTR
        code = module.kernel(ENTRY, [(given, "launch"), (PTR, "records"), (I64, "first"), (I64, "stop")])
        return code, code.arguments[0]

    def _arena(self) -> IrValue:
        return self.code.shared

    def array(self, slot: int) -> IrValue:
        there = self.code.write("ptr addrspace(1)", f"inttoptr {self.slot(slot)!r} to ptr addrspace(1)")
        return self.code.write(PTR, f"addrspacecast {there!r} to ptr")

    def number(self, name: str) -> IrValue:
        """A slot holds the bits of the number itself."""
        return self.code.variable(I64, self.slot(self.slots.arrays[name])).pointer

    @contextmanager
    def blocks(self) -> Generator[IrValue]:
        code = self.code
        _, _, first, stop, *_ = code.arguments
        start = code.variable(I64, code.block + first)
        with code.when(first.compare("slt", 0)):
            start.set(code.load(I64, code.at(self._record(), 8)))
        with code.loop(start.get(), stop, code.blocks) as self.block:
            for number in self.pages:
                self._open(self.slots.ledgers[number])
            yield self.block

    def _open(self, ledger: int) -> None:
        """Give a block its part of a ledger. The launch says which block has the first part, and the size of each."""
        first, size = (self._given(ledger + slot) for slot in (COUNT, CAPACITY))
        at = (self.block - first) * size
        self.put(ledger + COUNT, at)
        self.put(ledger + CAPACITY, at + size)

    def poll(self) -> None:
        """A kernel runs to its end."""

    # --- slots and tiles

    def slot(self, slot: int) -> IrValue:
        return self._given(slot) if slot in self._fixed and slot not in self._kept else self._variable_of(slot).get()

    def _given(self, slot: int) -> IrValue:
        """What the launch has put into a slot."""
        return self.code.load(I64, self.code.at(self.state, 8 * slot), flags=INVARIANT)

    def put(self, slot: int, value: IrValue) -> None:
        self._variable_of(slot).set(value)

    def _variable_of(self, slot: int) -> Variable:
        if slot not in self._kept:
            self._kept[slot] = self.code.preset(I64, self.state, 8 * slot)
        return self._kept[slot]

    def part(self, start: int, nbytes: int) -> IrValue:
        size = self.parts[start] = -(-nbytes // ALIGNMENT) * ALIGNMENT
        if start not in self._shared and self.shared + size <= self._most_shared:
            self._shared[start] = self.shared, size
            self.shared += size
        if start in self._shared:
            return self.code.at(self.arena, self._shared[start][0])
        return self.code.at(self._record(), place_of(self.slots, start))

    def reserve(self, nbytes: int, lanes: int, apart: Collection[str]) -> int:
        sizes = [each.spec.nbytes for name, each in self.program.tiles.items() if name not in apart]
        copies = min(MOST_COPIES, max(2, (self._most_shared - sum(sizes)) // nbytes))
        if copies * nbytes > self._most_shared:
            return 0
        self.shared = copies * nbytes
        self.lanes = max(self._least_lanes, lanes)
        self.code.set_lanes(self.lanes)
        return copies

    # --- exits

    def end(self) -> None:
        """After the last block; also where a statement is left."""
        code = self.code
        with code.phase(), code.when(code.same_lane(0)):
            for place, value in enumerate((code.i64(0), code.arguments[3])):
                code.store(value, code.at(self._record(), 8 * place))
            if self.settles:
                with code.when(self._is_settled.get() ^ 1):
                    self._say_settled()
        code.ret()
        code.begin(self._left)
        record, block = self._record(), self.slot(self.slots.variables[BLOCK_IDX])
        with code.phase(), code.share(0, code.i64(self.slots.count)) as k:
            value = code.load(I64, code.at(self.state, k * 8))
            code.store(value, code.at(record, (k + STOPPED) * 8))
        with code.phase():
            with code.when(code.same_lane(0)):
                code.store(code.i64(1), self.array(StateSlot.STOP))
                changed = [(STOPPED + slot, kept.get()) for slot, kept in self._kept.items()]
                for place, value in ((0, self._why.get()), (1, block), *changed):
                    code.store(value, code.at(record, 8 * place))
            for start, (at, nbytes) in self._shared.items():
                self._copy(code.at(self.arena, at), code.at(record, place_of(self.slots, start)), nbytes)
            for name, sums in self.sums.items():
                held, start = self.held[name], self.slots.tiles[name]
                self.parts[start] = self.program.tiles[name].spec.nbytes
                at = code.at(record, place_of(self.slots, start))
                store_held(CodeWriter(code, code.i64), held, sums, MemoryView(at, held.layout, 4))
        code.ret()

    def settle(self, fine: IrValue) -> None:
        code, self.settles = self.code, True
        is_last = (self.block + code.blocks).compare("sge", code.arguments[3])
        with code.when(fine & is_last):
            with code.phase(waits=False), code.when(code.same_lane(0)):
                self._say_settled()
            self._is_settled.set(code.constant(I1, 1))

    def _say_settled(self) -> None:
        at = self.code.at(self.array(StateSlot.STOP), self.code.block + SETTLED)
        self.code.line(f"  store volatile i8 1, {at!r}, align 1")

    def leave(self, why: IrValue) -> None:
        """Write down what was left, the block, its slots and its tiles; end this block of threads."""
        self._why.set(why + 1)
        self.code.jump(self._left)
        self.code.begin(self.code.new_label("unreachable"))

    def _copy(self, src: IrValue, dst: IrValue, nbytes: int) -> None:
        code, kind = self.code, vector(I64, 2)
        with code.share(0, code.i64(nbytes), 16) as at:
            code.store(code.load(kind, code.at(src, at), 16), code.at(dst, at))

    def _record(self) -> IrValue:
        return self.code.at(self.code.arguments[1], self.code.block * record_size(self.slots))


def fixed_slots(slots: Slots) -> set[int]:
    """Slots that keep their value as long as a kernel runs. A finding that is reported ends it."""
    numbers = [slots.variables[each] for each in (BLOCK_NUM, *slots.launch_numbers)]
    arrays = [slot + k for slot in slots.arrays.values() for k in range(2)]
    reported = range(slots.reported, slots.reported + 3 * len(slots.statements))
    return {*range(StateSlot.COUNT), *arrays, *numbers, *reported} - {StateSlot.ITERATION}


def head_size(slots: Slots) -> int:
    """Bytes of a record before its tiles."""
    return -(-8 * (STOPPED + slots.count) // ALIGNMENT) * ALIGNMENT


def record_size(slots: Slots) -> int:
    """Bytes of a record."""
    return head_size(slots) + slots.packed_size


def place_of(slots: Slots, start: int) -> int:
    """Where in a record a part of the arena lies."""
    return head_size(slots) + slots.packed[start]
