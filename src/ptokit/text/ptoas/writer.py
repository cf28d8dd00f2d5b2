"""A tree printed as PTO-AS, in one canonical spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ptokit.brief import brief
from ptokit.finding import Where
from ptokit.isa.instruction import Instruction
from ptokit.isa.operand import TileSpec
from ptokit.text.errors import TextError
from ptokit.text.numbers import predicate_word
from ptokit.text.ptoas.shapes import (
    BLOCKS,
    DEFAULT_TYPES,
    SHORT,
    STATIC,
    SYNTAX,
    KnownExtents,
    Syntax,
    defaults,
    first_tile,
    moves_memory,
    suffixes,
)
from ptokit.text.ptoas.types import attributes_text, constant_text, type_text, value_text
from ptokit.text.spelling import FORM, default_of, instruction_of, modes
from ptokit.text.tree import Body, Function, Operation, Tensor, Unit, Value, walk

Notes = Mapping[object, Sequence[str]]
"""Comments that belong to no operation: before functions, arguments and the ends of bodies."""

_NAME = re.compile(r"[\w$.]++(?:-[\w$.]++)*+", re.ASCII)
_SYMBOL = re.compile(r"[A-Za-z_][\w.$]*+", re.ASCII)
_ODD = re.compile(r"[^\w$.]", re.ASCII)


def print_unit(unit: Unit, notes: Notes) -> str:
    """The canonical text."""
    lines = _comment_lines(notes.get("arch", ()), "")
    if unit.arch:
        lines.append(f".arch {value_text(unit.arch)}")
    for function in unit.functions:
        if lines:
            lines.append("")
        try:
            lines += _FunctionWriter(function, notes).lines()
        except ValueError as problem:
            where = getattr(problem, "where", None) or function.where or Where(unit.source.file, 1, 1)
            raise TextError(f"cannot be printed as PTO-AS: {problem}", where) from None
    lines += _comment_lines(notes.get("end", ()), "")
    return "\n".join(_tidy(lines)) + "\n" if any(lines) else ""


def _tidy(lines: list[str]) -> list[str]:
    """The lines with at most one blank one in a row, and none at the ends."""
    kept = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
    while kept and not kept[-1]:
        kept.pop()
    return kept[1:] if kept and not kept[0] else kept


def _comment_lines(comments: Iterable[str], indent: str) -> list[str]:
    """Comments as lines; one without text is a blank line."""
    lines = (line for comment in comments for line in comment.split("\n"))
    return [f"{indent}{_comment(line)}" if line.strip() else "" for line in lines]


def _comment(text: str) -> str:
    return text if text.startswith("//") else f"// {text}"


class _FunctionWriter:
    """Prints one function."""

    def __init__(self, function: Function, notes: Notes) -> None:
        self.function, self.notes = function, notes
        self.scopes: list[dict[str, Value]] = [{}]
        self.names: dict[Value, str] = {}
        self.number = 0
        self.literals, self.blocks = _inlined(function.body)
        self.output: list[str] = []

    def lines(self) -> list[str]:
        """All lines of the function."""
        function = self.function
        self.output += _comment_lines(self.notes.get(function, ()), "")
        self._line("", f".kernel {value_text(function.name)}{_dictionary(function.attributes)}", function)
        for value in function.arguments:
            self.output += _comment_lines(self.notes.get(value, ()), "")
            self._line("", f".arg {self._define(value)} : {type_text(value.type)}", value)
        self.output.append("")
        self._body(function.body, "")
        return self.output

    def _line(self, indent: str, text: str, owner: object) -> None:
        remark = " ".join(self.notes.get((owner, "remark"), ()))
        if isinstance(owner, Operation):
            remark = owner.remark
        end = f"  {_comment(' '.join(remark.split()))}" if remark.strip() else ""
        self.output.append(f"{indent}{text}{end}")

    def _body(self, body: Body, indent: str) -> None:
        for operation in body.operations:
            if not _is_implied(operation):
                self._operation(operation, indent)
        self.output += _comment_lines(self.notes.get(body, ()), indent)

    def _operation(self, operation: Operation, indent: str) -> None:
        self.output += _comment_lines(operation.comments, indent)
        if self._is_inline(operation):
            return
        if operation.bodies:
            self._with_bodies(operation, indent)
        else:
            self._line(indent, self._text(operation), operation)

    def _with_bodies(self, operation: Operation, indent: str) -> None:
        if operation.name not in BLOCKS:
            raise _problem(operation, f"`{operation.name}` with a body has no spelling")
        first, *more = operation.bodies
        results = ", ".join(map(self._define, operation.results))
        self.scopes.append({})
        self._line(indent, f"{results and f'{results} = '}{self._head(operation, first)} {{", operation)
        self._body(first, f"{indent}  ")
        for body in filter(self._has_content, more):
            self._line(indent, "} else {", first)
            self.scopes[-1] = {}
            self._body(body, f"{indent}  ")
            first = body
        self.scopes.pop()
        self._line(indent, f"}}{_dictionary(operation.attributes)}", first)

    def _has_content(self, body: Body) -> bool:
        noted = body in self.notes or (body, "remark") in self.notes
        return noted or any(map(self._is_shown, body.operations))

    def _is_shown(self, operation: Operation) -> bool:
        """Whether an operation or its comments take a line."""
        return not _is_implied(operation) and (bool(operation.comments) or not self._is_inline(operation))

    def _is_inline(self, operation: Operation) -> bool:
        """Whether its value is printed at its use."""
        results = operation.results
        return bool(results) and (results[0] in self.literals or results[0] in self.blocks)

    def _head(self, operation: Operation, body: Body) -> str:
        types = f" -> ({self._types(operation.results)})" if operation.results else ""
        if operation.name == "scf.if":
            return f"if {self._use(operation.ins[0])}{types}"
        if operation.name != "scf.for":
            return operation.name
        start, stop, step, *initial = map(self._use, operation.ins)
        index, *carried = map(self._define, body.arguments)
        pairs = ", ".join(f"{name} = {value}" for name, value in zip(carried, initial, strict=True))
        return f"for {index} = {start} to {stop} step {step}" + (f" iter_args({pairs}){types}" if pairs else "")

    # --- Names -------------------------------------------------------------------------------------------------

    def _define(self, value: Value) -> str:
        """A name for a value, its own if that is free."""
        name = base = value.name if _NAME.fullmatch(value.name) else _ODD.sub("_", value.name)
        while not name or any(name in scope for scope in self.scopes):
            name = f"{base}_{self.number}" if base else str(self.number)
            self.number += 1
        self.scopes[-1][name] = value
        self.names[value] = f"%{name}"
        return f"%{name}"

    def _use(self, value: Value) -> str:
        if value in self.literals:
            return self.literals[value]
        if value in self.blocks:
            view, indices = self.blocks[value]
            return f"{self._use(view)}[{', '.join(map(self._use, indices))}]"
        if value not in self.names:
            raise ValueError(f"%{value.name} is used and not defined")
        return self.names[value]

    # --- Operations --------------------------------------------------------------------------------------------

    def _text(self, operation: Operation) -> str:
        name, attributes = operation.name, dict(operation.attributes)
        if name == "arith.constant":
            (result,) = operation.results
            number = constant_text(attributes["value"], result.type)
            return f".const {self._define(result)} = {number} : {type_text(result.type)}"
        opcode, instruction = STATIC.get(name, name), instruction_of(name)
        shape = SYNTAX.get(opcode)
        if shape is not None and not operation.outs:
            operands, signature = self._shaped(operation, shape, attributes)
        elif name.startswith("arith."):
            operands, signature = self._arithmetic(operation, attributes)
        elif instruction is not None and FORM not in attributes and _has_one_destination(operation, instruction):
            opcode = _take_suffixes(operation, instruction, attributes)
            block_last = instruction.operands[0].is_block
            values = operation.ins + operation.outs if block_last else operation.outs + operation.ins
            operands, signature = f" {self._listed(values)}", self._signature(values, operation.results)
        else:
            opcode = SHORT.get(name, name)
            operands, signature = self._general(operation, attributes)
        results = ", ".join(map(self._define, operation.results))
        return f"{results and f'{results} = '}{opcode}{operands}{_dictionary(attributes)}{signature}"

    def _listed(self, values: Iterable[Value]) -> str:
        return ", ".join(map(self._use, values))

    def _shaped(self, operation: Operation, shape: Syntax, attributes: dict[str, Any]) -> tuple[str, str]:
        """The operands and the types of an operation in the table. Attributes among the operands are removed."""
        if shape.words:
            words = [self._word(operation, attributes, key) for key in shape.words]
            return f" {words[0]}" if len(words) == 1 else f"[{', '.join(words)}]", ""
        values = tuple(value for part in shape.operands for value in operation.part(part))
        items = [self._use(value) for value in values]
        if shape.index:
            items[-1] += f"[{self._listed(operation.part(shape.index))}]"
        if isinstance(attributes.get(shape.address), int):
            items.append(f"@tile({attributes.pop(shape.address):#x})")
            values = values if operation.results else ()
        items += [f"{key} = [{self._listed(operation.part(key))}]" for key in shape.lists]
        keyed = [f" {key} = {self._listed(operation.part(key))}" for key in shape.keyed if operation.part(key)]
        operands = f" {', '.join(items)}" if items else ""
        if shape.only_result:
            signature = f" : {self._types(operation.results)}"
        else:
            signature = "" if shape.result else self._signature(values, operation.results)
        return "".join([operands, *keyed]), signature

    def _word(self, operation: Operation, attributes: dict[str, Any], key: str) -> str:
        if operation.part(key):
            return self._listed(operation.part(key))
        if key not in attributes:
            raise _problem(operation, f"{operation.name} has no {key}")
        return value_text(attributes.pop(key))

    def _arithmetic(self, operation: Operation, attributes: dict[str, Any]) -> tuple[str, str]:
        items = [self._use(value) for value in operation.ins]
        if operation.name == "arith.cmpi":
            items.insert(0, predicate_word(attributes.pop("predicate")))
        operand = operation.ins[-1].type if operation.ins else "index"
        result = operation.results[0].type if operation.results else operand
        is_cast = result != operand and operation.name != "arith.cmpi"
        return f" {', '.join(items)}", f" : {type_text(operand)}" + (f" to {type_text(result)}" if is_cast else "")

    def _general(self, operation: Operation, attributes: dict[str, Any]) -> tuple[str, str]:
        """The operands and the types of an operation without a syntax of its own. Destinations stay separate."""
        ins, outs = operation.ins, operation.outs
        operands, types = f" {self._listed(ins)}" if ins else "", ins
        if operation.name == "func.call":
            callee = attributes.pop("callee", "")
            if not isinstance(callee, str) or not _SYMBOL.fullmatch(callee):
                raise _problem(operation, f"a call of {brief(callee)} has no spelling")
            operands = f" @{callee}({self._listed(ins)})"
        elif outs or (ins and instruction_of(operation.name) is not None):
            groups = (("ins", ins), ("outs", outs))
            operands = "".join(f" {part}({self._listed(v)} : {self._types(v)})" for part, v in groups if v)
            types = ()
        more = [(key, values) for key, values in operation.parts.items() if key not in ("ins", "outs")]
        operands += "".join(f" {key} = [{self._listed(values)}]" for key, values in more)
        return operands, self._signature(types, operation.results)

    def _signature(self, values: Iterable[Value], results: tuple[Value, ...]) -> str:
        """` : (T, T) -> T`."""
        types, given = self._types(values), self._types(results)
        arrow = f" -> {given if len(results) == 1 else f'({given})'}" if results else ""
        return f" : ({types}){arrow}" if types or arrow else ""

    def _types(self, values: Iterable[Value]) -> str:
        """The types of values; a block has that of its view."""
        whole = (self.blocks[value][0] if value in self.blocks else value for value in values)
        return ", ".join(type_text(value.type) for value in whole)


# --- Literals and blocks at their use ----------------------------------------------------------------------------


def _inlined(body: Body) -> tuple[dict[Value, str], dict[Value, tuple[Value, tuple[Value, ...]]]]:
    """Numbers and blocks that are printed at their use: the text of a number; the view and indices of a block."""
    extents = KnownExtents()
    literals: dict[Value, str] = {}
    blocks: dict[Value, tuple[Value, tuple[Value, ...]]] = {}
    candidates: dict[Value, Operation] = {}
    named: set[Value] = set()
    for operation in walk(body):
        extents.note(operation)
        result = operation.results[0] if operation.results else None
        if result is not None and not result.name and operation.name == "arith.constant":
            literals[result] = constant_text(operation.attributes["value"], result.type)
        elif result is not None and not result.name and operation.name == "partition_view":
            candidates[result] = operation
        elif instruction_of(operation.name) is not None or operation.name not in SYNTAX:
            for value in (*operation.ins, *operation.outs):
                if value in candidates and _is_block(candidates[value], operation, extents):
                    made = candidates[value]
                    blocks[value] = made.part("view")[0], made.part("offsets")
                elif value in candidates:
                    named.add(value)
        if result is None or result not in candidates:
            named |= _must_have_names(operation)
    for value, operation in candidates.items():
        if value in named or value not in blocks:
            blocks.pop(value, None)
            named |= _must_have_names(operation)
    return {value: text for value, text in literals.items() if value not in named}, blocks


def _must_have_names(operation: Operation) -> set[Value]:
    """Operands that need a name: a literal would be read with another type."""
    if operation.name == "scf.if" or operation.name in STATIC:
        return {value for values in operation.parts.values() for value in values}
    found = set[Value](operation.ins[:1] if operation.name == "arith.select" else ())
    shape = SYNTAX.get(operation.name, Syntax(("ins", "outs")))
    for part, values in operation.parts.items():
        if operation.name == "scf.for" or shape.only_result or part not in shape.operands:
            found |= {value for value in values if value.type != DEFAULT_TYPES.get(part, "index")}
    return found


def _is_block(made: Operation, user: Operation, extents: KnownExtents) -> bool:
    """Whether the view with indices reads back as this block, at this use."""
    view, result = made.part("view")[0].type, made.results[0].type
    instruction = instruction_of(user.name)
    takes_table = instruction is not None and instruction.takes_table
    if takes_table or not isinstance(view, Tensor) or not isinstance(result, Tensor):
        return False
    tile = first_tile(*user.results, *user.outs, *user.ins)
    offsets, sizes = made.part("offsets"), made.part("sizes")
    if extents.block(view, tile) != tuple(map(extents.plain, sizes)) or len(offsets) != len(view.dims):
        return False
    return result == Tensor(extents.known(sizes), view.dtype) and all(offset.type == "index" for offset in offsets)


# --- Small parts -----------------------------------------------------------------------------------------------


def _is_implied(operation: Operation) -> bool:
    """Whether an operation is an empty terminator, which is not printed."""
    ends = operation.name in ("scf.yield", "func.return", "return")
    return ends and not operation.ins and not operation.comments and not operation.remark


def _problem(operation: Operation, message: str) -> ValueError:
    problem = ValueError(message)
    problem.where = operation.where  # type: ignore[attr-defined]
    return problem


def _dictionary(attributes: Mapping[str, Any]) -> str:
    return f" {attributes_text(attributes)}" if attributes else ""


def _has_one_destination(operation: Operation, instruction: Instruction) -> bool:
    """Whether an instruction has the operands of its plain spelling."""
    if set(operation.parts) - {"ins", "outs"} or len(operation.outs) + len(operation.results) != 1:
        return False
    return not moves_memory(instruction) or _is_one_memory(operation, instruction)


def _is_one_memory(operation: Operation, instruction: Instruction) -> bool:
    """Whether one operand is memory and all others are tiles, so that types identify them."""
    memory, tiles = operation.outs, operation.ins
    if instruction.operands[0].kind == "tile":
        memory, tiles = tiles, (*operation.outs, *operation.results)
    elif operation.results:
        return False
    needed = sum(not param.optional for param in instruction.operands) - 1
    is_tile = [isinstance(value.type, TileSpec) for value in tiles[:needed]]
    counted = len(memory) == 1 and needed <= len(tiles) < len(instruction.operands)
    return counted and isinstance(memory[0].type, Tensor) and all(is_tile)


def _take_suffixes(operation: Operation, instruction: Instruction, attributes: dict[str, Any]) -> str:
    """The opcode with its suffixes. Their attributes are removed."""
    known, implied = suffixes().get(operation.name, {}), defaults(instruction)
    missing = set(modes(instruction)) - attributes.keys()
    for modifier, text in instruction.attributes:
        if text.key in missing:  # the shapes of the operands may determine it
            member = default_of(instruction, modifier, [value.type for value in operation.ins])
            attributes |= {} if member is None else {text.key: text.written(member)}
    words = {word: key for word, (key, value) in known.items() if attributes.get(key) == value}
    chosen = {key: attributes.pop(key) for key in words.values()}
    return ".".join((operation.name, *(word for word, key in words.items() if implied.get(key) != chosen[key])))
