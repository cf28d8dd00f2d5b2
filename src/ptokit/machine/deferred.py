"""Instructions under schedules other than the program's order: their pipes run their parts at different times.

The scalar pipe and threads access global memory through a cache, DMA does not. What one path has written, the other may
not see yet: it reads the content before (H-47, H-48).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import NamedTuple

import numpy as np

from ptokit.engine.faults import SpanFault, ZeroFault
from ptokit.engine.interpreter import POISON
from ptokit.engine.reference import IndexedStep, Lanes, PlanStep, ScatterStep, Touched
from ptokit.engine.storage import Array, Storage
from ptokit.isa.move import Combine
from ptokit.isa.spelling import TMP
from ptokit.machine.adversary import Chance
from ptokit.machine.hazards import is_cached
from ptokit.machine.memories import Global, MemoryLocation
from ptokit.machine.shadow import READ, Shadow
from ptokit.machine.site import Site, is_ordered
from ptokit.program.cores import PipeWork, unit_of


class StaleAccess(NamedTuple):
    """Elements of a memory that a statement accesses on a pipe, cached or not."""

    storage: Storage
    touched: Touched
    number: int
    cached: bool

    @property
    def offsets(self) -> Array:
        """The elements, each once."""
        named = self.touched.offsets() if self.touched.offsets else self.touched.region.offsets()  # type: ignore[union-attr]
        return np.unique(named)


class _Unseen:
    """What one path does not see of a span: by unit, the statement that has written it by the other path, from 1 on,
    and the content before."""

    def __init__(self, shadow: Shadow) -> None:
        self.writer = np.zeros(shadow.size, np.int32)
        self.before = np.zeros((shadow.size, shadow.unit), np.uint8)


class StaleLines:
    """The content of global memory as the two paths may see it."""

    def __init__(self, gm: Global, chance: Chance) -> None:
        self._gm, self._chance = gm, chance
        self._paths: dict[tuple[Shadow, bool], _Unseen] = {}

    @contextmanager
    def shown(self, accesses: Sequence[StaleAccess]) -> Iterator[None]:
        """While an instruction runs, some of what it reads is stale; what it writes may be stale for others later."""
        with ExitStack() as stack:
            for access in accesses:
                if access.touched.how == READ and self._chance.coin():
                    stack.enter_context(self._old(access))
            for access in accesses:
                if access.touched.how != READ:
                    self._write(access)
            yield

    @contextmanager
    def _old(self, access: StaleAccess) -> Iterator[None]:
        path, units, offsets = self._find(access, access.cached)
        if path is None or not offsets.size:
            yield
            return
        writer, bits = path.writer[units], access.storage.bits
        hidden = (writer != 0) & (writer != access.number + 1)
        now = bits[offsets]
        seen = np.where(hidden[..., None], path.before[units], now.view(np.uint8).reshape(*units.shape, -1))
        bits[offsets] = np.ascontiguousarray(seen).view(bits.dtype).reshape(offsets.shape)
        try:
            yield
        finally:
            bits[offsets] = now

    def _write(self, access: StaleAccess) -> None:
        own, units, offsets = self._find(access, access.cached)
        other, _, _ = self._find(access, not access.cached)
        if own is None or other is None or not offsets.size:
            return
        content = access.storage.bits[offsets].view(np.uint8).reshape(*units.shape, -1)
        new = other.writer[units] == 0
        other.before[units[new]] = content[new]
        other.writer[units] = access.number + 1
        own.writer[units] = 0

    def _find(self, access: StaleAccess, cached: bool) -> tuple[_Unseen | None, Array, Array]:
        """The state of a path, the units of an access by element, and its elements."""
        place = self._gm.at(access.storage)
        offsets = access.offsets
        if place is None:
            return None, offsets, offsets
        key = place.shadow, cached
        path = self._paths.get(key)
        if path is None:
            path = self._paths[key] = _Unseen(place.shadow)
        return path, _units(place, offsets, access.storage.dtype.size), offsets


def _units(place: MemoryLocation, offsets: Array, size: int) -> Array:
    each = size // place.shadow.unit
    return place.start + offsets[:, None] * each + np.arange(each)


class LateWrites:
    """What a block has written on a pipe whose instructions may overlap, for reads that may come before its end: those
    that the run in program order has found (`Overlaps`)."""

    def __init__(self, found: Iterable[tuple[tuple[int, int], str]], pipe: str, chance: Chance) -> None:
        """`found` are pairs of statements with the operand that the second one reads."""
        self.pipe, self._chance = pipe, chance
        self._writers: dict[tuple[int, str], list[int]] = {}
        for (writer, reader), operand in found:
            self._writers.setdefault((reader, operand), []).append(writer)
        self._awaited = {writer for writers in self._writers.values() for writer in writers}
        self._written: dict[int, list[_Written]] = {}

    def seen_by(self, number: int, names: Sequence[str], storages: Sequence[Storage]) -> list[Storage]:
        """What a statement finds in its operands, which may be the content before such writes."""
        return [self._seen(number, name, storage) for name, storage in zip(names, storages, strict=True)]

    def _seen(self, number: int, name: str, storage: Storage) -> Storage:
        writers = self._writers.get((number, name), ())
        late = [each for writer in writers for each in self._written.get(writer, ()) if each.meets(storage)]
        if not late or self._chance.coin():
            return storage
        seen = Storage(storage.bits.copy(), storage.dtype)
        for each in late:
            each.undo(storage, seen)
        return seen

    @contextmanager
    def noted(self, number: int, storages: Sequence[Storage]) -> Iterator[None]:
        """Note what a statement writes while it runs."""
        if number not in self._awaited:
            yield
            return
        before = [storage.bits.view(np.uint8).copy() for storage in storages]
        yield
        self._written[number] = [_Written(*each) for each in zip(storages, before, strict=True)]


class _Written:
    """The bytes of an operand that a statement has changed."""

    def __init__(self, storage: Storage, before: Array) -> None:
        self.storage, self.before = storage, before
        self.after = storage.bits.view(np.uint8).copy()

    def meets(self, other: Storage) -> bool:
        """Whether another operand shares memory with it."""
        mine, theirs = self.storage.span, other.span
        return mine.start < theirs.stop and theirs.start < mine.stop

    def undo(self, other: Storage, seen: Storage) -> None:
        """Show in `seen`, a copy of another operand, what was there before; but not what was written since."""
        first = max(self.storage.address, other.address)
        last = min(self.storage.span.stop, other.span.stop)
        mine, theirs = (slice(first - each.address, last - each.address) for each in (self.storage, other))
        now, old, new = other.bits.view(np.uint8)[theirs], self.before[mine], self.after[mine]
        seen.bits.view(np.uint8)[theirs] = np.where(now == new, old, now)


def poison(storages: Iterable[Storage]) -> None:
    """Fill memories with the pattern of uninitialised memory."""
    for storage in storages:
        storage.bits.view(np.uint8)[...] = POISON


class DeferredInstruction:
    """One execution: the pipe that reads the indices keeps them for the pipes that move the data. An uninitialised tile
    is poisoned when it is first touched, not before: until then other tiles may use its memory. A workspace is poisoned
    when its pipe runs: nothing is known of what it holds then. Lanes of a scatter take effect in any order where the
    target does not define one."""

    def __init__(
        self,
        site: Site,
        number: int,
        storages: list[Storage],
        fresh: list[bool],
        workspace: Storage | None,
        chance: Chance,
        stale: StaleLines | None,
        late: LateWrites | None,
    ) -> None:
        """`number` is that of the statement. `fresh` says of every operand whether it is an uninitialised tile. `stale`
        is None if all pipes see the same global memory, `late` if no instructions of a pipe overlap."""
        self._site, self._number, self._late = site, number, late
        self._plan, self._storages = site.prepared.tolerant, storages
        self._chance, self._stale = chance, stale
        self._lanes: list[Lanes | None] | None = None
        self._touches = touches = [step for step in site.steps if isinstance(step, PipeWork)]
        names = site.prepared.names
        index = site.call.instruction.roles.get("index")
        self._reader = next((touch for touch in touches if index in touch.reads), touches[-1])
        self._is_atomic = site.call.is_atomic
        self._is_aliased = self._plan.is_aliased(storages)
        self._last = touches[-1]
        self._moves = [_last(touches, names[step.dst]) for step in self._plan.steps]
        """The part that each move of the plan belongs to."""
        self._poisons = [
            (_first(touches, name), storage)
            for name, storage, is_fresh in zip(names, storages, fresh, strict=True)
            if is_fresh
        ]
        if workspace is not None:  # what an instruction leaves there is unknown (CP-TMP-01)
            self._poisons.append((_first(touches, TMP), workspace))

    def is_atomic(self, touch: PipeWork) -> bool:
        return self._is_atomic and any(mover is touch for mover in self._moves)

    def __call__(self, touch: PipeWork) -> None:
        """Run a pipe's part."""
        poison(storage for first, storage in self._poisons if first is touch)
        late, given = self._late, self._storages
        if late is None or unit_of(touch.pipe) != late.pipe:
            self._run_part(touch)
            return
        self._storages = late.seen_by(self._number, self._site.prepared.names, given)
        with late.noted(self._number, given):
            self._run_part(touch)
        self._storages = given

    def _run_part(self, touch: PipeWork) -> None:
        with suppress(SpanFault, ZeroFault):  # reported by the run in program order
            if touch is self._reader:
                indexed = [step for step in self._plan.steps if isinstance(step, IndexedStep)]
                with self._shown(Touched(step.idx, READ, step.lanes) for step in indexed):
                    self._lanes, _ = self._plan.resolve(self._storages)
            if self._lanes is not None:
                self._move(touch, self._lanes)

    def _move(self, touch: PipeWork, lanes: list[Lanes | None]) -> None:
        if self._is_aliased:
            if touch is self._last:
                self._plan.run(self._storages, lanes)
            return
        for step, own, mover in zip(self._plan.steps, lanes, self._moves, strict=True):
            if mover is touch:
                with self._shown(each for each in step.touches(own) if not each.is_index):
                    self._run(step, own)

    def _run(self, step: PlanStep, lanes: Lanes | None) -> None:
        is_store = isinstance(step, ScatterStep) and step.move.combine is Combine.STORE
        if not is_store or is_ordered(self._site.call):
            step.run(self._storages, lanes)
            return
        assert isinstance(step, ScatterStep) and lanes is not None
        cells, where, values = step.cells(self._storages, lanes)
        order = self._chance.order(len(where))
        cells[where[order]] = values[order]  # NumPy assigns in order

    def _shown(self, touched: Iterable[Touched]) -> AbstractContextManager[None]:
        """Global memory as the pipes that access these operands may see it."""
        if self._stale is None:
            return nullcontext()
        return self._stale.shown(list(map(self._access, touched)))

    def _access(self, touched: Touched) -> StaleAccess:
        name = self._site.prepared.names[touched.slot]
        pipes = [step.pipe for step in self._touches if name in (step.reads if touched.how == READ else step.writes)]
        is_through = is_cached((pipes or [self._last.pipe])[-1])
        return StaleAccess(self._storages[touched.slot], touched, self._number, is_through)


def _first(touches: list[PipeWork], operand: str) -> PipeWork:
    """The first part that touches an operand."""
    return next((touch for touch in touches if operand in (*touch.reads, *touch.writes)), touches[-1])


def _last(touches: list[PipeWork], operand: str) -> PipeWork:
    """The last part that writes an operand."""
    return next((touch for touch in reversed(touches) if operand in touch.writes), touches[-1])
