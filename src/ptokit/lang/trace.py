"""Tracing: while a kernel runs once on stand-ins for its arguments, every call is written down as a `Program`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import CodeType, FrameType
from typing import Any, NoReturn, cast

from ptokit.engine.prepared import parse_modifiers
from ptokit.finding import VerifyError, Where
from ptokit.isa.dtype import DType
from ptokit.isa.instruction import Instruction
from ptokit.isa.operand import UNKNOWN, Dyn, TileSpec, show_extents
from ptokit.lang.context import current
from ptokit.lang.dispatch import Event, Wait, no_operand
from ptokit.lang.expr import Value, expression
from ptokit.lang.scalar import Scalar, TracedScalar
from ptokit.lang.source import assigned_name
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile, describe
from ptokit.lang.where import place, refuse, user_frame
from ptokit.program.calls import tensor_spec
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Expr, Op, Var, apply, subtract
from ptokit.program.ir import (
    Argument,
    Assign,
    Block,
    Branch,
    Constant,
    Instr,
    LoadScalar,
    Loop,
    Number,
    Operand,
    Stmt,
    TileDecl,
    TileUse,
    View,
)

MOST_BODIES = 32
"""Loops and branches inside one another."""
MOST_STATEMENTS = 100_000
"""Statements of a program; more is a Python loop that should be a pto.range."""


EVENTS = count()
"""Events of all kernels: none is taken for another kernel's."""


def wrap(expr: Expr, home: tuple[int, ...] = ()) -> Any:
    """An expression as the kernel sees it: a plain number where it is one."""
    return expr if isinstance(expr, int) else Value(expr, home)


@dataclass
class Scope:
    """A body that is being traced: the kernel's own, a loop's, or a branch's."""

    number: int
    is_loop: bool
    statements: list[Stmt]
    buffers: int = 1


