"""Ops of MLIR itself: modules, functions, control flow, arithmetic, and memory."""

from __future__ import annotations

from ptokit.text.cursor import OperandUse, braced
from ptokit.text.mlir.attributes import optional_location, string_attribute, symbol_text
from ptokit.text.mlir.ir import UNKNOWN, Attributes, Block, MlirAttribute, MlirOp, MlirRegion, OpForm, SsaValue, Type
from ptokit.text.mlir.parser import Parser
from ptokit.text.mlir.pieces import OpDraft, attribute_pieces, operand_parts, shape
from ptokit.text.mlir.shapes import Row
from ptokit.text.mlir.types import I1, INDEX, Ranked, Signature, function_type, outputs_text, signature_text, type_list
from ptokit.text.mlir.writer import Writer
from ptokit.text.ops import ARITHMETIC, BUILTIN_SHAPES

KNOWN = {
    "arith": f"{' '.join(ARITHMETIC)} constant addui_extended mulsi_extended mului_extended scaling_extf"
    " scaling_truncf",
    "scf": "condition execute_region for forall forall.in_parallel if index_switch parallel reduce reduce.return while"
    " yield",
    "func": "call call_indirect constant func return",
    "memref": "alloc alloca alloca_scope alloca_scope.return assume_alignment atomic_rmw atomic_yield cast"
    " collapse_shape copy dealloc dim distinct_objects dma_start dma_wait expand_shape extract_aligned_pointer_as_index"
    " extract_strided_metadata generic_atomic_rmw get_global global load memory_space_cast prefetch rank realloc"
    " reinterpret_cast reshape store subview transpose view",
}
"""The ops of dialects whose ops are known by name, so that a slip is noticed."""
OP_NAMES = tuple(f"{dialect}.{name}" for dialect, names in KNOWN.items() for name in names.split())
TERMINATORS = frozenset(
    ("func.return", "cf.br", "cf.cond_br", "scf.yield", "scf.condition", "scf.reduce.return", "affine.yield")
)
"""Ops that end a block."""


def _element(parts: dict[str, list[SsaValue]], _attributes: Attributes) -> Type:
    """The type of an element of a block of memory."""
    data = parts["ref"][0].type.data
    return data.element if isinstance(data, Ranked) else UNKNOWN


def _implied(name: str, _draft: OpDraft) -> Type | None:
    """The type of an operand that no shape says."""
    return I1 if name in ("c", "condition") else UNKNOWN if name == "value" else INDEX


RESULTS = {"memref.load": _element, "memref.dim": INDEX}


class _CheckedRow(Row):
    """A row whose operands without a written type have one that the op asks for."""

    def _untyped(self, c: Parser, draft: OpDraft, part: str, operand: OperandUse) -> SsaValue:
        return c.resolve(operand, self.types(part, draft) or UNKNOWN)


class ConstantForm:
    """`arith.constant`."""

    def read(self, c: Parser, name: str) -> MlirOp:
        attributes = c.dictionary()
        at, value = c.start, c.optional_attribute()
        if value is None:
            c.expected("a number, or a dense value")
        if value.type is None:
            c.fail("expected a number, or a dense value", at)
        return MlirOp(name, self, {}, [SsaValue(value.type)], attributes, {"value": value})

    def write(self, w: Writer, op: MlirOp) -> None:
        w.dictionary(op.attributes)
        w.add(f" {op.properties['value'].text}")


class ModuleForm:
    """`module @name attributes {...} {...}`."""

    def read(self, c: Parser, name: str) -> MlirOp:
        properties = {"sym_name": string_attribute(c.symbol())} if c.kind == "symbol" else {}
        attributes = keyword_attributes(c)
        with c.isolated(name):
            region = c.region()
        region.blocks = region.blocks or [Block()]
        return MlirOp(name, self, {}, [], attributes, properties, [region])

    def write(self, w: Writer, op: MlirOp) -> None:
        if "sym_name" in op.properties:
            w.add(f" {symbol_text(op.properties['sym_name'].value)}")
        w.dictionary(op.attributes, " attributes ")
        w.add(" ")
        w.region(op.regions[0])


