"""Numbers that are known only at run time, and tests whose result does not depend on them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Number
from typing import Any, cast

MOST_PATHS = 256
"""Combinations of answers that are tried before a test counts as undecided."""


class Undecided(Exception):
    """A test depends on a number that is known only at run time."""


@dataclass(frozen=True, eq=False, repr=False)
class Unknown:
    """A number that is known only at run time.

    Arithmetic results in another unknown number. A comparison raises `Undecided`; while `certain` explores a test, it
    is answered either way. An object equals itself; whether two objects are equal is unknown.
    """

    def _compute(self, *_: object) -> Any:
        return Unknown()

    def _compare(self, *_: object) -> bool:
        return _path.answer()

    def _convert(self) -> int:
        raise Undecided

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Number | Unknown) and _path.answer())

    def __hash__(self) -> int:
        return hash(Unknown)  # specs that contain it compare by content

    def __repr__(self) -> str:
        return "?"

    def __format__(self, _spec: str) -> str:
        return repr(self)

    def __divmod__(self, _other: object) -> Any:
        return Unknown(), Unknown()

    __rdivmod__ = __divmod__

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _compute
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _compute
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = _compute
    __rshift__ = __rrshift__ = __abs__ = __pos__ = __invert__ = __round__ = __ceil__ = __floor__ = _compute
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _compare
    __index__ = __int__ = __float__ = _convert


def unknown() -> int:
    """A number that is known only at run time, typed as an integer."""
    return cast("int", Unknown())


def is_unknown(*numbers: object) -> bool:
    """Whether one of the numbers is known only at run time."""
    return any(isinstance(number, Unknown) for number in numbers)


class _Path(threading.local):
    """The answers to comparisons while a test is explored: those in `given`, then False."""

    answers: tuple[bool, ...] | None = None
    asked = 0

    def answer(self) -> bool:
        if self.answers is None:
            raise Undecided
        self.asked += 1
        return self.asked <= len(self.answers) and self.answers[self.asked - 1]


_path = _Path()


def certain(test: Callable[[], bool]) -> bool:
    """Whether a test holds for all values of the unknown numbers: every combination of answers is tried.

    The test must not cache what it computes: it runs once for each combination.
    """
    if _path.answers is not None:
        return bool(test())
    try:
        return bool(test())
    except Undecided:
        return _holds_on_all_paths(test)


def _holds_on_all_paths(test: Callable[[], bool]) -> bool:
    pending: list[tuple[bool, ...]] = [()]
    try:
        for _ in range(MOST_PATHS):
            given = pending.pop()
            _path.answers, _path.asked = given, 0
            if not test():
                return False
            later = _path.asked - len(given)
            pending += [(*given, *(False,) * k, True) for k in range(later)]
            if not pending:
                return True
        return False
    except Undecided:
        return False
    finally:
        _path.answers = None
