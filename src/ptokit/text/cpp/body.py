"""The body of a kernel in C++, statement by statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

from ptokit.finding import Where
from ptokit.isa.headers import as_row, becomes_row
from ptokit.isa.instruction import Call
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import enumerator
from ptokit.isa.spelling import TMP
from ptokit.program import ir
from ptokit.program.cores import StatementCores, is_refused
from ptokit.program.expr import GUARDS, OF_LAUNCH, Expr, Op, Var, apply, parts, variables
from ptokit.program.instr_calls import named_operands, offset_in, tile_spec
from ptokit.program.verify_call import dynamic_operands
from ptokit.target import Profile
from ptokit.target.profile import CROSS_IDS, CUBE_CORE, VECTOR_CORE
from ptokit.text.cpp.expr import Expressions, Identifiers, pipe, place_text
from ptokit.text.cpp.types import (
    GlobalBlock,
    call_text,
    constant,
    converted,
    header_call,
    offset_of,
    pointer_of,
    tile_type,
    transfer,
    whole_view,
)
from ptokit.text.spelling import ASSIGN

INDENT = "    "
ARGUMENT = "argument"
"""The kind of an argument's name. Whole numbers are variables."""
BIND = ASSIGN.spellings["C++"][0].partition("(")[0]
FLAGS = {"set": "set_flag", "wait": "wait_flag"}
LARGEST = 2**31
"""Extents from here on do not fit a template argument."""


@dataclass(frozen=True)
class Ready:
    """A program with addresses and flags that the headers accept, and what its launch needs."""

    program: ir.Program
    workspace: int
    """The address in UB of the workspace that instructions without one use."""
    dyn_ub: int


@dataclass(frozen=True)
class _TileKey:
    """A tile as one C++ object. Objects with other valid extents, or as a row, share its address."""

    tile: str
    valid: tuple[Expr, Expr]
    as_row: bool = False
    window: ir.Window | None = None
    """The slice; None for the whole tile."""
    dynamic: bool = False
    """Whether its type leaves the valid extents to run time, whatever the tile says."""

    @classmethod
    def of(cls, use: ir.TileUse, as_row: bool = False, dynamic: bool = False) -> _TileKey:
        """The object of a tile as an operand."""
        return cls(use.tile, use.valid, as_row, use.window, dynamic)

    @property
    def use(self) -> ir.TileUse:
        return ir.TileUse(self.tile, self.valid, self.window)


def kind_of(argument: ir.Argument | ir.Integer | ir.Float) -> str:
    """The kind of an argument's name."""
    return "" if isinstance(argument, ir.Integer) else ARGUMENT