class Func:
    """`func.func`. Attributes and locations of arguments are kept, in declarations as well."""

    def read(self, c: Parser, name: str) -> MlirOp:
        properties: Attributes = {}
        if c.word in ("public", "private", "nested"):
            properties["sym_visibility"] = string_attribute(c.advance())
        symbol = c.symbol()
        properties["sym_name"] = string_attribute(symbol)
        arguments = c.listed("(", lambda: self._argument(c))
        outputs = self._outputs(c)
        types, results = [type_ for _, type_, _, _ in arguments], [type_ for type_, _ in outputs]
        named = [(use, type_, place) for use, type_, place, _ in arguments if use is not None]
        if named and len(named) != len(arguments):
            c.fail("expected either all arguments to have names, or none")
        signature = Signature(tuple(types), tuple(results))
        properties["function_type"] = MlirAttribute(signature_text(types, results), signature)
        attributes = keyword_attributes(c)
        is_declared = c.word != "{"
        _note(
            properties,
            ARGUMENTS,
            [extra + (f" {place}" if place and is_declared else "") for _, _, place, extra in arguments],
        )
        _note(properties, OUTPUTS, [extra for _, extra in outputs])
        regions = [MlirRegion()]
        if not is_declared:
            with c.isolated():
                regions = [c.region(named, f"the function @{symbol}")]
        return MlirOp(name, self, {}, [], attributes, properties, regions)

    def _argument(self, c: Parser) -> tuple[OperandUse | None, Type, str, str]:
        """`%x: T {...} loc(...)`, or without the name."""
        use = None
        if c.kind == "value":
            use = c.operand()
            c.expect(":", " behind the name of an argument")
        kind, extra = self._typed(c)
        return use, kind, optional_location(c), extra

    def _outputs(self, c: Parser) -> list[tuple[Type, str]]:
        if not c.accept("->"):
            return []
        return c.listed("(", lambda: self._typed(c)) if c.word == "(" else [(c.type(), "")]

    def _typed(self, c: Parser) -> tuple[Type, str]:
        """`T {...}`."""
        type_, attributes = c.type(), c.dictionary()
        return type_, f" {braced(attributes)}" if attributes else ""

    def write(self, w: Writer, op: MlirOp) -> None:
        properties, blocks = op.properties, op.regions[0].blocks
        if "sym_visibility" in properties:
            w.add(f" {properties['sym_visibility'].value}")
        signature: Signature = properties["function_type"].value
        texts = _noted(op, ARGUMENTS, signature.inputs)
        if blocks:
            given = zip(blocks[0].arguments, texts, strict=False)
            texts = [f"{w.value(v)}: {text}{v.location and f' {v.location}'}" for v, text in given]
        w.add(f" {symbol_text(properties['sym_name'].value)}({', '.join(texts)})")
        if OUTPUTS in properties:
            w.add(f" -> ({', '.join(_noted(op, OUTPUTS, signature.outputs))})")
        elif signature.outputs:
            w.add(f" -> {outputs_text(signature.outputs)}")
        w.dictionary(op.attributes, " attributes ")
        if blocks:
            w.add(" ")
            w.region(op.regions[0], labelled=False)


ARGUMENTS, OUTPUTS = "$arguments", "$outputs"
"""Properties with the texts behind the types of arguments and results."""


def _note(properties: Attributes, name: str, texts: list[str]) -> None:
    if any(texts):
        properties[name] = MlirAttribute(repr(texts), texts)


def _noted(op: MlirOp, name: str, types: tuple[Type, ...]) -> list[str]:
    """Types, with the texts behind them."""
    texts = op.properties[name].value if name in op.properties else [""] * len(types)
    return [f"{type_.text}{text}" for type_, text in zip(types, texts, strict=True)]


def keyword_attributes(c: Parser) -> Attributes:
    """`attributes {...}`, if it is there."""
    if not c.accept("attributes"):
        return {}
    if c.word != "{":
        c.expected("`{`")
    return c.dictionary()


