"""Statements of PTO-AS as operations: opcodes are resolved, operands grouped."""

from __future__ import annotations

from typing import Any, NoReturn

from ptokit.isa.instruction import Instruction
from ptokit.isa.opaque import row_of_op
from ptokit.isa.operand import TileSpec
from ptokit.text.errors import choices, guess
from ptokit.text.limits import MAX_DEPTH
from ptokit.text.numbers import PREDICATES
from ptokit.text.ptoas.scope import PENDING, KernelScope, OpenBody
from ptokit.text.ptoas.shapes import (
    ARITY,
    BLOCKS,
    DEFAULT_TYPES,
    KEYWORDS,
    STATIC,
    SYNTAX,
    Syntax,
    first_tile,
    moves_memory,
    opcode,
    renamed,
)
from ptokit.text.ptoas.statement import WORDLIKE, Draft, RawItem, TypeAt
from ptokit.text.ptoas.types import Placeholder
from ptokit.text.spelling import EVENTS, PIPES, instruction_of, modes, result_type
from ptokit.text.tree import Body, Opaque, Operation, Pointer, Tensor, Type, Value

LONGEST = 100
"""The longest opcode, in characters."""
MOST_DIMS = 5
"""Dims of a view whose blocks are written with indices: each index and extent becomes a constant."""
MEMORY_TYPES = ("memref", "partition_tensor_view")
"""Placeholder types of memory."""


