"""A command line to copy: plausible values for the arguments that a kernel was not given."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ptokit.isa.dtype import dtype
from ptokit.lang.kernel import Kernel
from ptokit.lang.launcher import Launchable
from ptokit.lang.loaded import TextKernel
from ptokit.lang.source import Unreadable, tree_of
from ptokit.program.expr import Expr, Var, evaluate, variables
from ptokit.text.memories import is_unshaped

EXTENT = 64
"""An extent that nothing tells."""
NUMBER = "8"
"""A whole number that nothing tells."""
BLOCKS = 4
"""Tiles along each dim in which a kernel slices an array."""
CALLS: dict[str, tuple[str, ...]] = {
    "tload": ("tile", "array"),
    "tstore": ("array", "tile"),
    "mgather": ("tile", "table", "index", "array"),
    "mscatter": ("table", "tile", "index"),
    "tscatter": ("tile", "tile", "index"),
    "tgather": ("tile", "tile", "index"),
    "load_scalar": ("numbers",),
}
"""Calls that take arrays or indices, and what their operands are."""
WORDS = {"oob": "clamp", "coalesce": "row", "atomic": "add", "conflict": "last", "index": "row", "mode": "lt"}
"""A value for a constant that is passed on as a policy, by the policy's name."""


def example(kernel: Launchable, words: Sequence[str], missing: Iterable[str]) -> str:
    """The command again, with a value for every argument that is missing."""
    values = _of_text(kernel) if isinstance(kernel, TextKernel) else _of_source(kernel)
    added = [word for name in missing for word in ("--arg", f"{name}={values.get(name, NUMBER)}")]
    return shlex.join(["ptokit", *words, *added])


def _of_text(kernel: TextKernel) -> dict[str, str]:
    """The text says what its arguments are."""
    found: dict[str, str] = {}
    numbers = {Var(name): int(NUMBER) for name, kind in kernel.parameters.items() if kind == "integer"}
    for name, kind in kernel.parameters.items():
        if kind != "array":
            found[name] = NUMBER if kind == "integer" else "1.0"
            continue
        views = [tensor for tensor in kernel.program.tensors.values() if tensor.array == name]
        view = next((tensor for tensor in views if not is_unshaped(tensor)), None)
        shape = [_extent(extent, numbers) for extent in view.shape] if view else [EXTENT * EXTENT]
        found[name] = _array(kernel.program.tensors[name].dtype.name, shape)
    return found


def _extent(extent: Expr, numbers: dict[Var, int]) -> int:
    return max(evaluate(extent, numbers), 1) if variables(extent) <= numbers.keys() else EXTENT


def _array(kind: str, shape: Sequence[int]) -> str:
    return f"{kind}[{','.join(map(str, shape))}]"


def _of_source(kernel: Launchable) -> dict[str, str]:
    if not isinstance(kernel, Kernel):
        return {}
    try:
        return _Guess(kernel).values()
    except Unreadable:
        blank = _array("float32", [EXTENT] * 2)
        return {name: NUMBER if name in kernel.constants else blank for name in kernel.parameters}


@dataclass
class _Tile:
    """A tile as the source makes it; None for what it does not tell."""

    kind: str | None = None
    rows: int | None = None
    cols: int | None = None
    is_index: bool = False


@dataclass
class _Use:
    """What the source does with a parameter."""

    tiles: list[_Tile] = field(default_factory=list)
    """Tiles that are loaded from it or stored to it."""
    is_array: bool = False
    is_number: bool = False
    is_sliced: bool = False
    is_cut: bool = False
    """Whether its columns are sliced, too."""
    is_table: bool = False
    is_index: bool = False
    rank: int = 0
    word: str = ""
    """A value that it can have as a policy or an element type."""


