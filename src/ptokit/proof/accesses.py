"""What a statement does on the pipes, for the numbers of a path: its work, and the bytes or blocks that it touches.

Numbers that the path does not know are replaced by the largest that they can be: a tile with fewer valid rows touches
no more. What is not bounded counts as all of its operand.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ptokit.engine.prepared import Prepared
from ptokit.finding import Finding, VerifyError
from ptokit.isa.kernel import ByteRows
from ptokit.isa.operand import ScalarSpec
from ptokit.isa.policy import TileType
from ptokit.isa.spelling import TMP
from ptokit.machine.overlaps import HEADERS
from ptokit.machine.shadow import READ, WRITE, Extent, extent_of
from ptokit.machine.site import Site, lenient, site
from ptokit.program.bounds import available
from ptokit.program.budget import hidden_memory, uses_hidden
from ptokit.program.cores import Cores, PipeWork, Sync, in_use, own_steps, unit_of, vectors_of
from ptokit.program.expr import Expr
from ptokit.program.instr_calls import (
    access_of,
    all_operands,
    effects,
    has_slices,
    named_operands,
    offset_in,
    sharing,
    tensor_spec,
    tile_spec,
)
from ptokit.program.ir import Instr, Operand, Program, TileUse, View
from ptokit.program.verify_call import Options
from ptokit.proof.numbers import Numbers
from ptokit.target import VECTOR, Profile

Memory = tuple[TileType, int] | str
"""An on-chip memory with the number of its vector core, or an array."""
STAND_IN = 1 << 20
"""In the place of a number without bounds that no on-chip access depends on: a stride of an array."""


@dataclass(frozen=True, eq=False)
class Touch:
    """A part of a memory that a step touches."""

    operand: str
    how: str
    memory: Memory
    bits: int = 0
    """Of on-chip memory: a bit for each byte."""
    tile: str = ""
    view: View | None = None
    """Of an array: the block."""
    is_lost: bool = False
    """Whether what is written is unspecified."""
    use: TileUse | None = None
    """Of on-chip memory: the part of a tile, if it is the elements that the instruction is about."""
    valid: tuple[Expr, ...] | None = ()
    """What the bytes depend on besides known numbers: extents that are known at run time only. None if the part of the
    tile is not known at all."""


@dataclass(frozen=True, eq=False)
class PipeTouches:
    """A pipe's part of a statement."""

    pipe: str
    touches: tuple[Touch, ...]
    step: PipeWork
    alike: frozenset[str] | None = None
    """The operands that are walked element by element; None if that is not known."""


@dataclass(frozen=True, eq=False)
class Doing:
    """What a statement does."""

    steps: tuple[PipeTouches | Sync, ...]
    checked: tuple[Touch, ...] = ()
    """All on-chip accesses in their order, for what is written before it is read."""
    findings: tuple[Finding, ...] = ()
    copies: bool = False
    """Whether it brings data from global memory."""
    unaligned: tuple[str, ...] = ()
    """The operands with bursts that may begin where none can."""

    @property
    def pipes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.pipe for step in self.steps if isinstance(step, PipeTouches)))


@lru_cache(maxsize=4096)
def _bits(start: int, rows: int, length: int, pitch: int) -> int:
    run = (1 << length) - 1
    if rows == 1:
        return run << start
    found = 0
    for row in range(rows):
        found |= run << (start + row * pitch)
    return found


def bits_of(extent: Extent, start: int) -> int:
    """The bytes of an extent as bits of a number."""
    if extent.listed is None:
        return _bits(start, extent.rows, extent.length, extent.pitch) if extent.count else 0
    marks = np.zeros(start + extent.end, np.uint8)
    marks[extent.listed + start] = 1
    return int.from_bytes(np.packbits(marks, bitorder="little").tobytes(), "little")


