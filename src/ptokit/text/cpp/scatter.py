"""Scatters by row, written with the headers' TSCATTER, which takes flat offsets and may clear its destination first.

An index that names a row becomes `row * Cols + column`. If the headers clear the destination, the values and a mark
for each of them are scattered into workspaces; the marks then select the cells of the destination that stay.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ptokit.isa.dtype import DType, dtype
from ptokit.isa.instruction import Call, FlatIndex, Modifiers
from ptokit.isa.kernel import NO_KERNEL, kernels_of
from ptokit.isa.operand import TileSpec, row_of
from ptokit.isa.policy import BLayout
from ptokit.program.expr import Expr
from ptokit.program.instr_calls import call_of
from ptokit.program.ir import Assign, Barrier, Constant, Instr, Operand, Program, Stmt, TileDecl, TileUse, transform
from ptokit.program.place import BLOCK
from ptokit.target import SCALAR, Profile

UNIT = dtype("int16")
"""Bits are combined in units of this type, which every vector instruction takes."""


def flatten(program: Program, profile: Profile, free: int) -> Program:
    """A program with addresses, without scatters by row. UB is free for workspaces from `free` on."""
    return _Flattener(program, profile, free).result()


@dataclass(frozen=True)
class _TileRef:
    """A tile of the program, or one of the workspace, as an operand, by default all of it."""

    name: str
    spec: TileSpec

    def use(self, valid: tuple[Expr, Expr] | None = None) -> TileUse:
        return TileUse(self.name, valid or (self.spec.rows, self.spec.cols))


class _Flattener:
    def __init__(self, program: Program, profile: Profile, free: int) -> None:
        self.program, self.profile = program, profile
        self.free = free
        self.needs_barriers = False
        self.steps: Mapping[str, tuple[str, Modifiers]] = {}
        self.names = set(program.tiles)
        self.begin: list[Stmt] = []
        """Statements before the program: workspaces, and what is computed once."""
        self.parts: dict[tuple[str, TileSpec, int | None], _TileRef] = {}
        """The tiles of the workspace, by role and, if they share the memory of another one, its address."""
        self.places: dict[str, int] = {}
        self.views: dict[str, dict[str, _TileRef]] = {}
        """Tiles of the program as tiles of other types, by the names of both."""

    def result(self) -> Program:
        """The program, with all that its scatters need."""
        body = transform(transform(self.program.body, self._statement), self._with_views)
        if not self.begin:
            return self.program
        return replace(self.program, body=(*self._ordered(self.begin), *body))

    def _statement(self, stmt: Stmt) -> Stmt | Iterable[Stmt]:
        if not isinstance(stmt, Instr) or (flat := stmt.definition.cpp.flat) is None:
            return stmt
        call = call_of(self.program, stmt, self.profile)
        return self._scatter(stmt, call, flat) if flat.when(call) else stmt

    def _scatter(self, instr: Instr, call: Call, flat: FlatIndex) -> Iterable[Stmt]:
        known, self.steps = len(self.begin), flat.steps
        self.needs_barriers = self.program.mode != "auto" and self._is_scalar(instr)
        steps = list(self._kept(instr) if call.lookup(flat.clears) else self._plain(instr))
        self.begin[known:] = (replace(stmt, where=instr.where) for stmt in self.begin[known:])
        steps = [replace(step, where=instr.where) for step in steps]
        steps[0], steps[-1] = replace(steps[0], waits=instr.waits), replace(steps[-1], event=instr.event)
        return self._ordered(steps)

    def _plain(self, instr: Instr) -> Iterator[Instr]:
        """The headers keep the cells that no index names."""
        dst, src, _ = instr.operands
        offsets = yield from self._offsets(instr)
        yield self._step("scatter", dst, src, offsets)

    def _kept(self, instr: Instr) -> Iterator[Instr]:
        """The headers clear the destination: `dst = dst & ~marked | values`, where ~x is -x - 1."""
        _, source, _ = uses = _uses(instr)
        dst, src, _ = map(self._tile, uses)
        marks = self._marks(_as(src.spec, _signed(src.spec.dtype)))
        marked = self._workspace("marked", _as(dst.spec, _signed(dst.spec.dtype)))
        values = self._workspace("values", _as(dst.spec, dst.spec.dtype), marked)
        bits = self._workspace("bits", _bits(dst.spec), marked)
        old = self._view(dst, "bits", _bits(dst.spec))
        offsets = yield from self._offsets(instr)
        yield self._step("scatter", marked, marks.use(source.valid), offsets)
        yield self._step("times number", bits, bits, _number(UNIT, -1))
        yield self._step("add number", bits, bits, _number(UNIT, -1))
        yield self._step("and", old, old, bits)
        yield self._step("scatter", values, source, offsets)
        yield self._step("or", old, old, bits)

    def _offsets(self, instr: Instr) -> Generator[Instr, None, TileUse]:
        """`index * Cols + column`; returns the operand."""
        dst, _, index = _uses(instr)
        idx, valid = self._tile(index), index.valid
        spec = _as(idx.spec, _signed(idx.spec.dtype))
        columns, offsets = self._columns(spec), self._workspace("offsets", spec).use(valid)
        rows = self._view(idx, "signed", spec) if idx.spec.dtype != spec.dtype else idx
        width = self._tile(dst).spec.cols
        yield self._step("times number", offsets, rows.use(valid), _number(spec.dtype, width))
        yield self._step("add", offsets, offsets, columns.use(valid))
        return offsets

    def _columns(self, spec: TileSpec) -> _TileRef:
        """A tile of column numbers: the element numbers, less the number of the first element in the row."""
        is_known = ("columns", spec, None) in self.parts
        columns = self._workspace("columns", spec)
        if is_known:
            return columns
        kind, start = spec.dtype, _number(spec.dtype, 0)
        count = -(-spec.rows * kind.size // BLOCK) * BLOCK // kind.size
        every = self._workspace("places", row_of(kind, spec.elements), columns)
        firsts = self._workspace("firsts", row_of(kind, count))
        column = replace(
            row_of(kind, count), rows=count, cols=1, valid_cols=1, valid_rows=count, blayout=BLayout.ColMajor
        )
        above = self._workspace("above", column, firsts)
        self.begin += (
            self._step("count", every, start),
            self._step("count", firsts, start),
            self._step("times number", firsts, firsts, _number(kind, spec.cols)),
            self._step("subtract column", columns, columns, above.use((spec.rows, 1))),
        )
        return columns

    def _marks(self, spec: TileSpec) -> _TileRef:
        """A tile with every bit set."""
        is_known = ("marks", spec, None) in self.parts
        marks = self._workspace("marks", spec)
        self.begin += () if is_known else (self._step("fill", marks, _number(spec.dtype, -1)),)
        return marks

    def _step(self, name: str, *operands: _TileRef | Operand) -> Instr:
        instruction, modifiers = self.steps[name]
        given = tuple(part.use() if isinstance(part, _TileRef) else part for part in operands)
        return Instr(instruction, given, modifiers)

    def _tile(self, use: TileUse) -> _TileRef:
        return _TileRef(use.tile, self.program.tiles[use.tile].spec)

    def _workspace(self, role: str, spec: TileSpec, over: _TileRef | None = None) -> _TileRef:
        """A tile behind all others, or in the memory of one of these; scatters of one kind share it."""
        given = self.places[over.name] if over else None
        key = role, spec, given
        if key not in self.parts:
            part = self.parts[key] = _TileRef(self._name(role), spec)
            at = self.places[part.name] = self.free if given is None else given
            self.begin.append(TileDecl(part.name, spec, (at,), fresh=over is None))
            self.free = max(self.free, -(-(at + spec.nbytes) // BLOCK) * BLOCK)
        return self.parts[key]

    def _view(self, tile: _TileRef, role: str, spec: TileSpec) -> _TileRef:
        """A tile of the program as one of another type."""
        known = self.views.setdefault(tile.name, {})
        if role not in known:
            known[role] = _TileRef(self._name(f"{tile.name}_{role}"), spec)
        return known[role]

    def _name(self, base: str) -> str:
        name, number = base, 0
        while name in self.names:
            number += 1
            name = f"{base}_{number}"
        self.names.add(name)
        return name

    def _with_views(self, stmt: Stmt) -> Iterable[Stmt]:
        """Declare and move the views of a tile together with the tile."""
        yield stmt
        if isinstance(stmt, TileDecl):
            for view in self.views.get(stmt.name, {}).values():
                yield replace(stmt, name=view.name, spec=view.spec, fresh=False)
        elif isinstance(stmt, Assign):
            yield from (replace(stmt, tile=view.name) for view in self.views.get(stmt.tile, {}).values())

    def _ordered(self, steps: Iterable[Stmt]) -> Iterator[Stmt]:
        """In manual mode no flags are added: barriers order the pipes, also with the author's statements behind."""
        scalar = True
        for step in steps:
            if self.needs_barriers and isinstance(step, Instr) and self._is_scalar(step) != scalar:
                scalar = not scalar
                yield Barrier("ALL", auto=True)
            yield step
        if not scalar:
            yield Barrier("ALL", auto=True)

    def _is_scalar(self, instr: Instr) -> bool:
        """Whether an instruction runs on the scalar pipe; the others here run on the vector pipe. None here has a
        workspace or another special route: the first one is taken."""
        kernel = next(iter(kernels_of(instr.definition, self.profile.name).values()), NO_KERNEL)
        return {effect.pipe for effect in kernel.effects} == {SCALAR}


def _uses(instr: Instr) -> tuple[TileUse, TileUse, TileUse]:
    """The destination, the source and the index."""
    dst, src, index = instr.operands
    assert isinstance(dst, TileUse) and isinstance(src, TileUse) and isinstance(index, TileUse)
    return dst, src, index


def _number(kind: DType, value: int) -> Constant:
    return Constant(kind, value % 2 ** (8 * kind.size))


def _signed(kind: DType) -> DType:
    """The signed integer of the same width."""
    return dtype(f"int{8 * kind.size}")


def _as(spec: TileSpec, kind: DType) -> TileSpec:
    """A tile of the same extents, all valid."""
    return TileSpec(kind, spec.loc, spec.rows, spec.cols, spec.rows, spec.cols)


def _bits(spec: TileSpec) -> TileSpec:
    """The same bytes, in units of bits."""
    cols = spec.cols * spec.dtype.size // UNIT.size
    return TileSpec(UNIT, spec.loc, spec.rows, cols, spec.rows, cols)
