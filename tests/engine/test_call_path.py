"""The path of an eager call from the user's line to the bytes, as `docs/architecture.md` shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby
from types import FrameType
from typing import Any

import numpy as np
import pytest

import ptokit as pto

INSTRUCTIONS = "ptokit.lang.instructions"
"""Each function has a module of its own in there."""
PATH = (
    "ptokit.lang.faults",
    INSTRUCTIONS,
    "ptokit.lang.dispatch",
    "ptokit.engine.prepared",
    "ptokit.engine.reference",
    "ptokit.engine.storage",
)
"""From the user's line down: errors end at that line; arguments; what is known of the call; its protocol; its moves;
memory."""


def modules(frame: FrameType | None) -> tuple[str, ...]:
    """The modules of ptokit on the call stack, from the outermost one on, neighbours joined."""
    found: list[str] = []
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        found.append(INSTRUCTIONS if name.startswith(INSTRUCTIONS) else name)
        frame = frame.f_back
    return tuple(name for name, _ in groupby(reversed(found)) if name.startswith("ptokit"))


def stacks(call: Callable[[], object]) -> list[tuple[str, ...]]:
    """The modules on the stack at every Python function of ptokit that a call enters."""
    found: list[tuple[str, ...]] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith("ptokit"):
            found.append(modules(frame))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("oob", ["undefined", "clamp", "zero"])
@pytest.mark.parametrize("mode", ["row", "elem"])
def test_a_gather_passes_six_modules_down_to_the_bytes_none_of_them_twice(mode: str, oob: str) -> None:
    table = pto.GlobalTensor(np.arange(64 * 16, dtype="float32").reshape(64, 16))
    shape = (1, 8) if mode == "row" else (8, 16)
    idx = pto.Tile("vec", "int32", *shape).write(np.arange(shape[0] * shape[1]).reshape(shape) % 64)
    dst = pto.Tile("vec", "float32", 8, 16)

    def gather() -> None:
        pto.mgather(dst, table, idx, coalesce=mode, oob=oob)

    gather()  # the first call of a signature verifies and lowers
    found = stacks(gather)
    assert {name for stack in found for name in stack} == set(PATH)
    for stack in found:
        assert list(stack) == [name for name in PATH if name in stack], "no module is entered again from a lower one"
    assert PATH in found


@pto.kernel
def picked(table: Any, idx: Any, out: Any) -> None:
    i = pto.Tile("vec", "int32", 1, 8)
    pto.tload(i, idx)
    row = pto.Tile("vec", "float32", 8, 8)
    pto.mgather(row, table, i, oob="clamp")
    pto.tstore(out, row)


@pytest.mark.filterwarnings("error")
def test_a_hazard_is_reported_before_anything_is_written() -> None:
    table, idx = np.ones((64, 8), "float32"), np.full((1, 8), -1, "int32")
    with pto.target("a5"):
        dst = pto.Tile("vec", "float32", 8, 8).write(7)
        with pytest.raises(pto.HazardWarning, match="H-13"):
            pto.mgather(dst, pto.GlobalTensor(table), pto.Tile("vec", "int32", 1, 8).write(idx), oob="clamp")
        assert (dst.buffer == 7).all()
    for engine in ("reference", "native"):
        out = np.full((8, 8), 7, "float32")
        with pytest.raises(pto.HazardWarning, match="H-13"):
            picked[1](table, idx, out, target="a5", engine=engine)
        assert (out == 7).all()
