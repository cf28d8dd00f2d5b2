"""Functions for runs with real values: the same source, with `pto.when` as a plain `if`."""

from __future__ import annotations

import ast
import os
from copy import deepcopy
from functools import lru_cache
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import cast

from ptokit.finding import VerifyError
from ptokit.lang.reading import Reading, check_source, read
from ptokit.lang.recompile import compiled
from ptokit.lang.source import Unreadable, surroundings, tree_of

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
