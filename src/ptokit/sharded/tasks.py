"""Plain functions as Ray tasks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ptokit.sharded.ray_owners import connected

T = TypeVar("T")
RETRIES = 3
"""How often a task is repeated whose process has ended."""


def run_tasks(function: Callable[..., T], items: Sequence[tuple[Any, ...]]) -> Iterator[T]:
    """What a function returns for each item, in order. Tasks run in the folder and with the path of the caller."""
    ray = connected()
    here, path = os.getcwd(), [*sys.path]

    def work(item: tuple[Any, ...]) -> T:
        os.chdir(here)
        sys.path[:] = [*dict.fromkeys([*path, *sys.path])]
        return function(*item)

    task = ray.remote(max_retries=RETRIES)(work)
    sent = [task.remote(item) for item in items]
    for each in sent:
        yield ray.get(each)