class Tracer:
    """Writes a kernel down: keeps the open bodies, and gives every name once."""

    def __init__(self, mode: str, code: CodeType, parameters: Sequence[str]) -> None:
        self.mode = mode
        self.code = code
        self.tile = TracedTile
        self._numbers = count()
        self.scopes = [Scope(next(self._numbers), False, [])]
        self._names = Counter[str]((*parameters, BLOCK_IDX, BLOCK_NUM))
        self._events: set[int] = set()
        self._waited: set[int] = set()
        self._recorded = 0
        self.closed_branch: Branch | None = None
        self.names: dict[Expr, str] = {}
        """What the user calls expressions, for the reader of the program."""

    @property
    def path(self) -> tuple[int, ...]:
        """The numbers of the open bodies."""
        return tuple(scope.number for scope in self.scopes)

    def unique(self, name: str) -> str:
        """A name that nothing else has: `idx`, `idx_1`, ..."""
        used = self._names[name]
        self._names[name] += 1
        return self.unique(f"{name}_{used}") if used else name

    def emit(self, statement: Stmt) -> None:
        """Write a statement down in the innermost body."""
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
            if isinstance(value, Value) and isinstance(value.expr, Op) and value.expr not in self.names:
                self.names[value.expr] = self.unique(name)

    def record(
        self, instruction: Instruction, operands: tuple[object, ...], modifiers: tuple[object, ...], wait: Wait
    ) -> Event:
        """Write an instruction down."""
        chosen, problems = parse_modifiers(instruction, modifiers)
        where = place(user_frame())
        if problems:
            raise VerifyError(problem.at(where) for problem in problems)
        pairs = zip(instruction.operands, operands, strict=False)
        named = [self._operand(instruction, param.name, given) for param, given in pairs]
        number = self._event() if self.mode == "manual" else None
        waits = self._waits(instruction.name, wait)
        self.emit(Instr(instruction.name, tuple(named), tuple(chosen.values()), number, waits, where=where))
        return Event(instruction.name, "", (), number)

    def _event(self) -> int:
        number = next(EVENTS)
        self._events.add(number)
        return number

    def _operand(self, instruction: Instruction, name: str, given: object) -> Operand:
        if isinstance(given, TracedTile | TracedTensor) and given.tracer is self:
            return given.use()
        if isinstance(given, TracedScalar):
            number = expression(given.value, f"{instruction.name}: {name}")
            return Number(given.spec.dtype, number, given.spec.value is not None)
        if isinstance(given, Scalar):
            return _constant(given)
        if isinstance(given, Tile | GlobalTensor) or hasattr(given, "__array__"):
            kind = type(given).__name__
            said = f"{instruction.name}: {name} is a {kind} that was made outside this kernel"
            raise refuse("KN-08", said, "make tiles inside the kernel and pass arrays as arguments", name)
        raise no_operand(instruction, name, given)

    def _waits(self, name: str, wait: Wait) -> tuple[int, ...]:
        if wait is None:
            return ()
        if self.mode != "manual":
            raise refuse("KN-13", f"{name}: wait= belongs to manual mode", 'use @pto.kernel(mode="manual")')
        events: Any = wait if isinstance(wait, tuple | list) else [wait]
        if not all(isinstance(event, Event) and event.number in self._events for event in events):
            said = f"{name}: wait= takes what earlier calls of this kernel returned, got {wait!r}"
            raise refuse("KN-13", said, "event = pto.tload(...); pto.tadd(..., wait=event)")
        numbers = tuple(event.number for event in events)
        self._waited.update(numbers)
        return numbers

    def declare(self, spec: TileSpec, addresses: tuple[Expr, ...]) -> str:
        """Write a tile's declaration down; returns its name."""
        frame = user_frame()
        name = self.unique(assigned_name(frame) or "tile")
        loop = next((scope for scope in reversed(self.scopes) if scope.is_loop), None)
        buffers = loop.buffers if loop and not addresses else 1
        self.emit(TileDecl(name, spec, addresses, buffers, not addresses, where=place(frame)))
        return name

    def loop(
        self, start: Expr, stop: Expr, step: Expr, buffers: int, name: str, where: Where | None
    ) -> Iterator[Value]:
        """Trace a loop's body once, for a variable iteration. A step that is an expression is counted in turns."""
        if buffers > 1 and self.mode == "manual":
            fix = "alternate the address: addr=base + i % 2 * nbytes"
            raise refuse("KN-13", "buffers= belongs to auto mode; in manual mode addresses are yours", fix)
        if isinstance(step, int):
            var = Var(self.unique(name))
            bounds, value = (start, stop, step), var
        else:
            var = Var(self.unique(f"{name}_turn"))
            bounds, value = (0, _trips(start, stop, step), 1), apply("add", start, apply("mul", var, step))
        depth = self.enter(is_loop=True, buffers=buffers)
        try:
            yield Value(value, self.path)
        except GeneratorExit:
            self.abandon(depth)
            raise
        self.emit(Loop(var, *bounds, self.leave(), buffers, where=where))

    def enter(self, *, is_loop: bool = False, buffers: int = 1) -> int:
        """Open a body; returns how many were open."""
        if len(self.scopes) > MOST_BODIES:
            raise refuse("KN-06", f"more than {MOST_BODIES} bodies inside one another", "flatten the loops")
        self.scopes.append(Scope(next(self._numbers), is_loop, [], buffers))
        return len(self.scopes) - 1

    def abandon(self, depth: int) -> None:
        """Forget a body that an exception has left, and all inside it."""
        del self.scopes[depth:]

    def leave(self) -> Block:
        """Close the innermost body."""
        return tuple(self.scopes.pop().statements)

    def load(self, tensor: TracedTensor, index: Sequence[object]) -> Value:
        """Write the reading of a scalar down."""
        starts = tuple(expression(part, "an index of pto.load_scalar") for part in index)
        result, where = Var(self.unique(assigned_name(user_frame()) or "scalar")), place(user_frame())
        view = tensor.block(starts, (1,) * len(starts))
        self.emit(LoadScalar(result, view, where=where))
        return Value(result, self.path)

    def assign(self, tile: TracedTile, address: object) -> None:
        """Write down that a tile moves."""
        if self.mode != "manual":
            raise refuse("KN-13", "tassign belongs to manual mode", 'use @pto.kernel(mode="manual")')
        self.emit(Assign(tile.name, expression(address, "addr"), where=place(user_frame())))

    def finish(self) -> Block:
        """The whole body; events are counted from 0, and those that nothing waits for are forgotten."""
        self._numbering = {event: number for number, event in enumerate(sorted(self._waited))}
        return tuple(self._settle(stmt) for stmt in self.leave())

    def _settle(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Instr) and self.mode == "manual":
            numbering = self._numbering
            waits = tuple(numbering[event] for event in stmt.waits)
            return replace(stmt, event=numbering.get(cast("int", stmt.event)), waits=waits)
        if isinstance(stmt, Loop):
            return replace(stmt, body=tuple(map(self._settle, stmt.body)))
        if isinstance(stmt, Branch):
            then, otherwise = tuple(map(self._settle, stmt.then)), tuple(map(self._settle, stmt.otherwise))
            return replace(stmt, then=then, otherwise=otherwise)
        return stmt


def _trips(start: Expr, stop: Expr, step: Expr) -> Expr:
    """How often a loop runs: the distance over the step, rounded up."""
    return apply("sub", 0, apply("floordiv", subtract(start, stop), step))


def _constant(number: Scalar) -> Operand:
    if number.spec.value is not None:
        return Number(number.spec.dtype, number.spec.value, steers=True)
    return Constant(number.spec.dtype, int(number.storage.bits.view(f"u{number.spec.dtype.size}")[0]))


