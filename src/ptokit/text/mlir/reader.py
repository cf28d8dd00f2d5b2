"""Text to operations: xDSL's parser with the dialect `pto`, exact names, and errors for people."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, TypeVar

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    LocationAttr,
    ModuleOp,
    UnitAttr,
    UnregisteredAttr,
    UnregisteredOp,
    f64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.scf import IfOp, WhileOp
from xdsl.ir import (
    Attribute,
    Block,
    BuiltinAttribute,
    Data,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
    TypeAttribute,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.parser.generic_parser import ParserState
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRToken, MLIRTokenKind

from ptokit.text.errors import guess
from ptokit.text.mlir.attributes import KEYWORD_CLASSES
from ptokit.text.mlir.comments import Collector, find_remarks
from ptokit.text.mlir.dialect import PTO, op_class, rows, settle_generic, usage
from ptokit.text.mlir.floats import Constant, Element, FloatLiteral, float_attribute, with_bits
from ptokit.text.mlir.func import Func, If, While
from ptokit.text.mlir.lexer import Lexer
from ptokit.text.mlir.loose import loose_class
from ptokit.text.mlir.ops import PtoOp
from ptokit.text.mlir.types import ELEMENTS, TYPES, UNKNOWN

Number = TypeVar("Number", bound=Attribute)

REPLACED: dict[type[Operation], type[Operation]] = {ConstantOp: Constant, FuncOp: Func, IfOp: If, WhileOp: While}
"""Ops that are read and printed by classes of ours."""

DIALECTS = ("builtin", "func", "arith", "scf", "memref", "cf", "affine", "math", "tensor", "vector", "linalg")
"""Dialects that are read in their own form; ops of others only in the generic form."""

MAX_DENSE = 1 << 20
"""Most elements of a dense value."""

_NUMBER = re.compile(r"-?\s*(?:0[xX][0-9A-Fa-f]+|[0-9]+(?P<fraction>\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)")
_SHORT = 15
"""Digits of a whole number that every type holds."""
_BODY = re.compile(r'<[^<>"/]{0,400}>')
_ALIAS = re.compile(r"^[#!][A-Za-z_$][A-Za-z0-9_$]*[ \t]*=", re.MULTILINE)
_LINE_BREAK = re.compile(r"[ \t\r]*\n\s*")
_RESOURCES = re.compile(r'\{-#(?:[^"#]|"(?:[^"\\\n]|\\.)*"|#(?!-\}))*+#-\}')
_UNMARKED = re.compile(r"pto\.(?:tile|tile_buf|partition_tensor_view|tensor_view|ptr|memref)<")

SPELLED = ("arith", "scf", "func", "memref")
"""Dialects whose ops are known by name, so that a slip is noticed."""
MORE_OPS = {
    "arith": "index_castui remf scaling_extf scaling_truncf",
    "scf": "forall forall.in_parallel reduce.return",
    "func": "constant call_indirect",
    "memref": "assume_alignment atomic_yield distinct_objects generic_atomic_rmw prefetch realloc reshape transpose",
}
"""Ops of these dialects that xDSL does not have."""
FLAGGED = {
    "arith.cmpi", "arith.divsi", "arith.divui", "arith.extf", "arith.extui", "arith.index_cast", "arith.shrsi",
    "arith.shrui", "arith.truncf", "arith.trunci", "arith.uitofp",
}  # fmt: skip
"""Ops with flags or attributes that xDSL does not read."""
_FLAGS = re.compile(
    r"[^:\n{]*?(?:\b(?:overflow|fastmath)<|\b(?:nneg|exact|to_nearest_even|to_nearest_away|downward|upward|toward_zero)\b|\{)"
)


class Verbatim(Data[str], BuiltinAttribute):
    """An attribute in a form that xDSL does not read, for instance a location: kept as it is written."""

    name = "pto.verbatim"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        parser.raise_error("what is kept as it is written has no name")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)

    def print_builtin(self, printer: Printer) -> None:
        printer.print_string(self.data)


@cache
def context() -> Context:
    """What knows the dialects around `pto`, and `pto` itself: one for all texts, so that their types compare."""
    known = get_all_dialects()
    ctx = Context(allow_unregistered=True)
    for name in DIALECTS:
        ctx.register_dialect(name, known[name])
    ctx.load_registered_dialect("builtin")
    ctx.load_dialect(PTO)
    return ctx


class Scope(dict[str, tuple[SSAValue, ...]]):
    """Values by name. Names are only ever added, so a copy is no more than the number of them."""

    def copy(self) -> int:  # type: ignore[override]
        return len(self)


class Reader(Parser):
    """Reads one text. Afterwards `names` has the name of every value, and `offsets` where every op starts."""

    def __init__(self, text: str, file: str, arch: str) -> None:
        self._scope = Scope()
        super().__init__(context(), "", file)
        text, remarks = find_remarks(text)
        self._collector = Collector(text, remarks)
        self.comments = self._collector.comments
        self._parser_state = ParserState(Lexer(Input(text, file)))
        self.arch = arch
        self.names: dict[SSAValue, str] = {}
        self.offsets: dict[Operation, int] = {}
        self.unknown = self.reading = ""
        self.bound = 0
        """How many results the op has that is read."""
        self.started: list[int] = []
        """Where the ops start that are read, from the outermost in."""
        self.resources: list[str] = []
        self.first_use: dict[str, int] = {}
        self._entries: dict[str, int] = {}
        self._types: dict[str, TypeAttribute] = {}
        self._aliases: set[int] = set()
        self._elements: list[Element] = []
        """Elements of the dense value that is read."""
        self._read_aliases(text)

    @property
    def ssa_values(self) -> Scope:  # type: ignore[override]
        """Values by name, where the text is read; xDSL would copy them all for every region."""
        return self._scope

    @ssa_values.setter
    def ssa_values(self, values: dict[str, tuple[SSAValue, ...]] | int) -> None:  # type: ignore[override]
        known = values if isinstance(values, int) else len(values)
        while len(self._scope) > known:
            self._scope.popitem()

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """The whole text. An empty one is an empty module."""
        if self._current_token.kind is MLIRTokenKind.EOF:
            module = ModuleOp([])
        else:
            module = super().parse_module(allow_implicit_module)
        self._collector.finish()
        return module

    def _read_aliases(self, text: str) -> None:
        """Aliases first: those of locations are defined at the end of a file."""
        for found in _ALIAS.finditer(text):
            self._resume_from(found.start())
            super()._parse_alias_def()
            self._aliases.add(found.start())
        self._resume_from(0)

    def _parse_alias_def(self) -> None:
        if self.pos not in self._aliases:
            return super()._parse_alias_def()
        self._consume_token()
        self.parse_punctuation("=")
        self.parse_attribute()
        return None

    def parse_operation(self) -> Operation:
        start = self.pos
        self.started.append(start)
        outer = self._collector.enter(start)
        op = super().parse_operation()
        self._collector.leave(op, outer, self.pos)
        self.offsets[op] = self.started.pop()
        self.unknown = self.reading = ""
        return op

    def parse_optional_region(self, arguments: Iterable[Parser.Argument] | None = None) -> Region | None:
        """A region, with its comments."""
        start = self.pos
        if self._current_token.text != "{":
            return None
        opening = self._collector.open(start)
        region = super().parse_optional_region(arguments)
        if region is not None:
            self._collector.close(region, opening, self.lexer.input.content.find("}", start))
        return region

    def _parse_block(self) -> Block:
        if self._current_token.kind is not MLIRTokenKind.CARET_IDENT:
            end = self._current_token.kind is MLIRTokenKind.EOF
            self.raise_error("expected `}`: the text ends in a body" if end else "expected an operation or `}`")
        before = self._collector.label(self.pos)
        block = super()._parse_block()
        if before:
            self.comments.before[block] = before
        return block

    def _parse_block_body(self, block: Block) -> None:
        self._collector.start_block()
        super()._parse_block_body(block)
        self._collector.end_block(self.pos, last=self._current_token.text == "}")

    def _get_op_by_name(self, name: str) -> type[Operation]:
        text = self.lexer.input.content
        at = text.rfind(name, 0, self.pos)
        generic = text.startswith('"', at + len(name))
        short = name.removeprefix("pto.")
        self.reading = short if short != name else ""
        if short != name:
            self.unknown = "" if short in rows() else short
            return op_class(short)
        dialects = reversed(self._parser_state.dialect_stack)
        for known in (name, *(f"{dialect}.{name}" for dialect in dialects)):
            if (found := self.ctx._get_known_op(known)) is not None:
                return REPLACED.get(found, found) if generic or self._is_readable(found) else loose_class(name)
        if generic:
            return _unregistered(name)
        self._demand_spelling(name, at)
        return loose_class(name)

    def _demand_spelling(self, name: str, at: int) -> None:
        """An op that nobody knows is kept as it is written, unless its name looks like a slip."""
        if name in ("return", "call"):
            self.raise_error(f"`{name}` stands outside of a function", at)
        dialect, dot, rest = name.partition(".")
        near = difflib.get_close_matches(dialect, ("pto", *SPELLED), n=1, cutoff=0.8) if dot else []
        slip = bool(near) and near[0] != dialect and f"{near[0]}.{rest}" in _op_names()
        if not dot or slip or (dialect in SPELLED and rest not in MORE_OPS[dialect].split()):
            self.raise_error(f"`{name}` is no known op{guess(name, _op_names())}", at)

    def usage(self) -> str:
        """How the op is written that could not be read, if it is one of `pto`."""
        return usage(self.reading) if self.reading else ""

    def _is_readable(self, op: type[Operation]) -> bool:
        """Whether xDSL reads the form in which an op is written here."""
        if op.parse.__func__ is Operation.parse.__func__:  # type: ignore[attr-defined]
            return False
        return op.name not in FLAGGED or _FLAGS.match(self.lexer.input.content, self.pos) is None

    def _parse_op_result_list(self) -> list[tuple[Span, int]]:
        results = super()._parse_op_result_list()
        self.bound = sum(size for _, size in results)
        return results

    def _parse_optional_token(self, expected_kind: MLIRTokenKind) -> MLIRToken | None:
        token = self._parser_state.current_token
        if token.kind is not expected_kind:
            return None
        self._parser_state.current_token = self._parser_state.lexer.lex()
        return token

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue:
        """A value; the first use of one that is not defined yet is noted, in case it never is.

        A value whose type the text has not said so far gets it here.
        """
        name, index = operand.operand_name, operand.index
        values = self._scope.get(name)
        if values is None:
            self.first_use.setdefault(name, operand.span.start)
            value = self.forward_ssa_references.get(name, {}).get(index)
        else:
            value = values[index] if index < len(values) else None
        if value is not None and value.type != type:
            if value.type == UNKNOWN:
                value._type = type
            elif type != UNKNOWN:
                self.raise_error(f"`%{name}` is of type {value.type}, but used with {type}{_known(type)}", operand.span)
            return value
        return super().resolve_operand(operand, type)

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        op = super()._parse_generic_operation(op_type)
        if isinstance(op, PtoOp):
            settle_generic(op)
        elif isinstance(op, FuncOp):
            op.verify_()  # a function whose type is not that of its body has no other form
        return op

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        for index, used in self.forward_ssa_references.get(name, {}).items():
            if index < len(values) and UNKNOWN in (used.type, values[index].type):
                known = values[index].type if used.type == UNKNOWN else used.type
                used._type = values[index]._type = known
        super()._register_ssa_definition(name, values, span)
        if len(values) == 1:
            self.names[values[0]] = name
        else:
            self.names.update((value, f"{name}#{position}") for position, value in enumerate(values))

    def parse_optional_type(self) -> TypeAttribute | None:
        """A type. The same text gives the same type, so it is looked up first."""
        token = self._current_token
        if token.kind is MLIRTokenKind.BARE_IDENT:
            if _UNMARKED.match(self.lexer.input.content, token.span.start):
                return super()._parse_extended_type_or_attribute(self._consume_token().text, True)
            if token.text in ELEMENTS:
                self._consume_token()
                return ELEMENTS[token.text]
        if token.kind is not MLIRTokenKind.EXCLAMATION_IDENT:
            return super().parse_optional_type()
        body = _BODY.match(self.lexer.input.content, token.span.end)
        if body is None:
            return super().parse_optional_type()
        key = self.lexer.input.content[token.span.start : body.end()]
        if (found := self._types.get(key)) is not None:
            self._resume_from(body.end())
            return found
        found = super().parse_optional_type()
        if found is not None:
            self._types[key] = found
        return found

    def parse_optional_location(self) -> LocationAttr | None:
        start = self.pos
        try:
            return super().parse_optional_location()
        except ParseError:
            self._resume_from(start)
            self.parse_characters("loc")
            with self.in_parens():
                return Verbatim(f"loc({self._location()})")  # type: ignore[return-value]

    def _location(self) -> str:
        """The text of a location in any form: also ranges of a file, and fused ones with a remark."""
        if self._current_token.kind is MLIRTokenKind.HASH_IDENT:
            at = self.pos
            text = str(self.parse_attribute())
            if not text.startswith("loc("):
                self.raise_error("expected a location, as `#loc1 = loc(...)` defines one", at)
            return text[4:-1]
        if self.parse_optional_keyword("unknown"):
            return "unknown"
        if self.parse_optional_keyword("callsite"):
            with self.in_parens():
                callee = self._location()
                self.parse_keyword("at", " between the callee's location and the caller's")
                return f"callsite({callee} at {self._location()})"
        if self.parse_optional_keyword("fused"):
            remark = ""
            if self.parse_optional_punctuation("<") is not None:
                remark = f"<{self.parse_attribute()}>"
                self.parse_punctuation(">")
            inner = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._location)
            return f"fused{remark}[{', '.join(inner)}]"
        return self._file_location()

    def _file_location(self) -> str:
        """`"name"`, `"name"(location)`, `"file":1:2`, `"file":1:2 to 3:4`."""
        token = self._current_token
        if self.parse_optional_str_literal() is None:
            self.raise_error('expected a location: "file":line:column, "name", callsite(...), fused[...] or unknown')
        text = token.text
        if self.parse_optional_punctuation("(") is not None:
            text += f"({self._location()})"
            self.parse_punctuation(")")
        while self.parse_optional_punctuation(":") is not None:
            text += f":{self.parse_integer(allow_boolean=False, allow_negative=False)}"
        if self.parse_optional_keyword("to") is not None:
            line = self.parse_optional_integer(allow_boolean=False, allow_negative=False)
            self.parse_punctuation(":")
            column = self.parse_integer(allow_boolean=False, allow_negative=False)
            text += f" to {'' if line is None else line}:{column}"
        return text

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Attribute:  # type: ignore[override]
        name = ("!" if is_type else "#") + attr_or_dialect_name
        if "." not in name and self._current_token.text != "<" and name not in self.attribute_aliases:
            at = self.lexer.input.content.rfind(name, 0, self.pos)
            self.raise_error(f"`{name}` is not defined{guess(name, self.attribute_aliases)}", at)
        return super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: int | None
    ) -> UnregisteredAttr | ParametrizedAttribute | Data[Any]:
        """What stands between angle brackets; where nobody knows its parts, in one line."""
        found = super()._parse_dialect_type_or_attribute_body(attr_name, is_type, is_opaque, starting_opaque_pos)
        if isinstance(found, UnregisteredAttr) and "\n" in found.value.data:
            return type(found)(attr_name, is_type, is_opaque, _LINE_BREAK.sub(" ", found.value.data))
        return found

    def _parse_optional_builtin_parametrized_attr(self) -> Attribute | None:
        """Values with parameters; sparse ones, which xDSL does not know, are kept as they are written."""
        if self._current_token.text != "sparse":
            return super()._parse_optional_builtin_parametrized_attr()
        self._consume_token()
        body = _LINE_BREAK.sub(" ", self._parse_dialect_symbol_body())
        self.parse_punctuation(":")
        return Verbatim(f"sparse<{body}> : {self.parse_type()}")

    def _parse_dialect_resource_handle(self, dialect_name: str, interface: object) -> str:
        """The name of a resource. xDSL's own would be another one when the name was in an earlier text."""
        return self.parse_identifier(" for a resource")

    def _parse_file_metadata_dictionary(self) -> None:
        """Resources are kept as they are written."""
        start = self.pos
        found = _RESOURCES.match(self.lexer.input.content, start)
        if found is None:
            self.raise_error("expected `#-}` at the end of the resources", start)
        self._resume_from(found.end())
        lines = (line.rstrip() for line in found[0].splitlines())
        self.resources.append("\n".join(line for line in lines if line))

    def parse_optional_builtin_int_or_float_attr(self) -> IntegerAttr | FloatAttr | FloatLiteral | None:  # type: ignore[override]
        """A number. One with a fraction keeps all its bits."""
        start = self.pos
        found = _NUMBER.match(self.lexer.input.content, start)
        text = "".join(found[0].split()) if found is not None else ""
        if found is None or (text.isdigit() and len(text) <= _SHORT):
            return super().parse_optional_builtin_int_or_float_attr()
        self.parse_number()
        is_typed = self._current_token.kind is MLIRTokenKind.COLON
        kind = self._parse_attribute_type() if is_typed else f64 if found["fraction"] else None
        if isinstance(kind, AnyFloat):
            return self._number_or_error(start, lambda: float_attribute(text, kind))
        self._resume_from(start)
        return super().parse_optional_builtin_int_or_float_attr()

    def _number_or_error(self, start: int, make: Callable[[], Number]) -> Number:
        try:
            return make()
        except ValueError as error:
            self.raise_error(str(error), start)

    def _parse_tensor_literal_element(self) -> Element:
        found = super()._parse_tensor_literal_element()
        self._elements.append(Element(found.is_negative, found.value, found.span))
        return self._elements[-1]

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr:
        """A dense value. Elements with a fraction keep all their bits."""
        start, self._elements = self.pos, []
        dense = super().parse_dense_int_or_fp_elements_attr(type)
        return self._number_or_error(start, lambda: with_bits(dense, self._elements))

    def _parse_dense_literal_type(self) -> Any:
        """The type of a dense value, which xDSL writes out in memory however short its text is."""
        at = self.pos
        kind = super()._parse_dense_literal_type()
        if math.prod(kind.get_shape()) > MAX_DENSE:
            self.raise_error(f"a dense value of more than {MAX_DENSE} elements", at)
        return kind

    def _find_duplicated_key(self, attrs: list[tuple[str, Attribute]]) -> str | None:
        if (key := super()._find_duplicated_key(attrs)) is not None:
            self.raise_error(f"`{key}` is given twice", self._entries[key])
        return None

    def _parse_attribute_entry(self) -> tuple[str, Attribute]:
        """An entry of a dictionary. A bare keyword is a frequent slip, for which there is a guess."""
        at = self.pos
        name = self.expect(self.parse_optional_identifier_or_str_literal, "expected the name of an attribute")
        self._entries[name] = at
        if self.parse_optional_punctuation("=") is None:
            if self._current_token.text not in (",", "}"):
                self.raise_error(f"expected `=`, `,` or `}}` behind the attribute `{name}`")
            return name, UnitAttr()
        token = self._current_token
        value = self.parse_optional_attribute()
        if value is None:
            self.raise_error(f"expected the value of `{name}`{_spelling(name, token.text)}", token.span)
        return name, value


