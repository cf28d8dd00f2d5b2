"""LLVM text to PTX. It needs no GPU and no CUDA toolkit."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# llvmlite has no types.

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import binding

from ptokit.engine.llvm.compiled import BUILDING, optimized

TRIPLE = "nvptx64-nvidia-cuda"
FEATURES = {80: "+ptx70", 90: "+ptx82"}
"""The PTX version that code for a compute capability is written in."""
ONLY = {90: "sm_90a"}
"""Capabilities whose GPUs have instructions that later ones do not have."""

PASSES = (
    "always_inliner",
    "global_dead_code_eliminate",
    "sroa",
    "simplify_cfg",
    "instruction_combine",
    "new_gvn",
    "loop_rotate",
    "sccp",
    "instruction_combine",
    "simplify_cfg",
    "aggressive_dce",
)
"""The passes of LLVM. Those of `-O1` take twice as long, for code of the same size; the driver optimizes, too."""


def lacking(capability: int, driver: int) -> str:
    """What a GPU of a compute capability lacks for this code, with a driver for a CUDA version; empty if nothing.

    PTX a.b came with CUDA (a + 4).b: 7.0 with 11.0, 8.2 with 12.2. CUDA writes that as 11000 and 12020.
    """
    if capability < min(FEATURES):
        return f"a GPU of compute capability {min(FEATURES) / 10} or later; CUDA finds {capability / 10}"
    version = int(FEATURES[_known(capability)].removeprefix("+ptx"))
    needed = (version // 10 + 4) * 1000 + version % 10 * 10
    if driver < needed:
        old, new = (f"{each // 1000}.{each % 1000 // 10}" for each in (driver, needed))
        return f"a driver for CUDA {new} or later; this one is for {old}"
    return ""


def _known(capability: int) -> int:
    """The latest compute capability that code is written for, up to one."""
    return max(each for each in FEATURES if each <= capability)


def compiled(text: str, capability: int = 90) -> str:
    """The PTX of a text, for GPUs of a compute capability and later ones."""
    machine = _machine(capability)
    with BUILDING, optimized(text, TRIPLE, machine, PASSES) as module:
        return machine.emit_assembly(module)


@cache
def _machine(capability: int) -> Any:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(TRIPLE)
    known = _known(capability)
    return target.create_target_machine(ONLY.get(capability, f"sm_{known}"), FEATURES[known], opt=2)
