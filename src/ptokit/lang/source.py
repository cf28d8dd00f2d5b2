"""A function's source: its tree, the roles of its calls, what its code reads by name; the tree compiled again."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import linecache
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, pairwise
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

from ptokit.brief import brief
from ptokit.lines import lines_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
Position = tuple[int | None, int | None]
Fact = tuple[Any, ...]

_NAMES = {*dis.hasname, *dis.haslocal, *dis.hasfree}
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_CONSTANTS = {"LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST", "KW_NAMES"}
_OPERATORS = {
    *("BINARY_OP", "COMPARE_OP", "IS_OP", "CONTAINS_OP", "CALL_INTRINSIC_1", "FORMAT_VALUE", "CONVERT_VALUE"),
    *("UNARY_POSITIVE", "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT"),
    *("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR", "BINARY_SLICE", "STORE_SLICE"),
    *("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_SLICE", "BUILD_STRING"),
}
"""Opcodes that identify the source. No version of Python has all of them."""
_OF_THE_COMPILER = {"__qualname__", "__static_attributes__"}
"""Attributes of a class whose values the compiler derives: from the scopes around it, or in no fixed order."""
_KINDS = (
    *(inspect.CO_VARARGS, inspect.CO_VARKEYWORDS),
    *(inspect.CO_GENERATOR, inspect.CO_COROUTINE, inspect.CO_ASYNC_GENERATOR),
)


def without_warnings() -> warnings.catch_warnings[None]:
    """Python has warned of the source when it compiled the file: not again, and not as an error."""
    return warnings.catch_warnings(action="ignore")


def compiled(tree: Function, code: CodeType, *cells: str) -> CodeType:
    """A tree as the code of a function, with the free names of the code that it comes from, and more."""
    tree = copy(tree)
    cast("Any", tree).type_params = []  # `def k[T]()` puts a scope around the function; a T that it uses is free
    module = ast.parse("def outer():\n class _: pass")
    outer = cast("ast.FunctionDef", module.body[0])
    owner = cast("ast.ClassDef", outer.body[0])
    owner.name, owner.body = _class_of(code), [tree]
    outer.args.args = [ast.arg(name) for name in (*code.co_freevars, *cells)]
    if owner.name not in code.co_freevars:
        outer.body.insert(0, ast.Global([owner.name]))
    ast.fix_missing_locations(module)
    flags = code.co_flags & annotations.compiler_flag
    with without_warnings():
        found = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    for name in (outer.name, owner.name, tree.name):
        found = next(inner for inner in codes_in(found) if inner.co_name == name)
    return found


def _class_of(code: CodeType) -> str:
    """The class whose private names a function sees; `_` has none."""
    methods = [part.split(".") for part in code.co_qualname.split(".<locals>.") if "." in part]
    return methods[-1][-2] if methods else "_"


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of the functions and classes that are defined directly inside code."""
    return (const for const in code.co_consts if isinstance(const, CodeType))


def is_source(tree: Function, code: CodeType) -> bool:
    """Whether code was compiled from a tree.

    Code depends on more than the function: which instructions a call becomes, and where they stand, depends on the
    imports of the module, which a notebook compiles apart from the function. So only facts that follow from the
    function alone are compared. Assertions are left out, and jumps beside them: tools such as pytest rewrite them.
    """
    asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    left_out = {line for node in asserts for line in range(node.lineno, cast("int", node.end_lineno) + 1)}
    has_columns = any(column is not None for *_, column in code.co_positions())  # not with `-X no_debug_ranges`
    place = _end if has_columns else _line
    trees = [tree, _with_open_assertions(tree)] if asserts else [tree]
    found = set(_facts(code, left_out, place))
    try:
        return any(set(_facts(compiled(each, code), left_out, place)) == found for each in trees)
    except (SyntaxError, ValueError):
        return False


