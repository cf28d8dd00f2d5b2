"""Many small cases in one test: a test of its own takes some milliseconds beside what it does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def over(name: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for all values of an argument. `pytest.mark.parametrize` makes a test of each instead."""
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
