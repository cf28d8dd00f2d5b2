"""LLVM text to PTX. It needs no GPU and no CUDA toolkit."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# llvmlite has no types.

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import binding

from ptokit.engine.llvm.compiled import BUILDING, explained

TRIPLE = "nvptx64-nvidia-cuda"
FEATURES = {80: "+ptx70", 90: "+ptx82"}
"""The PTX version that code for a compute capability is written in."""


def compiled(text: str, capability: int = 90) -> str:
    """The PTX of a text, for GPUs of a compute capability and later ones."""
    machine = _machine(capability)
    with (
        BUILDING,
        explained(),
        binding.create_context() as context,
        binding.parse_assembly(text, context) as module,
    ):
        module.triple, module.data_layout = TRIPLE, str(machine.target_data)
        module.verify()
        with (
            binding.create_pipeline_tuning_options(speed_level=1) as options,
            binding.create_pass_builder(machine, options) as builder,
            builder.getModulePassManager() as passes,
        ):
            passes.run(module, builder)
        return machine.emit_assembly(module)


@cache
def _machine(capability: int) -> Any:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(TRIPLE)
    known = max(each for each in FEATURES if each <= capability)
    return target.create_target_machine(f"sm_{known}", FEATURES[known], opt=2)