class Touches:
    """The work of all statements of a program, computed once for each set of numbers."""

    def __init__(self, program: Program, profile: Profile, options: Options) -> None:
        self.program, self.profile, self.options = program, profile, options
        self.cores = Cores(program, profile)
        self.hidden = hidden_memory(program, profile)
        self._known: dict[Hashable, Doing] = {}

    def of(self, instr: Instr, numbers: Numbers, addresses: Mapping[str, int], core: str, vector: int) -> Doing:
        """What an instruction does. Raises `Undecided`, or `VerifyError` if it is refused."""
        bound = _Bound(numbers, self._extents(instr, numbers))
        specs = {name: self._spec(operand, bound, addresses) for name, operand in all_operands(instr).items()}
        bound_at = tuple(addresses.get(use.tile) for use in instr.tiles)
        key = id(instr), core, vector, bound_at, tuple(bound.given)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._doing(instr, specs, bound, addresses, core, vector)
        return known

    def _extents(self, instr: Instr, numbers: Numbers) -> dict[Hashable, int]:
        """The most that each extent can be that is known at run time only: that of the tiles that have it."""
        found: dict[Hashable, int] = {}
        for use in instr.tiles:
            most = available(self.program.tiles[use.tile], use)
            for expr, size in zip(use.valid, most, strict=True):
                terms = numbers.sum_of(expr)
                if numbers.number(terms) is None:
                    key = frozenset(terms.items())
                    found[key] = min(size, found.get(key, size))
        return found

    def _spec(self, operand: Operand, bound: _Bound, addresses: Mapping[str, int]) -> Any:
        if isinstance(operand, TileUse):
            if operand.window is not None:
                for start in operand.window.start:
                    bound.start(start, operand)
            return tile_spec(self.program.tiles[operand.tile].spec, operand, bound.most, addresses.get(operand.tile))
        if isinstance(operand, View):
            return tensor_spec(self.program.tensors[operand.argument], operand, bound.most)
        if hasattr(operand, "is_position"):
            value = bound.numbers.exact(operand.value) if operand.is_position else None  # type: ignore[union-attr]
            bound.given.append(value)
            return ScalarSpec(operand.dtype, value)
        return ScalarSpec(operand.dtype)

    def _doing(
        self, instr: Instr, specs: dict[str, Any], bound: _Bound, addresses: Mapping[str, int], core: str, vector: int
    ) -> Doing:
        workspace = specs.pop(TMP, None)
        shared = sharing(instr, bound.most) if has_slices(instr) else sharing(instr)
        given = list(specs.values()), instr.modifiers, *shared.calls, workspace
        many = len(vectors_of(instr)) > 1
        make = lambda options: Prepared(  # noqa: E731
            instr.definition, self.profile, options, *given, alone=False, vector=vector if many else 0
        )
        prepared = make(self.options)
        here = site(prepared, None if prepared.plan is not None else make(lenient(self.options)), self.profile)
        if here is None:
            raise VerifyError([finding.at(instr.where) for finding in prepared.refused])
        return _Described(self, instr, here, bound, addresses, core, vector).doing()


class _Bound:
    """Numbers that stand for those of a path, and which of them are not exact."""

    def __init__(self, numbers: Numbers, extents: Mapping[Hashable, int]) -> None:
        self.numbers, self.extents = numbers, extents
        self.given: list[object] = []
        """What the result depends on."""
        self.open: set[int] = set()
        """By identity: uses of tiles of which the place in the tile is not known."""

    def most(self, expr: Expr) -> int:
        """The number, or the most that it can be; for an extent that no tile has, one that no tile depends on."""
        if isinstance(expr, int):
            return expr
        terms = self.numbers.sum_of(expr)
        number = self.numbers.number(terms)
        found = self.extents.get(frozenset(terms.items()), STAND_IN) if number is None else number
        self.given.append((found, number is None))
        return found

    def start(self, expr: Expr, use: TileUse) -> None:
        """Where a part of a tile begins."""
        terms = self.numbers.sum_of(expr)
        number = self.numbers.number(terms)
        self.given.append(number)
        if number is None:
            self.open.add(id(use))


