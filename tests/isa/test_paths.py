"""Which memories `tmov` moves between on each target, and through which pipe."""

from __future__ import annotations

from itertools import product

import pytest

import ptokit as pto
from ptokit.isa.kernel import kernels_of
from ptokit.isa.policy import TileType
from ptokit.isa.tmov import TMOV

COMMON = {
    "vec-vec": "V", "mat-left": "MTE1", "mat-right": "MTE1", "mat-bias": "MTE1", "mat-scaling": "FIX", "acc-mat": "FIX",
}  # fmt: skip
ON_A5 = {
    **COMMON, "acc-vec": "FIX", "vec-mat": "MTE3", "mat-vec": "MTE1", "mat-scale_left": "MTE1",
    "mat-scale_right": "MTE1",
}  # fmt: skip
PATHS = {"cpu": ON_A5, "cpu@aicore": ON_A5, "a2a3": COMMON, "a5": ON_A5, "host": {"vec-vec": "V"}}
"""TV-01, and the pipe table of the documents."""


@pytest.mark.clause("TV-01")
@pytest.mark.parametrize("target", PATHS)
def test_a_target_has_just_these_paths(target: str) -> None:
    for src, dst in product(TileType, TileType):
        with pto.target(target):
            try:
                pto.tmov(pto.Tile(dst, "float32", 16, 16), pto.Tile(src, "float32", 16, 16).write(0))
                refused = False
            except pto.VerifyError as error:
                refused = any("reached by one of" in found.message for found in error.findings)
        assert refused != (f"{src.text}-{dst.text}" in PATHS[target]), (src, dst)


@pytest.mark.clause("TV-01")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_path_belongs_to_a_pipe(target: str) -> None:
    found = {route: {effect.pipe for effect in kernel.effects} for route, kernel in kernels_of(TMOV, target).items()}
    assert found == {f"tmov.{path.replace('-', '.')}": {pipe} for path, pipe in PATHS[target].items()}