def _with_open_assertions(tree: Function) -> Function:
    """A tree whose assertions may hold: Python leaves out what follows `assert False`, but not if it was rewritten."""
    tree = deepcopy(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            node.test = ast.copy_location(ast.Name("holds", ast.Load()), node.test)
    return tree


def _end(step: dis.Instruction) -> Position:
    """Where an expression ends. Where an instruction of a call begins differs."""
    where = step.positions
    return (where.end_lineno, where.end_col_offset) if where else (None, None)


def _line(step: dis.Instruction) -> Position:
    """The line alone."""
    return step.positions.lineno if step.positions else None, None


def _facts(code: CodeType, left_out: Set[int], place: Callable[[dis.Instruction], Position]) -> Iterator[Fact]:
    """The parameters, names, constants, operators and jumps of code, and where they stand."""
    if code.co_firstlineno not in left_out:
        yield _signature(code)
    steps = [_with_keywords(step, code) for step in dis.get_instructions(code)]
    lines = {step.offset: _line(step)[0] for step in steps}
    steps = [step for step in steps if step.opname != "PUSH_NULL"]  # it depends on the imports
    for before, step, after in zip([steps[0], *steps], steps, [*steps[1:], steps[-1]], strict=False):
        if isinstance(step.argval, CodeType):
            yield from _facts(step.argval, left_out, place)
        elif step.opcode in _JUMPS:
            if not left_out:
                yield *place(step), "jump", lines.get(step.argval)
        else:
            facts = _facts_of(before, step, after, place)
            yield from (fact for fact in facts if fact[0] is not None and fact[0] not in left_out)


def _signature(code: CodeType) -> Fact:
    kinds = tuple(code.co_flags & kind for kind in _KINDS)
    stars = sum(bool(kind) for kind in kinds[:2])
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]
    return code.co_firstlineno, code.co_name, code.co_posonlyargcount, code.co_kwonlyargcount, kinds, parameters


def _with_keywords(step: dis.Instruction, code: CodeType) -> dis.Instruction:
    """`dis` of Python 3.11 does not look up the names of keyword arguments."""
    return step._replace(argval=code.co_consts[cast("int", step.arg)]) if step.opname == "KW_NAMES" else step


def _facts_of(
    before: dis.Instruction, step: dis.Instruction, after: dis.Instruction, place: Callable[[dis.Instruction], Position]
) -> Iterator[Fact]:
    """The facts that an instruction between two others shows."""
    if step.opcode in dis.haslocal:
        yield from _local_facts(before, step, place)
    elif step.opcode in _NAMES:
        yield *place(step), "name", step.argval
    elif step.opname in _OPERATORS:
        yield *place(step), step.opname, step.argval
    elif step.opname in _CONSTANTS and step.argval is not None:
        is_derived = after.opname == "STORE_NAME" and after.argval in _OF_THE_COMPILER
        is_keywords = step.opname == "KW_NAMES" or after.opname == "CALL_KW"
        if not is_derived:
            yield *(_line(before) if is_keywords else place(step)), "constant", _constant(step.argval)


def _local_facts(
    before: dis.Instruction, step: dis.Instruction, place: Callable[[dis.Instruction], Position]
) -> Iterator[Fact]:
    """A local name. One instruction can name two, at the place of the first; so the second is identified by the first.

    Whether it does depends on how many local names there are, and pytest adds some.
    """
    follows = before.opcode in dis.haslocal and _line(before) == _line(step)
    if not follows:
        yield *place(step), "name", _pair(step)[0]
    for names in pairwise((*_pair(before)[-1:], *_pair(step)) if follows else _pair(step)):
        yield *_line(step), "names", *names


def _pair(step: dis.Instruction) -> tuple[str, ...]:
    names: Any = step.argval
    return cast("tuple[str, ...]", names) if isinstance(names, tuple) else (names,)


def _constant(value: object) -> Fact:
    """A constant and its type, for `0.0`, `-0.0`, `0` and `False` are equal."""
    if isinstance(value, tuple | frozenset):
        items = cast("tuple[object, ...] | frozenset[object]", value)
        return type(items), type(items)(_constant(item) for item in items)
    return type(value), repr(value) if isinstance(value, float | complex) else value


