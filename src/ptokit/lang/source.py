"""A function's source: its syntax tree, what its calls are to a kernel, and the names that it gives."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import linecache
import tokenize
from collections.abc import Callable, Iterator, Mapping, Set
from functools import lru_cache
from itertools import islice
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

Names = Mapping[str, object]
"""What names stand for, outside the function."""
Roles = frozenset[tuple[str, str]]
"""What the calls of a function are to a kernel: `("pto.range", "range")`."""
Function = ast.FunctionDef | ast.AsyncFunctionDef

MARKS: dict[object, str] = {}
"""The calls that open a traced body, and `const`: each object and its role."""
MODULE = "module"
"""The role of a module's function that has no other."""

_SIGNS = ("LOAD_CONST", "LOAD_SMALL_INT", "BINARY_OP", "COMPARE_OP")
_TELLING = {*dis.hasname, *dis.haslocal, *dis.hasfree, *(dis.opmap[sign] for sign in _SIGNS if sign in dis.opmap)}
"""Instructions that show what was written: names, constants, operators."""
_Marked = TypeVar("_Marked")


def marked(role: str) -> Callable[[_Marked], _Marked]:
    """Let the reading of kernels recognise a call by the object itself, whatever it is imported as."""

    def mark(thing: _Marked) -> _Marked:
        MARKS[thing] = role
        return thing

    return mark


class Unreadable(Exception):
    """A function whose source cannot be read, and what to do."""

    def __init__(self, said: str, fix: str) -> None:
        super().__init__(said)
        self.said, self.fix = said, fix


def tree_of(code: CodeType) -> Function:
    """The syntax tree of a function, with the lines and columns of its file."""
    return _tree(code.co_filename, code)


@lru_cache(maxsize=1024)
def _tree(file: str, code: CodeType) -> Function:
    """By the file too: code of two files can be equal."""
    linecache.checkcache(file)
    lines = linecache.getlines(file)
    if not lines or not code.co_name.isidentifier():
        said = f"the source of {code.co_name} cannot be read, so it cannot be checked"
        raise Unreadable(said, "write kernels into a file, or a notebook cell")
    tree = _parsed(lines, code)
    if tree is None or not _is_source(tree, code):
        said = f"the source of {code.co_name} has changed since it was imported"
        raise Unreadable(said, "import it again, or start Python anew")
    return tree


def _parsed(lines: list[str], code: CodeType) -> Function | None:
    first = code.co_firstlineno
    try:
        block = inspect.getblock(lines[first - 1 :])
        nested = block[0][:1].isspace()  # inside another function: it needs a body around it
        module = ast.parse("".join(["if True:\n"] * nested + block))
    except (SyntaxError, IndexError, tokenize.TokenError):
        return None
    ast.increment_lineno(module, first - 1 - nested)
    functions = (node for node in ast.walk(module) if isinstance(node, Function))
    return next((node for node in functions if node.name == code.co_name), None)


def compiled(tree: Function, code: CodeType, *cells: str) -> CodeType:
    """A tree as the code of a function, with the free names of the code that it comes from, and more."""
    names = ast.arguments([], [ast.arg(name) for name in (*code.co_freevars, *cells)], None, [], [], None, [])
    owner = ast.copy_location(ast.ClassDef(_class_of(code), [], [], [tree], []), tree)
    outer = ast.copy_location(ast.FunctionDef("outer", names, [owner], [], None), tree)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    flags = code.co_flags & annotations.compiler_flag
    found = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    for name in (outer.name, owner.name, tree.name):
        found = next(inner for inner in _codes_in(found) if inner.co_name == name)
    return found


def _class_of(code: CodeType) -> str:
    """The class whose private names a function sees; `_` has none."""
    methods = [part.split(".") for part in code.co_qualname.split(".<locals>.") if "." in part]
    return methods[-1][-2] if methods else "_"


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))


def _is_source(tree: Function, code: CodeType) -> bool:
    """Whether code was made from a tree. Assertions are left out: tools such as pytest write them anew."""
    asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    left_out = {line for node in asserts for line in range(node.lineno, cast("int", node.end_lineno) + 1)}
    try:
        return set(_facts(compiled(tree, code), left_out)) == set(_facts(code, left_out))
    except (SyntaxError, ValueError):
        return False


def _facts(code: CodeType, left_out: Set[int]) -> Iterator[tuple[Any, ...]]:
    """The names, the constants and the operators of code, and where they end."""
    for step in dis.get_instructions(code):
        where, value = step.positions, step.argval
        if isinstance(value, CodeType):
            yield from _facts(value, left_out)
        elif step.opcode in _TELLING and value is not None and where and where.end_lineno not in left_out:
            if isinstance(value, str):
                value = value.rpartition("<locals>.")[2]  # the full name of a class
            yield where.end_lineno, where.end_col_offset, type(value), value


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
    return {**vars(builtins), **function.__globals__, **{name: content(cell) for name, cell in cells}}


def content(cell: CellType) -> object:
    """What a closure holds; nothing while it is not set."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def roles_in(code: CodeType, names: Names) -> Roles:
    """What the calls of a function are to a kernel; nothing of the user's is run to find out."""
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
    for inner in _codes_in(code):
        yield from _local_names(inner)


def base_name(node: ast.expr) -> str | None:
    """The name that `name.part[item].part` begins with."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _role_of(node: ast.expr, names: Names) -> str | None:
    role = _mark(_thing(node, names))
    is_of_module = isinstance(node, ast.Attribute) and isinstance(_thing(node.value, names), ModuleType)
    return role or (MODULE if is_of_module else None)


def _mark(thing: object) -> str | None:
    try:
        return MARKS.get(thing)
    except TypeError:
        return None


def _thing(node: ast.expr, names: Names) -> object:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        module = _thing(node.value, names)
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