def _known(kind: Attribute) -> str:
    """What an unknown type of `pto` may have been meant to be, as a guess."""
    if not isinstance(kind, UnregisteredAttr) or not (name := kind.attr_name.data).startswith("pto."):
        return ""
    return guess(f"!{name}", (f"!{known.name}" for known in TYPES))


def _spelling(name: str, word: str) -> str:
    """How a bare keyword should have been written, as a guess."""
    fitting = [kind for kind, attribute in KEYWORD_CLASSES.items() if word in attribute.keywords]
    named = [kind for kind in fitting if kind.replace("_", "").startswith(name.replace("_", "").lower()[:5])]
    if not named and len(fitting) != 1:
        return ""
    return f"; did you mean `{name} = {KEYWORD_CLASSES[(named or fitting)[0]](word)}`?"


SLIPS = {
    **{f"int{width}{end}": f"i{width}" for width in (8, 16, 32, 64) for end in ("", "_t")},
    **{f"uint{width}{end}": f"ui{width}" for width in (8, 16, 32, 64) for end in ("", "_t")},
    **{f"{word}{width}": f"f{width}" for width in (16, 32, 64) for word in ("float", "fp")},
    "int": "i32", "float": "f32", "double": "f64", "half": "f16", "bool": "i1", "bfloat16": "bf16",
    "s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64",
}  # fmt: skip
"""Types as other languages call them."""


def type_guess(text: str, offset: int) -> str:
    """What may have been meant where a type should stand, as a guess."""
    found = re.compile(r"x?([A-Za-z_][\w.]*)").match(text, offset)
    word = found[1] if found is not None else ""
    if word in SLIPS:
        return f"; did you mean `{SLIPS[word]}`?"
    name = f"!pto.{word.removeprefix('pto.')}"
    return guess(name, (f"!{kind.name}" for kind in TYPES)) if len(word) > 2 else ""


@lru_cache(maxsize=1024)
def _unregistered(name: str) -> type[Operation]:
    """The class of an op that nobody knows. The shared context must not learn it: it would shadow `return`."""
    return UnregisteredOp.with_name(name)


@cache
def _op_names() -> tuple[str, ...]:
    known = get_all_dialects()
    others = (op.name for name in ("func", "arith", "scf", "memref") for op in known[name]().operations)
    return (*others, "module", "return", "call", "ins", "outs", *(f"pto.{name}" for name in rows()))
