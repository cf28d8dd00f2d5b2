"""Where the source can be changed, and into what: found in syntax trees, so that it holds whatever the source becomes.

A change is small and has a meaning: a comparison that is off by one, a constant that is one more, another policy, rows
for columns, an entry of a table that is gone. Text for users is never changed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
FIELDS = {
    "rows": "cols", "cols": "rows", "valid_rows": "valid_cols", "valid_cols": "valid_rows", "maximum": "minimum",
    "minimum": "maximum",
}  # fmt: skip
ENUMS = ("Enum", "PtoEnum")
TYPES = frozenset(("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"))
"""Words of a string that lists element types."""
TEXTS = frozenset(
    ("fix", "found", "about", "text", "summary", "meaning", "spellings", "facts", "expect", "expected", "message")
)
"""Keywords whose values are shown to users."""
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


@dataclass
class _Scope:
    function: str = ""
    starts: tuple[int, ...] = ()
    table: str = ""


@cache
def enums(package: Path) -> dict[str, list[str]]:
    """The members of every enumeration of the package, by its name."""
    found: dict[str, list[str]] = {}
    for path in package.rglob("*.py"):
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
            scope = _Scope(f"{scope.function}.{node.name}".strip("."), (start,))
        elif isinstance(node, ast.ClassDef):
            scope = _Scope(f"{scope.function}.{node.name}".strip("."), (), node.name)
        elif (
            isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Assert)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.keyword) and node.arg in TEXTS)
        ):
            return
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not scope.starts:
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
        if isinstance(node, ast.JoinedStr):
            return node
        if isinstance(node, ast.Lambda):
            scope = _Scope(scope.function, (*scope.starts, node.lineno), scope.table)
        elif isinstance(node, ast.Call) and not scope.starts:
            lambdas = tuple(inner.lineno for inner in ast.walk(node) if isinstance(inner, ast.Lambda))
            scope = _Scope(scope.function, lambdas, scope.table)
        made = None
        for change in self._changes(node):
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

    def _changes(self, node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
        changed: list[ast.expr] = []
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            changed = [_with(node, ops=[COMPARISONS[type(node.ops[0])]()])]
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            changed = [_with(node, op=OPERATORS[type(node.op)]())]
        elif isinstance(node, ast.BoolOp):
            changed = [_with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            changed = [deepcopy(node.operand)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            changed = [_with(node, func=ast.Name(FUNCTIONS[node.func.id], ast.Load()))]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            changed = list(self._attributes(node))
        elif isinstance(node, ast.Constant):
            changed = list(_constants(node))
        elif isinstance(node, ast.Tuple | ast.List | ast.Set) and isinstance(
            getattr(node, "ctx", ast.Load()), ast.Load
        ):
            changed = _shorter(node)
        elif isinstance(node, ast.Dict) and len(node.keys) > 1:
            changed = [_without(node, k) for k in (0, len(node.keys) - 1)]
        for each in changed:
            yield each, ast.unparse(each)

    def _attributes(self, node: ast.Attribute) -> Iterator[ast.expr]:
        members = self.members.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if members and node.attr in members:
            yield _with(node, attr=members[(members.index(node.attr) + 1) % len(members)])
        elif node.attr in FIELDS:
            yield _with(node, attr=FIELDS[node.attr])


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, deepcopy(value))
    return changed


def _without(node: ast.Dict, k: int) -> ast.expr:
    """A table without one of its rows."""
    return _with(node, keys=node.keys[:k] + node.keys[k + 1 :], values=node.values[:k] + node.values[k + 1 :])


def _constants(node: ast.Constant) -> Iterator[ast.expr]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if value > 1:
            yield ast.Constant(value - 1)
    elif isinstance(value, str) and len(words := value.split()) > 1 and TYPES.issuperset(words):
        yield ast.Constant(" ".join(words[:-1]))
        yield ast.Constant(" ".join(words[1:]))


def _shorter(node: ast.Tuple | ast.List | ast.Set) -> list[ast.expr]:
    """A list of names or numbers without its first or its last entry. Pairs are left alone: most are unpacked."""
    plain = (ast.Constant, ast.Name, ast.Attribute, ast.Starred)
    if len(node.elts) < 3 or not all(isinstance(item, plain) for item in node.elts):
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
