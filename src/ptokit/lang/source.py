"""A function's source: its syntax tree, and the roles of its calls."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import tokenize
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from types import CellType, CodeType, FunctionType, ModuleType
from typing import TypeVar, cast

from ptokit.lang.recompile import Function, codes_in, is_source, without_warnings
from ptokit.lines import lines_of

Names = Mapping[str, object]
"""The values of names outside the function."""
Roles = frozenset[tuple[str, str]]
"""The roles of the calls in a kernel: `("pto.range", "range")`."""

MARKS: dict[object, str] = {}
"""The calls that open a traced body, and `const`: each object and its role."""
MODULE = "module"
"""The role of a function of a module, if it has no other."""

_NO_SOURCE = {
    "<stdin>": (
        ": Python keeps what is typed at its prompt only from 3.13 on, and never what is piped into it",
        "write it into a file and import it, or use a notebook, IPython, or the prompt of Python 3.13 or newer",
    ),
    "<string>": (
        ": Python keeps the text of `python -c` only from 3.13 on, and never what `exec` is given",
        "write it into a file and import it",
    ),
    "<timed exec>": (": IPython keeps no source of a cell with %%time", "write it into a cell without %%time"),
}
"""Why code has no source, by its file, and what to do."""
MOST_ENDS = 16
"""Lines that are tried as the first one after a function."""
_Marked = TypeVar("_Marked")


def marked(role: str) -> Callable[[_Marked], _Marked]:
    """Make a call recognisable in kernels by the object itself, under whatever name it is imported."""

    def mark(value: _Marked) -> _Marked:
        MARKS[value] = role
        return value

    return mark


class Unreadable(Exception):
    """A function whose source cannot be read, and what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


def tree_of(code: CodeType) -> Function:
    """The syntax tree of a function, with the lines and columns of its file."""
    return _tree(code.co_filename, code)


@lru_cache(maxsize=1024)
def _tree(file: str, code: CodeType) -> Function:
    """The file is part of the key: code of two files can be equal."""
    lines = _lines_of(code)
    if not lines or not code.co_name.isidentifier():
        raise _no_source(code)
    tree = _parsed(lines, code)
    if tree is None or not is_source(tree, code):
        if file in _NO_SOURCE:  # the lines are those of `python -c`, and the code is not from there
            raise _no_source(code)
        message = f"the source of {code.co_name} has changed since it was imported"
        raise Unreadable(message, "import it again, or restart Python")
    return tree


def is_unchanged(code: CodeType) -> bool:
    """Whether the file of a function still has its source."""
    tree = _parsed(_lines_of(code), code)
    return tree is not None and is_source(tree, code)


def _lines_of(code: CodeType) -> list[str]:
    """The lines of the file of code; none if it cannot be read."""
    file = code.co_filename
    linecache.checkcache(file)
    return lines_of(file) or _lines_in_python(code)


def _lines_in_python(code: CodeType) -> list[str]:
    """The lines of code that was typed at a prompt, which Python 3.13 and newer keep under the functions; of a module
    in an archive, those that its loader has."""
    cells = tuple(CellType() for _ in code.co_freevars)
    is_typed = code.co_filename.startswith("<")
    try:
        return inspect.findsource(FunctionType(code, {"__name__": "__main__"}, closure=cells) if is_typed else code)[0]
    except OSError:
        return []


def _no_source(code: CodeType) -> Unreadable:
    if code.co_name == "<lambda>":
        return Unreadable("the source of a lambda cannot be read, so it cannot be checked", "write it with `def`")
    why, fix = _NO_SOURCE.get(code.co_filename, ("", "write kernels into a file, or a notebook cell"))
    return Unreadable(f"the source of {code.co_name} cannot be read, so it cannot be checked{why}", fix)


def _parsed(lines: list[str], code: CodeType) -> Function | None:
    first = code.co_firstlineno
    for block in _blocks(lines[first - 1 :]):
        nested = block[0][:1].isspace()  # inside another function: it needs a body around it
        try:
            with without_warnings():
                module = ast.parse("".join(["if True:\n"] * nested + block))
        except SyntaxError:
            continue
        ast.increment_lineno(module, first - 1 - nested)
        functions = (node for node in ast.walk(module) if isinstance(node, Function))
        return next((node for node in functions if node.name == code.co_name), None)
    return None


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """The lines of the function that begins at the first one, up to each line that is not further inside: in brackets
    and strings there may be such lines, but what is cut there cannot be parsed. `inspect.getblock` finds the end too,
    but the tokenizer takes milliseconds for its first line."""
    if not lines:
        return
    depth = len(lines[0]) - len(lines[0].lstrip())
    ends = (k for k in range(1, len(lines)) if lines[k][: depth + 1].lstrip()[:1] not in ("", "#"))
    yield from (lines[:end] for end in islice(chain(ends, [len(lines)]), MOST_ENDS))
    with suppress(SyntaxError, tokenize.TokenError):
        yield inspect.getblock(lines)


def surroundings(function: FunctionType) -> dict[str, object]:
    """The values of the free names of a function: built-ins, its module's names, its closure."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**vars(builtins), **function.__globals__, **{name: content(cell) for name, cell in cells}}


def content(cell: CellType) -> object:
    """The content of a closure's cell; None while it is not set."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def roles_in(code: CodeType, names: Names) -> Roles:
    """The roles of the calls in a function. This runs no user code."""
    found = ((text, _role_of(node, names)) for text, node in _callees(code.co_filename, code).items())
    return frozenset((text, role) for text, role in found if role)


@lru_cache(maxsize=1024)
def _callees(file: str, code: CodeType) -> dict[str, ast.Name | ast.Attribute]:
    """What a function calls by a name that comes from outside, such as `pto.range`."""
    local = frozenset(_local_names(code))
    calls = (node.func for node in ast.walk(_tree(file, code)) if isinstance(node, ast.Call))
    dotted = [node for node in calls if isinstance(node, ast.Name | ast.Attribute)]
    return {ast.unparse(node): node for node in dotted if (base := base_name(node)) and base not in local}


def _local_names(code: CodeType) -> Iterator[str]:
    yield from (*code.co_varnames, *code.co_cellvars)
    for inner in codes_in(code):
        yield from _local_names(inner)


def base_name(node: ast.expr) -> str | None:
    """The name that `name.part[item].part` begins with."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _role_of(node: ast.expr, names: Names) -> str | None:
    role = _mark(_resolved(node, names))
    is_of_module = isinstance(node, ast.Attribute) and isinstance(_resolved(node.value, names), ModuleType)
    return role or (MODULE if is_of_module else None)


def _mark(value: object) -> str | None:
    try:
        return MARKS.get(value)
    except TypeError:
        return None


def _resolved(node: ast.expr, names: Names) -> object:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        module = _resolved(node.value, names)
        return getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
    return None


def constants_of(function: FunctionType) -> frozenset[str]:
    """The parameters that are annotated as `pto.const`."""
    names, annotations = surroundings(function), cast("dict[str, object]", function.__annotations__)
    return frozenset(name for name, annotation in annotations.items() if _annotates(annotation, names) == "const")


def _annotates(annotation: object, names: Names) -> str | None:
    """The role of an annotation; under `from __future__ import annotations` it is text."""
    if not isinstance(annotation, str):
        return _mark(annotation) or _mark(type(annotation))
    try:
        node = ast.parse(annotation, mode="eval").body
    except SyntaxError:
        return None
    return _role_of(node.func if isinstance(node, ast.Call) else node, names)
