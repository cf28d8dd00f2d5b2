"""Where the source can be changed, and into what: found in syntax trees, so that it holds whatever the source becomes.

A change is small and concerns the meaning of an instruction:

- a policy or another member of an enumeration of `isa/` becomes the next one;
- a comparison of quantities (`QUANTITIES`: extents, strides, capacities, sizes) is off by one or negated, their
  arithmetic has another operator or a constant that is one more or less, `min` becomes `max`;
- rows become columns;
- a table of `isa/` or `target/` has a number that is one more or less, such as a launch constant, a cost or a capacity;
- a list of element types, names or policies, or a table, loses its first or its last entry.

Text for users, default values, flags, and constants of the engines that only tune them are never changed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
}  # fmt: skip
FUNCTIONS = {"min": "max", "max": "min"}
FIELDS = {
    "rows": "cols", "cols": "rows", "valid_rows": "valid_cols", "valid_cols": "valid_rows", "maximum": "minimum",
    "minimum": "maximum",
}  # fmt: skip
ENUMS = ("Enum", "PtoEnum")
QUANTITIES = frozenset((
    "area", "base", "block", "blocks", "bound", "box", "burst", "bytes", "c0", "capacity", "col", "cols", "count",
    "element", "elements", "extent", "extents", "first", "fractal", "high", "index", "inner", "lane", "lanes",
    "last", "limit", "low", "maximum", "minimum", "nbytes", "offset", "offsets", "outer", "reach", "row", "rows",
    "shape", "size", "span", "start", "step", "steps", "stop", "stride", "strides", "valid", "value", "warps",
    "whole", "width",
))  # fmt: skip
"""Words of the names that stand for extents, strides, capacities and sizes."""
TABLES = ("isa/", "target/")
"""Folders whose tables hold numbers with a meaning. Those of the engines only tune them."""
NATIVE = ("engine/native/", "engine/llvm/")
"""What has no machine code runs on the reference engine, so a table without one of its rows gives the same bits."""
TYPES = frozenset(("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"))
"""Words of a string that lists element types."""
TEXTS = frozenset(
    ("fix", "found", "about", "text", "summary", "meaning", "spellings", "facts", "expect", "expected", "message")
)
"""Keywords whose values are shown to users."""
SPELLINGS = ("Attribute", "Cpp", "Form", "Workspace")
"""Records about how an instruction is written as text."""
SHOWN = ("__str__", "__repr__")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One change of one expression."""

    module: str
    """The file below the package, as in `isa/common.py`."""
    function: str
    """The function, method or table that holds the expression."""
    original: str
    mutation: str
    line: int
    column: int
    number: int
    """Counts the changes of a file, in the order of the walk."""
    starts: tuple[int, ...] = field(compare=False)
    """First lines of the functions and lambdas that are concerned; empty where only the module is."""
    table: str = ""
    """The name that a statement of the module binds, where the expression stands in one."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names it, wherever the lines move."""
        return self.module, self.function, self.original, self.mutation

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.function}: {self.original}  ->  {self.mutation}"


Change = Callable[[], tuple[ast.expr, str]]


@dataclass(frozen=True)
class _Scope:
    function: str = ""
    starts: tuple[int, ...] = ()
    table: str = ""
    is_table: bool = True
    """Whether the expression is not in a function: a statement of the module, with the lambdas in it."""


@cache
def enums(package: Path) -> dict[str, list[str]]:
    """The members of every enumeration of the instructions, by its name."""
    found: dict[str, list[str]] = {}
    for path in (package / "isa").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) in ENUMS for base in node.bases):
                members = [target.id for stmt in node.body if isinstance(stmt, ast.Assign)
                           for target in stmt.targets if isinstance(target, ast.Name)]  # fmt: skip
                if len(members) > 1:
                    found[node.name] = members
    return found


