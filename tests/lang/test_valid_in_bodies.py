"""Valid regions that are set inside loops and branches (KN-12): what is accepted gives the values of a debug run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptokit as pto

TARGETS = ("cpu", "a2a3", "a5")


@pto.kernel
def after_a_use_in_a_branch(x, out, n):
    tile = pto.Tile("vec", x.dtype, 8, 16)
    with pto.when(n > 0):
        pto.tload(tile, x)
        tile.valid = (4, 16)
        pto.tstore(out[0:4], tile)


@pto.kernel
def in_both_arms(x, out, n):
    tile = pto.Tile("vec", x.dtype, 8, 16)
    pto.tload(tile, x)
    with pto.when(n > 0):
        tile.valid = (4, 16)
        pto.tstore(out[0:4], tile)
    with pto.otherwise():
        tile.valid = (2, 16)
        pto.tstore(out[0:2], tile)
        tile.valid = (8, 8)
        pto.tstore(out[:, 0:8], tile)


@pto.kernel
def again_after_the_branch(x, out, n):
    tile = pto.Tile("vec", x.dtype, 8, 16)
    pto.tload(tile, x)
    with pto.when(n > 0):
        tile.valid = (4, 16)
        pto.tadds(tile, tile, 1)
        tile.valid = (2, 16)
        pto.tadds(tile, tile, 2)
    tile.valid = (8, 16)
    pto.tstore(out, tile)


@pto.kernel
def first_in_the_body(x, out, n):
    """As the fix of KN-12 says; the first extents are those of the tile."""
    tile = pto.Tile("vec", x.dtype, 8, 16)
    for i in pto.range(3):
        tile.valid = (8, 16)
        pto.tload(tile, x)
        with pto.when(i > n):
            tile.valid = (4, 16)
            pto.tstore(out[0:4], tile)
        with pto.otherwise():
            tile.valid = (8, 16)
            pto.tstore(out, tile)


@pto.kernel
def first_in_an_inner_body(x, out, n):
    tile = pto.Tile("vec", x.dtype, 8, 16)
    for _ in pto.range(2):
        for j in pto.range(1, 4):
            tile.valid = (8, 16)
            pto.tload(tile, x)
            with pto.when(n == j):
                tile.valid = (j, 16)
                pto.tadds(tile, tile, 5)
                tile.valid = (8, 16)
                pto.tstore(out, tile)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize(
    "kernel",
    [after_a_use_in_a_branch, in_both_arms, again_after_the_branch, first_in_the_body, first_in_an_inner_body],
    ids=lambda kernel: kernel.__name__,
)
def test_set_again_inside_a_branch(kernel: Any, n: int, target: str) -> None:
    x = np.arange(128, dtype="float32").reshape(8, 16)
    out, expected = np.full((2, 8, 16), -1, "float32")
    kernel[1](x, out, n, target=target)
    kernel[1](x, expected, n, target=target, debug=True)
    assert np.array_equal(out, expected)
    assert kernel[1](x, out, n, target=target, engine="machine").ok


@pto.kernel
def used_before_in_the_loop(x, out, n):
    tile = pto.Tile("vec", x.dtype, 8, 16)
    for i in pto.range(1, 4):
        pto.tload(tile, x)
        tile.valid = (i, 16)
        pto.tstore(out[0:i], tile)


@pto.kernel
def used_before_a_branch_in_the_loop(x, out, n):
    tile = pto.Tile("vec", x.dtype, 8, 16)
    for i in pto.range(3):
        pto.tload(tile, x)
        with pto.when(i > n):
            tile.valid = (4, 16)
            pto.tstore(out[0:4], tile)


@pto.kernel
def used_in_a_branch_of_the_loop(x, out, n):
    tile = pto.Tile("vec", x.dtype, 8, 16)
    for i in pto.range(3):
        with pto.when(i == n):
            pto.tload(tile, x)
            tile.valid = (4, 16)
            pto.tstore(out[0:4], tile)


@pto.kernel
def first_only_in_a_branch(x, out, n):
    """The extents that come first are set only where the condition holds."""
    tile = pto.Tile("vec", x.dtype, 8, 16)
    for i in pto.range(3):
        with pto.when(i == n):
            tile.valid = (8, 16)
        pto.tload(tile, x)
        tile.valid = (4, 16)
        pto.tstore(out[0:4], tile)


@pto.kernel
def first_only_in_an_inner_loop(x, out, n):
    tile = pto.Tile("vec", x.dtype, 8, 16)
    for _ in pto.range(2):
        for _ in pto.range(n):
            tile.valid = (8, 16)
        pto.tload(tile, x)
        tile.valid = (4, 16)
        pto.tstore(out[0:4], tile)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "kernel",
    [used_before_in_the_loop, used_before_a_branch_in_the_loop, used_in_a_branch_of_the_loop, first_only_in_a_branch,
     first_only_in_an_inner_loop],
    ids=lambda kernel: kernel.__name__,
)  # fmt: skip
def test_extents_that_the_next_iteration_would_find_changed(kernel: Any, target: str) -> None:
    x, out = np.arange(128, dtype="float32").reshape(8, 16), np.zeros((8, 16), "float32")
    with pytest.raises(pto.VerifyError, match="KN-12"):
        kernel[1](x, out, 1, target=target)