class KernelBody:
    """The statements of one program. A name is declared in the block of its first use, and visible in inner blocks."""

    def __init__(self, ready: Ready, profile: Profile) -> None:
        self.program = program = ready.program
        self.profile = profile
        self.ready = ready
        self.identifiers = Identifiers()
        for name, kind in _all_names(program):
            self.identifiers.of(name, kind)
        self.expressions = Expressions(self.identifiers, program.names)
        self.text = self.expressions.text
        self.written: list[tuple[str, str]] = []
        """Lines, and the core that runs them; empty if all do."""
        self.cores = StatementCores(program, [profile]) if profile.cores else None
        self.seen: list[dict[object, str]] = [{}]
        """The names declared in each open block: of variables, expressions, tiles, tensors."""
        self.inner = set(_inner_variables(program))
        """Variables that statements define; all others are known from the beginning."""
        self.loops: list[ir.Loop] = []
        self.addresses: dict[str, Expr] = {}
        self.placed = set(_placed_once(program.body, Counter(_assigned(program.body))))
        """Tiles declared without an address that are assigned one exactly once."""
        self.moved = set(_assigned(program.body)) - self.placed
        self.first = _first_uses(program, profile)
        self.named: set[str] = set()
        """Tiles whose own name is in use."""

    def lines(self) -> list[str]:
        """All lines, with their places in the source at the ends."""
        for stmt in self.program.body:
            self._statement(stmt)
        result: list[str] = []
        macros = {core.name: core.macro for core in self.profile.cores}
        for core, lines in groupby(self.written, key=itemgetter(1)):
            texts = [text for text, _ in lines]
            result += (f"#if defined({macros[core]})", *texts, "#endif") if core else texts
        return result

    def open_variables(self) -> list[Var]:
        """Variables in the text that neither an argument nor a statement defines."""
        integers = (argument.var for argument in self.program.arguments if isinstance(argument, ir.Integer))
        known = {*OF_LAUNCH, *integers, *self.inner}
        return [var for var in self.expressions.used if var not in known]

    @cached_property
    def has_both_cores(self) -> bool:
        """Whether both cores run some of it."""
        return self.cores is not None and len(self.cores.all) > 1

    @cached_property
    def first_vector(self) -> str:
        """The name of the flag that says whether this is the first vector core of its block, if only it works."""
        statements = list(ir.walk(self.program.body))
        is_one = self.has_both_cores and self.program.vector_cores < 2
        alone = is_one and any(self._core_of(s) == VECTOR_CORE.name for s in statements)
        return "is_first_vector" if alone else ""

    def _core_of(self, stmt: ir.Stmt) -> str:
        """The core that runs a statement; empty if both do, or if the kernel is for one core."""
        cores = self.cores.of(stmt) if self.cores is not None and self.has_both_cores else ()
        return next(iter(cores)) if len(cores) == 1 else ""

    def _write(self, text: str, where: Where | None = None, core: str = "") -> None:
        place = f"  // {place_text(where)}" if where else ""
        self.written.append((f"{INDENT * len(self.seen)}{text}{place}", core))

    def _declare(self, key: object, name: str) -> str:
        self.seen[-1][key] = name
        return name

    def _find(self, key: object) -> str | None:
        return next((block[key] for block in reversed(self.seen) if key in block), None)

    def _block(self, block: ir.Block, known: Var | None = None, *used: Expr) -> None:
        """An inner block, which may have one more variable and computes these expressions first."""
        self.seen.append({} if known is None else {known: ""})
        self._define(*used)
        for stmt in block:
            self._statement(stmt)
        self.seen.pop()

    def _statement(self, stmt: ir.Stmt) -> None:
        STATEMENTS[type(stmt)](self, stmt)

    def barrier_statement(self, barrier: ir.Barrier) -> None:
        if is_refused(barrier, self.profile):
            return
        where = None if barrier.auto else barrier.where
        self._write(f"pipe_barrier({pipe(barrier.pipe)});", where, self._core_of(barrier))

    def loop_statement(self, loop: ir.Loop) -> None:
        self._define(loop.start, loop.stop)
        self.expressions.limits.loop(loop.var, loop.start, loop.stop, loop.step)
        var, start, stop = map(self.text, (loop.var, loop.start, loop.stop))
        end = ""
        if isinstance(loop.stop, Op) and self.expressions.name(loop.stop) is None:
            name = self.identifiers.fresh(f"{var}_end")
            end, stop = f", {name} = {stop}", name
        step = {1: f"++{var}", -1: f"--{var}"}.get(loop.step, f"{var} += {loop.step}")
        compare = "<" if loop.step > 0 else ">"
        self._write(f"for (int64_t {var} = {start}{end}; {var} {compare} {stop}; {step}) {{", loop.where)
        number = ir.iteration(loop)
        self.expressions.natural.add(number)
        if isinstance(number, Op):
            self.expressions.names.setdefault(number, f"{loop.var} iteration")
        self.loops.append(loop)
        self._block(loop.body, loop.var, *([number] if loop.buffers > 1 else ()))
        self.loops.pop()
        self._write("}")

    def branch_statement(self, branch: ir.Branch) -> None:
        self._define(branch.condition)
        self._write(f"if ({self.expressions.condition(branch.condition)}) {{", branch.where)
        self._block(branch.then)
        if branch.otherwise:
            self._write("} else {")
            self._block(branch.otherwise)
        self._write("}")

    def flag_statement(self, flag: ir.Flag) -> None:
        self._define(flag.event)
        event = flag.event
        text = f"EVENT_ID{event}" if isinstance(event, int) else f"static_cast<event_t>({self.text(event)})"
        arguments = f"({pipe(flag.src)}, {pipe(flag.dst)}, {text})"
        self._write(f"{FLAGS[flag.action]}{arguments};", None if flag.auto else flag.where, self._core_of(flag))

    def cross_flag_statement(self, flag: ir.CrossFlag) -> None:
        calls = self.profile.headers.cross if self.profile.headers else None
        if calls is None:
            return
        self._define(flag.event)
        call = calls.set if flag.action == "set" else calls.wait
        text = call.format(pipe=pipe(flag.pipe), id=self.text(flag.event))
        self._write(f"{text};", None if flag.auto else flag.where, self._core_of(flag))
        is_divided = self.program.vector_cores > 1 and not calls.both_vectors
        if is_divided and flag.auto and flag.core == CUBE_CORE.name:
            text = call.format(pipe=pipe(flag.pipe), id=self.text(apply("add", flag.event, CROSS_IDS)))
            self._write(f"{text};", None, flag.core)

    def load_statement(self, load: ir.LoadScalar) -> None:
        argument = self.program.tensors[load.source.argument]
        offset = offset_of(argument, load.source)
        self._define(offset)
        self.expressions.read(load.result, argument.dtype.family == "uint")
        name = self._declare(load.result, self.text(load.result))
        pointer = self.identifiers.of(pointer_of(self.program, argument).name, ARGUMENT)
        self._write(f"const int64_t {name} = {pointer}[{self.text(offset)}];", load.where)

    def _define(self, *exprs: Expr) -> None:
        """Declare the named parts of these expressions that are not yet visible here."""
        for expr in (part for whole in exprs for part in parts(whole)):
            name = self.expressions.name(expr)
            if name is not None and not isinstance(expr, Var) and self._find(expr) is None:
                self._write(f"const int64_t {name} = {self.expressions.definition(expr)};")
                self._declare(expr, name)

    # --- tiles ---

    def tile_declaration(self, tile: ir.TileDecl) -> None:
        first = self.first.get(tile.name)
        if first is None or tile.name in self.placed:
            return
        self.addresses[tile.name] = self._address(tile)
        if tile.name in self.moved:
            at, start = _address_of(tile.name), self.addresses[tile.name]
            self._define(start)
            self._write(f"int64_t {self.text(at)} = {_bytes(start, self.text(start))};", tile.where)
            self.addresses[tile.name] = at
        self._first_object(first, tile.where)

    def _first_object(self, first: _TileKey, where: Where | None) -> None:
        """The object of a tile's first use, if its extents are known here."""
        if all(self._is_known(extent) for extent in (*first.valid, *first.use.start)):
            self._tile(first, where)

    def _is_known(self, extent: Expr) -> bool:
        """Whether an extent can be computed here, and not only in an inner block that guards it."""
        divides = any(
            part.name in GUARDS and not isinstance(part.args[1], int) for part in parts(extent) if isinstance(part, Op)
        )
        return not divides and all(var not in self.inner or self._find(var) is not None for var in variables(extent))

    def _address(self, tile: ir.TileDecl) -> Expr:
        """The address of a tile. The iterations of the loop around it use its copies in rotation."""
        if len(tile.addresses) < 2:
            return tile.addresses[0] if tile.addresses else 0
        start, second = tile.addresses[:2]
        copy = apply("mod", ir.iteration(self.loops[-1]), len(tile.addresses))
        return apply("add", start, apply("mul", copy, apply("sub", second, start)))

    def assign_statement(self, stmt: ir.Assign) -> None:
        if stmt.tile in self.placed and stmt.tile in self.first:
            self.addresses[stmt.tile] = stmt.address
            self._first_object(self.first[stmt.tile], stmt.where)
            return
        if stmt.tile not in self.addresses:
            return
        self._define(stmt.address)
        at = self.text(self.addresses[stmt.tile])
        self._write(f"{at} = {_bytes(stmt.address, self.text(stmt.address))};", stmt.where)
        for block in self.seen:
            for key, name in block.items():
                if isinstance(key, _TileKey) and key.tile == stmt.tile:
                    address = self.text(self._start(key))
                    self._write(f"{BIND}({name}, {address});", core=self._core_of(stmt))

    def _tile(self, key: _TileKey, where: Where | None = None) -> str:
        """The C++ object of a tile, declared if it is not yet visible."""
        known = self._find(key)
        if known is not None:
            return known
        spec = tile_spec(self.program.tiles[key.tile].spec, key.use).unsliced
        valid = key.valid
        if key.as_row:
            spec, valid = as_row(spec), (1, key.valid[0])
        if key.dynamic:
            spec = replace(spec, dynamic=(True, True))
        name = self.identifiers.of(key.tile, "tile")
        if key.window is not None or key.tile in self.named:
            kind = "slice" if key.window is not None else "row" if key.as_row else "part"
            name = self.identifiers.fresh(f"{key.tile}_{kind}")
        else:
            self.named.add(key.tile)
        self._object(name, spec, valid, self._start(key), where, self._core_of(ir.Assign(key.tile, 0)))
        return self._declare(key, name)

    def _start(self, key: _TileKey) -> Expr:
        """The address of a tile or a slice."""
        address, spec = self.addresses[key.tile], self.program.tiles[key.tile].spec
        if key.window is None:
            return address
        return apply("add", address, apply("mul", offset_in(spec, key.window), spec.dtype.size))

    def _object(
        self,
        name: str,
        spec: TileSpec,
        valid: tuple[Expr, Expr],
        address: Expr,
        where: Where | None = None,
        core: str = "",
    ) -> None:
        numbers = [extent for extent, is_dynamic in zip(valid, spec.dynamic, strict=True) if is_dynamic]
        self._define(*numbers)
        given = f"({', '.join(map(self.text, numbers))})" if numbers else ""
        self._define(address)
        self._write(f"{tile_type(spec, valid)} {name}{given};", where, core)
        self._write(f"{BIND}({name}, {_bytes(address, self.text(address))});", core=core)

    # --- tensors ---

    def _tensor(self, tensor: GlobalBlock) -> str:
        """The C++ object of a block of memory, declared if it is not yet visible."""
        known = self._find(tensor)
        if known is not None:
            return known
        argument = tensor.argument
        self._define(tensor.offset, *tensor.shape, *tensor.stride)
        name = self.identifiers.fresh(f"{argument.name}_view")
        shape, sizes = self._extents(tensor.shape, argument.dynamic[:5])
        stride, steps = self._extents(tensor.stride, argument.dynamic[5:])
        types = [f"Shape<{shape}>", f"Stride<{stride}>"]
        given = [self._pointer(tensor)]
        if sizes or steps:
            aliases = [self.identifiers.fresh(f"{name}_{part}") for part in ("shape", "stride")]
            for alias, full in zip(aliases, types, strict=True):
                self._write(f"using {alias} = {full};")
            types, given = aliases, [*given, f"{aliases[0]}({sizes})", f"{aliases[1]}({steps})"]
        kind = f"GlobalTensor<{argument.dtype.cpp}, {', '.join(types)}, {enumerator(tensor.layout)}>"
        self._call(f"{kind} {name}", given)
        return self._declare(tensor, name)

    def _pointer(self, tensor: GlobalBlock) -> str:
        name = self.identifiers.of(pointer_of(self.program, tensor.argument).name, ARGUMENT)
        return name if tensor.offset == 0 else f"{name} + {self.text(tensor.offset, around=5)}"

    def _call(self, function: str, given: list[str]) -> None:
        """A call with its arguments, on a line of their own if there are several."""
        if len(given) == 1:
            self._write(f"{function}({given[0]});")
        else:
            self._write(f"{function}(")
            self._write(f"{INDENT}{', '.join(given)});")

    def _extents(self, extents: tuple[Expr, ...], dynamic: tuple[bool, ...]) -> tuple[str, str]:
        """Five extents as template arguments, and the numbers for those that are -1."""
        static = [isinstance(extent, int) and extent < LARGEST for extent in extents]
        marks = [mark or not known for known, mark in zip(static, dynamic, strict=True)]
        pairs = list(zip(extents, marks, strict=True))
        types = ", ".join("-1" if mark else self.text(extent) for extent, mark in pairs)
        return types, ", ".join(self.text(extent) for extent, mark in pairs if mark)

    # --- instructions ---

    def instruction_statement(self, instr: ir.Instr) -> None:
        call = header_call(self.program, instr, self.profile)
        operands = named_operands(instr)
        texts = {name: self._operand(call, instr, name) for name in operands}
        scratch = call.workspace
        if scratch and instr.workspace is not None:
            texts["tmp"] = self._tile(_TileKey.of(instr.workspace, dynamic=TMP in dynamic_operands(call)))
        elif scratch:
            like = operands.get(call.instruction.workspace.like) if call.instruction.workspace else None
            valid: tuple[Expr, Expr] = like.valid if isinstance(like, ir.TileUse) else scratch.valid
            texts["tmp"] = self.identifiers.fresh("tmp")
            self._object(texts["tmp"], scratch, valid, self.ready.workspace, core=self._core_of(instr))
        for kind, name in call.instruction.cpp.objects:
            texts[name] = self.identifiers.fresh(name)
            self._write(f"{kind} {texts[name]};", core=self._core_of(instr))
        core, calls = self._core_of(instr), self.profile.headers.cross if self.profile.headers else None
        guarded = core == VECTOR_CORE.name and calls is not None and calls.both_vectors
        guard = f"if ({self.first_vector}) " if guarded and self.first_vector else ""
        chosen = ", ".join(f"{key} = {value}" for key, value in instr.attributes).replace("*/", "* /")
        more = f" /* {chosen} */" if chosen else ""
        self._write(f"{guard}{call_text(call, texts)}{more};", instr.where, core)

    def _operand(self, call: Call, instr: ir.Instr, name: str) -> str:
        operand = named_operands(instr)[name]
        if isinstance(operand, ir.TileUse):
            return self._tile(_TileKey.of(operand, becomes_row(call, name), name in dynamic_operands(call)))
        if isinstance(operand, ir.View):
            if call.instruction.cpp.is_transfer:
                return self._tensor(transfer(self.program, instr, call)[0])
            return self._tensor(whole_view(self.program, operand))
        if isinstance(operand, ir.Constant):
            return constant(operand.dtype, operand.bits)
        if isinstance(operand, ir.Given):
            return self.identifiers.of(operand.name, ARGUMENT)
        self._define(operand.value)
        is_plain = operand.is_position or (bool(instr.opaque_form) and operand.dtype.is_integer)
        return self.text(operand.value) if is_plain else converted(operand.dtype, self._number(operand))

    def _number(self, number: ir.Number) -> str:
        text = self.text(number.value)
        return f"static_cast<float>({text})" if number.dtype.is_float and number.dtype.size < 4 else text


