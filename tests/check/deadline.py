"""A pytest plugin: tests in the order of `PTOKIT_ORDER`, until time is over.

Functions with many cases do not hold up the others: their cases take turns with those of later functions. Cases whose
name has a word of `PTOKIT_WORDS`, or a clause in it, come first.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest

ORDER: list[str] = json.loads(Path(os.environ["PTOKIT_ORDER"]).read_text(encoding="utf-8"))
END = float(os.environ["PTOKIT_END"])
WORDS = frozenset(os.environ["PTOKIT_WORDS"].split())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the cases."""
    places = {name: number for number, name in enumerate(ORDER)}
    seen, turns = Counter[str](), dict[str, float]()
    dashed = [word for word in WORDS if "-" in word]
    for item in sorted(items, key=lambda item: crc32(item.nodeid.encode())):
        function, _, case = item.nodeid.partition("[")
        case = case.lower()
        named = not WORDS.isdisjoint(re.split(r"[^a-z0-9]+", case)) or any(word in case for word in dashed)
        seen[function, named] += 1
        first, step = places.get(function, len(ORDER)), seen[function, named] - 1
        turns[item.nodeid] = first / 4 + step / 2 if named else first + 4 * step
    items.sort(key=lambda item: turns[item.nodeid])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logfinish(nodeid: str, location: object) -> None:
    """Stop when time is over."""
    if time.time() > END:
        _session.shouldstop = "time is over"


def pytest_sessionstart(session: pytest.Session) -> None:
    global _session
    _session = session
