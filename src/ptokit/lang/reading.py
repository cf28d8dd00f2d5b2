"""A check of a kernel's source, before anything runs, for code that tracing would silently get wrong."""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import NoReturn, cast

from ptokit.finding import Finding, VerifyError, Where
from ptokit.lang.source import (
    MODULE,
    Function,
    Names,
    Roles,
    Unreadable,
    base_name,
    compiled,
    roles_in,
    surroundings,
    tree_of,
)

Compound = ast.For | ast.While | ast.If | ast.With | ast.Try | ast.TryStar | ast.Match
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
BODIES = {
    "range": "for i in pto.range(...):",
    "when": "with pto.when(condition):",
    "otherwise": "with pto.otherwise():",
}
"""The calls that open a traced body, and how they are written."""
METHODS = frozenset((
    *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"),
    *("appendleft", "extendleft", "popleft", "rotate"),
    *("update", "setdefault", "popitem", "move_to_end", "subtract"),
    *("add", "discard", "difference_update", "intersection_update", "symmetric_difference_update"),
    *("send", "throw", "__next__", "__setitem__", "__delitem__", "__setattr__", "__delattr__"),
    *("__iadd__", "__isub__", "__imul__", "__imatmul__", "__itruediv__", "__ifloordiv__", "__imod__", "__ipow__"),
    *("__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"),
))  # fmt: skip
"""Methods that change their object."""
CALLS = frozenset(["next", "setattr", "delattr"])
"""Built-in functions that change their first argument."""


@dataclass
class _Scope:
    """A body that is being read; names bound in it exist until it ends."""

    kind: str
    """`pto.range`, `pto.when` or `pto.otherwise`, which are traced; else `kernel`, `call` or `comprehension`."""
    line: int
    """Where it begins, or is called."""
    outer: _Scope | None = None
    bound: dict[str, int] = field(default_factory=dict)
    """Names bound here, and the line."""
    ended: dict[str, int] = field(default_factory=dict)
    """Names bound in traced bodies that have ended, and the line."""
    plain_loops: int = 0

    @property
    def is_traced(self) -> bool:
        return self.kind.startswith("pto.")

    @property
    def home(self) -> _Scope:
        """The scope whose names an assignment binds."""
        return self.outer.home if self.kind == "comprehension" and self.outer else self

    def outwards(self) -> Iterator[_Scope]:
        """This scope and those around it, up to the kernel."""
        scope: _Scope | None = self
        while scope:
            yield scope
            scope = scope.outer

    def around(self) -> Iterator[_Scope]:
        """The scopes around this one in the same function."""
        scope = self
        while scope.kind != "call" and scope.outer:
            scope = scope.outer
            yield scope