STATEMENTS: dict[type, Callable[[KernelBody, Any], None]] = {
    ir.TileDecl: KernelBody.tile_declaration,
    ir.Assign: KernelBody.assign_statement,
    ir.Instr: KernelBody.instruction_statement,
    ir.LoadScalar: KernelBody.load_statement,
    ir.Flag: KernelBody.flag_statement,
    ir.CrossFlag: KernelBody.cross_flag_statement,
    ir.Barrier: KernelBody.barrier_statement,
    ir.Loop: KernelBody.loop_statement,
    ir.Branch: KernelBody.branch_statement,
}


def _bytes(address: Expr, text: str) -> str:
    """An address; a constant in hexadecimal."""
    return f"{address:#x}" if isinstance(address, int) else text


def _all_names(program: ir.Program) -> Iterator[tuple[str, str]]:
    """Every name of a program with its kind, so that new names differ from them."""
    yield program.name, "kernel"
    yield from ((argument.name, kind_of(argument)) for argument in program.arguments)
    yield from ((var, "") for var in OF_LAUNCH)
    yield from ((tile, "tile") for tile in program.tiles)
    yield from ((var, "") for var in _inner_variables(program))


def _inner_variables(program: ir.Program) -> Iterator[Var]:
    """Variables that statements define."""
    yield from ir.definitions(program.body)
    yield from map(_address_of, _assigned(program.body))


