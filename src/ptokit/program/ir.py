"""A program as plain data: arguments, tiles, instructions, loops and branches, each with its source location."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar, cast

from ptokit.finding import NAME, Where, counted
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import DType
from ptokit.isa.instruction import Instruction, Modifiers
from ptokit.isa.opaque import opaque
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import GlobalLayout
from ptokit.markup import box, clipped, code, dim
from ptokit.program.expr import Expr, Var, apply

MOST_BLOCKS = 2**31 - 1
"""The largest grid."""
CPP = "cpp"
CPP_FFTS = "cpp.ffts"
"""The forms of programs from C++; the second one has the flags between the cores that take their memory at a launch."""


def _place() -> Any:
    """A field for the source location. Programs that differ only in locations are equal."""
    return field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True)
class Argument:
    """An array in global memory that the launch passes in."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    """The array's own dims, one to five."""
    stride: tuple[Expr, ...]
    """Of each dim, in elements."""
    layout: GlobalLayout = GlobalLayout.ND
    dynamic: tuple[bool, ...] = (False,) * 10
    """Which of its five dims and five strides are -1 in the C++ type."""
    memory: str = ""
    """The argument whose memory this one shares; empty if it shares none."""
    view_of: str = ""
    """The argument whose array this is a view of; the launch passes nothing for a view. Empty if it is none."""
    offset: Expr = 0
    """Index of its first element in the array that the launch passes."""
    where: Where | None = _place()

    @property
    def array(self) -> str:
        """The argument that the launch passes an array for: itself, or the argument that it is a view of."""
        return self.view_of or self.name


@dataclass(frozen=True)
class Integer:
    """A whole number that the launch passes in; expressions use it as a variable of the same name."""

    name: str
    where: Where | None = _place()

    @property
    def var(self) -> Var:
        return Var(self.name)


@dataclass(frozen=True)
class Float:
    """A floating-point number that the launch passes in, in an element type."""

    name: str
    dtype: DType
    where: Where | None = _place()


@dataclass(frozen=True)
class View:
    """A block of an argument: from `starts` on, `sizes` elements of each of its dims."""

    argument: str
    starts: tuple[Expr, ...]
    sizes: tuple[Expr, ...]


@dataclass(frozen=True)
class Window:
    """A slice of a tile: `size` rows and columns from `start` on."""

    start: tuple[Expr, Expr]
    size: tuple[int, int]


@dataclass(frozen=True)
class TileUse:
    """A tile, or a slice of one, as an operand, with the extents that are valid at this use."""

    tile: str
    valid: tuple[Expr, Expr]
    window: Window | None = None
    """The slice; None for the whole tile."""

    @property
    def start(self) -> tuple[Expr, Expr]:
        """The first row and column."""
        return self.window.start if self.window else (0, 0)


@dataclass(frozen=True)
class Constant:
    """A number as an operand, as the bits of its element type."""

    dtype: DType
    bits: int


@dataclass(frozen=True)
class Number:
    """A whole number as an operand, computed when the program runs."""

    dtype: DType
    value: Expr
    is_position: bool = False
    """Whether it is a position, as the corner of a window is, and not data."""


@dataclass(frozen=True)
class Given:
    """A `Float` of the launch as an operand."""

    name: str
    dtype: DType


Operand = TileUse | View | Constant | Number | Given


ANY_FAMILY = -(1 << 63)


@dataclass(frozen=True)
class TileDecl:
    """The declaration of a tile. Every iteration of the loop around it declares a new one."""

    name: str
    spec: TileSpec
    """Its description, without an address; a computed valid extent is -1."""
    addresses: tuple[Expr, ...] = ()
    """The address of each copy; empty until the tile is placed."""
    buffers: int = 1
    """Copies, which the iterations of the innermost loop around the declaration alternate between."""
    fresh: bool = True
    """Whether its memory counts as uninitialised: not if the author gave the address."""
    named: bool = field(default=True, compare=False, kw_only=True)
    """Whether the name is the author's."""
    family: int | None = field(default=None, kw_only=True)
    """Tiles of one family are views of the same memory: the author says so, and may use one after the other. One of
    `ANY_FAMILY` is a view of whatever lies there."""
    given: Mapping[int, Where | None] = field(default_factory=dict[int, Where | None], compare=False, kw_only=True)
    """The places that gave it an address, by the address, if they are not all `where`."""
    where: Where | None = _place()


