"""Numbers that only the run knows, and tests that are decided whatever those numbers are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

MOST_PATHS = 256
"""Sequences of answers that are tried before a test counts as undecided."""


class Deferred(Exception):
    """A test depends on a number that only the run knows."""


@dataclass(frozen=True, eq=False, repr=False)
class Unknown:
    """A number that only the run knows.

    Arithmetic gives another unknown number. A comparison raises `Deferred`; while `certain` explores a test, it gets
    either answer. One object is one number, so it equals itself, and nothing is known of two objects.
    """

    def _compute(self, *_: object) -> Any:
        return Unknown()

    def _compare(self, *_: object) -> bool:
        return _path.answer()

    def _settle(self) -> int:
        raise Deferred

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, int | Unknown) and _path.answer())

    def __hash__(self) -> int:
        return hash(Unknown)  # the descriptions that hold it compare by content

    def __repr__(self) -> str:
        return "?"

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _compute
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _compute
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _compare
    __index__ = __int__ = _settle


def unknown() -> int:
    """A number that only the run knows, in the place of an integer."""
    return cast("int", Unknown())


def is_unknown(*numbers: object) -> bool:
    """Whether one of the numbers is known only to the run."""
    return any(isinstance(number, Unknown) for number in numbers)


class _Path(threading.local):
    """The answers that comparisons get while a test is explored: those given, then False."""

    given: tuple[bool, ...] | None = None
    asked = 0

    def answer(self) -> bool:
        if self.given is None:
            raise Deferred
        self.asked += 1
        return self.asked <= len(self.given) and self.given[self.asked - 1]


_path = _Path()


def certain(test: Callable[[], bool]) -> bool:
    """Whether a test holds for all values of the unknown numbers: its comparisons get every combination of answers.

    The test must not keep what it computes: it runs once for each combination.
    """
    if _path.given is not None:
        return bool(test())
    try:
        return bool(test())
    except Deferred:
        return _holds_on_all_paths(test)


def _holds_on_all_paths(test: Callable[[], bool]) -> bool:
    pending: list[tuple[bool, ...]] = [()]
    try:
        for _ in range(MOST_PATHS):
            given = pending.pop()
            _path.given, _path.asked = given, 0
            if not test():
                return False
            later = _path.asked - len(given)
            pending += [(*given, *(False,) * k, True) for k in range(later)]
            if not pending:
                return True
        return False
    except Deferred:
        return False
    finally:
        _path.given = None
