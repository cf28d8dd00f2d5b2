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

from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ptokit.engine.bag_arguments import BagGradients
from ptokit.engine.cuda.device import Device, DeviceBuffer, DeviceKernel, cuda, current
from ptokit.engine.cuda.resident import resident
from ptokit.engine.cuda.whole import direct, grouping, kinds, segments
from ptokit.engine.cuda.whole.bag_source import BagSite
from ptokit.engine.cuda.whole.check import IndexCheck, Scratch, take
from ptokit.engine.cuda.whole.kinds import PIECE, BagSource, Kind, Tuning, alignment, in_bytes, numbers, without_numbers
from ptokit.engine.cuda.whole.segments import TAKEN, brief_shared
from ptokit.engine.cuda.whole.site import KernelSite
from ptokit.engine.faults import IndexFault
from ptokit.engine.kept import remember
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.emit import I32, Chip
from ptokit.engine.llvm.numbers import computes, is_byte_float
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Storage
from ptokit.engine.whole import ZEROS, MoveKind, MoveSizes, Whole
from ptokit.isa.dtype import DType
from ptokit.isa.dtype import dtype as element_type
from ptokit.isa.layout import Layout
from ptokit.isa.move import Combine, Remap

LANES = {"gather": 2.0, "checked_gather": 2.0, "arrange": 2.0, "fold": 0.5}
"""Threads of a block, for each of the chip's; 1 for other kernels."""
OF_INDICES = ("check", "keys", "mark", "clear", "spot", "insert", "start", "place", "arrange")
"""The kernels that read indices only."""
GROUPING = "insert", "start", "place", "arrange"
"""The kernels that bring the lanes of each row together, after `spot` and before `fold`."""
SHARED: dict[str, Callable[[int, Tuning], int]] = {
    "insert": lambda lanes, tuning: 16 * grouping.entries_of(lanes, tuning.joined) + 8 * lanes * tuning.joined,
    "start": lambda lanes, _: 16 + 8 * lanes,
    "arrange": lambda lanes, tuning: 8 + lanes * (16 + 4 * tuning.words),
}
"""Bytes of shared memory that kernels need, by threads of a block."""
MODULES = {
    direct: ("check", "keys", "mark", "clear", "gather", "checked_gather", "scatter", "private", "commit"),
    segments: ("settle", "brief", "alone", "fold"),
    grouping: ("spot", *GROUPING),
}
KERNELS: dict[str, Callable[[KernelSite], None]] = {
    name: getattr(module, name) for module, names in MODULES.items() for name in names
}


def kernel_text(chip: Chip, name: str, kind: Kind) -> str:
    """The LLVM text of a kernel."""
    site = (KernelSite if kind.source is None else BagSite)(chip, kind, name)
    KERNELS[name](site)
    return site.text


# --- calls -----------------------------------------------------------------------------------------------------------


MOST_OWNERS = 1 << 32
"""Bytes of the owners of rows, at most; for more rows, lanes are sorted."""
SPARSE = 16
"""If there are more rows than this for each lane, only the owners of the named rows are cleared."""
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

BRIEF, MOST_BRIEF = 512, 8192
"""Lanes that are combined in their order by one kernel, at most: each block reads all indices. More of them if there
are as many rows: those of one row are added one after the other."""
SCRATCHED = frozenset(("mark", "keys", "commit", "spot"))
"""The kernels that need memory of their own."""
PLAIN = frozenset(("gather", "checked_gather", "scatter"))
"""The kernels that need no shared memory, and move rows."""
BLANK = ("alone", "fold", "brief")
"""The kernels whose code depends on whether the table holds zeros."""


def run(whole: Whole, storages: Mapping[str, Storage], _threads: int | None = None) -> None:
    """Execute a move. Raises `IndexFault` before anything is written, `Unsupported` for what has no code."""
    device = current()
    call = call_of(device, whole)
    if all(storage.gpu is not None for storage in storages.values()):
        execute(call, whole, {name: storage.address for name, storage in storages.items()})
        return
    with resident(device, storages, [whole.move.dst.operand]) as addresses:
        execute(call, whole, addresses)


