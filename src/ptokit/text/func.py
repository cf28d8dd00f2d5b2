"""`func.func` with nothing lost: attributes of arguments and results are kept in declarations as well."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, LocationAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Region
from xdsl.parser import Parser
from xdsl.printer import Printer

Typed = tuple[Attribute, dict[str, Attribute]]
"""The type of an argument or result, with its attributes."""


class Func(FuncOp):
    """A function."""

    @classmethod
    def parse(cls, parser: Parser) -> Func:
        visibility = parser.parse_optional_visibility_keyword()
        name = parser.parse_symbol_name().data
        named: list[Parser.Argument] = []
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _argument(parser, named))
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
        with printer.in_parens():
            for position, (kind, attributes) in enumerate(zip(self.function_type.inputs, given, strict=True)):
                printer.print_string(", " if position else "")
                if block is not None:
                    printer.print_block_argument(block.args[position], print_type=False)
                    printer.print_string(": ")
                printer.print_attribute(kind)
                printer.print_op_attributes(attributes)
                if block is not None:
                    print_location(printer, block.args[position].location)

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


def print_location(printer: Printer, location: LocationAttr) -> None:
    """` loc(...)`, unless nothing is known."""
    if location.name != "unknown_loc":
        printer.print_string(" ")
        printer.print_attribute(location)


def _argument(parser: Parser, named: list[Parser.Argument]) -> Typed:
    """`%x: T {...} loc(...)`, or a type alone; arguments with names are noted."""
    argument = parser.parse_optional_argument()
    kind = argument.type if argument is not None else parser.parse_type()
    attributes = parser.parse_optional_dictionary_attr_dict()
    location = parser.parse_optional_location()
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