@dataclass(frozen=True)
class Assign:
    """A tile moves to another address (`tassign`)."""

    tile: str
    address: Expr
    where: Where | None = _place()


@dataclass(frozen=True)
class Instr:
    """An instruction with its operands and modifiers, both in the order of its definition."""

    name: str
    operands: tuple[Operand, ...]
    modifiers: Modifiers = ()
    event: int | None = None
    """The event that its end signals, if anything waits for it."""
    waits: tuple[int, ...] = ()
    """Events that must have been signalled before it starts."""
    workspace: TileUse | None = None
    """A tile for temporary data, which some headers ask for; it has no effect on the result."""
    opaque_form: str = ""
    """Of an instruction that is known by its effects only: a letter for each operand (`isa/opaque.py`)."""
    attributes: tuple[tuple[str, Any], ...] = ()
    """Of such an instruction: its attributes or template arguments, as they were written."""
    where: Where | None = _place()

    @property
    def definition(self) -> Instruction:
        """What it is: of the catalogue, or known by its effects only."""
        return opaque(self.name, self.opaque_form) if self.opaque_form else INSTRUCTIONS[self.name]

    @property
    def tiles(self) -> tuple[TileUse, ...]:
        """The tiles that it touches, the workspace last."""
        used = tuple(operand for operand in self.operands if isinstance(operand, TileUse))
        return used if self.workspace is None else (*used, self.workspace)


@dataclass(frozen=True)
class LoadScalar:
    """The scalar pipe reads one element of a one-element view into a variable."""

    result: Var
    source: View
    where: Where | None = _place()


@dataclass(frozen=True)
class Flag:
    """A set or a wait of a flag between two pipes: `src` sets the event, `dst` waits for it."""

    action: str
    """`set` or `wait`."""
    src: str
    dst: str
    event: Expr
    auto: bool = False
    """Whether auto mode added it."""
    core: str = field(default="", kw_only=True)
    """The core that executes it: `AIC` or `AIV`; empty: each that has both pipes."""
    where: Where | None = _place()


@dataclass(frozen=True)
class CrossFlag:
    """A set or a wait of a flag between the two cores (`sync_set`, `sync_wait`). It counts: a wait takes one set.

    The flag is that of the core that sets it, and the other core waits for it.
    """

    action: str
    """`set` or `wait`."""
    core: str
    """The core that sets or waits: `AIC` or `AIV`."""
    pipe: str
    event: Expr
    auto: bool = False
    """Whether auto mode added it."""
    where: Where | None = _place()


@dataclass(frozen=True)
class Barrier:
    """Everything issued before, on one pipe or on `ALL`, ends before anything issued later starts."""

    pipe: str
    auto: bool = False
    core: str = field(default="", kw_only=True)
    """The core that executes it: `AIC` or `AIV`; empty: each by itself."""
    where: Where | None = _place()


@dataclass(frozen=True)
class Loop:
    """`for var in range(start, stop, step)`."""

    var: Var
    start: Expr
    stop: Expr
    step: int
    body: Block
    buffers: int = 1
    """Copies of each tile that is declared in the body."""
    where: Where | None = _place()


@dataclass(frozen=True)
class Branch:
    """One block or the other."""

    condition: Expr
    then: Block
    otherwise: Block = ()
    where: Where | None = _place()


Leaf = TileDecl | Assign | Instr | LoadScalar | Flag | CrossFlag | Barrier
"""A statement without blocks inside."""
Stmt = Leaf | Loop | Branch
Block = tuple[Stmt, ...]


