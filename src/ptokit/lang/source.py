"""A kernel's own source: what tracing would get silently wrong is found here, before anything runs."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NoReturn, TypeVar, cast

from ptokit.finding import Finding, VerifyError, Where

Names = Mapping[str, object]
"""What names stand for, outside the function."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
_Compound = ast.For | ast.While | ast.If | ast.With | ast.Try | ast.TryStar | ast.Match

MARKS: dict[object, str] = {}
"""The calls that open a traced body, and `const`: each object and its role."""

_Marked = TypeVar("_Marked")


def marked(role: str) -> Callable[[_Marked], _Marked]:
    """Let the reading of kernels recognise a call by the object itself, whatever it is imported as."""

    def mark(thing: _Marked) -> _Marked:
        MARKS[thing] = role
        return thing

    return mark


class Unreadable(Exception):
    """A function whose source cannot be read."""


def tree_of(code: CodeType) -> Function:
    """The syntax tree of a function, with the lines and columns of its file."""
    return _tree(code.co_filename, code)


@lru_cache(maxsize=1024)
def _tree(file: str, code: CodeType) -> Function:
    """By the file too: code of two files can be equal."""
    first = code.co_firstlineno
    try:
        lines = inspect.getblock(linecache.getlines(file)[first - 1 :])
        nested = bool(lines) and lines[0][:1].isspace()  # inside another function: it needs a body around it
        tree = ast.parse("".join(["if True:\n"] * nested + lines))
    except (SyntaxError, IndexError):
        raise Unreadable(code.co_name) from None
    ast.increment_lineno(tree, first - 1 - nested)
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name == code.co_name:
            return node
    raise Unreadable(code.co_name)


Position = tuple[int | None, int | None, int | None, int | None]


@lru_cache(maxsize=1024)
def _bindings(file: str, code: CodeType) -> dict[Position, str]:
    """The name that each assignment and each loop binds, by the position of the expression it is bound to."""
    found: dict[Position, str] = {}
    try:
        tree = _tree(file, code)
    except Unreadable:
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.For):
            target, value = node.target, node.iter
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value:
            target, value = node.target, node.value
        else:
            continue
        if isinstance(target, ast.Name):
            found[value.lineno, value.end_lineno, value.col_offset, value.end_col_offset] = target.id
    return found


def assigned_name(frame: FrameType | None) -> str | None:
    """The name that the user binds to what the current call returns."""
    if frame is None:
        return None
    bindings = _bindings(frame.f_code.co_filename, frame.f_code)
    position = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    return bindings.get(position) if position else None


def surroundings(function: FunctionType) -> dict[str, object]:
    """What the free names of a function stand for: built-ins, its module's names, its closure."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**vars(builtins), **function.__globals__, **{name: _content(cell) for name, cell in cells}}


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def role_of(node: ast.expr, names: Names, local: frozenset[str] = frozenset()) -> str | None:
    """The role of what an expression such as `pto.range` names; nothing of the user's is run to find out."""
    thing = _thing(node, names, local)
    try:
        return MARKS.get(thing)
    except TypeError:
        return None


def _thing(node: ast.expr, names: Names, local: frozenset[str]) -> object:
    if isinstance(node, ast.Name):
        return None if node.id in local else names.get(node.id)
    if isinstance(node, ast.Attribute):
        module = _thing(node.value, names, local)
        return getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
    return None


def constants_of(function: FunctionType) -> frozenset[str]:
    """The parameters that are annotated as `pto.const`."""
    names, annotations = surroundings(function), cast("dict[str, object]", function.__annotations__)
    return frozenset(name for name, annotation in annotations.items() if _annotates(annotation, names) == "const")


def _annotates(annotation: object, names: Names) -> str | None:
    """The role of an annotation; under `from __future__ import annotations` it is text."""
    if not isinstance(annotation, str):
        return _role(annotation) or _role(type(annotation))
    try:
        node = ast.parse(annotation, mode="eval").body
    except SyntaxError:
        return None
    return role_of(node.func if isinstance(node, ast.Call) else node, names)


def _role(annotation: object) -> str | None:
    try:
        return MARKS.get(annotation)
    except TypeError:
        return None