class Builder(KernelScope):
    """Builds the operations of one kernel."""

    def build(self, draft: Draft) -> Operation:
        """The operation of a statement, appended to the current body."""
        name, attributes = self._opcode(draft)
        if name in BLOCKS:
            return self._block(draft, name, attributes)
        is_grouped = bool(draft.groups) and row_of_op(name) is not None
        if (name in STATIC or name in SYNTAX) and not is_grouped:
            return self._shaped(draft, STATIC.get(name, name), attributes)
        if name.startswith("arith."):
            return self._arithmetic(draft, name, attributes)
        instruction = instruction_of(name)
        if instruction is not None and self._is_communication(draft):
            return self._general(draft, f"comm.{name}", None, attributes)
        return self._general(draft, name, instruction, attributes)

    def _opcode(self, draft: Draft) -> tuple[str, dict[str, Any]]:
        """The name of an operation, and its attributes: those of suffixes, and explicit ones."""
        if len(draft.opcode) > LONGEST:
            self.fail(f"an opcode of {len(draft.opcode)} characters", draft.start)
        name, implied, problem, rest = opcode(draft.opcode)
        if problem:
            self.fail(problem, draft.start + len(draft.opcode) - rest)
        attributes: dict[str, Any] = dict(implied)
        clauses = {} if name in SYNTAX else _words(draft)
        for short, written in (*draft.attributes.items(), *clauses.items()):
            key, value = renamed(name, short, written)
            at = draft.places[key] = draft.places[short]
            if key in attributes:
                self.fail(f"`{key}` is given twice, by a suffix or by an attribute", at)
            attributes[key] = value
        return name, attributes

    # --- Operations that are not instructions -----------------------------------------------------------------------

    def _shaped(self, draft: Draft, name: str, attributes: dict[str, Any]) -> Operation:
        shape = SYNTAX[name]
        self._expect_results(draft, name, shape.results)
        if shape.words:
            return self._worded(draft, name, shape, attributes)
        items, types = list(draft.operands), list(draft.types)
        if shape.address and len(items) == 2 and items[1].is_number:
            attributes[shape.address] = self.number(items.pop(), "i64")
            del types[1:]
        elif len(items) != len(shape.operands):
            names = ", ".join(shape.operands) or "none"
            self.fail(f"{name} takes {len(shape.operands)} operands ({names}), found {len(items)}", draft.start)
        if (shape.only_result or not items) and draft.result_types is None:
            draft.result_types, types = types, []
        known = [written for written in types[: len(items)] if written.type != Placeholder("number", "dtype")]
        values = self.values(items, known, spread=False, declare=bool(shape.address))
        parts: dict[str, tuple[Value, ...]] = {}
        parts |= {part: (value,) for part, value in zip(shape.operands, values, strict=False)}
        if shape.index:
            parts[shape.index] = self.indices(items[-1])
            if len(parts[shape.index]) != 1:
                self.fail(f"{name} takes one index, as in `{items[-1].text}[%i]`", items[-1].start)
        elif items and items[-1].indices is not None:
            self.fail(f"{name} takes no `[...]`", items[-1].start)
        parts |= self._keyed(draft, name, shape)
        kind = self._shaped_result(name, shape, parts)
        return self.emit(name, parts, self._results(draft, [kind] if kind is not None else None), attributes)

    def _keyed(self, draft: Draft, name: str, shape: Syntax) -> dict[str, tuple[Value, ...]]:
        known = (*shape.lists, *shape.keyed)
        for key, items in draft.keyed.items():
            if key not in known:
                message = f"{name} has no `{key}`, " + (f"expected: {choices(key, known)}" if known else "it has none")
                self.fail(message + guess(key, known), items[0].start if items else draft.start)
        for key in shape.lists:
            if key not in draft.keyed:
                self.fail(f"{name} needs `{key} = [...]`", draft.start)
        return {
            key: tuple(self.value(item, None, DEFAULT_TYPES.get(key, "index")) for item in draft.keyed[key])
            for key in known
            if key in draft.keyed
        }

    def _shaped_result(self, name: str, shape: Syntax, parts: dict[str, tuple[Value, ...]]) -> Type | None:
        """The type of a result without an explicit type."""
        if shape.result:
            return shape.result
        if shape.like:
            return parts[shape.like][0].type
        source = parts[shape.operands[0]][0].type if shape.operands else None
        if name in ("load_scalar", "load") and isinstance(source, Pointer):
            return source.dtype.mlir
        if name == "make_tensor_view" and isinstance(source, Pointer):
            return Tensor(self.extents.known(parts["shape"]), source.dtype, is_part=False)
        if name == "partition_view" and isinstance(source, Tensor):
            return Tensor(self.extents.known(parts["sizes"]), source.dtype)
        return None

    def _worded(self, draft: Draft, name: str, shape: Syntax, attributes: dict[str, Any]) -> Operation:
        """`set_flag[PIPE_MTE2, PIPE_V, EVENT_ID0]`, with or without brackets; the event may be a value."""
        items = draft.operands
        self._keyed(draft, name, shape)
        if len(items) != len(shape.words):
            self.fail(f"{name} takes {', '.join(shape.words)}; found {len(items)} of them", draft.start)
        parts: dict[str, tuple[Value, ...]] = {}
        for key, item in zip(shape.words, items, strict=True):
            if item.kind == "value" and key == "event_id" and shape.dynamic:
                parts[key] = (self.value(item, TypeAt("index", item.start)),)
                name = shape.dynamic
            elif item.kind == "number" and key == "event_id" and shape.dynamic == name:
                attributes[key] = int(item.text, 0)
            else:
                attributes[key] = self._keyword(key, item)
        return self.emit(name, parts, (), attributes)

    def _keyword(self, key: str, item: RawItem) -> str:
        known = KEYWORDS.get(key, ())
        word = f"EVENT_ID{item.text}" if item.kind == "number" and known is EVENTS else item.text
        if item.kind not in WORDLIKE and word == item.text:
            self.fail(f"expected a word for {key}, found `{item.text}`", item.start)
        if known is PIPES and f"PIPE_{word}" in known:
            word = f"PIPE_{word}"
        if known and word not in known:
            what = "pipe" if known is PIPES else "event"
            self.tokens.fail_word(f"unknown {what} `{word}`", word, known, item.start)
        return word

    # --- Numbers, loops, branches ---------------------------------------------------------------------------------

    def _arithmetic(self, draft: Draft, name: str, attributes: dict[str, Any]) -> Operation:
        if name == "arith.constant":
            return self._arith_constant(draft)
        self._expect_results(draft, name, (1,))
        self._keyed(draft, name, Syntax())
        items, result = draft.operands, ""
        if name == "arith.cmpi":
            word, *items = items or [RawItem("bare", "", draft.start)]
            if word.text not in PREDICATES:
                self.tokens.fail_word(f"unknown comparison `{word.text}`", word.text, PREDICATES, word.start)
            attributes["predicate"], result = word.text, "i1"
        if len(items) != (arity := ARITY.get(name, len(items))):
            self.fail(f"{name} takes {arity} operands, found {len(items)}", draft.start)
        written = draft.types[0] if draft.types else None
        is_choice = name == "arith.select"
        values = [
            self.value(item, TypeAt("i1", item.start) if is_choice and not at else written)
            for at, item in enumerate(items)
        ]
        operand = written.type if written else values[-1].type if values else "index"
        types = (*(given.type for given in (draft.result_types or ())[:1]), result or operand, "index")
        draft.result_types = None
        type_ = next(type_ for type_ in types if not isinstance(type_, Placeholder))
        return self.emit(name, {"ins": tuple(values)}, self._results(draft, [type_]), attributes)

    def _arith_constant(self, draft: Draft) -> Operation:
        if len(draft.operands) != 1 or len(draft.results) != 1:
            self.fail("expected a result and a number, as in `%c = arith.constant 16 : index`", draft.start)
        written = draft.types[0] if draft.types else TypeAt("index", draft.start)
        return self.constant(draft.operands[0], written, draft.results[0])

    def _block(self, draft: Draft, name: str, attributes: dict[str, Any]) -> Operation:
        """A loop, a branch or a section: its body is read next."""
        if len(self.frames) > MAX_DEPTH:
            self.fail(f"nested more than {MAX_DEPTH} deep", draft.start)
        condition = TypeAt("i1", draft.start) if name == "scf.if" else None
        values = tuple(self.value(item, condition) for item in draft.operands)
        carried = [value.type for value in values[3:]] if name == "scf.for" else []
        self._expect_results(draft, name, (len(draft.result_types or carried),))
        results = self._results(draft, carried)
        operation = self.emit(name, {"ins": values}, results, attributes)
        operation.bodies = (Body(), Body()) if name == "scf.if" else (Body(),)
        self.frames.append(OpenBody(operation.bodies[0], {}, operation))
        types = [value.type for value in (*values[:1], *values[3:])] if draft.arguments else []
        arguments = zip(draft.arguments, types, strict=True)
        operation.bodies[0].arguments = tuple(self.define(item, kind) for item, kind in arguments)
        return operation

    # --- Instructions ---------------------------------------------------------------------------------------------

    def _is_communication(self, draft: Draft) -> bool:
        """Whether an operation between cores has an instruction's name: its first operand is a group."""
        named = draft.operands and draft.operands[0].kind == "value"
        first = self.lookup(draft.operands[0].name) if named else None
        type_ = first.type if first is not None else draft.types[0].type if draft.types else None
        return isinstance(type_, Opaque) and type_.text.startswith("!pto.group")

    def _general(
        self, draft: Draft, name: str, instruction: Instruction | None, attributes: dict[str, Any]
    ) -> Operation:
        """An instruction, or an operation without a meaning here: values are operands, words are attributes."""
        if instruction is None:
            self._take_words(draft, name, attributes)
        items, types = self._flat(draft)
        results: tuple[Value, ...] = ()
        if instruction is None or draft.groups or draft.results:
            ins = self.values(items, types, spread=True)
            outs = self.values(draft.outs or [], draft.out_types, spread=True, declare=1)
        elif moves_memory(instruction):
            is_bare = not attributes.keys() >= set(modes(instruction))
            outs, ins = self._moved(instruction, items, types, is_bare=is_bare)
        elif items:
            first, *ins = self.values(items, types, spread=True, declare=1)
            outs = [first]
        else:
            self.fail(f"{draft.opcode} has no operands", draft.start)
        if instruction is not None and draft.results:
            results, written = self._instruction_results(draft, name, ins, attributes)
            outs += written
        elif instruction is not None:
            for written_type, value in zip(draft.result_types or (), outs, strict=False):
                self.agree(value, written_type)
        tile = first_tile(*results, *outs, *ins)
        parts = {"ins": self._blocks(draft, name, ins, tile), "outs": self._blocks(draft, name, outs, tile)}
        parts |= {key: tuple(self.value(item, None) for item in items) for key, items in draft.keyed.items()}
        if instruction is None:
            results = self._results(draft, None if draft.results else [])
        return self.emit(name, parts, results, attributes)

    def _take_words(self, draft: Draft, name: str, attributes: dict[str, Any]) -> None:
        """Make the words among the operands attributes, and types without operands those of results."""
        words: dict[str, list[str]] = {}
        for item in draft.operands:
            if item.kind in WORDLIKE:
                words.setdefault(item.key or "words", []).append(item.text)
        draft.operands = [item for item in draft.operands if item.kind not in WORDLIKE]
        if draft.operands and draft.operands[0].kind == "symbol":
            attributes["callee"] = draft.operands.pop(0).text[1:]
        if name == "func.call" and not attributes.get("callee"):
            self.fail("expected the name of a kernel, as in `call @name(%x)`", draft.start)
        if not draft.operands and draft.result_types is None:
            draft.result_types, draft.types = draft.types or None, []
        attributes |= {key: found if len(found) > 1 else found[0] for key, found in words.items()}

    def _flat(self, draft: Draft) -> tuple[list[RawItem], list[TypeAt]]:
        """Operands and their types. Types of indices, if the list has them, are separated."""
        items, types = list(draft.operands), list(draft.types)
        indices = sum(len(item.indices or ()) for item in items)
        if not indices or len(types) != len(items) + indices:
            return items, types
        own: list[TypeAt] = []
        for item in items:
            own.append(types.pop(0))
            if item.indices:
                self.value(item, own[-1])
            for index in item.indices or ():
                written = types.pop(0)
                if not index.is_number:
                    self.value(index, written)
        return items, own

    def _moved(
        self, instruction: Instruction, items: list[RawItem], types: list[TypeAt], *, is_bare: bool
    ) -> tuple[list[Value], list[Value]]:
        """Destination and sources of an instruction whose operands stand in several orders (A-24)."""
        *names, last = needed = [param.name for param in instruction.operands if not param.optional]
        if not len(needed) <= len(items) <= len(instruction.operands):
            start = items[0].start if items else self.tokens.start
            expected = f"{', '.join(names)} and {last}"
            self.fail(f"{instruction.op} takes {expected}, found {len(items)} operands", start)
        is_first = bool(modes(instruction)) and not is_bare
        memory = self._memory_of(items, types, is_bare=is_bare, is_first=is_first)
        memory_type = next((written for written in types if _is_memory(written.type)), None)
        others = [item for at, item in enumerate(items) if at != memory]
        kinds = [written for written in types if written is not memory_type]
        if len(kinds) not in (0, 1, len(others)):
            self.fail(f"{len(types)} types for {len(items)} operands", types[-1].start)
        writes_memory = instruction.operands[0].kind == "memory"
        tiles = self.values(others, kinds, spread=True, declare=not writes_memory)
        place = self.values([items[memory]], [memory_type] if memory_type else [], spread=True)
        return (place, tiles) if writes_memory else (tiles, place)

    def _memory_of(self, items: list[RawItem], types: list[TypeAt], *, is_bare: bool, is_first: bool) -> int:
        """Which operand is memory, by its value, else by its type, else by convention.

        An opcode with its mode has memory first. One without it, as in the documents, has memory second, and its type
        first.
        """
        for at, item in enumerate(items):
            value = self.lookup(item.name) if item.kind == "value" else None
            if value is not None and _is_memory(value.type):
                return at
        for at, written in enumerate(types if len(types) == len(items) else ()):
            if _is_memory(written.type):
                return 1 if is_bare and at == 0 else at
        return 0 if is_first else 1

    def _instruction_results(
        self, draft: Draft, name: str, ins: list[Value], attributes: dict[str, Any]
    ) -> tuple[tuple[Value, ...], list[Value]]:
        """The results of an instruction. A name that is a tile already is a destination."""
        item, *more = draft.results
        known = self.lookup(item.name)
        if not more and known is not None and (known.type is PENDING or isinstance(known.type, TileSpec)):
            for written in draft.result_types or ():
                self.agree(known, written)
            if known.type is PENDING:
                known.type = self._inferred(draft, name, ins, attributes)
            return (), [known]
        given = draft.result_types or []
        if given and not isinstance(given[0].type, Placeholder):
            return self._results(draft, None), []
        kind = self._inferred(draft, name, ins, attributes)
        draft.result_types = None
        return self._results(draft, [kind]), []

    def _inferred(self, draft: Draft, name: str, ins: list[Value], attributes: dict[str, Any]) -> Type:
        """The type of a result that the text does not give."""
        return result_type(name, [value.type for value in ins], attributes) or self._untyped(draft)

    # --- Results and blocks ---------------------------------------------------------------------------------------

    def _expect_results(self, draft: Draft, name: str, counts: tuple[int, ...]) -> None:
        """Refuse a statement with more or fewer results than its operation has, or with destinations."""
        if len(draft.results) not in counts:
            count = f"{counts[-1] or 'no'} result{'s' if counts[-1] != 1 else ''}"
            self.fail(f"{name} has {count}, and {len(draft.results)} are named", draft.start)
        if draft.outs:
            self.fail(f"{name} has no outs(...)", draft.outs[0].start)

    def _untyped(self, draft: Draft) -> NoReturn:
        item = draft.results[0]
        for written in draft.result_types or ():
            self.known_type(item.text, written)
        message = f"the type of {item.text} is not known; write it at the end"
        self.fail(f"{message}, as in `-> !pto.tile<16x32xf32>`", item.start)

    def _results(self, draft: Draft, kinds: list[Type] | None) -> tuple[Value, ...]:
        """The results of an operation, with the types behind the arrow, else with these."""
        given = draft.result_types
        if given:
            kinds = []
            for position, written in enumerate(given):
                name = draft.results[position].text if position < len(draft.results) else "the result"
                kinds.append(self.known_type(name, written))
        if not draft.results:
            return ()
        if kinds is None:
            self._untyped(draft)
        if len(kinds) != len(draft.results):
            self.fail(f"{len(draft.results)} results and {len(kinds)} types of results", draft.results[0].start)
        return tuple(self.define(item, type_) for item, type_ in zip(draft.results, kinds, strict=True))

    def _blocks(self, draft: Draft, name: str, values: list[Value], tile: Value | None) -> tuple[Value, ...]:
        """The operands, with a block of a view for each that has indices."""
        indexed = {item.name: item for item in (*draft.operands, *(draft.outs or ())) if item.indices is not None}
        blocks = {
            value.name: self._part(name, value, indexed[value.name], tile) for value in values if value.name in indexed
        }
        return tuple(blocks.get(value.name, value) for value in values)

    def _part(self, name: str, view: Value, item: RawItem, tile: Value | None) -> Value:
        """The block of a view that starts at some indices and is as large as the valid region of a tile."""
        if not isinstance(view.type, Tensor):
            message = f"the type of {item.text} is not known"
            self.fail(f"{message}; declare it: `.arg {item.text} : !pto.memref<RxCxf32>`", item.start)
        instruction = instruction_of(name)
        if instruction is not None and instruction.takes_table:
            self.fail(f"{name} takes a whole table, not a block; make a block with partition_view", item.start)
        indices = self.indices(item)
        rank = len(view.type.dims)
        if rank > MOST_DIMS:
            self.fail(f"a block of a view has up to {MOST_DIMS} dims; {item.text} has {rank}", item.start)
        if len(indices) > rank:
            self.fail(f"{len(indices)} indices for the {rank} dims of {item.text}", item.start)
        sizes = self.extents.block(view.type, tile)
        if sizes is None:
            self.fail(f"the size of the block {item.text}[...] is not known; {_advice(tile)}", item.start)
        zeros = [self.index(0) for _ in range(rank - len(indices))]
        values = tuple(self.index(size) if isinstance(size, int) else size for size in sizes)
        result = Value("", Tensor(self.extents.known(values), view.type.dtype))
        parts = {"view": (view,), "offsets": (*zeros, *indices), "sizes": values}
        operation = self.emit("partition_view", parts, (result,))
        operation.where = self.source.where(item.start)
        return result


# --- Small parts -----------------------------------------------------------------------------------------------


def _words(draft: Draft) -> dict[str, Any]:
    """Attributes that are written `key = word` behind the operands. They are removed from the draft."""
    found = {key: items for key, items in draft.keyed.items() if all(item.kind in WORDLIKE for item in items)}
    draft.keyed = {key: items for key, items in draft.keyed.items() if key not in found}
    return {key: items[0].text if len(items) == 1 else [item.text for item in items] for key, items in found.items()}


def _is_memory(kind: object) -> bool:
    return isinstance(kind, Tensor | Pointer) or (isinstance(kind, Placeholder) and kind.kind in MEMORY_TYPES)


def _advice(tile: Value | None) -> str:
    if tile is None:
        return "an operation on a block has a tile"
    if isinstance(tile.type, TileSpec) and any(tile.type.dynamic):
        return f"declare the tile first: `%{tile.name} = alloc_tile valid_row = %rows valid_col = %cols : ...`"
    return "make it with partition_view"