class TracedTile(Tile):
    """A tile of a program: a description and a name, no content."""

    __slots__ = ("_extents", "_home", "_set_at", "_used_in", "name", "tracer")

    def __init__(  # pyright: ignore[reportInconsistentConstructor]
        self, loc: Any, dtype: object, rows: Any, cols: Any, *, valid: Any = None, addr: Any = None, **options: Any
    ) -> None:
        self.tracer: Tracer = current().tracer
        if addr is not None and self.tracer.mode != "manual":
            raise refuse("KN-13", "addr= belongs to manual mode", 'drop it, or use @pto.kernel(mode="manual")')
        self.spec, extents = _describe(loc, dtype, rows, cols, valid, options)
        self._extents: tuple[Expr, Expr] = extents
        addresses = () if addr is None else (expression(addr, "addr"),)
        self.name = self.tracer.declare(self.spec, addresses)
        self._home = self._set_at = self.tracer.path
        self._used_in: set[int] = set()

    @property
    def valid(self) -> tuple[Any, Any]:
        """Rows and columns of the valid region: numbers, or expressions of the kernel."""
        rows, cols = self.use().valid
        return wrap(rows, self._set_at), wrap(cols, self._set_at)

    @valid.setter
    def valid(self, extents: tuple[Any, Any]) -> None:
        changed = _extents(extents, self.spec)
        if changed == self._extents and self.tracer.path[: len(self._set_at)] == self._set_at:
            return
        carried = set(self.tracer.path) - set(self._home)
        if carried & self._used_in:
            said = f"{self.name}.valid changes after the tile was used in the same loop with the extents from before it"
            raise refuse("KN-12", said, "set tile.valid at the beginning of the loop's body")
        self._extents, self._set_at = changed, self.tracer.path

    def use(self) -> TileUse:
        """The tile as an operand, here and now."""
        path = self.tracer.path
        if path[: len(self._home)] != self._home:
            said = f"{self.name} was made inside a pto.range or pto.when body that has ended"
            raise refuse("KN-04", said, "make the tile before the body")
        if path[: len(self._set_at)] != self._set_at:
            said = f"{self.name}.valid was set inside a pto.range or pto.when body that has ended"
            raise refuse("KN-12", said, "set tile.valid again after the body")
        self._used_in.update(path[len(self._set_at) :])
        return TileUse(self.name, self._extents)

    def bind(self, addr: object) -> None:
        """Move to an address (`pto.tassign`)."""
        self.tracer.assign(self, addr)

    def _empty(self, *_: object) -> NoReturn:
        said = f"{self.name} holds nothing while the kernel is traced"
        raise refuse("KN-07", said, "use tload, texpands or tci to fill it; debug=True runs with real values")

    read = write = __deepcopy__ = _empty  # type: ignore[assignment]
    buffer = property(_empty)  # type: ignore[assignment]

    @property
    def addr(self) -> None:
        """A tile of a program gets its address later."""
        return

    def __getattr__(self, name: str) -> NoReturn:
        if name == "storage":
            raise refuse(
                "KN-08", f"{self.name} is a tile of a kernel that was traced", "make a tile here: pto.Tile(...)"
            )
        raise AttributeError(f"a tile has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<tile {self.name}: {self.spec}>"


TracedTile.__name__, TracedTile.__init__.__qualname__ = "Tile", "Tile.__init__"  # what messages of Python say


def _describe(
    loc: Any, dtype: object, rows: Any, cols: Any, valid: Any, options: dict[str, Any]
) -> tuple[TileSpec, tuple[Expr, Expr]]:
    """A tile's description, and its valid extents as expressions."""
    known: dict[str, Any] = {"blayout": None, "slayout": None, "fractal": None, "pad": "null"}
    if unknown := set(options) - set(known):
        raise TypeError(f"Tile() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    spec = describe(loc, dtype, rows, cols, valid=None, addr=None, **{**known, **options})
    if valid is None:
        return spec, (spec.rows, spec.cols)
    extents = _extents(valid, spec)
    numbers = [extent if isinstance(extent, int) else UNKNOWN for extent in extents]
    dynamic = numbers[0] == UNKNOWN or isinstance(valid[0], Dyn), numbers[1] == UNKNOWN or isinstance(valid[1], Dyn)
    return replace(spec, valid_rows=numbers[0], valid_cols=numbers[1], dynamic=dynamic), extents


def _extents(valid: Any, spec: TileSpec) -> tuple[Expr, Expr]:
    if not isinstance(valid, tuple | list) or len(cast("list[object]", valid)) != 2:
        raise TypeError(f"valid takes (rows, cols), got {valid!r}")
    rows, cols = (expression(extent, "valid") for extent in cast("list[object]", valid))
    for extent, most in ((rows, spec.rows), (cols, spec.cols)):
        if isinstance(extent, int) and not 0 <= extent <= most:
            shown = show_extents((spec.rows, spec.cols))
            raise refuse("CO-SHAPE-02", f"valid ({rows}, {cols}) must lie within {shown}", "shrink valid=", "valid")
    return rows, cols


class TracedTensor(GlobalTensor):
    """An argument of a program, or a block of one."""

    __slots__ = ("argument", "home", "own", "sizes", "starts", "tracer")

    def __init__(
        self,
        tracer: Tracer,
        argument: Argument,
        own: tuple[int, ...] | None,
        starts: tuple[Expr, ...],
        sizes: tuple[Expr, ...],
    ) -> None:
        """`own` is the array's own shape where the tensor has another one: the kernel sees it, and cannot slice."""
        self.tracer = tracer
        self.home = tracer.path
        self.argument = argument
        self.own = own
        self.starts, self.sizes = starts, sizes
        self.spec = tensor_spec(argument, self.use())

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.argument.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The array's own shape, or the block's: numbers, or expressions of the kernel."""
        return tuple(wrap(size, self.home) for size in self.sizes) if self.own is None else self.own

    @property
    def is_plain(self) -> bool:
        """Whether this is an array as it is, or a block of one."""
        return self.own is None

    def use(self) -> View:
        """The block as an operand."""
        if self.tracer.path[: len(self.home)] != self.home:
            said = f"this block of {self.argument.name} was cut inside a pto.range or pto.when body that has ended"
            raise refuse("KN-04", said, "cut it before the body, or use it inside")
        return View(self.argument.name, self.starts, self.sizes)

    def block(self, starts: tuple[Expr, ...], sizes: tuple[Expr, ...]) -> View:
        """A block of this block."""
        moved = tuple(apply("add", a, b) for a, b in zip(self.starts, starts, strict=True))
        return View(self.argument.name, moved, sizes)

    def __getitem__(self, key: object) -> TracedTensor:
        """A block: `t[a:b]` takes rows (or elements), `t[a:b, c:d]` a block; the ends may be expressions."""
        if not self.is_plain:
            said = (
                f"{self.argument.name} has a layout or a shape of its own; only plain arrays can be sliced in a kernel"
            )
            raise refuse("KN-10", said, "pass the block as an argument of its own")
        parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
        if len(parts) > len(self.sizes):
            said = f"{len(parts)} slices for {self.argument.name}, which has {len(self.sizes)} dims"
            raise refuse("KN-10", said, "one slice for each dim, or fewer")
        ranges = [_range(self.argument.name, part, size) for part, size in zip(parts, self.sizes, strict=False)]
        starts = tuple(start for start, _ in ranges) + (0,) * (len(self.sizes) - len(parts))
        sizes = tuple(size for _, size in ranges) + self.sizes[len(parts) :]
        view = self.block(starts, sizes)
        return TracedTensor(self.tracer, self.argument, self.own, view.starts, sizes)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        name = self.argument.name
        raise refuse("KN-07", f"{name} has no values while the kernel is traced", f"use pto.tstore({name}[...], tile)")

    def __iter__(self) -> NoReturn:
        raise refuse("KN-10", f"{self.argument.name} has no values while the kernel is traced", "use pto.load_scalar")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name != "__array__":
            raise AttributeError(name)
        said = f"{self.argument.name} has no values while the kernel is traced, and no `{name}`"
        raise refuse("KN-07", said, "use its shape, its dtype and slices of it; debug=True runs with real values")

    def __repr__(self) -> str:
        return f"<argument {self.argument.name}: {self.spec}>"


TracedTensor.__name__ = "GlobalTensor"


def _range(name: str, part: object, size: Expr) -> tuple[Expr, Expr]:
    """The start and the size of a slice."""
    if not isinstance(part, slice):
        fix = f"a row is {name}[i : i + 1]; pto.load_scalar reads one number"
        raise refuse("KN-10", f"{name} is sliced as {name}[start:stop], got {part!r}", fix)
    first, last, step = cast("tuple[object, object, object]", (part.start, part.stop, part.step))  # pyright: ignore[reportUnknownMemberType]
    if step is not None and not (isinstance(step, int) and step == 1):
        said = f"{name} is sliced as {name}[start:stop], got a step of {step!r}"
        raise refuse("KN-10", said, "slice every row, or pass a strided array")
    start = 0 if first is None else expression(first, "the start of a slice")
    stop = size if last is None else expression(last, "the end of a slice")
    extent = subtract(stop, start)
    known = [number for number in (start, stop, size) if isinstance(number, int)]
    if len(known) == 3 and not 0 <= known[0] <= known[1] <= known[2]:
        said = f"the slice {start}:{stop} of {name} does not lie within 0:{size}"
        raise refuse("KN-10", said, "write both ends; they count from 0 and lie within the array", name)
    return start, extent
