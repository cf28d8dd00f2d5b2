"""Operations to text: xDSL's printer with exact names, and locations where they are known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, LocationAttr, ModuleOp, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator

from ptokit.text.mlir.comments import Comments, without_blank_ends
from ptokit.text.mlir.floats import raw_text
from ptokit.text.mlir.func import print_location
from ptokit.text.mlir.ops import PtoOp
from ptokit.text.mlir.reader import Verbatim

SHORT = {"func.return": ("return", FuncOp)}
"""Ops that MLIR prints without their dialect, and within what."""


class Writer(Printer):
    """Prints one module. Values keep the names they were read with; others get numbers that are free."""

    def __init__(self, names: Mapping[SSAValue, str], comments: Comments | None = None) -> None:
        super().__init__()
        self._comments = comments or Comments()
        self._parts: list[str] = []
        self._line_end = ""
        """A comment that the line gets when it ends."""
        self._names = dict(names)
        self._taken = {name.partition("#")[0] for name in names.values()}
        self._cache: dict[Attribute, str] = {}

    @property
    def text(self) -> str:
        """All that was printed."""
        return "".join(self._parts)

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        head, *lines = text.split("\n")
        self._parts.append(head)
        for line in lines:
            self._print_new_line(indent)
            self._parts.append(line)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        self._end_line()
        self._parts.append("\n" + " " * self.indent_num_spaces * (self._indent if indent is None else indent))

    def _end_line(self) -> None:
        """What stands at the end of a line."""
        if self._line_end:
            self._parts.append(f"  {self._line_end}")
            self._line_end = ""

    def _print_lines(self, lines: Iterable[str]) -> None:
        """Comments and blank lines, each on a line of its own."""
        for line in lines:
            self._print_new_line(indent=None if line else 0)
            self._parts.append(line)

    def print_module(self, module: ModuleOp, resources: Iterable[str] = ()) -> None:
        """The whole module, with the comments around it and the resources behind it."""
        before = self._comments.before.get(module, ())
        self._parts.append("".join(f"{line}\n" for line in before))
        self.print_op(module)
        resources, end = tuple(resources), self._comments.end
        for text in resources:
            self._print_lines(["", *text.splitlines()])
        if resources and end and not end[0]:
            end = end[1:]  # a blank line before the resources is printed with them
        self._print_lines(end)
        self._print_new_line()

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self._names.get(value) or self._new_name(value)
        self._parts.append(f"%{name}")
        return name

    def _new_name(self, value: SSAValue) -> str:
        while (name := self._get_new_valid_name_id()) in self._taken:
            pass
        self._names[value] = name
        return name

    def _print_results(self, op: Operation) -> None:
        """`%a, %b:2 = `."""
        printed: dict[str, int] = {}
        for value in op.results:
            name = self._names.get(value) or self._new_name(value)
            printed[name.partition("#")[0]] = printed.get(name.partition("#")[0], 0) + 1
        if printed:
            self._parts.append(
                ", ".join(f"%{name}" + (f":{n}" if n > 1 else "") for name, n in printed.items()) + " = "
            )

    def print_attribute(self, attribute: Attribute) -> None:
        """An attribute; those of `pto` are printed once and then known."""
        if isinstance(attribute, DenseIntOrFPElementsAttr) and (raw := raw_text(attribute)):
            self.print_string(f'dense<"{raw}"> : {attribute.type}')
            return
        if not attribute.name.startswith("pto.") or isinstance(attribute, Verbatim):
            super().print_attribute(attribute)
        elif (known := self._cache.get(attribute)) is not None:
            self._parts.append(known)
        else:
            before, self._parts = self._parts, []
            super().print_attribute(attribute)
            self._cache[attribute] = text = self.text
            self._parts = before
            self._parts.append(text)

    def print_string_literal(self, string: str) -> None:
        """A string as a person would write it: only what must be is escaped."""
        self._parts.append(f'"{_UNPRINTABLE.sub(_escaped, string)}"')

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        super().print_block_argument(arg, print_type)
        if print_type:
            print_location(self, arg.location)

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        """A region, with the comment behind its brace."""
        self._line_end = self._comments.opening.get(region, "")
        super().print_region(region, print_entry_block_args, print_empty_block, print_block_terminators)

    def print_block(self, block: Block, print_block_args: bool = True, print_block_terminator: bool = True) -> None:
        """A block, with its comments. A terminator that goes without saying is printed when it has a location."""
        if print_block_args:
            self._print_lines(self._comments.before.get(block, ()))
            self._print_new_line()
            self._print_label(block)
        with self.indented():
            lines: list[str] = []
            for op in block.ops:
                lines = self._comments.before.get(op, [])
                if print_block_terminator or _is_known(op.location) or not op.has_trait(IsTerminator):
                    self._print_lines(lines)
                    self._print_new_line()
                    self.print_op(op)
                    lines = []
                elif op in self._comments.after:
                    lines = [*lines, self._comments.after[op]]
            if block.next_block is None and block.parent is not None:
                lines = [*lines, *self._comments.closing.get(block.parent, ())]
            self._print_lines(without_blank_ends(lines, first=block.first_op is block.last_op))

    def _print_label(self, block: Block) -> None:
        """`^name(%a: T):`."""
        self.print_block_name(block)
        if block.args:
            with self.in_parens():
                self.print_list(block.args, self.print_block_argument)
        self.print_string(":")

    def print_op(self, op: Operation) -> None:
        """An operation, without the lines before it."""
        self._print_results(op)
        scope = bool(op.get_traits_of_type(IsolatedFromAbove))
        if scope:
            self.enter_scope()
        if isinstance(op, UnregisteredOp):
            self._print_unregistered(op)
        elif isinstance(op, ModuleOp):
            self._print_module_op(op)
        elif type(op).print is Operation.print or (isinstance(op, PtoOp) and op.is_generic):
            self.print_string(f'"{op.name}"')
            self.print_op_with_default_format(op)
        else:
            short, within = SHORT.get(op.name, (op.name, Operation))
            parent = op.parent_op()
            self.print_string(short if parent is None or isinstance(parent, within) else op.name)
            op.print(self)
        print_location(self, op.location)
        if scope:
            self.exit_scope()
        self._line_end = self._comments.after.get(op, "")

    def _print_module_op(self, op: ModuleOp) -> None:
        """`module @name attributes {...} {`. xDSL's own print of an empty one has no place for comments."""
        self.print_string("module")
        if op.sym_name is not None:
            self.print_string(" ")
            self.print_symbol_name(op.sym_name.data)
        self.print_op_attributes(op.attributes, print_keyword=True)
        self.print_string(" ")
        self.print_region(op.body, print_empty_block=False)

    def _print_unregistered(self, op: UnregisteredOp) -> None:
        name = op.attributes.pop("op_name__")
        self.print_attribute(name)
        try:
            self.print_op_with_default_format(op)
        finally:
            op.attributes["op_name__"] = name


_UNPRINTABLE = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\\": "\\\\"}


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or "".join(f"\\{byte:02X}" for byte in found[0].encode("utf-8"))


def _is_known(location: LocationAttr) -> bool:
    return location.name != "unknown_loc"
