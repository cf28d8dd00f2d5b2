"""Operations to text, in one canonical form."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ptokit.text.cursor import braced, escaped
from ptokit.text.mlir.comments import without_blank_ends
from ptokit.text.mlir.ir import SHORT, Attributes, Block, MlirOp, MlirRegion, SsaValue
from ptokit.text.mlir.types import signature_text

NAMES = {full: short for short, full in SHORT.items() if short != "call"}
"""Ops that are printed without their dialect."""


class Writer:
    """Prints one module. Values keep the names they were read with; others get numbers that are free."""

    def __init__(self, module: MlirOp, restated: Callable[[MlirOp], MlirOp] | None = None) -> None:
        """`restated` gives an op in the spelling of a version of the grammar."""
        self._parts: list[str] = []
        self.add = self._parts.append
        """Prints some text."""
        self._depth = 0
        self._owner = ""
        """The name of the op whose body is printed."""
        self._line_end = ""
        """A comment that the line gets when it ends."""
        self._restated = restated
        self._names: dict[SsaValue, str] = {}
        self._taken: set[str] | None = None
        self._number = 0
        self._module = module
        self._targets = {id(block) for op in module.walk() for block in op.successors}

    def print(self, resources: Iterable[str], end: list[str]) -> str:
        """The whole module, with the comments around it and the resources behind it."""
        self.add("".join(f"{line}\n" for line in self._module.before))
        self._op(self._module)
        resources = tuple(resources)
        for text in resources:
            self._lines(["", *text.splitlines()])
        if resources and end and not end[0]:
            end = end[1:]  # a blank line before the resources is printed with them
        self._lines(end)
        self._new_line()
        return "".join(self._parts)

    def dictionary(self, attributes: Attributes, head: str = " ") -> None:
        """`{...}` behind some text, if there are any attributes."""
        if attributes:
            self.add(f"{head}{braced(attributes)}")

    def value(self, value: SsaValue) -> str:
        return f"%{value.name or self._names.get(value) or self._new_name(value)}"

    def _new_name(self, value: SsaValue) -> str:
        if self._taken is None:
            values = (value for op in self._module.walk() for value in _values(op))
            self._taken = {value.name.partition("#")[0] for value in values}
        while str(self._number) in self._taken:
            self._number += 1
        self._names[value] = name = str(self._number)
        self._number += 1
        return name

    def label(self, block: Block) -> str:
        return block.label or f"bb{id(block)}"

    def _new_line(self, depth: int | None = None) -> None:
        if self._line_end:
            self.add(f"  {self._line_end}")
            self._line_end = ""
        self.add("\n" + "  " * (self._depth if depth is None else depth))

    def _lines(self, lines: Iterable[str]) -> None:
        """Comments and blank lines, each on a line of its own."""
        for line in lines:
            self._new_line(None if line else 0)
            self.add(line)

    def _op(self, op: MlirOp) -> None:
        """An operation, without the lines before it."""
        if self._restated is not None:
            op = self._restated(op)
        if op.results:
            self._results(op)
        outer, self._owner = self._owner, op.name
        if op.form is None:
            self._generic(op)
        else:
            is_short = op.name != "func.return" or outer == "func.func"
            self.add(NAMES.get(op.name, op.name) if is_short else op.name)
            op.form.write(self, op)
        self._owner = outer
        if op.location:
            self.add(f" {op.location}")
        self._line_end = op.after

    def _results(self, op: MlirOp) -> None:
        """`%a, %b:2 = `."""
        printed: dict[str, int] = {}
        for value in op.results:
            name = self.value(value).partition("#")[0]
            printed[name] = printed.get(name, 0) + 1
        self.add(", ".join(f"{name}" + (f":{n}" if n > 1 else "") for name, n in printed.items()) + " = ")

    def _generic(self, op: MlirOp) -> None:
        operands = op.operands
        self.add(f"{escaped(op.name)}({', '.join(map(self.value, operands))})")
        if op.successors:
            self.add(f"[{', '.join(f'^{self.label(block)}' for block in op.successors)}]")
        self.add(f" <{braced(op.properties)}>" if op.properties else "")
        for number, region in enumerate(op.regions):
            self.add(", " if number else " (")
            self.region(region)
        self.add(")" if op.regions else "")
        self.dictionary(op.attributes)
        types = [value.type for value in operands], [value.type for value in op.results]
        self.add(f" : {signature_text(*types)}")

    def region(self, region: MlirRegion, *, labelled: bool = True, implied: bool = False) -> None:
        self.add("{")
        self._line_end = region.opening
        for number, block in enumerate(region.blocks):
            has_label = number > 0 or (labelled and bool(block.arguments)) or id(block) in self._targets
            self._block(region, block, has_label=has_label, implied=implied)
        if not region.blocks:
            self._depth += 1
            self._lines(without_blank_ends(region.closing, first=True))
            self._depth -= 1
        self._new_line()
        self.add("}")

    def _block(self, region: MlirRegion, block: Block, *, has_label: bool, implied: bool) -> None:
        """A block, with its comments. A terminator that is implied is printed when it has a location."""
        if has_label:
            self._lines(block.comments)
            self._new_line()
            given = ", ".join(map(self._argument, block.arguments))
            self.add(f"^{self.label(block)}{f'({given})' if given else ''}:")
        outer, self._depth = self._depth, self._depth + 1
        lines: list[str] = []
        last = block.ops[-1] if block.ops else None
        for op in block.ops:
            lines = op.before
            if implied and op is last and op.name == "scf.yield" and not (op.location or op.attributes):
                lines = [*lines, op.after] if op.after else lines
            else:
                self._lines(lines)
                self._new_line()
                self._op(op)
                lines = []
        if block is region.blocks[-1]:
            lines = [*lines, *region.closing]
        self._lines(without_blank_ends(lines, first=len(block.ops) < 2))
        self._depth = outer

    def _argument(self, value: SsaValue) -> str:
        return f"{self.value(value)}: {value.type.text}{value.location and f' {value.location}'}"


def _values(op: MlirOp) -> list[SsaValue]:
    return [*op.results, *(value for region in op.regions for block in region.blocks for value in block.arguments)]
