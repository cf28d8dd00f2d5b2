"""Every eager call of the conformance examples, and random ones, on both engines: the same bytes and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("llvmlite")

from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from tests.conformance.harness import check_example, telling_examples
from tests.engine.native.calls import Ways, both_engines
from tests.engine.native.test_native_compute import INTERPRETED
from tests.loops import FULL
from tests.property import strategies as calls
from tests.property.runner import run
from tests.property.strategies import SMALL_FLOATS, TARGETS, fuzz

CHUNKS = 12 if FULL else 5
"""The number of portions of the examples, so that processes can share them."""
NATIVE = 0.8
"""The least part of the calls without fault that runs as machine code."""


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Code is kept in a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PTOKIT_CACHE", str(tmp_path_factory.getbasetemp() / "code"))
        yield


def is_interpreted(name: str, _target: str, route: str) -> bool:
    """Whether an operation has no machine code, or may have none: accumulators with factors or rectifiers."""
    by_name = name.startswith(("tsort32", "tmrgsort", "tquant")) or "_mx" in name
    return by_name or INSTRUCTIONS[name].operation in INTERPRETED or ".acc" in route


def judge(ways: Ways) -> None:
    """The native engine was really at work."""
    assert ways.quick.total(), "no call ran as machine code"
    slow = sum(count for way, count in ways.slow.items() if not is_interpreted(*way))
    share = ways.quick.total() / (ways.quick.total() + slow)
    assert share >= NATIVE, f"{share:.0%} of the calls ran as machine code; never: {ways.never}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_examples(chunk: int) -> None:
    with both_engines() as ways:
        for name in telling_examples()[chunk::CHUNKS]:
            try:
                check_example(name, refusals=False, full=FULL)
            except BaseException as problem:
                problem.add_note(f"in the example of {name}")
                raise
    judge(ways)


@pytest.mark.parametrize("target", TARGETS)
def test_calls_with_a_workspace(target: str) -> None:
    """Only A2/A3 uses the workspace of a sum of rows: elsewhere it may be of any size, and over an operand."""
    is_used = target == "a2a3"
    refused = (lambda rule: pytest.raises(pto.VerifyError, match=rule)) if is_used else lambda _: nullcontext()
    with both_engines() as ways, pto.target(target):
        dst, small = (pto.Tile("vec", "float32", rows, 16).write(1) for rows in (16, 1))
        src = pto.Tile("vec", "float32", 16, 72).write(1)  # rows of more than a step
        found = [pto.trowsum(dst, src, tmp=pto.Tile("vec", "float32", 16, 72)).findings]
        for rule, tmp in (("CP-TMP-01", small), ("A-38", src)):
            with refused(rule):
                found.append(pto.trowsum(dst, src, tmp=tmp).findings)
    assert not any(found)
    assert (ways.quick.total(), ways.failed) == ((1, 2) if is_used else (3, 0))


Strategy = Callable[..., st.SearchStrategy[Any]]

ON_TARGETS = (calls.gather_rows, calls.gather_elements, calls.scatter_rows, calls.scatter_elements, calls.loads,
              calls.stores, calls.moves)  # fmt: skip
CASES: list[tuple[Strategy, tuple[Any, ...]]] = [
    *((strategy, (target,)) for strategy in ON_TARGETS for target in TARGETS),
    *((calls.scatter_in_ub, (target, reading)) for target in TARGETS for reading in ("row", "flat")),
    *((calls.gather_nz, (mode,)) for mode in ("row", "elem")),
    *((calls.gather_into_l1, (target, mode)) for target in ("a2a3", "a5") for mode in ("row", "elem")),
    *((strategy, ("host", SMALL_FLOATS)) for strategy in (calls.scatter_rows, calls.scatter_elements)),
    *((calls.scatter_in_ub, ("host", reading, True, "int64")) for reading in ("row", "flat")),
]


@pytest.mark.parametrize(
    ("strategy", "options"), [pytest.param(s, o, id="-".join((s.__name__, *map(str, o)))) for s, o in CASES]
)
@fuzz(0.25)
@given(data=st.data())
def test_random_calls(strategy: Strategy, options: tuple[Any, ...], data: st.DataObject) -> None:
    with both_engines():
        run(data.draw(strategy(*options)))