def execute(call: CudaCall, whole: Whole, addresses: Mapping[str, int]) -> None:
    """Execute a move on arrays of the device; raises the reference engine's error for indices that are outside."""
    places = [addresses[name] for name, _ in whole.types]
    refused = call.run_at(whole.move.shape[0], *places)
    if refused is None:
        return
    (count, lane), (_, kind), reader = refused, whole.types[1], whole.step.reader
    at = addresses["indices"] + whole.index.access.layout.row(lane) * kind.size
    raw = call.move.device.download(at, kind.size).view(kind.bits)
    report = reader.report("outside", np.array([True]), reader.widen(raw))
    raise IndexFault(replace(report, lane=(lane,), count=count))


def prepare(kind: MoveKind, gpu: int | None) -> CudaMove:
    """A kind of move, to be called while a GPU is current."""
    assert gpu is not None
    return _prepared(cuda(gpu), kind)


def call_of(device: Device, whole: Whole) -> CudaCall:
    """A move over whole arrays."""
    move, sizes = _prepared(device, whole.kind), whole.sizes
    if sizes is not None:
        return move.call(sizes)
    ends = {end.operand: end.layout for end in (whole.src, whole.move.dst)}
    table, (other,) = ends.pop("table"), ends.values()
    aligned, size = alignment([table, other], whole.move.shape[1], move.dtype.size), move.dtype.size
    layouts = partial(forms_of, table, other, whole.index.access.layout, size, move.index_type.size)
    return CudaCall(move, *whole.move.shape, whole.index.capacity, gcd(aligned, move.most), layouts)


def not_captured(whole: Whole, gpu: int, *addresses: int) -> str:
    """Why a move over arrays at these addresses cannot be captured in a CUDA graph; empty if it can."""
    return call_of(cuda(gpu), whole).not_captured(*addresses)


def scattering(device: Device, dtype: DType, combine: Combine, lane: str = I32) -> CudaMove:
    """A scatter of packed rows by resolved lanes, in their order; a sentinel names no row."""
    return _prepared(
        device, MoveKind(False, dtype, element_type("uint32" if lane == I32 else "int64"), Remap.SKIP, combine)
    )


def checking(device: Device, index_type: DType) -> Callable[[int, int, int, int], None]:
    """A kernel that checks packed indices, to be called with their address and number, the capacity, and the address of
    an `IndexCheck`. It is that of a gather of rows without elements."""
    move = _prepared(device, MoveKind(True, element_type("uint8"), index_type, Remap.REFUSE))

    def check(indices: int, count: int, capacity: int, flag: int) -> None:
        move.call(MoveSizes(count, 0, capacity, 1, 0, 1, 0, 1)).check_at(count, indices, flag)

    return check


def run_gradients(given: BagGradients) -> None:
    """Add gradients of bags to the rows of a table: an ordered scatter of rows that lanes read through their bags,
    without a copy for each. Raises `Unsupported` for what has no code.

    Nothing is checked, and nothing waited for: lanes of indices outside of the table add nothing.
    """
    every = given.winners // 4 * given.dtype.size | PIECE
    """The largest size of a piece in bytes: a thread loads as many winners at a time as a piece has elements."""
    facts = given.weights != 0, given.mean, given.winners != 0, given.padding >= 0, given.closed
    move = _through_bags(current(), given.dtype, given.index_type, every & -every, *facts)
    sizes = MoveSizes(given.lanes, given.width, given.capacity, given.width, 1, given.width, 1, 1)
    bags = given.bounds, given.weights, given.winners, given.bags, given.padding
    move(given.out, given.indices, given.grad, sizes, None, *bags, initial=ZEROS)


@lru_cache(MOST_PREPARED)
def _through_bags(device: Device, kind: DType, index_type: DType, most: int, *facts: bool) -> CudaMove:
    """The scatter; its pieces have so many bytes at most, and `facts` are those of its source."""
    if not kind.is_float or is_byte_float(kind) or not computes(kind):
        raise Unsupported(f"gradients of bags of {kind}")
    wide = element_type("float32") if kind.size < 4 else None
    return CudaMove(device, MoveKind(False, kind, index_type, Remap.SKIP, Combine.ADD, wide), BagSource(*facts), most)


class Forms(NamedTuple):
    """The layouts of a call: their forms, a number of these, and the numbers of layouts that are arguments."""

    table: Layout
    other: Layout
    lanes: Layout
    number: int
    given: tuple[int, ...]


_numbers: dict[tuple[Layout, Layout, Layout], int] = {}