@dataclass
class _Scope:
    """The kernel's own body or a traced one: names bound in it live until it ends."""

    kind: str
    line: int
    outer: _Scope | None = None
    bound: dict[str, int] = field(default_factory=dict)
    """Names bound here, and the line."""
    ended: dict[str, int] = field(default_factory=dict)
    """Names bound in traced bodies that have ended, and the line."""
    plain_loops: int = 0

    @property
    def is_traced(self) -> bool:
        return self.outer is not None

    def around(self) -> Iterator[_Scope]:
        """The scopes around this one."""
        scope = self.outer
        while scope:
            yield scope
            scope = scope.outer


MUTATORS = frozenset(
    [
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "clear",
        "update",
        "add",
        "discard",
        "setdefault",
        "popitem",
        "sort",
        "reverse",
    ]
)
"""Methods that change a list, a dictionary or a set."""


class Reading:
    """Reads one function for what tracing would get silently wrong."""

    def __init__(self, tree: Function, names: Names, file: str, *, is_kernel: bool = True) -> None:
        self.file = file
        self.names = names
        self.is_kernel = is_kernel
        self.problems: dict[Finding, None] = {}
        self.opened: set[int] = set()
        """Lines on which traced bodies are opened."""
        arguments = tree.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        scope = _Scope("kernel", tree.lineno, bound={arg.arg: arg.lineno for arg in every if arg})
        stored = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        self.local = frozenset((*scope.bound, *stored))
        self._block(tree.body, scope)
        for node in ast.walk(tree):
            if isinstance(node, ast.Global | ast.Nonlocal):
                said = f"a kernel that is traced once cannot set {', '.join(node.names)} outside it"
                self._report(node, "KN-03", said, "return nothing and store results in arguments")

    def _report(self, node: ast.AST, rule: str, message: str, fix: str) -> None:
        where = Where(self.file, cast("int", node.lineno))  # type: ignore[attr-defined]
        self.problems[Finding("error", rule, message, fix=fix, where=where)] = None

    def _role(self, node: ast.expr) -> str | None:
        return role_of(node.func, self.names, self.local) if isinstance(node, ast.Call) else None

    def _opens(self, stmt: ast.stmt) -> str | None:
        """The role of a statement that opens a traced body."""
        if isinstance(stmt, ast.For):
            role = self._role(stmt.iter)
            return role if role == "range" else None
        if isinstance(stmt, ast.With):
            roles = [self._role(item.context_expr) for item in stmt.items]
            return next((role for role in roles if role in ("when", "otherwise")), None)
        return None

    def _block(self, block: list[ast.stmt], scope: _Scope) -> None:
        before: str | None = None
        for stmt in block:
            role = self._opens(stmt)
            if role:
                self._traced(cast("ast.For | ast.With", stmt), role, before, scope)
            else:
                self._plain(stmt, scope)
            before = role

    def _traced(self, stmt: ast.For | ast.With, role: str, before: str | None, scope: _Scope) -> None:
        inner = _Scope(f"pto.{role}", stmt.lineno, scope)
        header = stmt.iter if isinstance(stmt, ast.For) else stmt.items[0].context_expr
        self.opened.update(range(header.lineno, cast("int", header.end_lineno) + 1))
        if isinstance(stmt, ast.For):
            self._reads(cast("ast.Call", stmt.iter).args, scope)
            inner.bound.update({node.id: stmt.lineno for node in ast.walk(stmt.target) if isinstance(node, ast.Name)})
        else:
            item = stmt.items[0]
            if len(stmt.items) > 1 or item.optional_vars:
                self._report(stmt, "KN-06", f"pto.{role} stands alone in its `with`", "nest the bodies")
            self._reads(cast("ast.Call", item.context_expr).args, scope)
        if role == "otherwise" and before != "when":
            self._report(stmt, "KN-06", "pto.otherwise must follow a pto.when body directly", "move it there")
        self._block(stmt.body, inner)
        if isinstance(stmt, ast.For):
            self._block(stmt.orelse, scope)
        for name, line in {**inner.ended, **inner.bound}.items():
            scope.ended[name] = line

    def _plain(self, stmt: ast.stmt, scope: _Scope) -> None:
        if isinstance(stmt, ast.Break | ast.Continue | ast.Return):
            self._leave(stmt, type(stmt).__name__.lower(), scope)
        elif isinstance(stmt, Function | ast.ClassDef):
            self._bind(stmt.name, stmt, scope)
        elif isinstance(stmt, _Compound):
            self._compound(stmt, scope)
        else:
            self._simple(stmt, scope)

    def _leave(self, stmt: ast.stmt, word: str, scope: _Scope) -> None:
        own_loop = word != "return" and scope.plain_loops
        if isinstance(stmt, ast.Return) and stmt.value:
            self._reads([stmt.value], scope)
        if scope.is_traced and not own_loop:
            said = f"`{word}` cannot leave a {scope.kind} body: whether it does is known only when the kernel runs"
            self._report(stmt, "KN-05", said, "put what follows into `with pto.when(condition):`")
        elif self.is_kernel and isinstance(stmt, ast.Return) and stmt.value and not _is_none(stmt.value):
            self._report(
                stmt, "KN-05", "a kernel returns nothing", "store results in an argument: pto.tstore(out, tile)"
            )

    def _compound(self, stmt: _Compound, scope: _Scope) -> None:
        loops = isinstance(stmt, ast.For | ast.While)
        for name, value in ast.iter_fields(stmt):
            if name in ("body", "orelse", "finalbody"):
                scope.plain_loops += loops and name == "body"
                self._block(value, scope)
                scope.plain_loops -= loops and name == "body"
            elif name in ("handlers", "cases"):
                for arm in cast("list[ast.ExceptHandler | ast.match_case]", value):
                    self._arm(arm, stmt, scope)
            elif isinstance(value, ast.expr | list):
                self._expressions(cast("list[ast.AST]", value if isinstance(value, list) else [value]), stmt, scope)

    def _arm(self, arm: ast.ExceptHandler | ast.match_case, stmt: ast.stmt, scope: _Scope) -> None:
        head = [arm] if isinstance(arm, ast.ExceptHandler) else ast.walk(arm.pattern)
        for node in head:
            if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                self._bind(node.name, node if isinstance(node, ast.pattern) else arm, scope)
        self._block(arm.body, scope)

    def _simple(self, stmt: ast.stmt, scope: _Scope) -> None:
        if isinstance(stmt, ast.AugAssign):
            self._reads([stmt.value], scope)
            self._expressions([stmt.target], stmt, scope)
            return
        self._expressions([stmt], stmt, scope)

    def _expressions(self, nodes: list[ast.AST], stmt: ast.stmt, scope: _Scope) -> None:
        """What an expression reads, then what it binds."""
        self._reads(nodes, scope)
        for node in _walk(nodes):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self._bind(node.id, stmt, scope)
            elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
                self._change(node, stmt, scope)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
                self._change(node.func, stmt, scope)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    self._bind(alias.asname or alias.name.partition(".")[0], stmt, scope)

    def _reads(self, nodes: Any, scope: _Scope) -> None:
        for node in _walk(nodes):
            if isinstance(node, ast.Call) and self._role(node) in ("range", "when", "otherwise"):
                said = f"pto.{self._role(node)} opens a body; it cannot stand inside an expression"
                fix = "write `for i in pto.range(...):`, `with pto.when(condition):` or `with pto.otherwise():`"
                self._report(node, "KN-06", said, fix)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._read(node, scope)
            elif isinstance(node, ast.Yield | ast.YieldFrom) and scope.is_traced:
                said = f"`yield` leaves a {scope.kind} body, which whoever asks for more values cannot know"
                self._report(node, "KN-05", said, "write the loop or the condition where its body is")

    def _read(self, node: ast.Name, scope: _Scope) -> None:
        for place in (scope, *scope.around()):
            if node.id in place.ended:
                said = f"`{node.id}` was bound inside a traced body, at line {place.ended[node.id]}, which has ended"
                self._report(node, "KN-04", said, "bind it before the body, or use it inside")
                return
            if node.id in place.bound:
                return

    def _bind(self, name: str, stmt: ast.AST, scope: _Scope) -> None:
        if name == "_":  # nobody's name
            return
        for outer in scope.around():
            if name in outer.bound:
                said = (
                    f"`{name}` is bound before this {scope.kind} body, at line {outer.bound[name]}, and rebound inside"
                )
                self._report(stmt, "KN-03", said, "use another name, or keep the value in a tile or in memory")
                return
        scope.bound.setdefault(name, cast("int", stmt.lineno))  # type: ignore[attr-defined]
        scope.ended.pop(name, None)

    def _change(self, node: ast.Subscript | ast.Attribute, stmt: ast.stmt, scope: _Scope) -> None:
        """A list element or an attribute of something that was made outside the traced body."""
        base: ast.expr = node
        while isinstance(base, ast.Subscript | ast.Attribute):
            base = base.value
        is_valid = isinstance(node, ast.Attribute) and node.attr == "valid"
        if is_valid or not isinstance(base, ast.Name) or not scope.is_traced or base.id in scope.bound:
            return
        said = f"`{ast.unparse(node)}` is changed inside a {scope.kind} body, which is traced only once"
        self._report(stmt, "KN-03", said, "keep the value in a tile or in memory")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _walk(nodes: Any) -> Iterator[ast.AST]:
    """Expressions and what is inside them, except what has names of its own."""
    for node in nodes:
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from (inner for inner in ast.walk(node) if isinstance(inner, ast.Call | ast.NamedExpr))
            continue
        yield node
        yield from _walk(ast.iter_child_nodes(node))


