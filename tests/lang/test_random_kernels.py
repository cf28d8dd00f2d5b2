"""Random kernels give the same bits traced and with real values, placed by auto mode and by hand, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptokit as pto
import snippet
from lang.random_kernels import TABLE, random_kernel

GRID = 3


def outcome(source: str, name: str, **options: Any) -> bytes:
    """What a kernel leaves in its output."""
    rng = np.random.default_rng(5)
    x, large = rng.integers(-9, 9, (TABLE, 8)).astype("float32"), rng.integers(-9, 9, (8, 16)).astype("float32")
    idx, lens = rng.integers(0, TABLE + 16, TABLE).astype("int32"), np.array([0, 2, 5, 1], "int32")
    out = np.zeros((TABLE, 8), "float32")
    names: dict[str, Any] = {"pto": pto}
    exec(snippet.compiled(source, name), names)
    names["k"][GRID](x, large, idx, lens, out, 2, **options)
    return out.tobytes()


@pytest.mark.parametrize("seed", range(24))
def test_every_way_to_run_a_kernel_gives_the_same_bits(seed: int) -> None:
    auto, manual = random_kernel(seed)
    expected = outcome(auto, f"auto {seed}", debug=True)
    for target in ("cpu", "a2a3", "a5"):
        assert outcome(auto, f"auto {seed}", target=target) == expected, auto
    for options in ({}, {"target": "a5"}, {"debug": True}):
        assert outcome(manual, f"manual {seed}", **options) == expected, manual