def forms_of(table: Layout, other: Layout, index: Layout, size: int, index_size: int, piece: int) -> Forms:
    """The forms of layouts in elements, for pieces of `piece` bytes."""
    ends = in_bytes(table, size, piece), in_bytes(other, size, piece)
    lanes = in_bytes(index, index_size, index_size)
    found = without_numbers(ends[0], piece), without_numbers(ends[1], piece), without_numbers(lanes, index_size)
    given = (*numbers(lanes, index_size), *numbers(ends[0], piece), *numbers(ends[1], piece))
    return Forms(*found, _numbers.setdefault(found, len(_numbers)), given)


@lru_cache(4096)
def even_forms(
    table: tuple[int, int], other: tuple[int, int], step: int, width: int, size: int, index_size: int, piece: int
) -> Forms:
    """The same for even rows, by their steps in elements."""
    (row, col), (other_row, other_col) = ((row, col if width > 1 else 0) for row, col in (table, other))
    layouts = Layout.plain(row, col), Layout.plain(other_row, other_col), Layout.plain(step, 0)
    return forms_of(*layouts, size, index_size, piece)


class KernelCode(NamedTuple):
    """A kernel of a move: its code, the threads of a block, and how many arguments it has."""

    kernel: DeviceKernel
    kind: Kind
    lanes: int
    arguments: int


class KernelLaunch(NamedTuple):
    """A kernel of calls of some sizes, and its grid: a block takes `each` of the `pieces` of all lanes."""

    kernel: DeviceKernel
    arguments: int
    pieces: int
    per_block: int
    most: int
    """Blocks, at most."""
    shared: int
    """Bytes of shared memory of each block."""


