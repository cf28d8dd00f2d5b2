"""ptokit itself as an implementation that can be judged."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ptokit.conformance.export import launch
from ptokit.conformance.judge import RAN, REFUSED
from ptokit.finding import OutOfBoundsError, VerifyError
from ptokit.isa.dtype import dtype
from ptokit.lang.loaded import TextKernel, load

_load = lru_cache(maxsize=2)(load)


def answer(case: Path, out: Path, engine: str) -> int:
    """Run a case, or all cases of a list, and write the arrays; returns the exit status."""
    described = json.loads(case.read_text("utf-8"))
    if "cases" not in described:
        return _one(described, out, engine)
    for pair in described["cases"]:
        _one(json.loads(Path(pair["case"]).read_text("utf-8")), Path(pair["out"]), engine)
    return RAN


def _one(case: dict[str, Any], out: Path, engine: str) -> int:
    kernel, arrays = _load(case["program"]), {array["name"]: array for array in case["arrays"]}
    assert isinstance(kernel, TextKernel)
    data = {name: np.load(array["file"], allow_pickle=False) for name, array in arrays.items()}
    data = {name: array.view(dtype(arrays[name]["type"]).bits) for name, array in data.items()}
    try:
        after = launch(kernel, data, data, case["grid"], case["target"], engine)
    except (VerifyError, OutOfBoundsError) as problem:
        (out / "refused").write_text(f"{problem}\n", "utf-8")
        return REFUSED
    for name, array in arrays.items():
        if array["write"]:
            np.save(out / f"{name}.npy", after[name])
    return RAN