class For:
    """`scf.for %i = %a to %b step %c iter_args(%x = %y) -> (T) : i32 {...}`."""

    def read(self, c: Parser, name: str) -> MlirOp:
        variable = c.operand("a name, as in `%x`")
        c.expect("=")
        uses = [c.operand()]
        for word in ("to", "step"):
            c.expect(word)
            uses.append(c.operand())
        carried, kinds = _carried(c) if c.accept("iter_args") else ([], [])
        type_ = c.type() if c.accept(":") else INDEX
        bounds = [c.resolve(use, type_) for use in uses]
        initial = [c.resolve(use, of) for (_, use), of in zip(carried, kinds, strict=True)]
        arguments = [(variable, type_, ""), *((own, of, "") for (own, _), of in zip(carried, kinds, strict=True))]
        region = c.region(arguments, name, implied="" if kinds else "scf.yield")
        results = [SsaValue(of) for of in kinds]
        return MlirOp(name, self, {"ins": bounds + initial}, results, c.dictionary(), {}, [region])

    def write(self, w: Writer, op: MlirOp) -> None:
        variable, *carried = op.regions[0].blocks[0].arguments
        start, stop, step = map(w.value, op.part("ins")[:3])
        w.add(f" {w.value(variable)} = {start} to {stop} step {step}")
        if carried:
            w.add(f" iter_args({_pairs(w, carried, op.part('ins')[3:])})")
            w.add(f" -> ({', '.join(value.type.text for value in op.results)})")
        w.add(f" : {variable.type.text} " if variable.type != INDEX else " ")
        w.region(op.regions[0], labelled=False, implied=not carried)
        w.dictionary(op.attributes)


def _carried(c: Parser) -> tuple[list[tuple[OperandUse, OperandUse]], list[Type]]:
    """`(%x = %y, ...) -> (T, ...)`."""
    at = c.start
    carried = c.listed("(", lambda: _pair(c))
    c.expect("->")
    types = type_list(c)
    if len(types) != len(carried):
        c.fail(f"the loop carries {len(carried)} values, and has {len(types)} types for them", at)
    return carried, types


def _pair(c: Parser) -> tuple[OperandUse, OperandUse]:
    own = c.operand("a name, as in `%x`")
    c.expect("=")
    return own, c.operand()


def _pairs(w: Writer, own: list[SsaValue], given: list[SsaValue]) -> str:
    return ", ".join(f"{w.value(a)} = {w.value(b)}" for a, b in zip(own, given, strict=True))


class If:
    """`scf.if %c -> (T) {...} else {...}`; the brackets around a single result type may be missing."""

    def read(self, c: Parser, name: str) -> MlirOp:
        condition = c.resolve(c.operand(), I1)
        types = type_list(c) if c.accept("->") else []
        implied = "" if types else "scf.yield"
        regions = [c.region([], name, implied=implied)]
        if c.word == "else":
            c.advance()
            regions.append(c.region([], name, implied=implied))
        elif types:
            c.expected("`else`: the branch has results")
        else:
            regions.append(MlirRegion())
        return MlirOp(name, self, {"ins": [condition]}, [SsaValue(k) for k in types], c.dictionary(), {}, regions)

    def write(self, w: Writer, op: MlirOp) -> None:
        w.add(f" {w.value(op.part('ins')[0])} ")
        if op.results:
            w.add(f"-> ({', '.join(value.type.text for value in op.results)}) ")
        w.region(op.regions[0], labelled=False, implied=not op.results)
        if op.regions[1].blocks:
            w.add(" else ")
            w.region(op.regions[1], labelled=False, implied=not op.results)
        w.dictionary(op.attributes)