# --- names that code reads


AS_TEXT = "__str__"
"""Stands among the attributes of code that makes a text of a value."""
_MISSING: Any = object()
_GLOBALS = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"])
_CELLS = frozenset(["LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"])
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
_OTHER_ATTRIBUTES = frozenset(["IMPORT_FROM", "LOAD_SUPER_ATTR"])
_CONSTANT_LOADS = frozenset(["LOAD_CONST", "LOAD_SMALL_INT"])
_FORMATS = frozenset(["FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"])


@dataclass(frozen=True)
class Chain:
    """A name from outside and what is read of it, `config.sizes["rows"]`."""

    name: str
    is_cell: bool
    steps: tuple[tuple[str, Any], ...]
    """`attribute` or `item`, with the name or the constant."""
    line: int

    def __str__(self) -> str:
        return self.name + "".join(f".{key}" if kind == "attribute" else f"[{brief(key)}]" for kind, key in self.steps)


@dataclass(frozen=True)
class Named:
    """What code, with the functions that are defined inside it, reads by name."""

    chains: tuple[Chain, ...]
    attributes: frozenset[str]
    """Of other values."""
    imports: tuple[tuple[str, int], ...]
    """Names of modules, with the lines."""


@lru_cache(maxsize=1024)
def named_by(file: str, code: CodeType) -> Named:
    """The file is part of the key: code of two files can be equal."""
    found = _Scan(code)
    inner = [named_by(file, each) for each in codes_in(code)]
    return Named(
        (*found.chains, *(chain for each in inner for chain in each.chains)),
        found.attributes.union(*(each.attributes for each in inner)),
        (*found.imports, *(name for each in inner for name in each.imports)),
    )


class _Scan:
    """Reads the instructions of code. The value of a chain is used up by the instruction that follows it directly."""

    def __init__(self, code: CodeType) -> None:
        self.chains: list[Chain] = []
        self.attributes = frozenset[str]()
        self.imports: list[tuple[str, int]] = []
        self._open: list[Any] | None = None
        self._constant: Any = _MISSING
        line = code.co_firstlineno
        for step in dis.get_instructions(code):
            line = (step.positions.lineno if step.positions else None) or line
            if step.is_jump_target:  # the value may come from elsewhere
                self._close()
            if step.opname != "EXTENDED_ARG":
                self._step(step, line)
        self._close()

    def _step(self, step: dis.Instruction, line: int) -> None:
        name, chain = step.opname, self._open
        if chain is not None and name in _CONSTANT_LOADS and self._constant is _MISSING:
            self._constant = step.argval
            return
        if chain is not None and self._constant is _MISSING and name in _ATTRIBUTES:
            chain.append(("attribute", step.argval))
            return
        if chain is not None and self._constant is not _MISSING and _is_subscript(step):
            chain.append(("item", self._constant))
            self._constant = _MISSING
            return
        self._close()
        if name in _GLOBALS or name in _CELLS:
            self._open = [step.argval, name in _CELLS, line]
        elif name in _ATTRIBUTES or name in _OTHER_ATTRIBUTES:
            self.attributes |= {step.argval}
        elif name == "IMPORT_NAME":
            self.imports.append((step.argval, line))
        elif name == "MATCH_CLASS":
            self.attributes |= {"__dict__"}
        elif name in _FORMATS or (name == "BINARY_OP" and step.argrepr.startswith("%")):
            self.attributes |= {AS_TEXT}

    def _close(self) -> None:
        if self._open is not None:
            name, is_cell, line, *steps = self._open
            self.chains.append(Chain(name, is_cell, tuple(steps), line))
        self._open, self._constant = None, _MISSING


def _is_subscript(step: dis.Instruction) -> bool:
    return step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]")


# --- sources of functions


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