class Finder:
    """Walks one file, and gives its mutants; with `wanted`, makes that one instead."""

    def __init__(self, module: str, source: str, members: dict[str, list[str]], wanted: int | None = None) -> None:
        self.module, self.members, self.wanted = module, members, wanted
        self.tree = ast.parse(source)
        self.has_numbers, self.is_native = module.startswith(TABLES), module.startswith(NATIVE)
        self.fields = {node.attr for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)}
        self.found: list[Mutant] = []

    def run(self) -> list[Mutant]:
        """All mutants of the file."""
        self._body(self.tree, _Scope())
        return self.found

    def mutated(self) -> str:
        """The source with the wanted change."""
        self.run()
        return ast.unparse(ast.fix_missing_locations(self.tree))

    # --- The walk

    def _body(self, node: ast.AST, scope: _Scope) -> None:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
                continue
            items = value if isinstance(value, list) else [value]
            for k, item in enumerate(items):
                if isinstance(item, ast.expr):
                    changed = self._expression(item, scope)
                    if changed is not item:
                        self._put(node, name, k if isinstance(value, list) else None, changed)
                elif isinstance(item, ast.AST):
                    self._enter(item, scope)

    def _enter(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, Function):
            if node.name in SHOWN or (node.returns is not None and ast.unparse(node.returns) == "str"):
                return
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            scope = _Scope(f"{scope.function}.{node.name}".strip("."), (start,), is_table=False)
        elif isinstance(node, ast.ClassDef):
            scope = _Scope(f"{scope.function}.{node.name}".strip("."), (), node.name)
        elif (
            isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Assert | ast.arguments)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.keyword) and node.arg in TEXTS)
        ):
            return
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not scope.starts:
            if isinstance(node.value, ast.Subscript) or scope.function:  # a type, or a field's default
                return
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = ast.unparse(targets[0])
            scope = _Scope(f"{scope.function}.{name}".strip("."), (), scope.table or name)
        self._body(node, scope)

    @staticmethod
    def _put(node: ast.AST, name: str, k: int | None, value: ast.expr) -> None:
        if k is None:
            setattr(node, name, value)
        else:
            getattr(node, name)[k] = value

    def _expression(self, node: ast.expr, scope: _Scope) -> ast.expr:
        """The expression, changed where the wanted change is in it."""
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and ast.unparse(node.func) in SPELLINGS):
            return node
        if isinstance(node, ast.Lambda):
            scope = replace(scope, starts=(*scope.starts, node.lineno), is_table=False)
        elif isinstance(node, ast.Call) and not scope.starts:
            lambdas = tuple(inner.lineno for inner in ast.walk(node) if isinstance(inner, ast.Lambda))
            scope = replace(scope, starts=lambdas)
        made = None
        for change in self._changes(node, scope):
            changed, said = change
            mutant = Mutant(
                self.module, scope.function or "<module>", ast.unparse(node), said, node.lineno, node.col_offset,
                len(self.found), scope.starts, scope.table,
            )  # fmt: skip
            if len(self.found) == self.wanted:
                made = ast.copy_location(changed, node)
            self.found.append(mutant)
        self._body(node, scope)
        return made or node

    # --- The changes

    def _changes(self, node: ast.expr, scope: _Scope) -> Iterator[tuple[ast.expr, str]]:
        changed: list[ast.expr] = []
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            if _is_quantity(node) and not (_is_tuned(node) and not self.has_numbers):
                changed = [_with(node, ops=[COMPARISONS[type(node.ops[0])]()])]
                if self.has_numbers or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
                    near = _other_size if ast.unparse(node.left).endswith("dtype.size") else _near
                    changed += [_with(node, comparators=[number]) for number in near(node.comparators[0])]
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            if _is_quantity(node):
                changed = [_with(node, op=OPERATORS[type(node.op)]())]
                changed += [_with(node, right=number) for number in _near(node.right)]
                changed += [_with(node, left=number) for number in _near(node.left)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in FUNCTIONS and _is_quantity(node):
                changed = [_with(node, func=ast.Name(FUNCTIONS[node.func.id], ast.Load()))]
            elif node.func.id[0].isupper() and self.has_numbers and not scope.is_table:  # a record
                changed = [_with(node, args=[*node.args[:k], number, *node.args[k + 1 :]])
                           for k, each in enumerate(node.args) for number in _near(each)]  # fmt: skip
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            changed = list(self._attributes(node))
        elif isinstance(node, ast.Constant):
            changed = [*_types(node), *(_near(node) if self.has_numbers and scope.is_table else ())]
        elif isinstance(node, ast.Tuple | ast.List | ast.Set) and isinstance(
            getattr(node, "ctx", ast.Load()), ast.Load
        ):
            changed = _shorter(node) if scope.is_table and not self.is_native else []
        elif isinstance(node, ast.Dict) and len(node.keys) > 1 and scope.is_table and not self.is_native:
            changed = [_without(node, k) for k in (0, len(node.keys) - 1)]
        for each in changed:
            yield each, ast.unparse(each)

    def _attributes(self, node: ast.Attribute) -> Iterator[ast.expr]:
        members = self.members.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if members and node.attr in members:
            yield _with(node, attr=members[(members.index(node.attr) + 1) % len(members)])
        elif FIELDS.get(node.attr) in self.fields:
            yield _with(node, attr=FIELDS[node.attr])


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, deepcopy(value))
    return changed


