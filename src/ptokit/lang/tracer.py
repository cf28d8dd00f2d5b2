"""Tracing: a kernel runs once on stand-ins for its arguments; its calls become a `Program`, with the author's names."""

from __future__ import annotations

import ast
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, islice
from types import CodeType, FrameType
from typing import cast

from ptokit.finding import Where
from ptokit.isa.instruction import Instruction, Modifiers
from ptokit.isa.operand import TileSpec
from ptokit.isa.spelling import TMP
from ptokit.lang.dispatch import Event, Scalar, TracedScalar, Wait, awaited, no_operand
from ptokit.lang.faults import frames_until, place, refuse, user_frame, user_place
from ptokit.lang.source import Unreadable, tree_of
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile
from ptokit.lang.traced_integers import TracedInteger, expression, pinned, symbolic
from ptokit.program import ir
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Expr, Op, Var, apply, subtract
from ptokit.program.symbolic import Lengths

Position = tuple[int | None, int | None, int | None, int | None]
Part = tuple[int, int] | ast.expr | str | None
"""A part of a container: its place, and how many there are; its key, then as text; None for the next one."""
Path = tuple[Part, ...]
Binding = tuple[ast.expr | None, Path]
"""A target, and the part of its value; no target if a function returns it."""


class Names:
    """The names of the results of calls, in one trace."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, Path], tuple[FrameType, object, int]] = {}
        """By target and part: the function, what the target was bound to, and the place of the last element."""

    def of(self, frames: Sequence[FrameType]) -> str:
        """The name of the innermost call's result: the name that the outermost function gives to it."""
        name, path = "", Path()
        for k, frame in enumerate(frames):
            code = next((each.f_code for each in frames[k:] if each.f_code.co_name.isidentifier()), frame.f_code)
            known = _bindings(code.co_filename, code)  # a comprehension and a lambda are parts of a function
            found = known.get(_position(frame))
            if found is None and frame.f_code.co_name.isidentifier():
                break
            target, inner = found or (None, ())
            path = (*(_key(part, frame) for part in inner), *path)
            if target is not None:
                name = self._named(target, path, frame) or name
                if not isinstance(target, ast.Name) or target.id not in known:
                    break
                path = (*known[target.id][1], *path)
        return name

    def _named(self, target: ast.expr, path: Path, frame: FrameType) -> str:
        if path.count(None) > 1:
            return ""
        if None in path:
            key, bound = (ast.unparse(target), path), frame.f_locals.get(ast.unparse(target))
            function, before, last = self._last.get(key, (None, None, -1))
            place = last + 1 if function is frame and before is bound else 0  # another list begins again
            self._last[key] = frame, bound, place
            path = tuple((place, sys.maxsize) if part is None else part for part in path)
        return _spelt(target, path, frame)


def _position(frame: FrameType) -> Position | None:
    return next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)


def _key(part: Part, frame: FrameType) -> Part:
    """A key as text; empty if it is neither a constant nor a variable with a simple value."""
    if not isinstance(part, ast.expr):
        return part
    value = frame.f_locals.get(part.id) if isinstance(part, ast.Name) else getattr(part, "value", None)
    return repr(value) if isinstance(value, int | str) else ""


def _spelt(target: ast.expr, path: Path, frame: FrameType) -> str:
    """The name that a part of an assigned value gets: `a`, `rest[0]`, `state.sum`; empty if unknown."""
    if isinstance(target, ast.Tuple | ast.List):
        return _item(target.elts, path, frame)
    if isinstance(target, ast.Name):
        name = target.id
    elif isinstance(target, ast.Attribute):
        name = f"{_spelt(target.value, (), frame)}.{target.attr}"
    elif isinstance(target, ast.Subscript):
        name, path = _spelt(target.value, (), frame), (_key(target.slice, frame), *path)
    else:
        return ""
    keys = [str(part[0]) if isinstance(part, tuple) else part for part in path]
    return "".join((name, *(f"[{key}]" for key in keys))) if name and name[0] != "." and all(keys) else ""


