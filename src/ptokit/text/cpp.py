"""A program as one C++ source for the vendor's toolchain: A2/A3, A5, or the CPU simulator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from ptokit.finding import Where
from ptokit.isa.instruction import DEVICES, Call
from ptokit.isa.operand import TileSpec
from ptokit.program.calls import call_of, named_operands, tile_spec
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, GUARDS, Expr, Op, Var, apply, parts, variables
from ptokit.program.ir import (
    Argument,
    Assign,
    Barrier,
    Block,
    Branch,
    Constant,
    Flag,
    Instr,
    Integer,
    LoadScalar,
    Loop,
    Number,
    Program,
    Stmt,
    TileDecl,
    TileUse,
    View,
    iteration,
    walk,
)
from ptokit.program.verify_call import Options
from ptokit.target import Profile
from ptokit.text.cpp_calls import call_text, constant, converted, enumerator, scratch_of
from ptokit.text.cpp_expr import HELPERS, Expressions, Identifiers
from ptokit.text.cpp_headers import cores
from ptokit.text.cpp_ready import Ready, instructions, prepare
from ptokit.text.cpp_types import TRANSFERS, Tensor, lies_down, lying, offset_of, tile_type, transfer, whole_view

INDENT = "    "
LARGEST = 2**31
"""An extent from here on is no template argument, which may have 32 bits only."""
CORE_MACROS = {"AIV": "__DAV_VEC__", "AIC": "__DAV_CUBE__"}
"""What the compiler defines when it compiles for a core."""


def emit(program: Program, profile: Profile, options: Options | None = None, *, dyn_ub: int | None = None) -> str:
    """The program as C++. An auto program gets its addresses and flags first; a manual one keeps its own.

    Refuses with a `VerifyError` what the target refuses, and what its headers do not take or compute otherwise.
    `dyn_ub` is what the launch asks for, in bytes; without it the launch asks for what the tiles need.
    """
    if profile.family not in DEVICES:
        raise ValueError(f"there is no C++ for {profile.name}; choose one of {', '.join(DEVICES)}")
    options = options or Options()
    ready = prepare(program, profile, options, options.dyn_ub if dyn_ub is None else dyn_ub)
    return "\n".join(_Writer(ready, profile).source()) + "\n"


@dataclass(frozen=True)
class _TileKey:
    """A tile as one C++ object: objects with other valid extents, or lying down, share its address."""

    tile: str
    valid: tuple[Expr, Expr]
    lies_down: bool = False


class _Writer:
    """Writes one program. Everything in C++ is declared in the block of its first use, and seen further in."""

    def __init__(self, ready: Ready, profile: Profile) -> None:
        self.program = program = ready.program
        self.profile = profile
        self.ready = ready
        self.identifiers = Identifiers()
        for name, kind in _all_names(program):
            self.identifiers.of(name, kind)
        self.kernel = self.identifiers.of(program.name, "kernel")
        self.expressions = Expressions(self.identifiers, program.names)
        self.text = self.expressions.text
        self.lines: list[str] = []
        self.seen: list[dict[object, str]] = [dict.fromkeys(_given_variables(program), "")]
        """What is declared in each open block: variables, named expressions, tiles, tensors."""
        self.loops: list[Loop] = []
        self.addresses: dict[str, Expr] = {}
        self.moved = {stmt.tile for stmt in walk(program.body) if isinstance(stmt, Assign)}
        self.first = _first_uses(program, profile)
        self.named: set[str] = set()
        """Tiles whose own name is taken."""

    def source(self) -> Iterator[str]:
        """All lines of the file."""
        self._body()
        program = self.program
        place_of = f" ({_place(program.where)})" if program.where else ""
        yield f"// {self.kernel}{place_of} for {self.profile.name}, written by ptokit."
        yield from (_comment(f"{name} = {value}") for name, value in program.constants)
        yield from ("#include <cstdint>", "", "#include <pto/pto-inst.hpp>", "", "using namespace pto;", "")
        for name, (function, does, about) in HELPERS.items():
            if name in self.expressions.helpers:
                yield f"// {about}"
                yield f"static AICORE inline int64_t {function}(int64_t a, int64_t b) {{ {does} }}"
                yield ""
        yield f"__global__ AICORE void {self.kernel}({', '.join(self._parameters('__gm__ '))}) {{"
        yield from self._guarded(self.lines)
        yield "}"
        yield from self._launcher()

    def _parameters(self, memory: str) -> Iterator[str]:
        for argument in self.program.arguments:
            kind = f"{memory}{argument.dtype.cpp}*" if isinstance(argument, Argument) else "int64_t"
            yield f"{kind} {self.identifiers.of(argument.name)}"

    def _guarded(self, lines: list[str]) -> Iterator[str]:
        """The body, for the one core that has the tiles."""
        here = [CORE_MACROS[core] for core in cores(self.program, self.profile)]
        yield from (f"#if defined({guard})" for guard in here)
        yield from lines
        yield from ("#endif" for _ in here)

    def _launcher(self) -> Iterator[str]:
        """A function for the host; the simulator calls the kernel itself."""
        if not self.profile.cores:
            return
        dynamic = self.ready.dyn_ub
        launch = self.identifiers.fresh(f"launch_{self.kernel}")
        parameters = ["uint32_t blocks", "void* stream", *self._parameters("")]
        arguments = ", ".join(self.identifiers.of(argument.name) for argument in self.program.arguments)
        yield ""
        yield f"void {launch}({', '.join(parameters)}) {{"
        if dynamic:
            yield f"{INDENT}constexpr uint32_t kDynUbBytes = {dynamic};"
        yield f"{INDENT}{self.kernel}<<<blocks, {'kDynUbBytes' if dynamic else 'nullptr'}, stream>>>({arguments});"
        yield "}"

    # --- statements ---

    def _body(self) -> None:
        used = {var for stmt in walk(self.program.body) for expr in _expressions(stmt) for var in variables(expr)}
        for var, function in ((BLOCK_IDX, "get_block_idx"), (BLOCK_NUM, "get_block_num")):
            if var in used:
                self._write(f"const int64_t {self.text(var)} = {function}();")
        for stmt in self.program.body:
            self._statement(stmt)

    def _write(self, text: str, where: Where | None = None) -> None:
        place_of = f"  // {_place(where)}" if where else ""
        self.lines.append(f"{INDENT * len(self.seen)}{text}{place_of}")

    def _declare(self, key: object, name: str) -> str:
        self.seen[-1][key] = name
        return name

    def _find(self, key: object) -> str | None:
        return next((block[key] for block in reversed(self.seen) if key in block), None)

    def _block(self, block: Block, known: Var | None = None, *used: Expr) -> None:
        """Statements further in, which know a variable more and all use these expressions."""
        self.seen.append({} if known is None else {known: ""})
        self._define(*used)
        for stmt in block:
            self._statement(stmt)
        self.seen.pop()

    def _statement(self, stmt: Stmt) -> None:
        if isinstance(stmt, TileDecl):
            self._tile_declaration(stmt)
        elif isinstance(stmt, Assign):
            self._assign(stmt)
        elif isinstance(stmt, Instr):
            self._instruction(stmt)
        elif isinstance(stmt, LoadScalar):
            self._load(stmt)
        elif isinstance(stmt, Flag):
            self._flag(stmt)
        elif isinstance(stmt, Barrier):
            self._write(f"pipe_barrier(PIPE_{stmt.pipe});", None if stmt.auto else stmt.where)
        elif isinstance(stmt, Loop):
            self._loop(stmt)
        else:
            self._branch(stmt)

    def _loop(self, loop: Loop) -> None:
        self._define(loop.start, loop.stop)
        self.expressions.loop(loop.var, loop.start, loop.stop, loop.step)
        var, start, stop = map(self.text, (loop.var, loop.start, loop.stop))
        end = ""
        if isinstance(loop.stop, Op) and self.expressions.name(loop.stop) is None:
            name = self.identifiers.fresh(f"{var}_end")
            end, stop = f", {name} = {stop}", name
        step = {1: f"++{var}", -1: f"--{var}"}.get(loop.step, f"{var} += {loop.step}")
        compare = "<" if loop.step > 0 else ">"
        self._write(f"for (int64_t {var} = {start}{end}; {var} {compare} {stop}; {step}) {{", loop.where)
        turn = iteration(loop)
        self.expressions.natural.add(turn)
        if isinstance(turn, Op):
            self.expressions.names.setdefault(turn, f"{loop.var} turn")
        self.loops.append(loop)
        self._block(loop.body, loop.var, *([turn] if loop.buffers > 1 else ()))
        self.loops.pop()
        self._write("}")

    def _branch(self, branch: Branch) -> None:
        self._define(branch.condition)
        self._write(f"if ({self.expressions.condition(branch.condition)}) {{", branch.where)
        self._block(branch.then)
        if branch.otherwise:
            self._write("} else {")
            self._block(branch.otherwise)
        self._write("}")

    def _flag(self, flag: Flag) -> None:
        self._define(flag.event)
        event = flag.event
        text = f"EVENT_ID{event}" if isinstance(event, int) else f"static_cast<event_t>({self.text(event)})"
        pipes = f"PIPE_{flag.src}, PIPE_{flag.dst}"
        self._write(f"{flag.action}_flag({pipes}, {text});", None if flag.auto else flag.where)

    def _load(self, load: LoadScalar) -> None:
        argument, view = self.program.tensors[load.source.argument], load.source
        offset = offset_of(argument, view)
        self._define(offset)
        self.expressions.read(load.result, argument.dtype.family == "uint")
        name = self._declare(load.result, self.text(load.result))
        self._write(f"const int64_t {name} = {self.identifiers.of(argument.name)}[{self.text(offset)}];", load.where)

    def _define(self, *exprs: Expr) -> None:
        """Declare what the names in these expressions stand for, unless that is seen from here."""
        for expr in (part for whole in exprs for part in parts(whole)):
            name = self.expressions.name(expr)
            if name is not None and self._find(expr) is None:
                self._write(f"const int64_t {name} = {self.expressions.definition(expr)};")
                self._declare(expr, name)

    # --- tiles ---

    def _tile_declaration(self, tile: TileDecl) -> None:
        first = self.first.get(tile.name)
        if first is None:
            return
        self.addresses[tile.name] = self._address(tile)
        if tile.name in self.moved:
            at, start = Var(f"{tile.name} at"), self.addresses[tile.name]
            self._define(start)
            self._write(f"int64_t {self.text(at)} = {_bytes(start, self.text(start))};", tile.where)
            self.addresses[tile.name] = at
        if all(self._is_known(extent) for extent in first.valid):
            self._tile(first, tile.where)

    def _is_known(self, extent: Expr) -> bool:
        """Whether an extent can be computed here, and not only further in, where its use is guarded."""
        divides = any(
            part.name in GUARDS and not isinstance(part.args[1], int) for part in parts(extent) if isinstance(part, Op)
        )
        return not divides and all(self._find(var) is not None for var in variables(extent))

    def _address(self, tile: TileDecl) -> Expr:
        """Where a tile lies; copies lie one after the other, and the turns of the loop around take them in turn."""
        if len(tile.addresses) < 2:
            return tile.addresses[0] if tile.addresses else 0
        start, second = tile.addresses[:2]
        turn = apply("mod", iteration(self.loops[-1]), len(tile.addresses))
        return apply("add", start, apply("mul", turn, apply("sub", second, start)))

    def _assign(self, stmt: Assign) -> None:
        if stmt.tile not in self.addresses:
            return
        self._define(stmt.address)
        at = self.text(self.addresses[stmt.tile])
        self._write(f"{at} = {_bytes(stmt.address, self.text(stmt.address))};", stmt.where)
        for block in self.seen:
            for key, name in block.items():
                if isinstance(key, _TileKey) and key.tile == stmt.tile:
                    self._write(f"TASSIGN({name}, {at});")

    def _tile(self, key: _TileKey, where: Where | None = None) -> str:
        """The C++ object of a tile, declared where it is not seen yet."""
        found = self._find(key)
        if found is not None:
            return found
        spec = tile_spec(self.program.tiles[key.tile].spec, TileUse(key.tile, key.valid))
        valid = key.valid
        if key.lies_down:
            spec, valid = lying(spec), (1, key.valid[0])
        name = self.identifiers.of(key.tile, "tile")
        if key.tile in self.named:
            name = self.identifiers.fresh(f"{key.tile}_{'row' if key.lies_down else 'part'}")
        self.named.add(key.tile)
        self._object(name, spec, valid, self.addresses[key.tile], where)
        return self._declare(key, name)

    def _object(
        self, name: str, spec: TileSpec, valid: tuple[Expr, Expr], address: Expr, where: Where | None = None
    ) -> None:
        """A tile and its address."""
        numbers = [extent for extent, is_dynamic in zip(valid, spec.dynamic, strict=True) if is_dynamic]
        self._define(*numbers)
        given = f"({', '.join(map(self.text, numbers))})" if numbers else ""
        self._write(f"{tile_type(spec, valid)} {name}{given};", where)
        self._define(address)
        self._write(f"TASSIGN({name}, {_bytes(address, self.text(address))});")

    # --- tensors ---

    def _tensor(self, tensor: Tensor) -> str:
        """The C++ object of a block of memory, declared where it is not seen yet."""
        found = self._find(tensor)
        if found is not None:
            return found
        argument = tensor.argument
        self._define(tensor.offset, *tensor.shape, *tensor.stride)
        pointer = self.identifiers.of(argument.name)
        if tensor.offset != 0:
            pointer = f"{pointer} + {self.text(tensor.offset, around=5)}"
        name = self.identifiers.fresh(f"{argument.name}_view")
        shape, sizes = self._extents(tensor.shape, argument.dynamic[:5])
        stride, steps = self._extents(tensor.stride, argument.dynamic[5:])
        types = [f"Shape<{shape}>", f"Stride<{stride}>"]
        given = ""
        if sizes or steps:
            aliases = [self.identifiers.fresh(f"{name}_{part}") for part in ("shape", "stride")]
            for alias, full in zip(aliases, types, strict=True):
                self._write(f"using {alias} = {full};")
            types, given = aliases, f", {aliases[0]}({sizes}), {aliases[1]}({steps})"
        kind = f"GlobalTensor<{argument.dtype.cpp}, {', '.join(types)}, {enumerator(tensor.layout)}>"
        if given:
            self._write(f"{kind} {name}(")
            self._write(f"{INDENT}{pointer}{given});")
        else:
            self._write(f"{kind} {name}({pointer});")
        return self._declare(tensor, name)

    def _extents(self, extents: tuple[Expr, ...], dynamic: tuple[bool, ...]) -> tuple[str, str]:
        """Five extents as template arguments, and the numbers for those that are -1."""
        static = [isinstance(extent, int) and extent < LARGEST for extent in extents]
        marks = [mark or not known for known, mark in zip(static, dynamic, strict=True)]
        pairs = list(zip(extents, marks, strict=True))
        types = ", ".join("-1" if mark else self.text(extent) for extent, mark in pairs)
        return types, ", ".join(self.text(extent) for extent, mark in pairs if mark)

    # --- instructions ---

    def _instruction(self, instr: Instr) -> None:
        if instr.waits and self.profile.pipes:
            self._write(f"pipe_barrier(PIPE_ALL);  // for event {', '.join(map(str, instr.waits))}")
        call = call_of(self.program, instr, self.profile)
        operands = named_operands(instr)
        given = {name: self._operand(call, instr, name) for name in operands}
        scratch = scratch_of(call)
        if scratch:
            like = operands.get(scratch.like)
            valid: tuple[Expr, Expr] = like.valid if isinstance(like, TileUse) else scratch.spec.valid
            given["tmp"] = self.identifiers.fresh("tmp")
            self._object(given["tmp"], scratch.spec, valid, self.ready.workspace)
        self._write(f"{call_text(call, given)};", instr.where)

    def _operand(self, call: Call, instr: Instr, name: str) -> str:
        operand = named_operands(instr)[name]
        if isinstance(operand, TileUse):
            return self._tile(_TileKey(operand.tile, operand.valid, lies_down(call, name)))
        if isinstance(operand, View):
            if instr.name in TRANSFERS:
                return self._tensor(transfer(self.program, instr, call)[0])
            return self._tensor(whole_view(self.program, operand))
        if isinstance(operand, Constant):
            return constant(operand.dtype, operand.bits)
        self._define(operand.value)
        return self.text(operand.value) if operand.steers else converted(operand.dtype, self._number(operand))

    def _number(self, number: Number) -> str:
        text = self.text(number.value)
        return f"static_cast<float>({text})" if number.dtype.is_float and number.dtype.size < 4 else text


def _bytes(address: Expr, text: str) -> str:
    """An address; plain ones as people write them."""
    return f"{address:#x}" if isinstance(address, int) else text


def _all_names(program: Program) -> Iterator[tuple[str, str]]:
    """Every name of a program and what it names, so that new ones keep clear of them."""
    yield program.name, "kernel"
    yield from ((argument.name, "") for argument in program.arguments)
    yield from ((BLOCK_IDX, ""), (BLOCK_NUM, ""))
    yield from ((tile, "tile") for tile in program.tiles)
    for stmt in walk(program.body):
        if isinstance(stmt, Loop | LoadScalar):
            yield stmt.var if isinstance(stmt, Loop) else stmt.result, ""
    yield from ((name, "value") for _, name in program.names)


def _given_variables(program: Program) -> list[Var]:
    """Variables that a kernel has from its beginning."""
    return [BLOCK_IDX, BLOCK_NUM, *(argument.var for argument in program.arguments if isinstance(argument, Integer))]


def _first_uses(program: Program, profile: Profile) -> dict[str, _TileKey]:
    """How each tile is used first."""
    found: dict[str, _TileKey] = {}
    for instr in instructions(program):
        call = call_of(program, instr, profile)
        for name, operand in named_operands(instr).items():
            if isinstance(operand, TileUse):
                found.setdefault(operand.tile, _TileKey(operand.tile, operand.valid, lies_down(call, name)))
    return found


def _expressions(stmt: Stmt) -> Iterator[Expr]:
    """Every expression that a statement may write."""
    if isinstance(stmt, Loop):
        yield from (stmt.start, stmt.stop)
    elif isinstance(stmt, Branch):
        yield stmt.condition
    elif isinstance(stmt, TileDecl):
        yield from stmt.addresses
    elif isinstance(stmt, Assign):
        yield stmt.address
    elif isinstance(stmt, Flag):
        yield stmt.event
    elif isinstance(stmt, LoadScalar):
        yield from stmt.source.starts
    elif isinstance(stmt, Instr):
        for operand in stmt.operands:
            if isinstance(operand, TileUse):
                yield from operand.valid
            elif isinstance(operand, View):
                yield from (*operand.starts, *operand.sizes)
            elif isinstance(operand, Number):
                yield operand.value


def _place(where: Where | None) -> str:
    """`file.py:12`, without the folders around it."""
    return _printable(f"{PurePath(where.file.replace(chr(92), '/')).name}:{where.line}") if where else ""


def _comment(text: str) -> str:
    return f"// {_printable(text)}"


def _printable(text: str) -> str:
    """A text that cannot end its line or run on into the next."""
    return re.sub(r"[^\x20-\x5b\x5d-\x7e]", "?", text)