def _without(node: ast.Dict, k: int) -> ast.expr:
    """A table without one of its rows."""
    return _with(node, keys=node.keys[:k] + node.keys[k + 1 :], values=node.values[:k] + node.values[k + 1 :])


def _is_quantity(node: ast.expr) -> bool:
    """Whether an operand of a comparison, of arithmetic, or of a call of `min` or `max` is a quantity."""
    operands = {
        ast.Compare: lambda: [node.left, *node.comparators],  # type: ignore[attr-defined]
        ast.BinOp: lambda: [node.left, node.right],  # type: ignore[attr-defined]
        ast.Call: lambda: node.args,  # type: ignore[attr-defined]
    }.get(type(node), list)()
    is_text = any(isinstance(each, ast.JoinedStr | ast.Constant) and not _is_number(each) for each in operands)
    return not is_text and any(_names_quantity(each) for each in operands)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_tuned(node: ast.Compare) -> bool:
    """Whether a quantity is compared with a constant of the module."""
    return any(isinstance(each, ast.Name) and each.id.isupper() for each in (node.left, *node.comparators))


def _names_quantity(node: ast.expr) -> bool:
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return not name.isupper() and not QUANTITIES.isdisjoint(name.strip("_").split("_"))
    if isinstance(node, ast.Subscript | ast.Starred | ast.UnaryOp):
        return _names_quantity(node.operand if isinstance(node, ast.UnaryOp) else node.value)
    return isinstance(node, ast.Compare | ast.BinOp) and _is_quantity(node)


def _near(node: ast.expr) -> list[ast.expr]:
    """The number after a whole number, and the one before it."""
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return []
    value: int = node.value
    return [ast.Constant(number) for number in (value + 1, value - 1) if number > 0]


def _other_size(node: ast.expr) -> list[ast.expr]:
    """The next size of elements, and the one before it: sizes are powers of two."""
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return []
    return [ast.Constant(size) for size in (2 * node.value, node.value // 2) if size]


def _types(node: ast.Constant) -> list[ast.expr]:
    """A list of element types without its last or its first one."""
    words = node.value.split() if isinstance(node.value, str) else []
    if len(words) < 2 or not TYPES.issuperset(words):
        return []
    return [ast.Constant(" ".join(words[:-1])), ast.Constant(" ".join(words[1:]))]


def _shorter(node: ast.Tuple | ast.List | ast.Set) -> list[ast.expr]:
    """A list of names without its first or its last entry. Pairs are left alone: most are unpacked."""
    plain = (ast.Constant, ast.Name, ast.Attribute, ast.Starred)
    if len(node.elts) < 3 or not all(isinstance(item, plain) for item in node.elts):
        return []
    if any(isinstance(item, ast.Constant) and not isinstance(item.value, str) for item in node.elts):
        return []
    return [_with(node, elts=node.elts[1:]), _with(node, elts=node.elts[:-1])]


def find(package: Path, folders: tuple[str, ...]) -> list[Mutant]:
    """Every mutant of some folders of the package, in a fixed order."""
    members, found = enums(package), []
    for folder in folders:
        for path in sorted((package / folder).rglob("*.py")):
            module = path.relative_to(package).as_posix()
            found += Finder(module, path.read_text(encoding="utf-8"), members).run()
    return found


def made(package: Path, mutant: Mutant) -> str:
    """The source of the mutant's file, with its change."""
    source = (package / mutant.module).read_text(encoding="utf-8")
    return Finder(mutant.module, source, enums(package), mutant.number).mutated()


def edited(package: Path, mutant: Mutant) -> tuple[str, range]:
    """The source of the mutant's file as a person would change it, and the lines that differ: all else is as it was."""
    source, wanted = (package / mutant.module).read_text(encoding="utf-8"), made(package, mutant)
    meant = ast.dump(ast.parse(wanted))
    lines = source.encode().splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        at = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        if isinstance(node, ast.expr) and at == (mutant.line, mutant.column) and ast.unparse(node) == mutant.original:
            last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
            before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
            after = lines[last - 1][end:] + b"".join(lines[last:])
            for text in (mutant.mutation, f"({mutant.mutation})"):
                found = (before + text.encode() + after).decode()
                if _means(found) == meant:
                    return found, range(node.lineno, node.lineno + 1)
    return wanted, range(1, len(wanted.splitlines()) + 1)


def _means(source: str) -> str:
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return ""
