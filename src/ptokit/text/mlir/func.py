"""Ops of MLIR itself that xDSL reads or prints in part only: here in full."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, LocationAttr, UnknownLoc, i1
from xdsl.dialects.func import FuncOp
from xdsl.dialects.scf import IfOp, WhileOp
from xdsl.ir import Attribute, Region
from xdsl.parser import Parser
from xdsl.printer import Printer

Typed = tuple[Attribute, dict[str, Attribute]]
"""The type of an argument or result, with its attributes."""


LOCATIONS = "$locations"
"""A property of declarations: the locations of their arguments."""


class Func(FuncOp):
    """A function. Attributes and locations of arguments are kept in declarations as well."""

    @classmethod
    def parse(cls, parser: Parser) -> Func:
        visibility = parser.parse_optional_visibility_keyword()
        name = parser.parse_symbol_name().data
        named: list[Parser.Argument] = []
        places: list[LocationAttr] = []
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _argument(parser, named, places))
        if named and len(named) != len(inputs):
            parser.raise_error("expected either all arguments to have names, or none")
        outputs = _results(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword(("sym_name", "function_type", "sym_visibility"))
        region = parser.parse_optional_region(named if named else None)
        func = cls(
            name,
            ([kind for kind, _ in inputs], [kind for kind, _ in outputs]),
            region if region is not None else Region(),
            visibility,
            arg_attrs=_attributes(inputs),
            res_attrs=_attributes(outputs),
        )
        func.attributes |= attributes.data if attributes is not None else {}
        if region is None and any(place != UnknownLoc() for place in places):
            func.properties[LOCATIONS] = ArrayAttr(places)
        return func

    def print(self, printer: Printer) -> None:
        visibility = f" {self.sym_visibility.data}" if self.sym_visibility else ""
        printer.print_string(f"{visibility} ")
        printer.print_symbol_name(self.sym_name.data)
        self._print_arguments(printer)
        self._print_results(printer)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        if self.body.blocks:
            printer.print_string(" ")
            printer.print_region(self.body, False, False)

    def _print_arguments(self, printer: Printer) -> None:
        given = _dictionaries(self.arg_attrs, len(self.function_type.inputs))
        block = self.body.blocks.first
        places = self._places()
        with printer.in_parens():
            for position, (kind, attributes) in enumerate(zip(self.function_type.inputs, given, strict=True)):
                printer.print_string(", " if position else "")
                if block is not None:
                    printer.print_block_argument(block.args[position], print_type=False)
                    printer.print_string(": ")
                printer.print_attribute(kind)
                printer.print_op_attributes(attributes)
                if position < len(places):
                    print_location(printer, places[position])

    def _places(self) -> Sequence[Attribute]:
        """The locations of the arguments, as far as any is known."""
        if (block := self.body.blocks.first) is not None:
            return [argument.location for argument in block.args]
        places = self.properties.get(LOCATIONS)
        return places.data if isinstance(places, ArrayAttr) else ()

    def _print_results(self, printer: Printer) -> None:
        kinds = self.function_type.outputs.data
        if not kinds:
            return
        given = _dictionaries(self.res_attrs, len(kinds))
        bracketed = len(kinds) > 1 or bool(given[0])
        printer.print_string(" -> (" if bracketed else " -> ")
        for position, (kind, attributes) in enumerate(zip(kinds, given, strict=True)):
            printer.print_string(", " if position else "")
            printer.print_attribute(kind)
            printer.print_op_attributes(attributes)
        printer.print_string(")" if bracketed else "")


class If(IfOp):
    """`scf.if`; the brackets around a single result type may be missing."""

    @classmethod
    def parse(cls, parser: Parser) -> If:
        condition = parser.parse_operand(i1)
        kinds = [kind for kind, _ in _results(parser)]
        then = cls.parse_region_with_yield(parser)
        other = cls.parse_region_with_yield(parser) if parser.parse_optional_keyword("else") else Region()
        return cls(condition, kinds, then, other, parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        attributes, self.attributes = self.attributes, {}
        try:
            super().print(printer)
        finally:
            self.attributes = attributes
        printer.print_op_attributes(attributes)


class While(WhileOp):
    """`scf.while`, also without arguments."""

    @classmethod
    def parse(cls, parser: Parser) -> While:
        if parser.parse_optional_punctuation(":") is None:
            return super().parse(parser)
        at = parser.pos
        kind = parser.parse_function_type()
        if kind.inputs:
            parser.raise_error(f"expected {len(kind.inputs)} arguments before the type, as in `(%a = %b)`", at)
        before = parser.parse_region(())
        parser.parse_keyword("do")
        op = cls((), kind.outputs.data, before, parser.parse_region())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op.attributes |= attributes.data if attributes is not None else {}
        return op

    def print(self, printer: Printer) -> None:
        if self.arguments:
            return super().print(printer)
        printer.print_string(" : ")
        printer.print_operation_type(self)
        printer.print_string(" ")
        printer.print_region(self.before_region, print_entry_block_args=False, print_empty_block=False)
        printer.print_string(" do ")
        printer.print_region(self.after_region, print_empty_block=False)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        return None


def print_location(printer: Printer, location: Attribute) -> None:
    """` loc(...)`, unless nothing is known."""
    if location.name != "unknown_loc":
        printer.print_string(" ")
        printer.print_attribute(location)


def _argument(parser: Parser, named: list[Parser.Argument], places: list[LocationAttr]) -> Typed:
    """`%x: T {...} loc(...)`, or without the name; arguments with names are noted, and all locations."""
    argument = parser.parse_optional_argument()
    kind = argument.type if argument is not None else parser.parse_type()
    attributes = parser.parse_optional_dictionary_attr_dict()
    location = parser.parse_optional_location()
    places.append(location or UnknownLoc())
    if argument is not None:
        argument.location = location
        named.append(argument)
    return kind, attributes


def _results(parser: Parser) -> list[Typed]:
    if parser.parse_optional_punctuation("->") is None:
        return []
    several = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, lambda: _result(parser))
    return several if several is not None else [(parser.parse_type(), {})]


def _result(parser: Parser) -> Typed:
    return parser.parse_type(), parser.parse_optional_dictionary_attr_dict()


def _attributes(given: Sequence[Typed]) -> ArrayAttr[DictionaryAttr] | None:
    present = any(attributes for _, attributes in given)
    return ArrayAttr([DictionaryAttr(attributes) for _, attributes in given]) if present else None


def _dictionaries(given: ArrayAttr[DictionaryAttr] | None, count: int) -> list[dict[str, Attribute]]:
    return [dict(item.data) for item in given] if given is not None else [{}] * count
