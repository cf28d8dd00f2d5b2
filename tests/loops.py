"""Many small cases in one test, and slices of large grids of cases."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from functools import wraps
from itertools import product
from typing import Any

FULL = bool(os.environ.get("PTOKIT_FUZZ"))
"""Whether grids are tried in full, as `make fuzz` does."""


def over(name: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for all values of an argument. `pytest.mark.parametrize` makes a test of each instead, which takes
    some milliseconds beside what it does."""
    cases = [*values]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def test(*args: Any, **given: Any) -> None:
            for value in cases:
                try:
                    function(*args, **given, **{name: value})
                except BaseException as problem:
                    problem.add_note(f"{name} = {value!r}")
                    raise

        signature = inspect.signature(function)
        others = [each for each in signature.parameters.values() if each.name != name]
        test.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return test

    return decorate


def all_pairs(*axes: Iterable[Any], one_in: int, full: bool = FULL) -> list[tuple[Any, ...]]:
    """One in some combinations of values, in which all values of any two axes still meet; all of them if `full`.

    A combination is kept if the sum of the positions of its values is a multiple of `one_in`: whatever two axes have, a
    third one with that many values completes it.
    """
    values = [[*axis] for axis in axes]
    assert sum(len(axis) >= one_in for axis in values) >= 3, "some pairs would not meet"
    numbered = product(*map(enumerate, values))
    return [tuple(value for _, value in each) for each in numbered if full or not sum(at for at, _ in each) % one_in]
