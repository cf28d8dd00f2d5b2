"""Runs an example's kernel on every target where a check is clean, and compares the result with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptokit as pto

Array = np.ndarray[Any, np.dtype[Any]]
Case = dict[str, Array]
"""The arrays of a launch, by parameter; the kernel writes `out`."""


def run_everywhere(
    kernel: Any, case: Case, expected: Array, *, grid: int, tolerance: Array | None = None, **constants: object
) -> None:
    """Launch on each target and print a line: the result, or the finding because of which it is not run there."""
    print(f"{kernel.__name__}, {grid} blocks")
    report = pto.check(kernel, **case, grid=grid, **constants)
    for target, result in report.targets.items():
        if not result.ok:
            why = next(each for each in result.findings if each.level != "note")
            print(f"  {target}: {'refused' if result.refused else 'not run'}\n    {why}")
            continue
        arrays = case | {"out": case["out"].copy()}
        run = kernel[grid](**arrays, target=target, **constants)
        print(f"  {target}: {compared(arrays['out'], expected, tolerance)}, {run.seconds * 1e3:.0f} ms")


def compared(found: Array, expected: Array, tolerance: Array | None = None) -> str:
    """Check a result: the same bits as expected, or each element within a tolerance."""
    if tolerance is None:
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes(), "not the bits that NumPy gives"
        return "the same bits as NumPy"
    error = np.abs(found.astype("float64") - expected)
    assert (error <= tolerance).all(), "further from NumPy than the rules allow"
    return f"within {error.max(initial=0):.1e} of NumPy, as the rules allow"
