"""A5: SIMT launches on the vector pipe, separate cube and vector cores, a UB shared with the data cache."""
# ruff: noqa: F403, F405

from dataclasses import replace

from ptokit.isa import public
from ptokit.isa.policy import TileType
from ptokit.target.a2a3 import CONFIG, PUBLIC
from ptokit.target.a2a3 import COSTS as A2A3_COSTS
from ptokit.target.profile import *

SHARED = {
    name: (number, f"assumption: as A2/A3 ({source.removeprefix('assumption: ')})")
    for name, (number, source) in A2A3_COSTS.items()
}
COSTS: Stated = {
    **SHARED,
    "AIV cores": (64, f"{CONFIG}: Ascend950PR_958b has 64; other versions of the chip have more or fewer"),
    "AIC cores": (32, f"{CONFIG}: Ascend950PR_958b has 32; other versions of the chip have more or fewer"),
    "cache line bytes": (64, PUBLIC),
    "GM burst bytes": (128, "MG-COST-07"),
    "registers a thread": (32, "MG-SIMT-24; no cost depends on it"),
    "SIMT launch cycles": (200, "assumption: to start a grid and to see its end"),
    "SIMT warp start cycles": (4, "assumption: for every warp of the launch (MG-COST-09)"),
    "SIMT instruction cycles": (1, "assumption: an instruction of one warp"),
    "SIMT transaction cycles": (2.35, "assumption: 128 bytes at the bandwidth of GM to UB"),
    "SIMT atomic cycles": (4, "assumption: a lane, on top of its transaction (MS-PERF-02)"),
}
"""The cost model's numbers."""

A5 = Profile(
    name="a5",
    title="Ascend A5",
    memories={
        TileType.Vec: Memory("UB", 256 * KB),  # MG-BUDG-06
        TileType.Mat: Memory("L1", 512 * KB, "cbuf"),
        TileType.Left: Memory("L0A", 64 * KB),
        TileType.Right: Memory("L0B", 64 * KB),
        TileType.Acc: Memory("L0C", 256 * KB),
        TileType.Bias: Memory("bias table", 4 * KB),
        TileType.Scaling: Memory("fixpipe buffer", 4 * KB),
        TileType.ScaleLeft: Memory("L0A scales", 4 * KB),
        TileType.ScaleRight: Memory("L0B scales", 4 * KB),
    },
    cores=(VECTOR_CORE, CUBE_CORE),
    event_ids=EVENT_IDS,
    ub=UnifiedBuffer(
        size=256 * KB, reserved=8 * KB, min_cache=32 * KB, safe=128 * KB, has_dynamic=True,
        size_rule="MG-BUDG-06", over_rule="MG-BUDG-13", over_kind="H-21",
    ),
    costs=numbers(COSTS),
    sources=sources(COSTS),
    statements=(
        "MG-COST-06", "MG-COST-07", "MG-COST-08", "MG-COST-09", "MG-COST-10", "MG-PERF-01",
        "MS-PERF-01", "MS-PERF-02", "MS-PERF-03",
    ),
    burst=32,  # CO-ALIGN-01
    no_cross=("M",),
    arch="a5",
    headers=Headers(
        cross=CrossCalls("set_intra_block({pipe}, {id})", "wait_intra_block({pipe}, {id})"),
        compiler=DeviceCompiler(310, 3510, ("REGISTER_BASE", "PTO_NPU_ARCH_A5")),
    ),
)  # fmt: skip

A5_2026_08 = replace(
    A5,
    name="a5@2026.08",
    title="Ascend A5, public headers",
    revision=Revision.of(public.STATE_2026_08, *public.A5_2026_08),
)