@dataclass
class _Launcher:
    """Launches kernels of a call by name. The first of them checks the indices, if one does."""

    count: int
    chains: int
    launches: Mapping[str, KernelLaunch]
    arguments: tuple[int, ...]
    check: IndexCheck | None

    def __call__(self, *names: str) -> None:
        for name in names:
            kernel, arguments, pieces, each, most, shared = self.launches[name]
            grid = min(most, -(-self.count * pieces // each))
            if name == "fold":
                grid, shared = min(MOST_GRID, grid + self.chains), shared if self.chains else 0
            elif name == "brief":
                shared = brief_shared(self.count)
            kernel(grid, self.arguments[:arguments], shared)
            if self.check is not None:
                self.check.begin()
                self.check = None


class CudaMove:
    """A kind of move, ready for calls of all sizes on a device."""

    def __init__(self, device: Device, kind: MoveKind, source: BagSource | None = None, most: int = PIECE) -> None:
        """Its pieces have `most` bytes at most."""
        self.device, self.kind, self.source, self.most = device, kind, source, most
        self.dtype, self.index_type, self.combine = kind.dtype, kind.index_type, kind.combine
        if not self.index_type.is_integer or self.index_type.size not in (2, 4, 8):
            raise Unsupported(f"indices of {self.index_type}")
        self.element = element_type(PARTS.get(self.dtype.name, self.dtype))
        if self.combine is not Combine.STORE:
            self._check_arithmetic()
        self.needs_no_order = self.combine is not Combine.STORE and self._needs_no_order
        self.codes: dict[tuple[Any, ...], dict[str, KernelCode]] = {}
        """The kernels by name, for calls of some steps and forms, and for tables that hold zeros."""
        self.calls: dict[tuple[int, ...], tuple[CudaCall, ...]] = {}
        """By sizes without the lanes: those for some ranges of these."""
        self.tuning = kinds.TUNING

    def _check_arithmetic(self) -> None:
        if not computes(self.element) or (self.combine is Combine.MUL and self.element is not self.dtype):
            raise Unsupported(f"arithmetic with {self.dtype}")
        if is_byte_float(self.dtype):
            self.most = 1

    @property
    def _needs_no_order(self) -> bool:
        """Whether atomic instructions give the result, and are fast for rows."""
        if self.combine is Combine.MUL:  # no chip has such an instruction
            return False
        return self.kind.accumulate is None and not (self.is_sum and self.kind.ordered)

    @property
    def is_sum(self) -> bool:
        """Whether it sums floats."""
        return self.combine is Combine.ADD and not self.element.is_integer

    @cached_property
    def has_row_atomics(self) -> bool:
        """Whether the chip combines rows of more than one element by atomic instructions."""
        known = {name for (name, _), _ in self.device.chip.reductions} if self.is_sum else set[str]()
        return self.element.name in known

    def __call__(
        self,
        table: int,
        index: int,
        other: int,
        sizes: MoveSizes,
        _threads: int | None = None,
        *bags: int,
        initial: int | None = None,
    ) -> bool:
        """Execute a move; False if an index must be refused. `bags` and `initial` are those of `CudaCall.run_at`."""
        return self.call(sizes).run_at(sizes[0], table, index, other, *bags, initial=initial) is None

    def call(self, sizes: MoveSizes) -> CudaCall:
        """Calls of some sizes. Those of about as many lanes are the same."""
        if self.tuning is not kinds.TUNING:
            self.codes, self.calls, self.tuning = {}, {}, kinds.TUNING
        known = self.calls.get(key := sizes[1:], ())
        for call in known:
            if call.least <= sizes[0] <= call.most:
                return call
        made = self._new_call(sizes)
        remember(self.calls, key, (*known, made), MOST_PREPARED)
        return made

    def _new_call(self, sizes: MoveSizes) -> CudaCall:
        count, width, capacity, table_row, table_col, other_row, other_col, step = sizes
        size = self.dtype.size
        is_dense = width <= 1 or table_col == other_col == 1
        aligned = gcd(self.most, size * (gcd(width, table_row, other_row) if is_dense else 1))
        forms = partial(
            even_forms, (table_row, table_col), (other_row, other_col), step, width, size, self.index_type.size
        )
        return CudaCall(self, count, width, capacity, aligned, forms)


_prepared = lru_cache(MOST_PREPARED)(CudaMove)


class CudaCall:
    """Calls of a move: their sizes, the steps that they need, and what launches have of them."""

    def __init__(
        self, move: CudaMove, count: int, width: int, capacity: int, aligned: int, forms: Callable[[int], Forms]
    ) -> None:
        """`aligned` is the longest piece of rows, and `forms` the layouts for pieces of so many bytes."""
        self.move, self.device, self.dtype, self.element = move, move.device, move.dtype, move.element
        self.count, self.width, self.capacity, self.aligned, self.forms = count, width, capacity, aligned, forms
        self.launches: dict[tuple[int, bool], tuple[dict[str, KernelLaunch], Forms, int]] = {}
        """By the bytes of a piece, and whether the table holds zeros; with the pieces of a row."""
        self.least, self.most = self._range()
        is_narrow = move.index_type.size != 8 and capacity >= 1 << 32
        self.remap = None if is_narrow else move.kind.remap
        self.refuses = self.remap is Remap.REFUSE
        self.steps = self._steps()
        """The kernels, by name, in their order."""
        has_cells = count and width and (capacity or (move.kind.gathers and not self.refuses))
        self._active = self.steps if has_cells else ("check",) * bool(count and self.refuses)
        self._is_scratched = not SCRATCHED.isdisjoint(self._active)
        self._is_plain = len(self._active) == 1 and self._active[0] in PLAIN

    def _range(self) -> tuple[int, int]:
        """The fewest and most lanes whose steps are those of `count`."""
        copied = int(self.capacity * self.element.size / PRIVATE_PER_LANE)
        last = 0, 1, BRIEF, FEW, min(MOST_BRIEF, self.capacity), (self.capacity - 1) // SPARSE, copied - 1
        steps = sorted({*last, grouping.MOST_LANES - 1, (1 << 32) - 1})
        at = bisect_left(steps, self.count)
        return steps[at - 1] + 1 if at else 0, steps[at] if at < len(steps) else self.count

    def _steps(self) -> tuple[str, ...]:
        move, count = self.move, self.count
        check = ("check",) * self.refuses
        few = () if count <= FEW else check
        if move.kind.gathers:
            is_wide = self.width * self.dtype.size >= WIDE * move.index_type.size
            return ("checked_gather",) if check and move.kind.fresh and not is_wide else (*few, "gather")
        if move.combine is Combine.STORE:
            if not move.kind.ordered or count == 1:
                return (*few, "scatter")
            if 4 * self.capacity > MOST_OWNERS or count >= 1 << 32:
                return "keys", "settle"
            return (*check, *("clear",) * self._is_sparse, "mark", "scatter")
        if move.needs_no_order and (self.width == 1 or move.has_row_atomics):
            return ("private", *("commit",) * self.refuses) if self._is_small else (*few, "scatter")
        if move.source is None and (count <= BRIEF or count <= min(MOST_BRIEF, self.capacity)):
            return ("brief",)
        if count >= grouping.MOST_LANES:
            raise Unsupported(f"arithmetic with {count} lanes in their order")
        return "spot", "alone"

    @property
    def _is_small(self) -> bool:
        """Whether blocks can have copies of the table: elements that GPUs combine in one instruction."""
        is_sum = self.move.combine is Combine.ADD and self.element.is_float
        fits = self.capacity * self.element.size <= min(MOST_PRIVATE, PRIVATE_PER_LANE * self.count)
        is_plain = self.element is self.dtype and self.dtype.size in (4, 8)
        return self.width == 1 and fits and is_plain and (self.element.is_integer or is_sum)

    @property
    def _is_sparse(self) -> bool:
        return self.capacity > SPARSE * self.count

    # --- calls

    def run_at(
        self, count: int, table: int, index: int, other: int, *bags: int, initial: int | None = None
    ) -> tuple[int, int] | None:
        """Execute the move on so many lanes of arrays of the device, by addresses; `bags` are arguments of a source.

        `initial` is for a packed table that is new memory: the address of its rows before the scatter, or `ZEROS`.
        Returns how many indices are refused, and the first such lane; None if none is.
        """
        steps = self._active
        if not steps:
            self._initialise(table, initial)
            return None
        check = take(self.device) if self.refuses else None
        keys = self._scratch(count, steps) if self._is_scratched else None
        nothing = self.device.empty(16) if not self.capacity else None
        if nothing is not None:
            table = nothing.address
        every = table | other | self.aligned
        launches, words, chains = self._ready(count, every & -every, initial == ZEROS)
        scratch = keys.address if keys else 0
        arguments = (table, other, index, check.address if check else 0, scratch, *bags, *words)
        try:
            if self._is_plain and initial is None:
                (each,) = launches.values()
                each.kernel(min(each.most, -(-count * each.pieces // each.per_block)), arguments[: each.arguments])
                if check is not None:
                    check.begin()
            else:
                launch = _Launcher(count, chains, launches, arguments, check)
                self._launch_all(launch, count, scratch, table, initial)
            if isinstance(keys, Scratch):
                keys.keep()
            return check.end() if check is not None else None
        except BaseException:
            if check is not None:
                self.device.wait()  # the kernel that checks writes to memory of the host, which ends with the check
            raise

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
        is_ready = not self._active or self._key(piece, self.forms(piece), False) in self.move.codes
        return "" if is_ready else "its kernels are not loaded yet"

    def check_at(self, count: int, index: int, flag: int) -> None:
        """Launch only the kernel that checks indices; takes the addresses of these and of an `IndexCheck`."""
        launches, words, chains = self._ready(count, 1, False)
        _Launcher(count, chains, launches, (0, 0, index, flag, 0, *words), None)("check")

    def _launch_all(self, launch: _Launcher, count: int, scratch: int, table: int, initial: int | None) -> None:
        """Launch the kernels. What groups lanes runs beside what it need not wait for."""
        first, *others = self._active
        if first == "spot" and initial is None:
            launch("spot")
            with self._beside(lambda: launch("alone")):
                launch(*GROUPING, "fold")
        elif first == "spot":
            with self._beside(lambda: self._initialise(table, initial)):
                launch("spot", *GROUPING)
            launch("alone", "fold")
        else:
            reads_only = first in OF_INDICES
            if not reads_only:
                self._initialise(table, initial)
            launch(first)
            if reads_only:  # a check does not wait for it
                self._initialise(table, initial)
            if first == "keys":
                self.device.sort(scratch, count)
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

    def _scratch(self, count: int, steps: tuple[str, ...]) -> DeviceBuffer | Scratch:
        """Memory for lanes by their rows, for keys, owners or copies of a small table."""
        device, tuning = self.device, kinds.TUNING
        if "spot" in steps:
            has_bags = self.move.source is not None
            nbytes = grouping.scratch(count, tuning.short, tuning.long, has_bags)
            return Scratch.take(device, nbytes, grouping.zeroed(count))
        if "mark" in steps:
            owners = device.empty(nbytes := 4 * self.capacity)
            if not self._is_sparse:
                device.fill(owners.address, 0, nbytes)
            return owners
        return device.empty(self._most_copies * self.capacity * self.element.size if "commit" in steps else 8 * count)

    @property
    def _most_copies(self) -> int:
        """Blocks that have copies of a small table, at most."""
        return kinds.TUNING.shares * self.device.processors

    # --- kernels

    def _key(self, piece: int, forms: Forms, is_blank: bool) -> tuple[Any, ...]:
        """What the code of its kernels depends on."""
        across = self.width * self.dtype.size // piece
        return self._active, piece, across if across & (across - 1) == 0 else 0, forms.number, is_blank, self.remap

    def _ready(self, count: int, piece: int, is_blank: bool) -> tuple[dict[str, KernelLaunch], tuple[int, ...], int]:
        """The kernels for arrays of an alignment, their arguments from the first number on, and blocks for long
        segments."""
        found = self.launches.get((piece, is_blank))
        if found is None:
            forms, across = self.forms(piece), self.width * self.dtype.size // piece
            codes = self._codes(piece, forms, is_blank)
            launches = {name: self._launch(name, code, across) for name, code in codes.items()}
            found = self.launches[piece, is_blank] = launches, forms, across
        launches, forms, across = found
        chains = kinds.TUNING.chains * self.device.processors * (count > kinds.TUNING.long)
        return launches, (count, self.capacity, across, self._shift(count), chains, *forms.given), chains

    def _codes(self, piece: int, forms: Forms, is_blank: bool) -> dict[str, KernelCode]:
        """The code of the kernels. All is compiled first: a call that raises before its first launch has written
        nothing."""
        move, key = self.move, self._key(piece, forms, is_blank)
        found = move.codes.get(key)
        if found is None:
            kind = self._kind(piece, forms)
            names = *self._active, *((*GROUPING, "fold") if "spot" in self._active else ())
            blank = replace(kind, blank=is_blank)
            made = {name: self._code(name, blank if name in BLANK else kind) for name in names}
            found = remember(move.codes, key, made, MOST_PREPARED)
        return found

    def _kind(self, piece: int, forms: Forms) -> Kind:
        move, across = self.move, self.width * self.dtype.size // piece
        return Kind(
            piece=piece,
            across=across if across & (across - 1) == 0 else 0,
            table=forms.table,
            other=forms.other,
            index=forms.lanes,
            index_type=move.index_type,
            cast=move.index_type.size != 8,
            remap=self.remap,
            dtype=kinds.ANY if move.combine is Combine.STORE else self.element,
            combine=move.combine,
            wide=move.kind.accumulate is not None,
            owned="mark" in self.steps,
            few=self.refuses and self.steps in (("gather",), ("scatter",), ("brief",)),
            source=move.source,
            tuning=kinds.TUNING,
        )

    def _code(self, name: str, kind: Kind) -> KernelCode:
        device = self.device
        lanes = int(device.chip.lanes * LANES.get(name, 1))
        chip, kind = replace(device.chip, lanes=lanes), kind.of_indices if name in OF_INDICES else kind
        facts = {"lanes": lanes}
        module = device.module(f"{chip} {name} {kind}", lambda: IrSource(kernel_text(chip, name, kind), facts))
        return KernelCode(module.kernel(name), kind, lanes, kind.arguments)

    def _launch(self, name: str, code: KernelCode, across: int) -> KernelLaunch:
        """A kernel, with what its grid follows from."""
        kernel, kind, lanes, arguments = code
        tuning, pieces, each, most, shared = kind.tuning, across, lanes * kind.tuning.depth, MOST_GRID, 0
        if name in OF_INDICES:
            few = {"spot": tuning.joined, "insert": tuning.joined, "start": tuning.firsts, "place": tuning.firsts}
            few |= {"check": tuning.pieces * PIECE // self.move.index_type.size, "arrange": 1}
            pieces, each = 1, lanes * few.get(name, tuning.indices)
            shared = SHARED[name](lanes, tuning) if name in SHARED else 0
        elif name in ("private", "commit"):
            most, shared = self._most_copies, self.capacity * self.element.size
        elif name == "brief":
            pieces, each = 1, TAKEN
        elif name == "fold":
            most, shared = tuning.waves * self.device.processors * (MOST_THREADS // lanes), kind.shared(lanes)
        return KernelLaunch(kernel, arguments, pieces, each, most, shared)

    def _shift(self, count: int) -> int:
        """Bits of the number of a slot, or of a lane in a key."""
        if "spot" in self.steps:
            return grouping.slot_bits(count)
        shift = (count - 1).bit_length()
        if shift + self.capacity.bit_length() > 64:
            raise Unsupported("more lanes and rows than a key of 64 bits can number")
        return shift