class _Guess:
    """What a kernel's parameters are, from how its source uses them."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.uses = {name: _Use() for name in kernel.parameters}
        self.tiles: dict[str, _Tile] = {}
        nodes = [*ast.walk(tree_of(kernel.function.__code__))]
        for node in nodes:
            self._see(node)
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign):
                self._see_tiles(node)
        calls = [node for node in nodes if isinstance(node, ast.Call) and _called(node) in CALLS]
        for call in calls:
            self._see_index(call)
        for call in calls:
            self._see_call(call)

    def values(self) -> dict[str, str]:
        """A value for every parameter."""
        return {name: self._value(name, use) for name, use in self.uses.items()}

    def _value(self, name: str, use: _Use) -> str:
        if name in self.kernel.constants:
            return use.word or NUMBER
        if use.is_number and not use.is_array:
            return NUMBER
        kinds = [tile.kind for tile in use.tiles if tile.kind]
        is_index = use.is_index or any(tile.is_index for tile in use.tiles)
        return _array(kinds[0] if kinds else "int32" if is_index else "float32", _shape(use, is_index))

    def _used(self, node: ast.AST | None) -> _Use | None:
        """The parameter behind a name or a slice of it."""
        while isinstance(node, ast.Subscript):
            node = node.value
        return self.uses.get(node.id) if isinstance(node, ast.Name) else None

    def _see(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and (use := self._used(node.value)):
            use.is_array = True
        elif isinstance(node, ast.Subscript) and (use := self._used(node.value)):
            use.is_array = use.is_sliced = True
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            use.rank = max(use.rank, len(parts))
            use.is_cut |= len(parts) > 1 and isinstance(parts[-1], ast.Slice) and parts[-1].upper is not None
        elif isinstance(node, ast.Subscript):
            self._see_extent(node)
        elif isinstance(node, ast.BinOp | ast.Compare | ast.Slice | ast.UnaryOp):
            for part in ast.iter_child_nodes(node):
                self._is_number(part)
        elif isinstance(node, ast.keyword) and isinstance(node.value, ast.Name) and (use := self._used(node.value)):
            use.word = WORDS.get(node.arg or "", "")
        elif isinstance(node, ast.Call) and _called(node) in ("range", "min", "max", "cdiv"):
            for part in node.args:
                self._is_number(part)

    def _is_number(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name) and (use := self._used(node)):
            use.is_number = True

    def _see_extent(self, node: ast.Subscript) -> None:
        """`x.shape[1]` tells that x has two dims."""
        value, at = node.value, node.slice
        dim = at.value + 1 if isinstance(at, ast.Constant) and isinstance(at.value, int) else 0
        if isinstance(value, ast.Attribute) and value.attr == "shape" and (use := self._used(value.value)):
            use.rank = max(use.rank, dim)

    def _see_tiles(self, node: ast.Assign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs = zip(target.elts, node.value.elts, strict=False) if several else [(target, node.value)]  # type: ignore[union-attr]
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Call) and _called(value) == "Tile":
                    self.tiles[name.id] = self._tile(value)

    def _tile(self, call: ast.Call) -> _Tile:
        given = dict(zip(("loc", "dtype", "rows", "cols"), call.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        kind = given.get("dtype")
        if isinstance(kind, ast.Name) and kind.id in self.kernel.constants:
            self.uses[kind.id].word = "float32"
        return _Tile(self._kind(kind), self._number(given.get("rows")), self._number(given.get("cols")))

    def _kind(self, node: ast.expr | None) -> str | None:
        known = self._known(node)
        try:
            return dtype(known).name if known is not None else None
        except TypeError:
            return None

    def _number(self, node: ast.expr | None) -> int | None:
        known = self._known(node)
        return known if isinstance(known, int) and 0 < known <= EXTENT * EXTENT else None

    def _known(self, node: ast.expr | None) -> Any:
        """The value of a constant: written down, a default, or of the module."""
        if isinstance(node, ast.Constant):
            return node.value
        if not isinstance(node, ast.Name):
            return None
        parameter = self.kernel.parameters.get(node.id)
        if parameter is None:
            return self.kernel.function.__globals__.get(node.id)
        if parameter.default is not parameter.empty:
            return parameter.default
        return int(NUMBER) if node.id in self.kernel.constants and not self.uses[node.id].word else None

    def _see_index(self, call: ast.Call) -> None:
        for role, operand in _operands(call):
            if role == "index" and isinstance(operand, ast.Name) and operand.id in self.tiles:
                self.tiles[operand.id].is_index = True

    def _see_call(self, call: ast.Call) -> None:
        operands = [*_operands(call)]
        names = [operand.id for role, operand in operands if role == "tile" and isinstance(operand, ast.Name)]
        tiles = [self.tiles[name] for name in names if name in self.tiles]
        for role, operand in operands:
            use = self._used(operand)
            if use is None or role == "tile":
                continue
            use.is_array = True
            use.is_index |= role in ("index", "numbers")
            use.is_table |= role == "table"
            use.tiles += tiles if role in ("array", "table") else []
            if role == "numbers":
                use.rank = max(use.rank, len(call.args) - 1)


def _called(call: ast.Call) -> str:
    called = call.func
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _operands(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    return zip(CALLS[_called(call)], call.args, strict=False)


def _shape(use: _Use, is_index: bool) -> list[int]:
    """The tile's own extents where the whole array is loaded or stored, and room for several tiles otherwise."""
    rank = max(use.rank, 1 if is_index else 2)
    rows = next((tile.rows for tile in use.tiles if tile.rows), EXTENT)
    cols = next((tile.cols for tile in use.tiles if tile.cols), EXTENT)
    if use.is_table:
        rows = EXTENT
    elif use.is_sliced:
        rows, cols = rows * BLOCKS, cols * BLOCKS if rank == 1 or use.is_cut else cols
    return [*[1] * (rank - 2), rows, cols][-rank:]