class _Names:
    """Names as part of a key: functions of the same code are read once, whatever their surroundings."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Names)


@lru_cache(maxsize=1024)
def _read(file: str, code: CodeType, names: _Names, is_kernel: bool) -> Reading:
    return Reading(_tree(file, code), names.names, file, is_kernel=is_kernel)


def check_source(code: CodeType, names: Names, *, is_kernel: bool = True) -> Reading:
    """Refuse a function that tracing would get silently wrong."""
    try:
        reading = _read(code.co_filename, code, _Names(names), is_kernel)
    except Unreadable:
        where = Where(code.co_filename, code.co_firstlineno)
        said = f"the source of {code.co_name} cannot be read, so it cannot be checked"
        fix = "write kernels into a file, or a notebook cell"
        raise VerifyError([Finding("error", "KN-15", said, fix=fix, where=where)]) from None
    if reading.problems:
        raise VerifyError(reading.problems)
    return reading


def check_caller(frame: FrameType | None, kernel: CodeType) -> None:
    """The same for whoever opens a traced body now, be it the kernel or a function that it calls."""
    if frame is None:
        return
    code = frame.f_code
    names = {**vars(builtins), **frame.f_globals, **frame.f_locals}
    reading = check_source(code, names, is_kernel=code is kernel)
    if frame.f_lineno not in reading.opened:
        said = "a traced body is opened here under a name that hides it"
        fix = (
            "write `for i in pto.range(...):` or `with pto.when(condition):`, with pto or the call imported by a module"
        )
        raise VerifyError([Finding("error", "KN-06", said, fix=fix, where=Where(code.co_filename, frame.f_lineno))])


class _Untraced(ast.NodeTransformer):
    """`with pto.when(c): ... with pto.otherwise(): ...` as `if c: ... else: ...`, with the same lines."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, self._block(cast("list[ast.stmt]", block)))
        return super().generic_visit(node)

    def _block(self, block: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for stmt in block:
            role = self.reading._opens(stmt)  # pyright: ignore[reportPrivateUsage]
            if role == "when":
                condition = cast("ast.Call", cast("ast.With", stmt).items[0].context_expr).args[0]
                done.append(ast.copy_location(ast.If(condition, cast("ast.With", stmt).body, []), stmt))
            elif role == "otherwise":
                cast("ast.If", done[-1]).orelse = cast("ast.With", stmt).body
            else:
                done.append(stmt)
        return done


def untraced(function: FunctionType) -> FunctionType:
    """The same function with `pto.when` as a plain `if`, for runs with real values."""
    code = function.__code__
    reading = check_source(code, surroundings(function))
    tree = deepcopy(tree_of(code))
    tree.decorator_list = []
    plain = _Untraced(reading).visit(tree)
    outer = ast.FunctionDef("outer", _arguments(code.co_freevars), [plain], [], None)
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, plain)], []))
    twin_code = _inner_code(compile(module, code.co_filename, "exec"), function.__name__)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in twin_code.co_freevars)
    twin = FunctionType(twin_code, function.__globals__, function.__name__, function.__defaults__, closure)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def _arguments(names: tuple[str, ...]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _inner_code(module: CodeType, name: str) -> CodeType:
    outer = next(const for const in module.co_consts if isinstance(const, CodeType))
    return next(const for const in outer.co_consts if isinstance(const, CodeType) and const.co_name == name)


def refuse_at(function: FunctionType, rule: str, message: str, fix: str) -> NoReturn:
    """Refuse a kernel at the line of its definition."""
    where = Where(function.__code__.co_filename, function.__code__.co_firstlineno)
    raise VerifyError([Finding("error", rule, message, fix=fix, where=where)])
