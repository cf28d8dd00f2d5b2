"""Launches the gallery over CuPy arrays on a GPU, with good and bad indices.

`python -m tests.engine.cuda.gallery [--small] [kernel ...]` compares the results with NumPy's, and exits with 1 if one
differs; with `--small`, of one tile of work.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

import ptokit as pto
from tests.examples.test_gallery import GALLERY, Entry, agree, rng, spoilt

TARGET, SMALL = "a5", "--small"


def on_gpu(cupy: Any, entry: Entry, case: dict[str, Any], **options: Any) -> Any:
    """The `out` of a launch."""
    given = {name: cupy.asarray(value) if isinstance(value, np.ndarray) else value for name, value in case.items()}
    assert entry.kernel[7](**given, target=TARGET, **options).engine == "cuda"
    return given["out"].get()


def check(cupy: Any, entry: Entry, small: bool) -> None:
    for sizes in [entry.small] if small else entry.sizes:
        case = entry.make(rng(), **sizes)
        agree(entry, on_gpu(cupy, entry, case), case)
    try:
        on_gpu(cupy, entry, spoilt(entry), oob="undefined")
    except pto.OutOfBoundsError:
        return
    raise AssertionError("an index outside the table was not refused")


def main(names: list[str]) -> int:
    import cupy  # pyright: ignore[reportMissingImports]

    warnings.simplefilter("ignore")
    failed, small = 0, SMALL in names
    names = [name for name in names if name != SMALL]
    for entry in GALLERY:
        if not names or entry.name in names:
            try:
                check(cupy, entry, small)
                print(entry.name, "is right")
            except AssertionError as problem:
                print(entry.name, "is wrong:", str(problem)[:500])
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
