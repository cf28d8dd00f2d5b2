"""Whole-array gathers and scatters on a GPU: the same calls and the same bits as `engine.whole`.

A call returns when its work is launched. Under `REFUSE` it waits for its first kernel, which checks the indices; the
kernels behind it write nothing if one is outside. A few indices are checked by each block of the only kernel. A gather
of short rows into a result of its own checks them as it goes, and so do sums into a small table, which are kept apart
until then.

| scatter | how lanes that name one row take effect in their order |
|---|---|
| store, any order | as they come |
| store | for each row, the last lane that names it is found first; for very large tables, by sorting |
| integers, max and min of elements; sums of floats in any order | atomic instructions, if the chip has them |
| other arithmetic, few lanes | the first lane of each row looks for the others |
| other arithmetic | the lanes of each row are brought together; then it is combined with them, one after the other |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn

import numpy as np

from ptokit.engine.cuda.device import Device, DeviceBuffer, DeviceKernel, cuda, current
from ptokit.engine.cuda.resident import resident
from ptokit.engine.cuda.whole import groups, kernels, kinds
from ptokit.engine.cuda.whole.check import IndexCheck, take
from ptokit.engine.cuda.whole.kept import Scratch
from ptokit.engine.cuda.whole.kinds import BagSource, Kind
from ptokit.engine.cuda.whole.pieces import PIECE, alignment, form, in_bytes, numbers
from ptokit.engine.faults import IndexFault
from ptokit.engine.kept import remember
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.emit import I32
from ptokit.engine.llvm.numbers import computes, is_byte_float
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Storage
from ptokit.engine.whole import ZEROS, Whole
from ptokit.isa.dtype import DType
from ptokit.isa.dtype import dtype as element_type
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Move, Remap, Side

MOST_OWNERS = 1 << 32
"""Bytes of the owners of rows, at most; for more rows, lanes are sorted."""
SPARSE = 16
"""If there are more than so many rows for each lane, only the owners of rows that are named are cleared."""
MOST_PRIVATE = 1 << 15
"""Bytes of a table that blocks have copies of, at most."""
PRIVATE_PER_LANE = 1 / 16
"""Bytes of such a table for each lane, at most."""
MOST_GRID = (1 << 31) - 1
MOST_PREPARED = 512
PARTS = {"complex64": "float32", "complex128": "float64"}
"""The elements that complex numbers are added by."""
WIDE = 16
"""A gather into a result of its own checks indices first if rows have so many times their bytes: that takes less time
than waiting for the gather."""

MOST_THREADS = 2048
"""Threads that a multiprocessor runs at a time, at most."""
FEW = 2048
"""Indices that each block of a kernel checks by itself, at most: for more, a kernel before it takes less time."""

BRIEF = 512
"""Lanes that are combined in their order by one kernel, at most: each thread reads all indices."""
BLANK = ("alone", "fold", "brief")
"""The kernels whose code depends on whether the table holds zeros."""

_prepared: dict[tuple[int, int], PreparedMove] = {}


def run(whole: Whole, storages: Mapping[str, Storage], _threads: int | None = None) -> None:
    """Execute a move. Raises `IndexFault` before anything is written, `Unsupported` for what has no code."""
    device = current()
    move = prepared(device, whole)
    if all(storage.gpu is not None for storage in storages.values()):
        move.run({name: storage.address for name, storage in storages.items()})
        return
    with resident(device, storages, [whole.move.dst.operand]) as addresses:
        move.run(addresses)


def ready(whole: Whole, gpu: int) -> Callable[..., None]:
    """`PreparedMove.run_at` of a move, to be called while a GPU is current."""
    return prepared(cuda(gpu), whole).run_at


def not_captured(whole: Whole, gpu: int, *addresses: int) -> str:
    """Why a move over arrays at these addresses cannot be captured in a CUDA graph; empty if it can."""
    return prepared(cuda(gpu), whole).not_captured(*addresses)


def scatter(
    device: Device,
    table: int,
    rows: int,
    lanes: int,
    count: int,
    *,
    dtype: DType,
    width: int,
    stride: int,
    capacity: int,
    combine: Combine,
    lane: str = I32,
) -> None:
    """Combine packed rows with those rows of a table that resolved lanes name, in their order; a sentinel names none.

    `table`, `rows` and `lanes` are addresses; `width` counts the elements of a row, `stride` those from row to row of
    the table.
    """
    move = _of_resolved_lanes(device, count, dtype, width, stride, capacity, combine, lane)
    move.run({"table": table, "indices": lanes, "src": rows})


@lru_cache(MOST_PREPARED)
def _of_resolved_lanes(
    device: Device, count: int, dtype: DType, width: int, stride: int, capacity: int, combine: Combine, lane: str
) -> PreparedMove:
    source, target = Layout.plain(width, 1), Layout.plain(stride, 1)
    index = Index(
        Access("indices", Layout.plain(1, 0)), Side.DST, IndexUnit.ROW, capacity, Remap.SKIP, cast=lane == I32
    )
    move = Move((count, width), Access("table", target), Access("src", source), index, combine)
    types = ("table", dtype), ("indices", element_type("uint32" if lane == I32 else "int64")), ("src", dtype)
    return PreparedMove(device, Whole(move, types))


def checking(device: Device, index_type: DType, count: int, capacity: int) -> Callable[[int, int], None] | None:
    """A kernel that checks packed indices, to be called with their address and that of an `IndexCheck`.

    None if no index is outside. It is that of a gather of rows without elements.
    """
    rows, lanes = Layout.plain(1, 0), Access("indices", Layout.plain(1, 0))
    index = Index(lanes, Side.SRC, IndexUnit.ROW, capacity, Remap.REFUSE, cast=index_type.size != 8)
    kind = element_type("uint8")
    whole = Whole(Move((count, 0), Access("out", rows), Access("table", rows), index),
                  (("table", kind), ("indices", index_type), ("out", kind)))  # fmt: skip
    move = PreparedMove(device, whole)
    return move.check_at if move.refuses else None


def prepared(device: Device, whole: Whole) -> PreparedMove:
    """A move, ready for calls."""
    key = id(device), id(whole)
    move = _prepared.get(key)
    if move is None or move.whole is not whole or move.device is not device:
        move = remember(_prepared, key, PreparedMove(device, whole), MOST_PREPARED)
    return move


@dataclass(frozen=True)
class AlignedMove:
    """A move for arrays of one alignment: its kind, and the arguments of its kernels from the fourth on."""

    kind: Kind
    words: tuple[int, ...]
    pieces: int


@dataclass(frozen=True)
class MoveLaunch:
    """A kernel for arrays of one alignment: its blocks, how many arguments it has, bytes of shared memory."""

    kernel: DeviceKernel
    grid: int
    arguments: int
    shared: int

    def __call__(self, arguments: tuple[int, ...]) -> None:
        self.kernel(self.grid, arguments[: self.arguments], self.shared)


class _Launcher:
    """Launches kernels of a call by name. The first of them checks the indices, if one does."""

    def __init__(
        self, launches: Mapping[str, MoveLaunch], arguments: tuple[int, ...], check: IndexCheck | None
    ) -> None:
        self._launches, self._arguments, self._check = launches, arguments, check

    def __call__(self, *names: str) -> None:
        for name in names:
            self._launches[name](self._arguments)
            if self._check is not None:
                self._check.begin()
                self._check = None


class PreparedMove:
    """A move, ready for calls on a device."""

    def __init__(self, device: Device, whole: Whole, source: BagSource | None = None) -> None:
        self.source = source
        self.device, self.whole, self.types = device, whole, dict(whole.types)
        index, (self.count, self.width) = whole.index, whole.move.shape
        self.capacity, self.dtype = index.capacity, self.types["table"]
        self.is_gather, self.combine = index.side is Side.SRC, whole.move.combine
        self.ends = {end.operand: end.layout for end in (whole.src, whole.move.dst)}
        (self.other,) = self.ends.keys() - {"table"}
        self.index_type = self.types["indices"]
        if not self.index_type.is_integer or self.index_type.size not in (2, 4, 8):
            raise Unsupported(f"indices of {self.index_type}")
        narrow = self.index_type.size != 8 and self.capacity >= 1 << 32
        self.remap = None if narrow else index.remap
        self.refuses = self.remap is Remap.REFUSE
        self.aligned = alignment([self.ends["table"], self.ends[self.other]], self.width, self.dtype.size)
        self.element = element_type(PARTS.get(self.dtype.name, self.dtype))
        if self.combine is not Combine.STORE:
            self._check_arithmetic()
        self.steps = self._steps()
        """The kernels, by name, in their order."""
        has_cells = self.count and self.width and (self.capacity or (self.is_gather and not self.refuses))
        self._active = self.steps if has_cells else ("check",) * bool(self.count and self.refuses)
        self._is_scratched = not {"mark", "keys", "commit", "spot"}.isdisjoint(self._active)
        self._forms: dict[int, AlignedMove] = {}
        self._launches: dict[tuple[int, bool], dict[str, MoveLaunch]] = {}
        """The kernels by name, for each alignment, and for tables that hold zeros."""

    def _check_arithmetic(self) -> None:
        if not computes(self.element) or (self.combine is Combine.MUL and self.element is not self.dtype):
            raise Unsupported(f"arithmetic with {self.dtype}")
        if is_byte_float(self.dtype):
            self.aligned = 1

    def _steps(self) -> tuple[str, ...]:
        check = ("check",) * self.refuses
        few = () if self.count <= FEW else check
        if self.is_gather:
            is_wide = self.width * self.dtype.size >= WIDE * self.index_type.size
            return ("checked_gather",) if check and self.whole.fresh and not is_wide else (*few, "gather")
        ordered = self.whole.ordered
        if self.combine is Combine.STORE:
            if not ordered or self.count == 1:
                return (*few, "scatter")
            if 4 * self.capacity > MOST_OWNERS or self.count >= 1 << 32:
                return "keys", "settle"
            return (*check, *("clear",) * self._is_sparse, "mark", "scatter")
        if self._needs_no_order(ordered):
            return ("private", *("commit",) * self.refuses) if self._is_small else (*few, "scatter")
        if self.count <= BRIEF and self.source is None:
            return ("brief",)
        if self.count >= groups.MOST_LANES:
            raise Unsupported(f"arithmetic with {self.count} lanes in their order")
        return "spot", "alone"

    def _needs_no_order(self, ordered: bool) -> bool:
        """Whether atomic instructions give the result, and are fast."""
        if self.combine is Combine.MUL:  # no chip has such an instruction
            return False
        is_sum = self.combine is Combine.ADD and not self.element.is_integer
        if self.whole.accumulate is not None or (is_sum and ordered):
            return False
        known = {name for (name, _), _ in self.device.chip.reductions} if is_sum else set[str]()
        return self.width == 1 or self.element.name in known

    @property
    def _is_small(self) -> bool:
        """Whether blocks can have copies of the table: elements that GPUs combine in one instruction."""
        is_sum = self.combine is Combine.ADD and self.element.is_float
        fits = self.capacity * self.element.size <= min(MOST_PRIVATE, PRIVATE_PER_LANE * self.count)
        is_plain = self.element is self.dtype and self.dtype.size in (4, 8)
        return self.width == 1 and fits and is_plain and (self.element.is_integer or is_sum)

    @property
    def _is_sparse(self) -> bool:
        return self.capacity > SPARSE * self.count

    # --- calls

    def run(self, addresses: Mapping[str, int]) -> None:
        """Execute the move on arrays of the device."""
        self.run_at(addresses["table"], addresses["indices"], addresses[self.other])

    def run_at(self, table: int, index: int, other: int, *bags: int, initial: int | None = None) -> None:
        """The same, by addresses; `bags` are the arguments of a source.

        `initial` is for a packed table that is new memory: the address of its rows before the scatter, or `ZEROS`.
        """
        steps = self._active
        if not steps:
            self._initialise(table, initial)
            return
        check = take(self.device) if self.refuses else None
        keys = self._scratch(steps) if self._is_scratched else None
        nothing = self.device.empty(16) if not self.capacity else None
        if nothing is not None:
            table = nothing.address
        every = table | other | self.aligned
        piece = every & -every
        is_blank = initial == ZEROS
        launches = self._launches.get((piece, is_blank)) or self._compiled(piece, is_blank)
        scratch = keys.address if keys else 0
        words = self._forms[piece].words
        arguments = (table, other, index, check.address if check else 0, scratch, *bags, *words)
        try:
            self._launch_all(_Launcher(launches, arguments, check), scratch, table, initial)
            if isinstance(keys, Scratch):
                keys.keep()
            refused = check.end() if check is not None else None
        except BaseException:
            if check is not None:
                self.device.wait()  # the kernel that checks writes to memory of the host, which ends with the check
            raise
        if refused:
            self._raise(*refused, index)

    def not_captured(self, *addresses: int) -> str:
        """Why a call cannot be captured in a CUDA graph; empty if it can. Takes the addresses of the table and of the
        other operand; without the latter, it is aligned to anything."""
        if self.refuses:
            return "the host waits for the check of its indices"
        if self._is_scratched or not self.capacity:
            return "it uses memory that later calls use, too"
        piece = self.aligned
        for address in addresses:
            piece = (address | piece) & -(address | piece)
        is_ready = not self._active or (piece, False) in self._launches
        return "" if is_ready else "its kernels are not loaded yet"

    def check_at(self, index: int, flag: int) -> None:
        """Launch only the kernel that checks indices; takes the addresses of these and of an `IndexCheck`."""
        launches = self._launches.get((1, False)) or self._compiled(1, False)
        launches["check"]((0, 0, index, flag, 0, *self._forms[1].words))

    def _launch_all(self, launch: _Launcher, scratch: int, table: int, initial: int | None) -> None:
        """Launch the kernels. What groups lanes runs beside what it need not wait for."""
        first, *others = self._active
        if first == "spot" and initial is None:
            launch("spot")
            with self._beside(lambda: launch("alone")):
                launch(*kernels.GROUPING, "fold")
        elif first == "spot":
            with self._beside(lambda: self._initialise(table, initial)):
                launch("spot", *kernels.GROUPING)
            launch("alone", "fold")
        else:
            reads_only = first in kernels.OF_INDICES
            if not reads_only:
                self._initialise(table, initial)
            launch(first)
            if reads_only:  # a check does not wait for it
                self._initialise(table, initial)
            if first == "keys":
                self.device.sort(scratch, self.count)
            launch(*others)

    def _beside(self, main: Callable[[], None]) -> AbstractContextManager[None]:
        """A block whose work is done beside that of a function."""
        fork = self.device.fork()
        main()
        return fork

    def _initialise(self, table: int, initial: int | None) -> None:
        """Give a table the rows that it has before the scatter."""
        nbytes = self.capacity * self.width * self.dtype.size
        if initial == ZEROS:
            self.device.fill(table, 0, nbytes)
        elif initial is not None:
            self.device.copy(table, initial, nbytes)

    def _compiled(self, piece: int, is_blank: bool) -> dict[str, MoveLaunch]:
        """The launches for arrays of an alignment: a call that raises before the first one has written nothing."""
        form = self._form(piece)
        blank = replace(form, kind=replace(form.kind, blank=is_blank))
        names = *self._active, *((*kernels.GROUPING, "fold") if "spot" in self._active else ())
        made = {name: self._launch(name, blank if name in BLANK else form) for name in names}
        return self._launches.setdefault((piece, is_blank), made)

    def _scratch(self, steps: tuple[str, ...]) -> DeviceBuffer:
        """Memory for lanes by their rows, for keys, owners or copies of a small table."""
        device, tuning = self.device, kinds.TUNING
        if "spot" in steps:
            has_bags = self.source is not None
            nbytes = groups.scratch(self.count, tuning.short, tuning.long, has_bags)
            return Scratch.take(device, nbytes, groups.zeroed(self.count))
        if "mark" in steps:
            owners = device.empty(nbytes := 4 * self.capacity)
            if not self._is_sparse:
                device.fill(owners.address, 0, nbytes)
            return owners
        return device.empty(
            self._most_copies * self.capacity * self.element.size if "commit" in steps else 8 * self.count
        )

    @property
    def _most_copies(self) -> int:
        """Blocks that have copies of a small table, at most."""
        return kinds.TUNING.shares * self.device.processors

    def _raise(self, count: int, lane: int, index: int) -> NoReturn:
        """Raise the reference engine's error for indices that are outside: how many, and the first."""
        at = index + self.whole.index.access.layout.row(lane) * self.index_type.size
        raw = self.device.download(at, self.index_type.size).view(self.index_type.bits)
        reader = self.whole.step.reader
        report = reader.report("outside", np.array([True]), reader.widen(raw))
        raise IndexFault(replace(report, lane=(lane,), count=count))

    # --- forms and kernels

    def _form(self, piece: int) -> AlignedMove:
        size = self.dtype.size
        table, other = (in_bytes(self.ends[name], size, piece) for name in ("table", self.other))
        index = in_bytes(self.whole.index.access.layout, self.index_type.size, self.index_type.size)
        across = self.width * size // piece
        kind = Kind(
            piece=piece,
            across=across if across & (across - 1) == 0 else 0,
            table=form(table, piece),
            other=form(other, piece),
            index=form(index, self.index_type.size),
            index_type=self.index_type,
            cast=self.whole.index.cast,
            remap=self.remap,
            dtype=kinds.ANY if self.combine is Combine.STORE else self.element,
            combine=self.combine,
            wide=self.whole.accumulate is not None,
            owned="mark" in self.steps,
            few=self.refuses and self.steps in (("gather",), ("scatter",), ("brief",)),
            source=self.source,
            tuning=kinds.TUNING,
        )
        given = (*numbers(index, self.index_type.size), *numbers(table, piece), *numbers(other, piece))
        words = self.count, self.capacity, across, self._shift, self._chains
        made = AlignedMove(kind, (*words, *given), self.count * across)
        self._forms[piece] = made
        return made

    @property
    def _shift(self) -> int:
        """Bits of the number of a slot, or of a lane in a key."""
        if "spot" in self.steps:
            return groups.slot_bits(self.count)
        shift = (self.count - 1).bit_length()
        if shift + self.capacity.bit_length() > 64:
            raise Unsupported("more lanes and rows than a key of 64 bits can number")
        return shift

    @property
    def _chains(self) -> int:
        """Blocks that take long segments, if there can be one."""
        return kinds.TUNING.chains * self.device.processors * (self.count > kinds.TUNING.long)

    def _launch(self, name: str, form: AlignedMove) -> MoveLaunch:
        device, kind, tuning, shared = self.device, form.kind, form.kind.tuning, 0
        lanes = int(device.chip.lanes * kernels.LANES.get(name, 1))
        chip, grid = replace(device.chip, lanes=lanes), -(-form.pieces // (lanes * tuning.depth))
        if name in kernels.OF_INDICES:
            few = {"spot": tuning.joined, "insert": tuning.joined, "start": tuning.firsts, "place": tuning.firsts}
            each = few | {"check": tuning.pieces * PIECE // self.index_type.size, "arrange": 1}
            kind, grid = kind.of_indices, -(-self.count // (lanes * each.get(name, tuning.indices)))
            shared = kernels.SHARED[name](lanes, tuning) if name in kernels.SHARED else 0
        elif name in ("private", "commit"):
            grid, shared = min(grid, self._most_copies), self.capacity * self.element.size
        elif name == "fold":
            most = tuning.waves * device.processors * (MOST_THREADS // lanes)
            grid, shared = self._chains + min(grid, most), kind.shared(lanes) if self._chains else 0
        facts = {"lanes": lanes}
        module = device.module(f"{chip} {name} {kind}", lambda: IrSource(kernels.text(chip, name, kind), facts))
        return MoveLaunch(module.kernel(name), min(MOST_GRID, grid), kind.arguments, shared)
