"""Python files that launch kernels: `@pto.cases`, and a run of a file or module as `python` runs it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import runpy
import sys
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

from ptokit.brief import brief
from ptokit.lang.faults import public

F = TypeVar("F", bound=Callable[[], object])
_MARK = "__ptokit_cases__"


@public
def cases(function: F, /) -> F:
    """Mark a function that launches kernels, for `ptokit check file.py`: it is called without arguments.

    A generator is run to its end. A file with such functions is imported, and its `__main__` block does not run.
    """
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(f"pto.cases marks a plain function, got {brief(function)}")
    try:
        inspect.signature(function).bind()
    except TypeError as problem:
        raise TypeError(f"a function under @pto.cases is called without arguments: {problem}") from None
    setattr(function, _MARK, True)
    return cast("F", function)


@dataclass(frozen=True)
class Script:
    """A Python file, or a module by its name, and the arguments that it gets."""

    name: str
    args: Sequence[str] = ()
    is_module: bool = False

    def run(self) -> Mapping[str, Any]:
        """Run it as `python` does, or call its `pto.cases` functions; returns the names that it defines."""
        with _as_python_runs(self):
            if not _has_cases(self._source()):
                return self._run_as_main()
            module = importlib.import_module(self.name) if self.is_module else import_file(self.name)
            for function in _cases_of(module):
                made = function()
                if inspect.isgenerator(made):
                    deque(made, maxlen=0)
            return vars(module)

    def _run_as_main(self) -> Mapping[str, Any]:
        if self.is_module:
            return runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        return runpy.run_path(os.path.abspath(self.name), run_name="__main__")  # also after a change of directory

    def _source(self) -> bytes:
        """The text of the file; empty if there is none. `run` then raises what Python raises."""
        file: str | None = self.name
        if self.is_module:
            spec = importlib.util.find_spec(self.name)
            file = spec.origin if spec is not None and spec.has_location else None
        if file is None or not os.path.isfile(file):
            return b""
        with open(file, "rb") as stream:
            return stream.read()


@contextmanager
def _as_python_runs(script: Script) -> Generator[None, None, None]:
    """`sys.argv` and `sys.path` as `python` sets them. They are restored, and so is the current directory."""
    folder = os.getcwd()
    first = folder if script.is_module else os.path.dirname(os.path.realpath(script.name))
    argv, path = sys.argv, [*sys.path]
    sys.argv = [script.name, *script.args]
    sys.path.insert(0, first)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
        with suppress(OSError):
            os.chdir(folder)


def import_file(path: str) -> ModuleType:
    """Import a file under its base name; its folder is searched for other modules first."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path}")
    look_first_in(os.path.dirname(os.path.abspath(path)))
    name = os.path.basename(path).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


def look_first_in(folder: str) -> None:
    """Search this folder for modules first."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _cases_of(module: ModuleType) -> list[Callable[[], object]]:
    functions = [value for value in vars(module).values() if isinstance(value, FunctionType)]
    return list(dict.fromkeys(function for function in functions if hasattr(function, _MARK)))


def _has_cases(source: bytes) -> bool:
    """Whether a function of a file is marked, decided without running it: `@pto.cases`, under any name."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except (SyntaxError, ValueError):
        return False  # Python reports it
    imported = [node for node in nodes if isinstance(node, ast.Import)]
    modules = {each.asname or each.name for node in imported for each in node.names if each.name == "ptokit"}
    taken = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "ptokit" and not node.level]
    names = {each.asname or each.name for node in taken for each in node.names if each.name == "cases"}
    marks = {f"{module}.cases" for module in modules} | names
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef))
    return any(ast.unparse(mark) in marks for function in functions for mark in function.decorator_list)
