"""Kernels with a fault in few launches, or in few iterations: none is proved."""

# ruff: noqa: SIM117

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ptokit as pto

pytest.importorskip("z3", reason="proofs about numbers need the solver", exc_type=ImportError)
OPTIONS = pto.MachineOptions(checks=("order", "memory", "blocks"), poison=False)
Case = tuple[Callable[..., None], int]
CASES: list[Case] = []


def case(n: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A kernel of which a launch with this `n` has a fault."""

    def add(body: Callable[..., None]) -> Callable[..., None]:
        CASES.append((body, n))
        return body

    return add


def tile(rows: Any = 8) -> pto.Tile:
    return pto.Tile("vec", "float32", 8, 16, addr=0, valid=(rows, 16))


def race(x: Any, y: Any) -> None:
    """A store that nothing orders after its load."""
    part = tile()
    pto.tload(part, x[0:8])
    pto.tstore(y[0:8], part)
    pto.barrier("ALL")


@case(0)
def window_of_two_loops(x, y, n):
    for i in pto.range(100):
        for j in pto.range(3):
            with pto.when(i == j + 50):
                race(x, y)


@case(100)
def window_of_any_number(x, y, n):
    for i in pto.range(n):
        for j in pto.range(3):
            with pto.when(i == j + 50):
                race(x, y)


@case(20)
def inner_loop_grows(x, y, n):
    for i in pto.range(n):
        for j in pto.range(i):
            with pto.when(j == 7):
                race(x, y)


@case(20)
def inner_loop_moves(x, y, n):
    for i in pto.range(n):
        for j in pto.range(i * 5, i * 5 + 5):
            with pto.when(j == 70):
                race(x, y)


@case(40)
def loops_apart(x, y, n):
    for i in pto.range(n):
        for j in pto.range(i + 1):
            with pto.when(i - j == 30):
                race(x, y)


@case(0)
def one_value_of_large_steps(x, y, n):
    for i in pto.range(2, 200, 3):
        with pto.when(i == 83):
            race(x, y)


@case(3)
def far_down(x, y, n):
    for i in pto.range(50, n, -1):
        with pto.when(i == 10):
            race(x, y)


@case(70)
def last_iteration_of_one_number(x, y, n):
    for i in pto.range(n):
        with pto.when(i == n - 1):
            with pto.when(n == 70):
                race(x, y)


@case(15)
def last_iteration_of_a_remainder(x, y, n):
    for i in pto.range(n):
        with pto.when(i == n - 1):
            with pto.when(n % 16 == 15):
                race(x, y)


@case(77)
def last_iteration_of_a_quotient(x, y, n):
    for i in pto.range(n):
        with pto.when(i == n - 1):
            with pto.when(n // 7 == 11):
                race(x, y)


@case(60)
def loop_in_the_last_iteration(x, y, n):
    for i in pto.range(n):
        with pto.when(i == n - 1):
            for _ in pto.range(n - 55):
                race(x, y)


@case(100)
def after_a_loop_that_certainly_runs(x, y, n):
    with pto.when(n >= 80):
        for _ in pto.range(n // 8):
            pto.barrier("ALL")
        race(x, y)


@case(20)
def after_a_product(x, y, n):
    with pto.when(n > 8):
        for _ in pto.range(n * n):
            pto.barrier("ALL")
        race(x, y)


@case(20)
def after_a_loop_from_a_quotient(x, y, n):
    with pto.when(n > 8):
        with pto.when(n < 30):
            for _ in pto.range(n // 2, 2 * n):
                pto.barrier("ALL")
            race(x, y)


@pytest.mark.parametrize(("body", "n"), CASES, ids=lambda each: getattr(each, "__name__", None))
def test_a_kernel_with_a_fault_is_not_proved(body: Callable[..., None], n: int) -> None:
    kernel = pto.kernel(mode="manual")(body)
    x, y = (np.zeros((64, 16), "float32") for _ in "xy")
    with pytest.warns(pto.HazardWarning):
        report = kernel[1](x, y, n, target="a5", engine="machine", options=OPTIONS)
    assert any(finding.level == "error" for finding in report.findings)
    assert pto.prove(kernel, x, y, n, target="a5", seconds=1).verdict != "proved"


def test_a_fault_after_a_loop_over_a_limited_length_is_refuted() -> None:
    @pto.kernel(mode="manual")
    def body(x, y):
        for _ in pto.range(x.shape[0]):
            pto.barrier("ALL")
        race(x, y)

    given = pto.shaped("float32", "n", 16, n=(10, 20)), np.zeros((64, 16), "float32")
    assert pto.prove(body, *given, target="a5").verdict == "refuted"
