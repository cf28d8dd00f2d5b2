"""A program as operations, with destinations (Level 2) or with values (Level 1).

In Level 1 a tile is the result of the instruction that first writes it. If that is not possible (its valid extents are
computed, it has an address, or another statement uses it first), it is allocated as in Level 2, and results that go
into it name it: `{tile = "acc"}`. The plain form has both: an instruction that writes a known tile or memory has a
destination.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from ptokit.finding import Finding, VerifyError
from ptokit.isa.instruction import Instruction
from ptokit.isa.opaque import OpaqueKind, form_for, form_in_text, row_of_op, spelt_form
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import PtoEnum, TileType
from ptokit.isa.unknown import is_unknown
from ptokit.program import ir
from ptokit.program.budget import Use
from ptokit.program.cores import stated_core
from ptokit.program.expr import Expr, Var, apply, truth
from ptokit.program.instr_calls import call_of, chosen_modifiers
from ptokit.program.place import BLOCK, footprint
from ptokit.target import flag_memory_archs, left_layouts
from ptokit.target.cpu import CPU
from ptokit.text.lift.writing import NAME, OperandParts, Writing, WrittenScope
from ptokit.text.lower import mode_of
from ptokit.text.memories import is_unshaped, offset_terms
from ptokit.text.spelling import ASSIGN, FORM, SECTIONS, instruction_of, modes
from ptokit.text.tiles import merge_extents, part_extents, part_type
from ptokit.text.tree import Body, Function, Opaque, Pointer, Source, Unit, Value

Form = Literal["l1", "l2", "as"]
"""Level 1 (values), Level 2 (destinations), and plain PTO-AS."""


def lift(program: ir.Program, form: Form, arch: str = "") -> Unit:
    """The tree of a program, for one of the forms."""
    return _Lift(program, form).unit(arch or program.arch or _arch(program))


def _arch(program: ir.Program) -> str:
    """The architecture that has the layout of the tiles in `left`; readers take it from the text."""
    layouts = {decl.spec.blayout for decl in program.tiles.values() if decl.spec.loc is TileType.Left}
    if len(layouts) > 1:
        message = "tiles in left of both layouts: text takes their layout from the architecture"
        raise VerifyError([Finding("error", "CO-ASM-02", message, fix="use one layout for all tiles in left")])
    return next((arch for arch, layout in left_layouts().items() if layout in layouts), "")


class _Lift(Writing):
    """The tree of one program."""

    def __init__(self, program: ir.Program, form: Form) -> None:
        super().__init__(program)
        self.form = form
        self.has_results = form != "l2"
        self.has_destinations = form != "l1"
        self.scalars: dict[str, Value] = {}

    def unit(self, arch: str) -> Unit:
        """The whole tree: one function."""
        program = self.program
        self.taken.update(filter(NAME.fullmatch, _own_names(program)))
        arguments = tuple(self._argument(a) for a in program.arguments if not getattr(a, "view_of", ""))
        if (
            self.form != "as"
            and arch in flag_memory_archs()
            and any(isinstance(s, ir.CrossFlag) for s in ir.walk(program.body))
        ):
            memory = Value(self.name("ffts"), Opaque("memref<256xi64>"))
            arguments = (memory, *arguments)
            self.add("set_ffts", {"ffts": (memory,)})
        for argument in program.tensors.values():
            if not argument.view_of and not is_unshaped(argument):
                self.tensor(argument)
        self.block(ir.settled(program.body) if self.has_results else program.body)
        self.add("func.return")
        body = Body([*self.head, *self.scopes[0].operations], arguments)
        attributes: dict[str, Any] = {} if mode_of(program.body) == program.mode else {"ptokit.mode": program.mode}
        if program.vector_cores > 1:
            attributes["ptokit.vector_cores"] = program.vector_cores
        function = Function(program.name, body, attributes, program.where)
        return Unit((function,), Source("", program.name), arch)

    def _argument(self, argument: ir.Argument | ir.Integer | ir.Float) -> Value:
        name = self.own(argument.name)
        if isinstance(argument, ir.Argument):
            value = self.pointers[argument.name] = Value(name, Pointer(argument.dtype))
        elif isinstance(argument, ir.Integer):
            value = self.scopes[0].numbers[argument.var, "index"] = Value(name, "index")
        else:
            value = self.scalars[argument.name] = Value(name, argument.dtype.mlir)
        return value

    # --- Statements ------------------------------------------------------------------------------------------

    def block(self, block: ir.Block) -> None:
        results = self._result_tiles(block) if self.has_results else set[str]()
        for stmt in block:
            self.where = stmt.where
            if not (isinstance(stmt, ir.TileDecl) and stmt.name in results):
                WRITERS[type(stmt)](self, stmt)

    @contextmanager
    def body(self) -> Generator[WrittenScope]:
        """A body inside a statement, with its terminator."""
        self.scopes.append(WrittenScope(self.scopes[-1]))
        yield self.scopes[-1]
        self.add("scf.yield")
        self.scopes.pop()

    def allocate(self, decl: ir.TileDecl) -> None:
        """The allocation of a tile."""
        value = Value(self.own(decl.name), decl.spec)
        parts: OperandParts = {}
        if decl.addresses:
            parts["addr"] = (self.number(decl.addresses[0], "i64"),)
        extents = self._first_extents(decl)
        for axis, part in enumerate(("valid_row", "valid_col")):
            if extents is not None and decl.spec.dynamic[axis]:
                parts[part] = (self.number(extents[axis]),)
        self.add("alloc_tile", parts, value)
        self.scopes[-1].tiles[decl.name] = value
        self.scopes[-1].valid[decl.name] = extents

    def _first_extents(self, decl: ir.TileDecl) -> tuple[Expr, Expr] | None:
        """The initial valid extents of a tile. Computed ones are those of its first use, if known already."""
        if not is_unknown(*decl.spec.valid):
            return decl.spec.valid
        use = self._first_uses.get(decl.name)
        if use is None or not all(map(self.is_known, use)):
            return None
        if any(is_unknown(k) and isinstance(u, int) for k, u in zip(decl.spec.valid, use, strict=True)):
            return None  # readers would take a number for the tile's own extent
        rows, cols = (u if is_unknown(k) else k for k, u in zip(decl.spec.valid, use, strict=True))
        return rows, cols

    @cached_property
    def _first_uses(self) -> dict[str, tuple[Expr, Expr]]:
        extents: dict[str, tuple[Expr, Expr]] = {}
        for instr in ir.instructions(self.program.body):
            for use in instr.tiles:
                if use.window is None:
                    extents.setdefault(use.tile, use.valid)
        return extents

    def assign(self, stmt: ir.Assign) -> None:
        """A change of a tile's address."""
        old, address = self.scopes[-1].tiles[stmt.tile], self.number(stmt.address, "i64")
        moved = Value(self.name(f"{stmt.tile}_moved"), old.type)
        self.add(ASSIGN.op, {"tile": (old,), "addr": (address,)}, moved)
        self.scopes[-1].tiles[stmt.tile] = moved

    def load(self, stmt: ir.LoadScalar) -> None:
        """A scalar load. The pointer is advanced once for each dim, so that readers can recover the dims."""
        argument = self.program.tensors[stmt.source.argument]
        *leading, last = offset_terms(argument, stmt.source)
        pointer = self.pointer(argument.array, argument.offset)
        for offset in leading:
            pointer = self.advanced(pointer, offset)
        result = Value(self.own(stmt.result), argument.dtype.mlir)
        self.add("load_scalar", {"ptr": (pointer,), "index": (self.number(last),)}, result)
        self.scopes[-1].numbers[stmt.result, "index"] = self.converted("arith.index_cast", result, "index")

    def synchronise(self, stmt: ir.Flag | ir.CrossFlag | ir.Barrier) -> None:
        """A flag or a barrier: in a section of its core, if it states one, or if both cores have its pipe."""
        core = stated_core(stmt.core, stmt.pipe) if isinstance(stmt, ir.CrossFlag) else stmt.core
        if not core:
            self._synchronise(stmt)
            return
        with self.body() as inner:
            self._synchronise(stmt)
        kind = next(kind for kind, name in SECTIONS.items() if name == core)
        self.where = stmt.where
        self.add(f"section.{kind}", {}, bodies=[Body(inner.operations)])

    def _synchronise(self, stmt: ir.Flag | ir.CrossFlag | ir.Barrier) -> None:
        if isinstance(stmt, ir.Barrier):
            self.add("barrier", attributes={"pipe": f"PIPE_{stmt.pipe}"})
            return
        parts: OperandParts = {} if isinstance(stmt.event, int) else {"event_id": (self.number(stmt.event),)}
        if isinstance(stmt, ir.CrossFlag):
            name, pipes, event = f"sync.{stmt.action}", {"pipe": f"PIPE_{stmt.pipe}"}, stmt.event
        else:
            name, event = f"{stmt.action}_flag{'_dyn' if parts else ''}", f"EVENT_ID{stmt.event}"
            pipes = {"src_pipe": f"PIPE_{stmt.src}", "dst_pipe": f"PIPE_{stmt.dst}"}
        self.add(name, parts, attributes=pipes if parts else {**pipes, "event_id": event})

    def loop(self, stmt: ir.Loop) -> None:
        """A loop. One that counts down counts its iterations instead: text has only positive steps."""
        down, start, step = stmt.step < 0, stmt.start, stmt.step
        trips = apply("sub", 0, apply("floordiv", apply("sub", start, stmt.stop), step))
        bounds = (0, trips, 1) if down else (start, stmt.stop, step)
        var = Value(self.name(f"{stmt.var}_iteration") if down else self.own(stmt.var), "index")
        values = tuple(map(self.number, bounds))
        self._invalidate_changed(stmt.body)
        counter = Var(var.name) if down else stmt.var
        self.limits.loop(counter, bounds[0], bounds[1])
        with self.body() as inner:
            inner.numbers[counter, "index"] = var
            if down:
                inner.numbers[stmt.var, "index"] = self.number(apply("add", start, apply("mul", counter, step)))
            self.block(stmt.body)
        merge_extents(self.scopes[-1].valid, [inner.valid], is_certain=False)
        attributes = {"ptokit.buffers": stmt.buffers} if stmt.buffers > 1 else {}
        self.where = stmt.where
        self.add("scf.for", {"ins": values}, attributes=attributes, bodies=[Body(inner.operations, (var,))])

    def _invalidate_changed(self, block: ir.Block) -> None:
        """Tiles that a loop's body uses with several extents have no known extents at the start of an iteration."""
        valid = self.scopes[-1].valid
        for instr in ir.instructions(block):
            for use in instr.tiles:
                if use.window is None and valid.get(use.tile, use.valid) != use.valid:
                    valid[use.tile] = None

    def branch(self, stmt: ir.Branch) -> None:
        condition = self.number(truth(stmt.condition), "i1")
        arms: list[WrittenScope] = []
        for block in (stmt.then, stmt.otherwise) if stmt.otherwise else (stmt.then,):
            with self.body() as arm:
                self.block(block)
            arms.append(arm)
        merge_extents(self.scopes[-1].valid, [arm.valid for arm in arms], is_certain=len(arms) > 1)
        self.where = stmt.where
        self.add("scf.if", {"ins": (condition,)}, bodies=[Body(arm.operations) for arm in arms])

    def _result_tiles(self, block: ir.Block) -> set[str]:
        """Tiles that are results: the first statement that uses one writes it."""
        unused: dict[str, ir.TileDecl] = {}
        results: set[str] = set()
        for stmt in block:
            if isinstance(stmt, ir.TileDecl):
                unused[stmt.name] = stmt
                continue
            for name in ir.mentioned(stmt):
                decl = unused.pop(name, None)
                if decl is not None and isinstance(stmt, ir.Instr) and _defines(stmt, decl):
                    results.add(name)
            if self.has_destinations and isinstance(stmt, ir.Instr) and modes(stmt.definition):
                results.discard(getattr(stmt.operands[0], "tile", ""))
        return results

    # --- Instructions ----------------------------------------------------------------------------------------

    def instruction(self, instr: ir.Instr) -> None:
        """An instruction, with a destination or with a result."""
        definition = instr.definition
        if instr.opaque_form:
            self._opaque(instr)
            return
        call = call_of(self.program, instr, CPU)
        chosen = dict(zip((m.name for m in definition.modifiers), chosen_modifiers(self.program, instr), strict=True))
        order = call.values[definition.order.name] if definition.order else None
        names = [param.name for param in definition.operands]
        operands = dict(zip(names, instr.operands, strict=False))
        attributes = _attributes(definition, chosen, call.values)
        if instr.event is not None:
            attributes["event"] = instr.event
        if instr.waits:
            attributes["waits"] = instr.waits
        ins = [self.operand(operands[name]) for name in definition.sources(order) if name in operands]
        self._add_workspace(instr, ins)
        self._add_instruction(instr, tuple(ins), attributes)

    def _opaque(self, instr: ir.Instr) -> None:
        """An instruction that is known by its effects: always with destinations."""
        op, form = instr.definition.op, spelt_form(instr.opaque_form)
        values = [self.operand(operand) for operand in instr.operands]
        kinds: list[OpaqueKind] = [_kind(operand) for operand in instr.operands]
        outs, ins, row = form.outs, form.ins, row_of_op(op)
        found = form_in_text(row, [kinds[k] for k in outs], [kinds[k] for k in ins]).key if outs else None
        implied = found or form_for(row.name if row else "", kinds)
        is_stated = implied != instr.opaque_form or instruction_of(op) is not None
        attributes = {FORM: instr.opaque_form} if is_stated else {}
        groups = {"ins": tuple(values[k] for k in ins), "outs": tuple(values[k] for k in outs)}
        parts = {name: group for name, group in groups.items() if group}
        self.add(op, parts, attributes={**attributes, **dict(instr.attributes)})

    def _add_instruction(self, instr: ir.Instr, ins: tuple[Value, ...], attributes: dict[str, Any]) -> None:
        names, op = [param.name for param in instr.definition.operands], instr.definition.op
        destinations = [instr.operands[names.index(name)] for name in instr.definition.results]
        tiles = [each for each in destinations if isinstance(each, ir.TileUse)]
        known = all(use.tile in self.scopes[-1].tiles for use in tiles)
        if self.has_destinations and (known or not self.has_results):
            self.add(op, {"ins": ins, "outs": tuple(map(self.operand, destinations))}, attributes=attributes)
        elif tiles:
            results, own = zip(*map(self._result, tiles), strict=True)
            more = {"tile": ", ".join(own)} if any(own) else {}
            self.add(op, {"ins": ins}, *results, attributes={**attributes, **more})
            self.scopes[-1].tiles |= {use.tile: r for use, r in zip(tiles, results, strict=True) if use.window is None}
        else:
            self.add(op, {"ins": (*ins, *map(self.operand, destinations))}, attributes=attributes)

    def _result(self, use: ir.TileUse) -> tuple[Value, str]:
        """The result of an instruction: a new tile, or a known one with its name."""
        spec, tiles = self.program.tiles[use.tile].spec, self.scopes[-1].tiles
        if use.window is not None:
            part = self._part(use, use.window)
            return Value(self.name(use.tile), part.type), part.name
        if use.tile in tiles:
            self.operand(use)
            return Value(self.name(use.tile), spec), self.own(use.tile)
        self.scopes[-1].valid[use.tile] = use.valid
        return Value(self.own(use.tile), spec), ""

    def operand(self, operand: ir.Operand) -> Value:
        if isinstance(operand, ir.TileUse):
            return self._tile(operand)
        if isinstance(operand, ir.View):
            return self.view(operand)
        if isinstance(operand, ir.Given):
            return self.scalars[operand.name]
        if isinstance(operand, ir.Constant):
            return self._constant_operand(operand)
        return self.number(operand.value) if operand.is_position else self._data(operand)

    def _tile(self, use: ir.TileUse) -> Value:
        if use.window is not None:
            return self._part(use, use.window)
        scope = self.scopes[-1]
        value = scope.tiles[use.tile]
        if scope.valid[use.tile] != use.valid:
            row, col = map(self.number, use.valid)
            self.add("set_validshape", {"tile": (value,), "row": (row,), "col": (col,)})
            scope.valid[use.tile] = use.valid
        return value

    def _part(self, use: ir.TileUse, window: ir.Window) -> Value:
        """A slice of a tile."""
        scope, starts = self.scopes[-1], tuple(map(self.number, window.start))
        tile = scope.tiles[use.tile]
        assert isinstance(tile.type, TileSpec)
        part = Value(self.name(f"{use.tile}_part"), part_type(tile.type, window))
        self.add("subset", {"tile": (tile,), "offsets": starts}, part, attributes={"sizes": window.size})
        if part_extents(tile.type, scope.valid[use.tile], window) != use.valid:
            row, col = map(self.number, use.valid)
            self.add("set_validshape", {"tile": (part,), "row": (row,), "col": (col,)})
        return part

    def _constant_operand(self, operand: ir.Constant) -> Value:
        if operand.dtype.is_float:
            return self.constant(operand, operand.dtype.mlir)
        width = 8 * operand.dtype.size
        signed = operand.bits - (1 << width) if operand.bits >> (width - 1) else operand.bits
        return self.constant(signed, f"i{width}")

    def _data(self, number: ir.Number) -> Value:
        """A computed number in an element type."""
        element = number.dtype
        if element.is_integer:
            return self.number(number.value, f"i{8 * element.size}")
        return self.converted("arith.sitofp", self.number(number.value, "i64"), element.mlir)

    def _add_workspace(self, instr: ir.Instr, ins: list[Value]) -> None:
        """The workspace of an instruction: the author's, or one that is added for the text."""
        workspace = instr.definition.workspace
        if workspace is None:
            return
        if instr.workspace is not None:
            ins.insert(workspace.position, self.operand(instr.workspace))
            return
        spec = call_of(self.program, instr, CPU).workspace
        if spec is None:
            return
        whole = replace(spec, valid_rows=spec.rows, valid_cols=spec.cols, dynamic=(False, False), addr=None)
        parts: OperandParts = {} if self._free is None else {"addr": (self.constant(self._free, "i64"),)}
        result = Value(self.name("tmp"), whole)
        self.add("alloc_tile", parts, result, attributes={"ptokit.workspace": True})
        ins.insert(workspace.position, result)

    @cached_property
    def _free(self) -> int | None:
        """The first free address behind the tiles, if the program has addresses."""
        if self.program.mode != "manual":
            return None
        return -(-footprint(self.program, CPU).get(TileType.Vec, Use(0)).end // BLOCK) * BLOCK


WRITERS: dict[type, Callable[[_Lift, Any], None]] = {
    ir.TileDecl: _Lift.allocate,
    ir.Assign: _Lift.assign,
    ir.Instr: _Lift.instruction,
    ir.LoadScalar: _Lift.load,
    **dict.fromkeys((ir.Flag, ir.CrossFlag, ir.Barrier), _Lift.synchronise),
    ir.Loop: _Lift.loop,
    ir.Branch: _Lift.branch,
}
"""The method for each kind of statement."""


def _defines(instr: ir.Instr, decl: ir.TileDecl) -> bool:
    """Whether an instruction's result can define the tile: its type describes the tile completely."""
    uses = [use for use in instr.tiles if use.tile == decl.name]
    first = next(iter(instr.operands), None)
    plain = not instr.opaque_form and not decl.addresses and not any(decl.spec.dynamic)
    return plain and len(uses) == 1 and first is uses[0] and uses[0].window is None and uses[0].valid == decl.spec.valid


def _kind(operand: ir.Operand) -> OpaqueKind:
    return "tile" if isinstance(operand, ir.TileUse) else "memory" if isinstance(operand, ir.View) else "number"


def _own_names(program: ir.Program) -> Iterator[str]:
    """The names of the program's arguments, tiles and variables."""
    yield from (argument.name for argument in program.arguments)
    yield from program.tiles
    yield from ir.definitions(program.body)


def _attributes(
    instruction: Instruction, chosen: dict[str, PtoEnum | None], resolved: dict[str, Any]
) -> dict[str, Any]:
    """Modifiers that were chosen, and those that are always written, as attributes."""
    attributes: dict[str, Any] = {}
    for modifier, text in instruction.attributes:
        member = resolved[modifier.name] if text.always else chosen[modifier.name]
        if member is not None:
            attributes[text.key] = text.written(member)
    return attributes
