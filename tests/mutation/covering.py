"""A pytest plugin that records, for every test that passes, which functions of the package it enters, and how long it
takes. `pytest -p covering` with `PTOKIT_COVERING` set to a folder writes one JSON file for each process there."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from zlib import crc32

import pytest

FOLDER = os.environ.get("PTOKIT_COVERING", "")
FOUND: dict[str, tuple[float, list[str]]] = {}
SEEN: set[CodeType] = set()
FAILED: set[str] = set()
NOWHERE = ":0"
"""What a test enters that only reads tables of the package."""


MOST_CASES = 240
"""Cases of one test function that are run."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out cases of test functions that have very many, the same ones in every process."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    kept = {
        item.nodeid
        for cases in functions.values()
        for item in sorted(cases, key=lambda item: crc32(item.nodeid.encode()))[:MOST_CASES]
    }
    items[:] = [item for item in items if item.nodeid in kept]


def _enter(frame: FrameType, _event: str, _argument: object) -> None:
    """Note a call. Without a trace function for its lines, this costs less than a profiler."""
    SEEN.add(frame.f_code)


def _place(code: CodeType) -> str:
    """The file below the package and the first line; empty for other files."""
    _, found, file = code.co_filename.replace(os.sep, "/").rpartition("/ptokit/")
    return f"{file}:{code.co_firstlineno}" if found else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Watch a test from its set-up to its end."""
    SEEN.clear()
    start = time.perf_counter()
    sys.settrace(_enter)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        FOUND[item.nodeid] = time.perf_counter() - start, sorted(filter(None, map(_place, SEEN))) or [NOWHERE]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that does not pass: it says nothing of a mutant."""
    if not report.passed:
        FAILED.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write down what this process has seen."""
    if FOLDER and FOUND:
        text = json.dumps({name: row for name, row in FOUND.items() if name not in FAILED})
        Path(FOLDER, f"{os.getpid()}.json").write_text(text, encoding="utf-8")