@dataclass(frozen=True, eq=False)
class Program:
    """A kernel: its arguments, and the statements that every block of the grid executes.

    Equality ignores where in a block a tile is declared before its first use.
    """

    name: str
    arguments: tuple[Argument | Integer | Float, ...]
    body: Block
    constants: tuple[tuple[str, object], ...] = ()
    """Values fixed when the program was traced, for `show`."""
    names: tuple[tuple[Expr, str], ...] = ()
    """The author's names of some expressions, for `show`."""
    mode: str = "auto"
    """`auto`: addresses and flags are generated. `flags`: the author writes flags. `manual`: the author writes both."""
    arch: str = ""
    """The architecture that the program's text names, if any."""
    form: str = ""
    """The form of the text that it was read from: `mlir`, `as` or `cpp`; empty if it was traced or built."""
    vector_cores: int = 1
    """How many vector cores of a block run it: 2 if both do, each with its own on-chip memory and flags."""
    where: Where | None = _place()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Program) and self._meaning == other._meaning)

    def __hash__(self) -> int:
        return hash(self._meaning)

    @cached_property
    def _meaning(self) -> tuple[object, ...]:
        return self.name, self.arguments, settled(self.body), self.mode, self.vector_cores

    def _repr_html_(self) -> str:
        """The program in a notebook."""
        listing = code(import_module("ptokit.program.show").show(self))  # it imports this module
        counts = f"{counted(len(self.instructions), 'instruction')}, {counted(len(self.tiles), 'tile')}"
        return box(f"Program {clipped(self.name, NAME)}", dim(counts), listing)

    @cached_property
    def tensors(self) -> dict[str, Argument]:
        """The array arguments by name."""
        return {argument.name: argument for argument in self.arguments if isinstance(argument, Argument)}

    @cached_property
    def instructions(self) -> tuple[Instr, ...]:
        """Every instruction in the order of the text."""
        return tuple(stmt for stmt in walk(self.body) if isinstance(stmt, Instr))

    @cached_property
    def is_modelled(self) -> bool:
        """Whether ptokit can execute every instruction."""
        return not any(instr.opaque_form and instr.definition.opaque_form for instr in self.instructions)

    @cached_property
    def tiles(self) -> dict[str, TileDecl]:
        """The tiles by name. No two declarations share one."""
        return {stmt.name: stmt for stmt in walk(self.body) if isinstance(stmt, TileDecl)}


def children(stmt: Stmt) -> tuple[Block, ...]:
    """The blocks inside a statement."""
    if isinstance(stmt, Loop):
        return (stmt.body,)
    return (stmt.then, stmt.otherwise) if isinstance(stmt, Branch) else ()


def walk(block: Block) -> Iterator[Stmt]:
    """Every statement in the order of the text, those inside loops and branches included."""
    for stmt in block:
        yield stmt
        if isinstance(stmt, Loop | Branch):
            for inner in children(stmt):
                yield from walk(inner)


def instructions(block: Block) -> Iterator[Instr]:
    """Every instruction, in the order of the text."""
    return (stmt for stmt in walk(block) if isinstance(stmt, Instr))


def definitions(block: Block) -> Iterator[Var]:
    """The variables that statements define, in the order of the text."""
    for stmt in walk(block):
        if isinstance(stmt, Loop | LoadScalar):
            yield stmt.var if isinstance(stmt, Loop) else stmt.result


EXPRESSIONS: dict[type, tuple[str, ...]] = {
    Loop: ("start", "stop"),
    Branch: ("condition",),
    TileDecl: ("addresses",),
    Assign: ("address",),
    **dict.fromkeys((Flag, CrossFlag), ("event",)),
    LoadScalar: ("source",),
    Instr: ("operands", "workspace"),
    TileUse: ("valid", "window"),
    Window: ("start",),
    View: ("starts", "sizes"),
    Number: ("value",),
}
"""The fields of statements and operands that have expressions, or parts with expressions."""