class While:
    """`scf.while (%a = %b) : (T) -> U {...} do {...} attributes {...}`, also without arguments."""

    def read(self, c: Parser, name: str) -> MlirOp:
        carried = c.listed("(", lambda: _pair(c)) if c.word == "(" else []
        c.expect(":")
        at, signature = c.start, function_type(c).data
        if len(signature.inputs) != len(carried):
            count = len(signature.inputs)
            c.fail(f"expected {count} arguments before the type, as in `(%a = %b)`; found {len(carried)}", at)
        initial = [c.resolve(use, type_) for (_, use), type_ in zip(carried, signature.inputs, strict=True)]
        arguments = [(own, type_, "") for (own, _), type_ in zip(carried, signature.inputs, strict=True)]
        before = c.region(arguments, name)
        c.expect("do")
        after = c.region(None, name)
        results = [SsaValue(type_) for type_ in signature.outputs]
        return MlirOp(name, self, {"ins": initial}, results, keyword_attributes(c), {}, [before, after])

    def write(self, w: Writer, op: MlirOp) -> None:
        initial, outputs = op.part("ins"), [value.type for value in op.results]
        own = op.regions[0].blocks[0].arguments
        w.add(f" ({_pairs(w, own, initial)})" if initial else "")
        w.add(f" : {signature_text([value.type for value in initial], outputs)} ")
        w.region(op.regions[0], labelled=False)
        w.add(" do ")
        w.region(op.regions[1])
        w.dictionary(op.attributes, " attributes ")


FORMS: dict[str, OpForm] = {
    **{name: _CheckedRow(shape(text), _implied, RESULTS.get(name)) for name, text in BUILTIN_SHAPES.items()},
    "arith.constant": ConstantForm(),
    "builtin.module": ModuleForm(),
    "func.func": Func(),
    "scf.for": For(),
    "scf.if": If(),
    "scf.while": While(),
}
"""What reads and prints each op of MLIR that is known here."""


def settle_builtin(op: MlirOp) -> None:
    """Give an op in the generic form its own form, where that says all of it."""
    properties, attributes, form = op.properties, op.attributes, FORMS.get(op.name)
    if op.name == "builtin.module" and len(op.regions) == 1 and not op.results and len(op.regions[0].blocks) < 2:
        if set(properties) <= {"sym_name"} and not op.parts:
            op.form = form
    elif op.name == "func.func" and len(op.regions) == 1 and _is_function(op):
        op.form = form
    elif op.name == "arith.constant" and len(op.results) == 1 and not op.operands and not op.regions:
        value = properties.get("value") or attributes.get("value")
        if value is not None and value.type == op.results[0].type and set(properties) <= {"value"}:
            op.form, op.properties = form, {"value": value}
            attributes.pop("value", None)
    elif isinstance(form, Row) and not (properties or op.regions or op.successors):
        parts = operand_parts(form.pieces, op.operands)
        is_end = op.name in ("func.return", "scf.yield") and not op.results
        if parts is not None and (is_end or _is_arithmetic(op, form)):
            op.form, op.parts = form, parts


def _is_arithmetic(op: MlirOp, row: Row) -> bool:
    """Whether an op is arithmetic on operands of one type, without attributes, so that its own form says all of it."""
    is_plain = op.name.startswith("arith.") and not op.attributes and not any(attribute_pieces(row.pieces))
    types = {value.type for value in (*op.operands[-2:], *op.results)}
    return is_plain and len(op.results) == 1 and (len(types) == 1 or "to R" in BUILTIN_SHAPES[op.name])


def _is_function(op: MlirOp) -> bool:
    """Whether a function in the generic form has the type of its body, and nothing that its own form cannot say."""
    known = {"sym_name", "function_type", "sym_visibility"}
    for name in known & set(op.attributes):
        op.properties[name] = op.attributes.pop(name)
    kind = op.properties.get("function_type")
    if kind is None or "sym_name" not in op.properties or not isinstance(kind.value, Signature):
        return False
    blocks = op.regions[0].blocks
    if blocks and tuple(value.type for value in blocks[0].arguments) != kind.value.inputs:
        raise ValueError("the type of the function is not that of its body")
    return set(op.properties) <= known and isinstance(op.properties["sym_name"].value, str)
