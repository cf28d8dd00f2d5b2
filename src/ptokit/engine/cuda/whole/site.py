"""A kernel over whole arrays that is being written.

A move is cut into pieces of rows. Threads take pieces of the whole array, several at a time, so that enough loads are
under way; which row that is follows from a division. Nothing here knows an instruction of a GPU.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from ptokit.engine.cuda.whole.check import note_refused
from ptokit.engine.cuda.whole.kinds import BAG_ARGUMENTS, POINTERS, WORDS, Kind, view
from ptokit.engine.llvm.emit import I64, PTR, STREAMING, Chip, IrModule, IrValue, Variable, size_of, vector
from ptokit.engine.llvm.resolve import REMAPS, SENTINEL, lane_of, taken
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Remap, Side


@dataclass(frozen=True)
class Place:
    """A row that a lane names."""

    row: IrValue
    """A row that exists, whatever the index."""
    inside: IrValue | None
    """Whether the index names it; None if it always does."""


class KernelSite:
    """A kernel that is being written."""

    def __init__(self, chip: Chip, kind: Kind, name: str) -> None:
        self.kind, self.tuning, self.module = kind, kind.tuning, IrModule(chip)
        pointers = [(PTR if each in ("table", "other") else f"{PTR} noalias", each) for each in POINTERS]
        bags = () if kind.source is None else BAG_ARGUMENTS
        parameters = [*pointers, *bags, *((I64, each) for each in WORDS)]
        parameters += [(I64, f"n{k}") for k in range(kind.arguments - len(parameters))]
        self.code = code = self.module.kernel(name, parameters)
        given = iter(code.arguments)
        table, other, index, self.flag, self.keys = (next(given) for _ in POINTERS)
        self.bag_arguments = [next(given) for _ in bags]
        self.count, self.capacity, across, self.shift, self.chains = (next(given) for _ in WORDS)
        self.block, self.blocks = code.block, code.blocks
        """The number of the block among those that share the work, and how many these are."""
        self.across = code.i64(kind.across) if kind.across else across
        self.index = view(index, kind.index, given)
        self.table, self.other = view(table, kind.table, given), view(other, kind.other, given)
        self.open = None if kind.remap is not Remap.REFUSE else self._is_open()
        """Whether no index is refused; None if none can be."""

    def _is_open(self) -> IrValue:
        code = self.code
        if not self.kind.few:
            return code.load(I64, self.flag).compare("eq", 0)

        def find(outside: Variable) -> None:
            lanes, deep = code.chip.lanes, self.tuning.pieces
            with code.loop(code.lane, self.count, lanes * deep) as low:
                numbers = [low + lanes * step for step in range(deep)]
                for i, value in zip(numbers, [self.read(self.near(i)) for i in numbers], strict=True):
                    outside.set(outside.get() | self.is_outside(value))
                    self.refuse(value, i, i.compare("slt", self.count) & code.block.compare("eq", 0))

        return code.any(find) ^ 1

    @property
    def text(self) -> str:
        self.code.ret()
        return self.module.text

    # --- shares of a thread

    @contextmanager
    def thread_loop(self, total: IrValue, depth: int) -> Generator[list[tuple[IrValue, IrValue | None]]]:
        """Numbers below a total, some for each thread at a time: a number, and whether it counts; None if it does."""
        code, lanes = self.code, self.code.chip.lanes
        with code.phase():
            step = self.blocks * (lanes * depth)
            with code.loop(self.block * (lanes * depth) + code.lane, total, step) as first:
                last, numbers = total - 1, [first + lanes * k for k in range(depth)]
                counts = [None if number is first else number.compare("slt", total) for number in numbers]
                yield [
                    (number if count is None else code.select(count, number, last), count)
                    for number, count in zip(numbers, counts, strict=True)
                ]

    def split(self, number: IrValue) -> tuple[IrValue, IrValue]:
        """The row and the piece of a number."""
        return number.op("udiv", self.across), number.op("urem", self.across)

    # --- indices

    @property
    def lane(self) -> str:
        return lane_of(self.kind.index_type)

    def read(self, i: IrValue, count: int = 1) -> IrValue:
        """The index of a lane, as it is; those of several lanes that lie side by side, if the first is aligned."""
        code, kind = self.code, self.kind
        index = Index(Access("indices", kind.index), Side.SRC, IndexUnit.ROW, 0, Remap.REFUSE, cast=kind.cast)
        size, at = kind.index_type.size, self.index.row(code, i, code.i64)
        return taken(code, index, kind.index_type, at, count, align=size * count)

    def place(self, value: IrValue) -> Place:
        """The row that an index names."""
        code, remap = self.code, self.kind.remap
        if remap is None:
            return Place(value.to("zext", I64), None)
        change = REMAPS[Remap.SKIP if remap is Remap.REFUSE else remap](code, self.lane, self.capacity)
        found = change(value)
        if remap in (Remap.CLAMP, Remap.WRAP):
            return Place(found.to("zext", I64), None)
        inside = found.compare("ne", SENTINEL)
        return Place(code.select(inside, found, 0).to("zext", I64), inside)

    def places(self, _lanes: Sequence[IrValue], values: Sequence[IrValue]) -> list[Place]:
        """The rows that lanes take effect on, by their indices."""
        return [self.place(value) for value in values]

    def known_place(self, _lane: IrValue, value: IrValue) -> Place:
        """The same for a lane, in the kernels after the kernel of `places`."""
        return self.place(value)

    def is_outside(self, value: IrValue) -> IrValue:
        return value.to("zext", I64).compare("uge", self.capacity)

    def refuse(self, value: IrValue, lane: IrValue, counts: IrValue | None) -> None:
        """Take note of an index that is outside."""
        code, outside = self.code, self.is_outside(value)
        with code.when(held(outside, counts)):
            note_refused(code, self.flag, lane)

    # --- pieces

    @property
    def bits(self) -> str:
        """A piece in registers."""
        size = 4 if self.kind.combine is Combine.STORE and self.kind.piece > 4 else self.kind.dtype.size
        size = min(size, self.kind.piece)
        return vector(f"i{8 * size}", self.kind.piece // size)

    def load(self, at: IrValue) -> IrValue:
        """A piece of the other array, or of a table that is only read."""
        return self.code.load(self.bits, at, self.kind.piece)

    def stream(self, value: IrValue, at: IrValue) -> None:
        """Store a piece that is not read soon."""
        self.code.store(value, at, self.kind.piece, STREAMING)

    def of_table(self, row: IrValue, piece: IrValue) -> IrValue:
        """Where a piece of the table lies."""
        return self.table.col(self.code, self.table.row(self.code, row, self.code.i64), piece, self.code.i64)

    def of_other(self, row: IrValue, piece: IrValue) -> IrValue:
        """Where a piece of the other array lies."""
        return self.other.col(self.code, self.other.row(self.code, row, self.code.i64), piece, self.code.i64)

    def old(self, kind: str, at: IrValue, /) -> IrValue:
        """What a piece of the table, or an element of it, holds before lanes are combined with it."""
        if self.kind.blank:
            return self.code.constant(kind, 0)
        return self.code.load(kind, at, size_of(kind))

    def source(self, lane: IrValue, piece: IrValue) -> IrValue:
        """A piece of what a lane combines with its row."""
        return self.value(self.fetch(lane, piece))

    def fetch(self, lane: IrValue, piece: IrValue) -> tuple[IrValue, ...]:
        """What it is computed from, loaded."""
        return (self.load(self.of_other(lane, piece)),)

    def value(self, fetched: tuple[IrValue, ...]) -> IrValue:
        """A piece of what a lane combines with its row, from what was loaded for it."""
        return fetched[0]

    # --- keys

    def key(self, at: IrValue) -> IrValue:
        return self.code.load(I64, self.code.at(self.keys, at * 8))

    def row_of(self, key: IrValue) -> IrValue:
        return key.op("lshr", self.shift)

    def lane_of(self, key: IrValue) -> IrValue:
        one = self.code.i64(1)
        return key & (one.op("shl", self.shift) - 1)

    def near(self, at: IrValue) -> IrValue:
        """A place among the keys: this one, or the last."""
        last = self.count - 1
        return self.code.select(at.compare("slt", last), at, last)


def held(known: IrValue, *others: IrValue | None) -> IrValue:
    """Whether a condition and others hold; None stands for one that always does."""
    for other in others:
        known = known if other is None else known & other
    return known


def both(a: IrValue | None, b: IrValue | None) -> IrValue | None:
    """Whether two conditions hold; None stands for one that always does."""
    return b if a is None else a if b is None else a & b


def where(site: KernelSite, condition: IrValue | None) -> AbstractContextManager[None]:
    """Code for where a condition holds; None stands for one that always does."""
    return nullcontext() if condition is None else site.code.when(condition)