def _address_of(tile: str) -> Var:
    """The variable with the address of a tile that moves."""
    return Var(f"{tile} at")


def _assigned(block: ir.Block) -> Iterator[str]:
    """The tiles that `tassign` moves, once for each time."""
    return (stmt.tile for stmt in ir.walk(block) if isinstance(stmt, ir.Assign))


def _placed_once(block: ir.Block, times: Mapping[str, int]) -> Iterator[str]:
    """Tiles without an address that are assigned one in the block of their declaration only."""
    waiting: set[str] = set()
    for stmt in block:
        if isinstance(stmt, ir.TileDecl) and not stmt.addresses:
            waiting.add(stmt.name)
        elif isinstance(stmt, ir.Assign) and stmt.tile in waiting and times[stmt.tile] == 1:
            yield stmt.tile
        for inner in ir.children(stmt):
            yield from _placed_once(inner, times)


def _first_uses(program: ir.Program, profile: Profile) -> dict[str, _TileKey]:
    """The first use of each tile."""
    first: dict[str, _TileKey] = {}
    for instr in ir.instructions(program.body):
        call = header_call(program, instr, profile)
        for name, operand in named_operands(instr).items():
            if isinstance(operand, ir.TileUse):
                key = _TileKey.of(operand, becomes_row(call, name), name in dynamic_operands(call))
                first.setdefault(operand.tile, key)
        if instr.workspace is not None:
            key = _TileKey.of(instr.workspace, dynamic=TMP in dynamic_operands(call))
            first.setdefault(instr.workspace.tile, key)
    return first