class Reading:
    """Reads one function for what tracing would get silently wrong.

    Functions and lambdas that are defined inside it are read again wherever they are named, as if inlined there.
    Not seen: what functions and methods defined elsewhere change, what a call does to its arguments, state behind an
    object's own methods (a random generator, a file), and an iterator that is used up by a loop. These happen once
    in a trace; a run with `debug=True` does them every time, and shows the difference.
    """

    def __init__(self, tree: Function, roles: Roles, file: str, *, is_kernel: bool = True) -> None:
        self.file = file
        self.roles = dict(roles)
        self.is_kernel = is_kernel
        self.problems: dict[Finding, None] = {}
        self.opened: set[int] = set()
        """Lines on which traced bodies are opened."""
        self._defined = _definitions(tree)
        self._called: set[tuple[ast.AST, str, int]] = set()
        """Functions that are being read, and the bodies that they are called in, each by its kind and line."""
        self._block(tree.body, _Scope("kernel", tree.lineno, bound=_parameters(tree.args)))
        for node in ast.walk(tree):
            if isinstance(node, ast.Global | ast.Nonlocal):
                message = f"a kernel that is traced once cannot set {', '.join(node.names)} outside it"
                self._report(node, "KN-03", message, "return nothing and store results in arguments")

    def opens(self, stmt: ast.stmt) -> tuple[str, ast.Call] | None:
        """The role and the call of a statement that opens a traced body."""
        if isinstance(stmt, ast.For):
            calls, roles = [stmt.iter], ("range",)
        elif isinstance(stmt, ast.With):
            calls, roles = [item.context_expr for item in stmt.items], ("when", "otherwise")
        else:
            return None
        found = ((self._role(call), call) for call in calls if isinstance(call, ast.Call))
        return next(((role, call) for role, call in found if role in roles), None)

    def _role(self, call: ast.Call) -> str:
        return self.roles.get(ast.unparse(call.func), "") if isinstance(call.func, ast.Name | ast.Attribute) else ""

    def _report(self, node: ast.AST, rule: str, message: str, fix: str) -> None:
        where = Where(self.file, cast("int", node.lineno))  # type: ignore[attr-defined]
        self.problems[Finding("error", rule, message, fix=fix, where=where)] = None

    # Statements

    def _block(self, block: list[ast.stmt], scope: _Scope) -> None:
        before = ""
        for stmt in block:
            role, call = self.opens(stmt) or ("", None)
            if call:
                self._traced(cast("ast.For | ast.With", stmt), role, call, scope)
            else:
                self._plain(stmt, scope)
            if role == "otherwise" and before != "when":
                self._report(stmt, "KN-06", "pto.otherwise must follow a pto.when body directly", "move it there")
            before = role

    def _traced(self, stmt: ast.For | ast.With, role: str, call: ast.Call, scope: _Scope) -> None:
        inner = _Scope(f"pto.{role}", stmt.lineno, scope)
        self.opened.update(range(call.lineno, cast("int", call.end_lineno) + 1))
        self._expressions((*call.args, *call.keywords), scope)
        if isinstance(stmt, ast.For):
            inner.bound.update(_names_in([stmt.target]))  # as a new name: a loop may hide a name from before it
            self._expressions([stmt.target], inner)
        else:
            self._check_with(stmt, role, call)
        self._block(stmt.body, inner)
        if isinstance(stmt, ast.For):
            self._block(stmt.orelse, scope)
        scope.ended.update({**inner.ended, **inner.bound})

    def _check_with(self, stmt: ast.With, role: str, call: ast.Call) -> None:
        if len(stmt.items) > 1 or stmt.items[0].optional_vars:
            self._report(stmt, "KN-06", f"pto.{role} must be the only item of its `with`", "nest the bodies")
        is_plain = not call.keywords and not any(isinstance(arg, ast.Starred) for arg in call.args)
        if not is_plain or len(call.args) != (role == "when"):
            takes = "one condition, without a name or a star" if role == "when" else "nothing"
            self._report(call, "KN-06", f"pto.{role} takes {takes}", f"write `{BODIES[role]}`")

    def _plain(self, stmt: ast.stmt, scope: _Scope) -> None:
        if isinstance(stmt, ast.Break | ast.Continue | ast.Return):
            self._expressions(ast.iter_child_nodes(stmt), scope)
            self._leave(stmt, type(stmt).__name__.lower(), scope)
        elif isinstance(stmt, Function):
            self._expressions((*stmt.decorator_list, *_defaults(stmt.args)), scope)
            self._bind(stmt.name, stmt, scope)
        elif isinstance(stmt, ast.ClassDef):
            self._expressions((*stmt.decorator_list, *stmt.bases, *stmt.keywords), scope)
            self._block(stmt.body, _Scope("call", stmt.lineno, scope))
            self._bind(stmt.name, stmt, scope)
        elif isinstance(stmt, Compound):
            self._compound(stmt, scope)
        else:
            if isinstance(stmt, ast.AugAssign) and isinstance(stmt.target, ast.Name):
                self._read(stmt.target, scope)
            self._expressions([stmt], scope)

    def _leave(self, stmt: ast.stmt, word: str, scope: _Scope) -> None:
        own_loop = word != "return" and scope.plain_loops
        if scope.is_traced and not own_loop:
            message = f"`{word}` cannot leave a {scope.kind} body: whether it does is known only when the kernel runs"
            self._report(stmt, "KN-05", message, "put what follows into `with pto.when(condition):`")
        elif self.is_kernel and scope.kind == "kernel" and isinstance(stmt, ast.Return) and not _is_none(stmt.value):
            fix = "store results in an argument: pto.tstore(out, tile)"
            self._report(stmt, "KN-05", "a kernel returns nothing", fix)

    def _compound(self, stmt: Compound, scope: _Scope) -> None:
        loops = isinstance(stmt, ast.For | ast.While)
        self._expressions((node for node in _reads_first(stmt) if isinstance(node, ast.expr | ast.withitem)), scope)
        for name, value in ast.iter_fields(stmt):
            if name in ("body", "orelse", "finalbody"):
                scope.plain_loops += loops and name == "body"
                self._block(value, scope)
                scope.plain_loops -= loops and name == "body"
            elif name in ("handlers", "cases"):
                for arm in cast("list[ast.ExceptHandler | ast.match_case]", value):
                    self._arm(arm, scope)

    def _arm(self, arm: ast.ExceptHandler | ast.match_case, scope: _Scope) -> None:
        if isinstance(arm, ast.ExceptHandler):
            self._expressions([arm.type] if arm.type else (), scope)
            self._bind(arm.name or "_", arm, scope)
        else:
            self._expressions([arm.pattern, *([arm.guard] if arm.guard else [])], scope)
        self._block(arm.body, scope)

    # Expressions

    def _expressions(self, nodes: Iterable[ast.AST], scope: _Scope) -> None:
        """What nodes and their children read, change and bind, in the order of evaluation."""
        for node in nodes:
            if isinstance(node, ast.Lambda):
                self._expressions(_defaults(node.args), scope)
                self._expressions([node.body], _Scope("call", node.lineno, scope, _parameters(node.args)))
            elif isinstance(node, Comprehension):
                self._comprehension(node, scope)
            else:
                self._expressions(_reads_first(node), scope)
                self._expression(node, scope)

    def _comprehension(self, node: Comprehension, scope: _Scope) -> None:
        own = _names_in(part.target for part in node.generators)
        self._expressions(ast.iter_child_nodes(node), _Scope("comprehension", node.lineno, scope, own))

    def _expression(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.Name):
            self._name(node, scope)
        elif isinstance(node, ast.Call):
            self._call(node, scope)
        elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if not (isinstance(node, ast.Attribute) and node.attr == "valid"):
                self._change(node, node, scope)
        elif isinstance(node, ast.alias):
            self._bind(node.asname or node.name.partition(".")[0], node, scope)
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            self._bind(node.name, node, scope)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            self._bind(node.rest, node, scope)
        elif isinstance(node, ast.Yield | ast.YieldFrom) and scope.is_traced:
            message = f"`yield` leaves a {scope.kind} body, and tracing cannot follow it"
            self._report(node, "KN-05", message, "write the loop or the condition where its body is")

    def _name(self, node: ast.Name, scope: _Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node, scope)
            self._enter(node, scope)
        elif scope.kind != "comprehension" or node.id not in scope.bound:
            self._bind(node.id, node, scope.home)

    def _call(self, node: ast.Call, scope: _Scope) -> None:
        role = self._role(node)
        if role in BODIES:
            message = f"pto.{role} opens a body; it cannot be part of an expression"
            self._report(node, "KN-06", message, f"write {', '.join(f'`{text}`' for text in BODIES.values())}")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS and role != MODULE:
            self._change(node.func.value, node, scope)
        elif isinstance(node.func, ast.Name) and node.func.id in CALLS and node.args:
            self._change(node.args[0], node, scope)

    def _enter(self, node: ast.Name, scope: _Scope) -> None:
        """Read the functions of a name as if inlined here; their arguments are not known."""
        is_first = not self._called
        body = next(place for place in scope.outwards() if place.is_traced or not place.outer)
        for function in self._defined.get(node.id, ()):
            call = (function, body.kind, body.line)
            if call in self._called:
                continue
            self._called.add(call)
            inner = _Scope("call", node.lineno, scope, _parameters(function.args))
            if isinstance(function, ast.Lambda):
                self._expressions([function.body], inner)
            else:
                self._block(function.body, inner)
        if is_first:
            self._called.clear()

    def _read(self, node: ast.Name, scope: _Scope) -> None:
        for place in scope.outwards():
            if node.id in place.ended:
                message = f"`{node.id}` was bound inside a traced body, at line {place.ended[node.id]}, which has ended"
                self._report(node, "KN-04", message, "bind it before the body, or use it inside")
                return
            if node.id in place.bound:
                return

    def _bind(self, name: str, node: ast.AST, scope: _Scope) -> None:
        scope.ended.pop(name, None)
        is_discarded = name == "_"
        if name in scope.bound or is_discarded:
            return
        for outer in scope.around():
            if name in outer.bound:
                before = f"`{name}` is bound before this {scope.kind} body, at line {outer.bound[name]}"
                fix = "use another name, or keep the value in a tile or in memory"
                self._report(node, "KN-03", f"{before}, and rebound inside", fix)
                return
        scope.bound[name] = cast("int", node.lineno)  # type: ignore[attr-defined]

    def _change(self, target: ast.expr, node: ast.AST, scope: _Scope) -> None:
        """A change of an element, an attribute or a state: its object must be made in the same traced body."""
        name, called = base_name(target), ""
        for place in scope.outwards() if name else ():
            if name in place.bound:
                return
            if place.is_traced:
                message = f"`{ast.unparse(target)}` is changed inside a {place.kind} body{called}"
                self._report(
                    node, "KN-03", f"{message}, which is traced only once", "keep the value in a tile or in memory"
                )
                return
            if place.kind == "call":
                called = f" (from line {place.line})"


