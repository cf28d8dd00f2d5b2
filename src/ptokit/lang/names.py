"""What the author of a kernel calls the results of calls: read from the source, by the positions of the calls."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType

from ptokit.lang.source import Unreadable, tree_of

Position = tuple[int | None, int | None, int | None, int | None]
Part = tuple[int, int] | ast.expr | str | None
"""A part of a container: its place, and how many there are; its key, then as text; None for the next one."""
Path = tuple[Part, ...]
Binding = tuple[ast.expr | None, Path]
"""A target, and the part of its value; no target if a function returns it."""


class Names:
    """The names of the results of calls, in one trace."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, Path], tuple[FrameType, object, int]] = {}
        """By target and part: the function, what the target was bound to, and the place of the last element."""

    def of(self, frames: Sequence[FrameType]) -> str:
        """The name of what the innermost call returns: that of the outermost function it is returned to."""
        name, path = "", Path()
        for k, frame in enumerate(frames):
            code = next((each.f_code for each in frames[k:] if each.f_code.co_name.isidentifier()), frame.f_code)
            known = _bindings(code.co_filename, code)  # a comprehension and a lambda are parts of a function
            found = known.get(_position(frame))
            if found is None and frame.f_code.co_name.isidentifier():
                break
            target, inner = found or (None, ())
            path = (*(_key(part, frame) for part in inner), *path)
            if target is not None:
                name = self._named(target, path, frame) or name
                if not isinstance(target, ast.Name) or target.id not in known:
                    break
                path = (*known[target.id][1], *path)
        return name

    def _named(self, target: ast.expr, path: Path, frame: FrameType) -> str:
        if path.count(None) > 1:
            return ""
        if None in path:
            key, bound = (ast.unparse(target), path), frame.f_locals.get(ast.unparse(target))
            function, before, last = self._last.get(key, (None, None, -1))
            place = last + 1 if function is frame and before is bound else 0  # another list begins again
            self._last[key] = frame, bound, place
            path = tuple((place, sys.maxsize) if part is None else part for part in path)
        return _spelt(target, path, frame)


def _position(frame: FrameType) -> Position | None:
    return next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)


def _key(part: Part, frame: FrameType) -> Part:
    """A key as text; empty if it is neither a constant nor a variable with a simple value."""
    if not isinstance(part, ast.expr):
        return part
    value = frame.f_locals.get(part.id) if isinstance(part, ast.Name) else getattr(part, "value", None)
    return repr(value) if isinstance(value, int | str) else ""


def _spelt(target: ast.expr, path: Path, frame: FrameType) -> str:
    """The name of a part of what a target gets: `a`, `rest[0]`, `state.sum`; empty if the source does not tell."""
    if isinstance(target, ast.Tuple | ast.List):
        return _item(target.elts, path, frame)
    if isinstance(target, ast.Name):
        name = target.id
    elif isinstance(target, ast.Attribute):
        name = f"{_spelt(target.value, (), frame)}.{target.attr}"
    elif isinstance(target, ast.Subscript):
        name, path = _spelt(target.value, (), frame), (_key(target.slice, frame), *path)
    else:
        return ""
    keys = [str(part[0]) if isinstance(part, tuple) else part for part in path]
    return "".join((name, *(f"[{key}]" for key in keys))) if name and name[0] != "." and all(keys) else ""


def _item(targets: list[ast.expr], path: Path, frame: FrameType) -> str:
    """The name of a part of a sequence that is unpacked."""
    first, rest = path[0] if path else None, path[1:]
    if not isinstance(first, tuple):
        return ""
    place, count = first
    star = next((k for k, each in enumerate(targets) if isinstance(each, ast.Starred)), len(targets))
    if place < star or place - count >= star + 1 - len(targets):
        place -= 0 if place < star else count
        return _spelt(targets[place], rest, frame) if place < len(targets) else ""
    starred = targets[star] if star < len(targets) else None
    return _spelt(starred.value, ((place - star, count), *rest), frame) if isinstance(starred, ast.Starred) else ""


@lru_cache(maxsize=1024)
def _bindings(_file: str, code: CodeType) -> dict[Position | str | None, Binding]:
    """What each expression of a function is bound to, by its position; variables that it returns, by name. The file is
    part of the key: code of two files can be equal."""
    found: dict[Position | str | None, Binding] = {}
    try:
        tree = tree_of(code)
    except Unreadable:
        return found
    for target, value, place in _assignments(tree):
        for each, path in _parts(value, place):
            found[each.lineno, each.end_lineno, each.col_offset, each.end_col_offset] = target, path
            if target is None and isinstance(each, ast.Name):
                found[each.id] = None, path
    return found


def _assignments(tree: ast.AST) -> Iterator[tuple[ast.expr | None, ast.expr, Path]]:
    """Targets, the expressions that are bound to them, and at which part."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets, value):
                yield from ((target, value, ()) for target in reversed(targets))
            case ast.For(target, ast.Call() as value) | ast.AnnAssign(target, _, ast.expr() as value):
                yield target, value, ()
            case ast.NamedExpr(target, value):
                yield target, value, ()
            case ast.Return(ast.expr() as value) | ast.Lambda(_, value):
                yield None, value, ()
            case ast.Call(ast.Attribute(target, "append"), [value]):
                yield target, value, (None,)
            case _:
                pass


def _parts(value: ast.expr, path: Path) -> Iterator[tuple[ast.expr, Path]]:
    """An expression, and those whose values are its value or parts of it."""
    yield value, path
    inner: Iterable[tuple[ast.expr, Path]] = ()
    match value:
        case ast.Tuple(elts) | ast.List(elts) if not any(isinstance(each, ast.Starred) for each in elts):
            inner = [(each, ((k, len(elts)),)) for k, each in enumerate(elts)]
        case ast.Dict(keys, values):
            inner = [(each, (key,)) for key, each in zip(keys, values, strict=True) if key]
        case ast.DictComp(key, each):
            inner = [(each, (key,))]
        case ast.ListComp(each) | ast.GeneratorExp(each):
            inner = [(each, (None,))]
        case ast.Call(ast.Name("tuple" | "list"), [each]):
            inner = [(each, ())]
        case ast.IfExp(_, one, other):
            inner = [(one, ()), (other, ())]
        case _:
            pass
    for each, part in inner:
        yield from _parts(each, (*path, *part))