class _Described:
    """An instruction with the bytes of its operands."""

    def __init__(
        self,
        of: Touches,
        instr: Instr,
        here: Site,
        bound: _Bound,
        addresses: Mapping[str, int],
        core: str,
        vector: int,
    ) -> None:
        self.of, self.instr, self.here, self.bound, self.addresses = of, instr, here, bound, addresses
        self.core, self.vector = core, vector
        self.operands = all_operands(instr)
        self.names = here.prepared.names
        self.unaligned: dict[str, None] = {}

    def doing(self) -> Doing:
        of, instr = self.of, self.instr
        found = self._accesses()
        steps = self.here.steps
        if of.cores.vector_cores > 1:
            steps = own_steps(steps, self.core, of.cores.vector_cores)
        if instr.opaque_form:
            steps = in_use(steps, of.cores.pipes_for(self.core))
        done = tuple(
            step if isinstance(step, Sync) else PipeTouches(step.pipe, _own(step, found), step, self.here.alike)
            for step in steps
        )
        access = access_of(instr)
        copies = any(isinstance(o, View) and access[name] != WRITE for name, o in named_operands(instr).items())
        on_chip = tuple(each for each in found if not isinstance(each.memory, str))
        return Doing(done, on_chip, self.here.findings, copies, tuple(self.unaligned))

    def _accesses(self) -> list[Touch]:
        found: list[Touch] = []
        for step in self.here.plan.steps:
            for touched in step.may_touch():
                name = self.names[touched.slot]
                operand = self.operands[name]
                if isinstance(operand, TileUse):
                    extent = None if touched.region is None else self._extent(operand, touched.region)
                    found.append(self._on_chip(name, touched.how, operand, extent))
                elif isinstance(operand, View):
                    memory = memory_of(self.of.program, operand)
                    found.append(Touch(name, touched.how, memory, view=operand))
        first = next((k for k, access in enumerate(found) if access.how != READ), len(found))
        return [*found[:first], *self._besides(), *found[first:], *self._headers()]

    def _extent(self, use: TileUse, region: Any) -> Extent:
        return extent_of(region, self._size(use))

    def _size(self, use: TileUse) -> int:
        return self.of.program.tiles[use.tile].spec.dtype.size

    def _on_chip(self, name: str, how: str, use: TileUse, extent: Extent | None, *, is_lost: bool = False) -> Touch:
        """Bytes of a tile; without an extent, of the whole use."""
        decl = self.of.program.tiles[use.tile]
        spec, start = decl.spec, self.addresses[use.tile]
        is_open = id(use) in self.bound.open or (extent is None and use.window is not None)
        whole = Extent(1, spec.nbytes, 0)
        if use.window is not None and not is_open:
            start += self.bound.numbers.exact(offset_in(spec, use.window)) * spec.dtype.size
            whole = Extent(1, max(1, spec.nbytes - (start - self.addresses[use.tile])), 0)
        vector = self.vector if spec.loc is TileType.Vec else 0
        chosen = whole if extent is None or is_open else extent
        valid = tuple(expr for expr in use.valid if self.bound.numbers.number(self.bound.numbers.sum_of(expr)) is None)
        if (name, how != READ) in self.here.moved and (is_open or self._begins_between(start, chosen)):
            self.unaligned[name] = None
        limited = bits_of(chosen, start) & (((1 << spec.nbytes) - 1) << self.addresses[use.tile])
        return Touch(
            name, how, (spec.loc, vector), limited, use.tile, is_lost=is_lost, use=use,
            valid=None if is_open else valid,
        )  # fmt: skip

    def _begins_between(self, start: int, extent: Extent) -> bool:
        """Whether a burst does not begin at a multiple of the alignment."""
        alignment = self.of.profile.burst
        return bool(alignment and extent.count) and bool(
            start % alignment or (extent.rows > 1 and extent.pitch % alignment)
        )

    def _besides(self) -> Iterator[Touch]:
        """The workspace, and what the headers touch besides the elements that the instruction is about."""
        for effect in effects(self.here.call):
            operand = self.operands.get(effect.operand)
            if not isinstance(operand, TileUse) or (effect.extent is None and effect.operand != TMP):
                continue
            if effect.operand == TMP and not self.here.call.uses_workspace:
                continue
            spec = self.here.tiles[effect.operand]
            rows = effect.extent(self.here.call) if effect.extent else ByteRows(1, spec.nbytes)
            extent = Extent(rows.rows, rows.length, rows.pitch)
            is_lost = effect.access != READ and effect.lost
            yield self._on_chip(effect.operand, effect.access, operand, extent, is_lost=is_lost)

    def _headers(self) -> Iterator[Touch]:
        """The part of UB that the headers use by themselves, as far as it is known to have tiles."""
        if self.of.hidden is None or not uses_hidden(self.instr):
            return
        size = self.of.profile.memories[TileType.Vec].size or 0
        bits = ((1 << size) - 1) >> self.of.hidden << self.of.hidden
        yield Touch(HEADERS, WRITE, (TileType.Vec, self.vector), bits, HEADERS, is_lost=True)


def _own(step: PipeWork, touches: list[Touch]) -> tuple[Touch, ...]:
    """The accesses of a step."""
    own = [touch for touch in touches if touch.operand in (step.reads if touch.how == READ else step.writes)]
    if unit_of(step.pipe) == VECTOR:
        own += [touch for touch in touches if touch.operand == HEADERS]
    return tuple(own)


def memory_of(program: Program, view: View) -> str:
    """The array that a block is of."""
    argument = program.tensors[view.argument]
    return argument.memory or argument.array


def scalar_load(source: View, memory: str, pipes: tuple[str, ...]) -> Doing:
    """What the load of a number does on the scalar pipes of the cores that need it."""
    touch = Touch("source", READ, memory, view=source)
    return Doing(tuple(PipeTouches(pipe, (touch,), PipeWork(pipe, ("source",))) for pipe in pipes))