def _parameters(arguments: ast.arguments) -> dict[str, int]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {arg.arg: arg.lineno for arg in every if arg}


def _names_in(targets: Iterable[ast.expr]) -> dict[str, int]:
    names = (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    return {name.id: name.lineno for name in names if isinstance(name.ctx, ast.Store)}


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [node for node in (*arguments.defaults, *arguments.kw_defaults) if node]


def _definitions(tree: Function) -> dict[str, list[Function | ast.Lambda]]:
    """The functions and lambdas inside a function, by name."""
    found: dict[str, list[Function | ast.Lambda]] = {}
    for node in ast.walk(tree):
        if isinstance(node, Function) and node is not tree:
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and isinstance(node.value, ast.Lambda):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _reads_first(node: ast.AST) -> list[ast.AST]:
    """The parts of a node: a value comes before the name that it is bound to."""
    return sorted(
        ast.iter_child_nodes(node), key=lambda part: isinstance(getattr(part, "ctx", None), ast.Store | ast.Del)
    )


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


@lru_cache(maxsize=1024)
def _read(file: str, code: CodeType, roles: Roles, is_kernel: bool) -> Reading:
    """The file is part of the key: code of two files can be equal."""
    return Reading(tree_of(code), roles, file, is_kernel=is_kernel)


def read(code: CodeType, names: Names, *, is_kernel: bool = True) -> Reading:
    """Read a function; its source must be available."""
    return _read(code.co_filename, code, roles_in(code, names), is_kernel)


def check_source(code: CodeType, names: Names, *, is_kernel: bool = True) -> Reading:
    """Refuse a function that tracing would get silently wrong."""
    try:
        reading = read(code, names, is_kernel=is_kernel)
    except Unreadable as problem:
        where = Where(code.co_filename, code.co_firstlineno)
        raise VerifyError([Finding("error", "KN-15", problem.message, fix=problem.fix, where=where)]) from None
    if reading.problems:
        raise VerifyError(reading.problems)
    return reading


def check_caller(frame: FrameType | None, kernel: CodeType) -> None:
    """Check the function that opens a traced body now: the kernel, or a function that it calls."""
    if frame is None:
        return
    code = frame.f_code
    closure = {name: frame.f_locals.get(name) for name in code.co_freevars}
    names = {**vars(builtins), **frame.f_globals, **closure}
    reading = check_source(code, names, is_kernel=code is kernel)
    if frame.f_lineno not in reading.opened:
        message = "a traced body is opened here under a name that ptokit cannot resolve"
        fix = f"write `{BODIES['range']}` or `{BODIES['when']}`, with pto or the call imported by a module"
        raise VerifyError([Finding("error", "KN-06", message, fix=fix, where=Where(code.co_filename, frame.f_lineno))])


def refuse_at(function: FunctionType, rule: str, message: str, fix: str) -> NoReturn:
    """Refuse a kernel at the line of its definition."""
    where = Where(function.__code__.co_filename, function.__code__.co_firstlineno)
    raise VerifyError([Finding("error", rule, message, fix=fix, where=where)])


# --- runs with real values


FOLLOW = "@follow"
"""The name of `follow` in a rewritten function: no Python name can clash with it."""
_PACKAGE = __name__.partition(".")[0]
_FOLDER = os.path.dirname(__file__) + os.sep


class _Plain(ast.NodeTransformer):
    """`with pto.when(c): ... with pto.otherwise(): ...` as `if pto.when(c).holds: ... else: ...`, with the same lines.

    Every call `f(...)` becomes `follow(f)(...)`.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, self._block(cast("list[ast.stmt]", block)))
        return super().generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        follow = ast.copy_location(ast.Name(FOLLOW, ast.Load()), node.func)
        node.func = ast.copy_location(ast.Call(follow, [node.func], []), node.func)
        return node

    def _block(self, block: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for stmt in block:
            role, call = self.reading.opens(stmt) or ("", None)
            if call and role == "when":
                holds = ast.copy_location(ast.Attribute(call, "holds", ast.Load()), call)
                done.append(ast.copy_location(ast.If(holds, cast("ast.With", stmt).body, []), stmt))
            elif role == "otherwise":
                cast("ast.If", done[-1]).orelse = cast("ast.With", stmt).body
            else:
                done.append(stmt)
        return done


def untraced(function: FunctionType) -> FunctionType:
    """A kernel for runs with real values."""
    return _untraced_version(function, check_source(function.__code__, surroundings(function)))


def follow(called: object) -> object:
    """The function that a call runs: for the user's functions that use ptokit, the untraced version."""
    if isinstance(called, MethodType):
        return MethodType(cast("FunctionType", follow(called.__func__)), called.__self__)
    if not isinstance(called, FunctionType) or not _may_open_bodies(called):
        return called
    try:
        reading = read(called.__code__, surroundings(called), is_kernel=False)
    except Unreadable:
        return called
    if reading.opened and reading.problems:
        raise VerifyError(reading.problems)
    return _untraced_version(called, reading)


def _may_open_bodies(function: FunctionType) -> bool:
    code = function.__code__
    is_done = FOLLOW in code.co_freevars or code.co_filename.startswith(_FOLDER)
    return not is_done and any(_is_ours(value) for value in surroundings(function).values())


def _is_ours(value: object) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] == _PACKAGE
    return isinstance(value, type | FunctionType) and str(value.__module__).startswith(f"{_PACKAGE}.")


def _untraced_version(function: FunctionType, reading: Reading) -> FunctionType:
    code = function.__code__
    plain = _plain_code(code, reading)
    cells = {FOLLOW: CellType(follow), **dict(zip(code.co_freevars, function.__closure__ or (), strict=True))}
    closure = tuple(cells[name] for name in plain.co_freevars)
    plain_function = FunctionType(plain, function.__globals__, function.__name__, function.__defaults__, closure)
    plain_function.__kwdefaults__ = function.__kwdefaults__
    return plain_function


@lru_cache(maxsize=1024)
def _plain_code(code: CodeType, reading: Reading) -> CodeType:
    return compiled(_Plain(reading).visit(deepcopy(tree_of(code))), code, FOLLOW)