def _item(targets: list[ast.expr], path: Path, frame: FrameType) -> str:
    """The name of a part of a sequence that is unpacked."""
    first, rest = path[0] if path else None, path[1:]
    if not isinstance(first, tuple):
        return ""
    place, count = first
    star = next((k for k, each in enumerate(targets) if isinstance(each, ast.Starred)), len(targets))
    if place < star or place - count >= star + 1 - len(targets):
        place -= 0 if place < star else count
        return _spelt(targets[place], rest, frame) if place < len(targets) else ""
    starred = targets[star] if star < len(targets) else None
    return _spelt(starred.value, ((place - star, count), *rest), frame) if isinstance(starred, ast.Starred) else ""


@lru_cache(maxsize=1024)
def _bindings(_file: str, code: CodeType) -> dict[Position | str | None, Binding]:
    """What each expression of a function is bound to, by its position; variables that it returns, by name. The file is
    part of the key: code of two files can be equal."""
    found: dict[Position | str | None, Binding] = {}
    try:
        tree = tree_of(code)
    except Unreadable:
        return found
    for target, value, part in _assignments(tree):
        for each, path in _parts(value, part):
            found[each.lineno, each.end_lineno, each.col_offset, each.end_col_offset] = target, path
            if target is None and isinstance(each, ast.Name):
                found[each.id] = None, path
    return found


def _assignments(tree: ast.AST) -> Iterator[tuple[ast.expr | None, ast.expr, Path]]:
    """Targets, the expressions that are bound to them, and at which part."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets, value):
                yield from ((target, value, ()) for target in reversed(targets))
            case ast.For(target, ast.Call() as value) | ast.AnnAssign(target, _, ast.expr() as value):
                yield target, value, ()
            case ast.NamedExpr(target, value):
                yield target, value, ()
            case ast.Return(ast.expr() as value) | ast.Lambda(_, value):
                yield None, value, ()
            case ast.Call(ast.Attribute(target, "append"), [value]):
                yield target, value, (None,)
            case _:
                pass


def _parts(value: ast.expr, path: Path) -> Iterator[tuple[ast.expr, Path]]:
    """An expression, and those whose values are its value or parts of it."""
    yield value, path
    inner: Iterable[tuple[ast.expr, Path]] = ()
    match value:
        case ast.Tuple(elts) | ast.List(elts) if not any(isinstance(each, ast.Starred) for each in elts):
            inner = [(each, ((k, len(elts)),)) for k, each in enumerate(elts)]
        case ast.Dict(keys, values):
            inner = [(each, (key,)) for key, each in zip(keys, values, strict=True) if key]
        case ast.DictComp(key, each):
            inner = [(each, (key,))]
        case ast.ListComp(each) | ast.GeneratorExp(each):
            inner = [(each, (None,))]
        case ast.Call(ast.Name("tuple" | "list"), [each]):
            inner = [(each, ())]
        case ast.IfExp(_, one, other):
            inner = [(one, ()), (other, ())]
        case _:
            pass
    for each, part in inner:
        yield from _parts(each, (*path, *part))


# --- the trace


MOST_BODIES = 32
"""The largest depth of nested loops and branches."""
MOST_STATEMENTS = 100_000
"""Statements of a program; more is a Python loop that should be a pto.range."""
EVENTS = count()
"""Event numbers are unique over all kernels."""


@dataclass
class OpenBlock:
    """A body that is being traced: the kernel's own, a loop's, or a branch's."""

    number: int
    is_loop: bool
    statements: list[ir.Stmt]
    buffers: int = 1
    excludes: int | None = None
    """Of an `otherwise`: the number of the body of its `when`."""


class StandIn(ABC):
    """A tile or an argument of the kernel that is being traced."""

    __slots__ = ()
    tracer: Tracer

    @abstractmethod
    def use(self) -> ir.Operand:
        """The operand at this point of the trace."""


