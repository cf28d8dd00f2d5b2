"""Operations to text: xDSL's printer with exact names, and locations where they are known."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import LocationAttr, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator

from ptokit.text.func import print_location
from ptokit.text.reader import OtherLoc
from ptokit.text.shapes import PtoOp

SHORT = {"builtin.module": ("module", Operation), "func.return": ("return", FuncOp)}
"""Ops that MLIR prints without their dialect, and within what."""


class Writer(Printer):
    """Prints one module. Values keep the names they were read with; others get numbers that are free."""

    def __init__(self, names: Mapping[SSAValue, str]) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._names = dict(names)
        self._taken = {name.partition("#")[0] for name in names.values()}
        self._cache: dict[Attribute, str] = {}

    @property
    def text(self) -> str:
        """All that was printed."""
        return "".join(self._parts)

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text:
            text = text.replace(
                "\n", "\n" + " " * self.indent_num_spaces * (self._indent if indent is None else indent)
            )
        self._parts.append(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        self._parts.append("\n" + " " * self.indent_num_spaces * (self._indent if indent is None else indent))

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
        if isinstance(attribute, OtherLoc):
            self._parts.append(attribute.data)
        elif not attribute.name.startswith("pto."):
            super().print_attribute(attribute)
        elif (known := self._cache.get(attribute)) is not None:
            self._parts.append(known)
        else:
            before, self._parts = self._parts, []
            super().print_attribute(attribute)
            self._cache[attribute] = text = self.text
            self._parts = [*before, text]

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        super().print_block_argument(arg, print_type)
        if print_type:
            print_location(self, arg.location)

    def print_block(self, block: Block, print_block_args: bool = True, print_block_terminator: bool = True) -> None:
        """A block. A terminator that goes without saying is printed when it has a location."""
        last = block.last_op
        kept = print_block_terminator or last is None or _is_known(last.location) or not last.has_trait(IsTerminator)
        super().print_block(block, print_block_args, kept)

    def print_op(self, op: Operation) -> None:
        self._print_results(op)
        scope = bool(op.get_traits_of_type(IsolatedFromAbove))
        if scope:
            self.enter_scope()
        if isinstance(op, UnregisteredOp):
            self._print_unregistered(op)
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

    def _print_unregistered(self, op: UnregisteredOp) -> None:
        name = op.attributes.pop("op_name__")
        self.print_attribute(name)
        self.print_op_with_default_format(op)
        op.attributes["op_name__"] = name


def _is_known(location: LocationAttr) -> bool:
    return location.name != "unknown_loc"