def expressions(part: object) -> Iterator[Expr]:
    """The expressions of a statement, an operand or several, without those of the blocks inside."""
    if isinstance(part, Expr):
        yield part
        return
    names = EXPRESSIONS.get(type(part), ())
    is_several = isinstance(part, tuple)
    for each in cast("tuple[object, ...]", part) if is_several else [getattr(part, name) for name in names]:
        yield from expressions(each)


def _changed(part: object, change: Callable[[Expr], Expr]) -> Any:
    """A statement, an operand or several with other expressions."""
    if isinstance(part, Expr):
        return change(part)
    if names := EXPRESSIONS.get(type(part)):
        return replace(cast("Any", part), **{name: _changed(getattr(part, name), change) for name in names})
    return (
        tuple([_changed(each, change) for each in cast("tuple[object, ...]", part)])
        if isinstance(part, tuple)
        else part
    )


def with_expressions(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """The statement with other expressions, also in the blocks inside."""
    blocks = [tuple(with_expressions(inner, change) for inner in block) for block in children(stmt)]
    return with_blocks(_changed(stmt, change), blocks)


def with_blocks(stmt: Stmt, blocks: Iterable[Block]) -> Stmt:
    """The statement with other blocks inside, in the order of `children`."""
    if isinstance(stmt, Loop):
        (body,) = blocks
        return replace(stmt, body=body)
    if isinstance(stmt, Branch):
        then, otherwise = blocks
        return replace(stmt, then=then, otherwise=otherwise)
    return stmt


def transform(block: Block, change: Callable[[Stmt], Stmt | Iterable[Stmt]]) -> Block:
    """Rewrite every statement, the innermost first. `change` returns one statement, or several in its place."""
    result: list[Stmt] = []
    for stmt in block:
        given = stmt
        if isinstance(stmt, Loop | Branch):
            given = with_blocks(stmt, (transform(inner, change) for inner in children(stmt)))
        changed = change(given)
        if changed is given:
            result.append(given)
        else:
            result += changed if isinstance(changed, Iterable) else (changed,)
    return tuple(result)


State = TypeVar("State")


def fold(
    block: Block,
    state: State,
    leaf: Callable[[Leaf, State], State],
    *,
    loop: Callable[[Loop, State], State],
    branch: Callable[[Branch, State], State],
) -> State:
    """Carry a state through a block in program order.

    `leaf` takes statements without blocks. `loop` and `branch` decide how the blocks inside a statement are visited:
    they call `fold` again, as often as the analysis needs.
    """
    for stmt in block:
        if isinstance(stmt, Loop):
            state = loop(stmt, state)
        elif isinstance(stmt, Branch):
            state = branch(stmt, state)
        else:
            state = leaf(stmt, state)
    return state


def settled(block: Block) -> Block:
    """The block with each tile declared right before the first statement that uses it."""
    waiting = {stmt.name: stmt for stmt in block if isinstance(stmt, TileDecl)}
    result: list[Stmt] = []
    for stmt in block:
        if not isinstance(stmt, TileDecl):
            named = [name for name in mentioned(stmt) if name in waiting]
            result += [waiting.pop(name) for name in named]
            result.append(with_blocks(stmt, map(settled, children(stmt))))
    return (*result, *waiting.values())


def mentioned(stmt: Stmt) -> dict[str, None]:
    """The tiles that a statement and those inside it use, each once: what an instruction writes comes last."""
    if isinstance(stmt, Assign):
        return {stmt.tile: None}
    if isinstance(stmt, Instr):
        used = [use.tile for use in stmt.tiles]
        return dict.fromkeys((*used[1:], *used[:1]))
    return {name: None for block in children(stmt) for inner in block for name in mentioned(inner)}


def iteration(loop: Loop) -> Expr:
    """The number of the iteration, from 0."""
    return apply("floordiv", apply("sub", loop.var, loop.start), loop.step)