class Tracer:
    """Records a kernel: tracks the open bodies and makes names unique."""

    def __init__(
        self, mode: str, code: CodeType, parameters: Sequence[str], tile: type[Tile], lengths: Lengths
    ) -> None:
        self.mode = mode
        self.lengths = lengths
        """Extents of arguments that stay expressions."""
        self.code = code
        self.tile = tile
        """The class that `pto.Tile(...)` instantiates while this tracer is active."""
        self._numbers = count()
        self.scopes = [OpenBlock(next(self._numbers), False, [])]
        self._names = Counter[str]((*parameters, BLOCK_IDX, BLOCK_NUM))
        self._events: set[int] = set()
        self._waited: set[int] = set()
        self._recorded = 0
        self.closed_branch: ir.Branch | None = None
        self.closed_body: int | None = None
        """The number of its body."""
        self.author_names = Names()
        """The author's names of tiles, scalars and loop variables."""
        self.names: dict[Expr, str] = {}
        """The user's names of expressions, for printing the program."""

    @property
    def path(self) -> tuple[int, ...]:
        """The numbers of the open bodies."""
        return tuple(scope.number for scope in self.scopes)

    def loops_since(self, home: tuple[int, ...]) -> set[int]:
        """The numbers of the open loops that were opened after these bodies."""
        return {scope.number for scope in self.scopes[len(home) :] if scope.is_loop}

    def has_ended(self, home: tuple[int, ...]) -> bool:
        """Whether one of these bodies is no longer open."""
        return self.path[: len(home)] != home

    def loops_before_other_arm(self, home: tuple[int, ...], since: int) -> list[int] | None:
        """If one of these bodies is that of a `when` whose `otherwise` is open: the loops around it, from a depth."""
        depth = next((k for k, scope in enumerate(self.scopes) if scope.excludes in home), None)
        return None if depth is None else [scope.number for scope in self.scopes[since:depth] if scope.is_loop]

    def unique(self, name: str) -> str:
        """A name that nothing else has: `idx`, `idx_1`, ..."""
        used = self._names[name]
        self._names[name] += 1
        return self.unique(f"{name}_{used}") if used else name

    def emit(self, statement: ir.Stmt) -> None:
        """Record a statement in the innermost body."""
        self._recorded += 1
        if self._recorded > MOST_STATEMENTS:
            raise refuse(
                "KN-02", f"a kernel of more than {MOST_STATEMENTS} statements", "use `for i in pto.range(...)`"
            )
        self.closed_branch = None
        self._learn_names(user_frame())
        self.scopes[-1].statements.append(statement)

    def _learn_names(self, frame: FrameType | None) -> None:
        for name, value in frame.f_locals.items() if frame else ():
            if isinstance(value, TracedInteger) and isinstance(value.expr, Op) and value.expr not in self.names:
                self.names[value.expr] = self.unique(name)

    def record(
        self,
        instruction: Instruction,
        operands: tuple[object, ...],
        modifiers: Modifiers,
        wait: Wait,
        tmp: Tile | None = None,
    ) -> Event:
        pairs = zip(instruction.operands, operands, strict=False)
        named = [self._operand(instruction, param.name, given) for param, given in pairs]
        workspace = self._workspace(instruction, tmp) if tmp is not None else None
        number, waits = self._event(), self._waits(instruction.name, wait)
        given = tuple(named), modifiers, number, waits, workspace
        self.emit(ir.Instr(instruction.name, *given, where=user_place(self.code)))
        return Event(instruction.name, "", (), number)

    def _workspace(self, instruction: Instruction, tmp: Tile) -> ir.TileUse:
        used = self._operand(instruction, TMP, tmp)
        if not isinstance(used, ir.TileUse):
            raise no_operand(instruction, TMP, tmp)
        return used

    def _event(self) -> int:
        number = next(EVENTS)
        self._events.add(number)
        return number

    def _operand(self, instruction: Instruction, name: str, given: object) -> ir.Operand:
        if isinstance(given, StandIn) and given.tracer is self:
            return given.use()
        if isinstance(given, TracedScalar):
            number = expression(given.value, f"{instruction.name}: {name}")
            return ir.Number(given.spec.dtype, number, given.spec.value is not None)
        if isinstance(given, Scalar):
            return _constant(given)
        if isinstance(given, Tile | GlobalTensor) or hasattr(given, "__array__"):
            kind = type(given).__name__
            message = f"{instruction.name}: {name} is a {kind} that was made outside this kernel"
            raise refuse("KN-08", message, "make tiles inside the kernel and pass arrays as arguments", name)
        raise no_operand(instruction, name, given)

    def _waits(self, name: str, wait: Wait) -> tuple[int, ...]:
        events = awaited(name, wait)
        if not all(event.number in self._events for event in events):
            message = f"{name}: wait= takes what earlier calls of this kernel returned, got an event of another"
            raise refuse("KN-13", message, "event = pto.tload(...); pto.tadd(..., wait=event)")
        numbers = tuple(dict.fromkeys(cast("int", event.number) for event in events))
        self._waited.update(numbers)
        return numbers

    def declare(self, spec: TileSpec, addresses: tuple[Expr, ...]) -> str:
        """Record a tile's declaration; returns its name."""
        frame = user_frame()
        given = self.author_names.of(frames_until(frame, self.code) if frame else ())
        name = self.unique(given or "tile")
        loop = next((scope for scope in reversed(self.scopes) if scope.is_loop), None)
        buffers = loop.buffers if loop and not addresses else 1
        self.emit(
            ir.TileDecl(name, spec, addresses, buffers, not addresses, named=bool(given), where=place(frame, self.code))
        )
        return name

    def loop(
        self, start: Expr, stop: Expr, step: Expr, buffers: int, name: str, where: Where | None
    ) -> Iterator[TracedInteger]:
        """Trace a loop's body once. With a step that is no positive constant, the loop counts iterations."""
        if buffers > 1 and self.mode == "manual":
            fix = "alternate the address: addr=base + i % 2 * nbytes"
            raise refuse("KN-13", "buffers= belongs to auto mode; in manual mode you choose the addresses", fix)
        if isinstance(step, int) and step > 0:
            var = Var(self.unique(name))
            bounds, value = (start, stop, step), var
        else:
            pinned(start, stop, step)
            var = Var(self.unique(f"{name}_iteration"))
            bounds, value = (0, _iterations(start, stop, step), 1), apply("add", start, apply("mul", var, step))
        depth = self.enter(is_loop=True, buffers=buffers)
        try:
            yield TracedInteger(value, self.path)
        except GeneratorExit:
            self.abandon(depth)
            raise
        self.emit(ir.Loop(var, *bounds, self.leave(), buffers, where=where))

    def enter(self, *, is_loop: bool = False, buffers: int = 1, excludes: int | None = None) -> int:
        """Open a body; returns how many were open."""
        if len(self.scopes) > MOST_BODIES:
            raise refuse("KN-06", f"more than {MOST_BODIES} nested bodies", "flatten the loops")
        self.scopes.append(OpenBlock(next(self._numbers), is_loop, [], buffers, excludes))
        return len(self.scopes) - 1

    def abandon(self, depth: int) -> None:
        """Drop a body that an exception has left, and all inside it."""
        del self.scopes[depth:]

    def leave(self) -> ir.Block:
        """Close the innermost body."""
        return tuple(self.scopes.pop().statements)

    def load(self, block: Callable[..., ir.View], index: Sequence[object]) -> TracedInteger:
        """Record the load of a scalar."""
        starts = tuple(symbolic(part, "an index of pto.load_scalar") for part in index)
        frame = user_frame()
        name = self.author_names.of((frame,) if frame else ()) or "scalar"
        result, where = Var(self.unique(name)), place(frame, self.code)
        view = block(starts, (1,) * len(starts))
        self.emit(ir.LoadScalar(result, view, where=where))
        return TracedInteger(result, self.path)

    def assign(self, tile: str, address: object) -> None:
        """Record that a tile moves."""
        if self.mode != "manual":
            raise refuse("KN-13", "tassign belongs to manual mode", 'use @pto.kernel(mode="manual")')
        self.emit(ir.Assign(tile, expression(address, "addr"), where=user_place(self.code)))

    def finish(self) -> ir.Block:
        """The whole body. Events are renumbered from 0; those that nothing waits for are dropped."""
        self._numbering = {event: number for number, event in enumerate(sorted(self._waited))}
        return ir.transform(tuple(self.leave()), self._renumber)

    def _renumber(self, stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.Instr):
            numbering = self._numbering
            waits = tuple(numbering[event] for event in stmt.waits)
            return replace(stmt, event=numbering.get(cast("int", stmt.event)), waits=waits)
        return stmt


def _iterations(start: Expr, stop: Expr, step: Expr) -> Expr:
    """How often a loop runs: the distance over the step, rounded up."""
    return apply("sub", 0, apply("floordiv", subtract(start, stop), step))


def _constant(number: Scalar) -> ir.Operand:
    if number.spec.value is not None:
        return ir.Number(number.spec.dtype, number.spec.value, is_position=True)
    return ir.Constant(number.spec.dtype, int(number.storage.bits.view(f"u{number.spec.dtype.size}")[0]))
