"""A2/A3: one scalar thread issues everything; row gathers are DMA transfers, element gathers scalar copies."""
# ruff: noqa: F403, F405

from dataclasses import replace

from ptokit.isa import public
from ptokit.isa.policy import TileType
from ptokit.target.profile import *

PUBLIC = "public figure of the family"
CONFIG = "platform_config/<SoC>.ini of CANN"
MAGNITUDE = "assumption: order of magnitude"
COSTS: Stated = {
    "clock GHz": (1.85, PUBLIC),
    "GM to UB GB/s": (100.9, f"{PUBLIC}, a core"),
    "GM to L1 GB/s": (135.0, f"{PUBLIC}, a core"),
    "UB to GM GB/s": (188.5, f"{PUBLIC}, a core"),
    "L0C to GM GB/s": (188.5, "assumption: as UB to GM"),
    "on-chip bytes/cycle": (128, "assumption: a quarter of a fractal; L1 to L0, L0C to L1, UB to L1"),
    "GM latency cycles": (500, f"{MAGNITUDE} of off-chip memory, about 270 ns"),
    "GM posted write cycles": (20, "assumption: a scalar store does not wait for memory"),
    "DMA start cycles": (30, "assumption: to set up a transfer"),
    "DMA burst cycles": (2, "assumption: to go on to the next burst of a transfer"),
    "DMA atomic cycles": (20, "assumption: a transfer that memory combines with the old data, on top of the transfer"),
    "outstanding transfers": (16, "assumption: MG-COST-05 names the bound and gives no number"),
    "cache line bytes": (64, PUBLIC),
    "cache flush cycles": (10, "assumption: a line (MG-L1-14)"),
    "scalar UB cycles": (8, "assumption: a load or store of up to 8 bytes"),
    "scalar step cycles": (1, "assumption: an addition, comparison or branch"),
    "issue cycles": (4, "assumption: the scalar pipe hands an instruction to another pipe"),
    "flag cycles": (20, f"{MAGNITUDE}: from a set to the wait that it ends"),
    "vector start cycles": (14, f"{MAGNITUDE}: the depth of the pipe"),
    "vector repeat cycles": (1, "assumption: 256 bytes, simple arithmetic"),
    "vector reduce repeat cycles": (2, "assumption: 256 bytes, sums and extremes of rows"),
    "vector slow repeat cycles": (4, "assumption: 256 bytes, division, roots, exponentials, logarithms"),
    "vector indexed repeat cycles": (8, "assumption: 256 bytes, a 32-byte block a cycle"),
    "cube start cycles": (14, "assumption: as the vector pipe"),
    "cube block cycles": (1, "assumption: 16 x 16 x 32 bytes"),
    "AIV cores": (48, f"{CONFIG}: Ascend910B1, 910B2 and 910_93 have 48, 910B3 and 910B4 have 40"),
    "AIC cores": (24, f"{CONFIG}: Ascend910B1, 910B2 and 910_93 have 24, 910B3 and 910B4 have 20"),
}
"""The cost model's numbers."""

A2A3 = Profile(
    name="a2a3",
    title="Ascend A2/A3",
    memories={
        TileType.Vec: Memory("UB", 192 * KB),  # MG-BUDG-02
        TileType.Mat: Memory("L1", 512 * KB, "cbuf"),
        TileType.Left: Memory("L0A", 64 * KB),
        TileType.Right: Memory("L0B", 64 * KB),
        TileType.Acc: Memory("L0C", 128 * KB),
        TileType.Bias: Memory("bias table", 1 * KB),
        TileType.Scaling: Memory("fixpipe buffer", 2 * KB),
        TileType.ScaleLeft: Memory("L0A scales", 0),
        TileType.ScaleRight: Memory("L0B scales", 0),
    },
    cores=(VECTOR_CORE, CUBE_CORE),
    event_ids=EVENT_IDS,
    ub=UnifiedBuffer(size=192 * KB),  # no dynUBufSize: MG-BUDG-05
    costs=numbers(COSTS),
    sources=sources(COSTS),
    statements=(
        "MG-COST-02", "MG-COST-03", "MG-COST-04", "MG-COST-05", "MG-COST-06", "MG-COST-11", "MG-PERF-01", "MG-PERF-02",
    ),
    burst=32,  # MG-ALIGN-06, CO-ALIGN-01
    drops_unaligned_loads=True,  # MG-HAZ-01
    store_line=64,  # a line that two blocks have in their caches is written back by both
    cross_wait=SCALAR,  # wait_flag_dev stops the scalar unit
    overlapping=VECTOR,
    arch="a3",
    headers=Headers(
        hidden=184 * KB,
        cross=CrossCalls(
            "ffts_cross_core_sync({pipe}, getFFTSMsg(0x2, {id}))", "wait_flag_dev({id})", "set_ffts_base_addr",
            both_vectors=True,
        ),
        compiler=DeviceCompiler(220, 2201, ("MEMORY_BASE", "PTO_NPU_ARCH_A2A3")),
    ),
)  # fmt: skip

A2A3_2026_08 = replace(
    A2A3,
    name="a2a3@2026.08",
    title="Ascend A2/A3, public headers",
    revision=Revision.of(public.STATE_2026_08, *public.A2A3_2026_08),
)
