"""A2/A3: one scalar thread issues everything; row gathers go by DMA, element gathers by scalar copies."""

from dataclasses import replace

from ptokit.isa.policy import TileType
from ptokit.target.profile import EVENT_IDS, KB, PIPES, Handshake, Memory, Profile, UnifiedBuffer, Work

ROW_GATHER = Handshake(  # MG-SYNC-04, MG-SYNC-10
    before=(("V", "S"), ("MTE3", "S")),
    body=("S", "MTE2"),
    after=(("S", "MTE2"), ("MTE2", "V"), ("MTE2", "MTE3"), ("S", "V"), ("S", "MTE3")),
)
ELEM_GATHER = Handshake(  # MG-SYNC-05, MG-SYNC-11
    before=(("V", "S"), ("MTE3", "S"), ("MTE2", "S")),
    body=("S",),
    after=(("S", "V"), ("S", "MTE2"), ("S", "MTE3")),
)

A2A3 = Profile(
    name="a2a3",
    title="Ascend A2/A3",
    memories={
        TileType.Vec: Memory("UB", 192 * KB),  # MG-BUDG-02
        TileType.Mat: Memory("L1", 512 * KB),
        TileType.Left: Memory("L0A", 64 * KB),
        TileType.Right: Memory("L0B", 64 * KB),
        TileType.Acc: Memory("L0C", 128 * KB),
        TileType.Bias: Memory("bias table", 1 * KB),
        TileType.Scaling: Memory("fixpipe buffer", 2 * KB),
    },
    cores=("AIV", "AIC"),
    pipes=PIPES,
    event_ids=EVENT_IDS,
    ub=UnifiedBuffer(size=192 * KB),  # no dynUBufSize: MG-BUDG-05
    handshakes={
        "mgather.row": ROW_GATHER,
        "mgather.row.nz": replace(ROW_GATHER, after_fill=(("S", "MTE2"),)),
        "mgather.elem": ELEM_GATHER,
        "mgather.elem.nz": ELEM_GATHER,
        "mgather.l1.row": Handshake(body=("S", "MTE2"), after=(("S", "MTE2"),)),
        "mgather.l1.elem": Handshake(body=("S", "MTE2"), between=(("S", "MTE2"),)),  # MG-L1-14
        "mscatter.row": Handshake(
            before=(("V", "S"), ("MTE2", "S"), ("S", "MTE3")),
            body=("S", "MTE3"),
            each_row=(("MTE3", "S"),),
            after=(("MTE3", "V"), ("MTE3", "MTE2")),
        ),
        "mscatter.elem": Handshake(
            before=(("V", "S"), ("MTE2", "S"), ("MTE3", "S")),
            body=("S",),
            after=(("S", "V"), ("S", "MTE2"), ("S", "MTE3")),
        ),
    },
    work={
        "mgather.row": lambda rows, cols, batches: Work(dma=rows),  # MG-SYNC-07
        "mgather.row.nz": lambda rows, cols, batches: Work(dma=rows * batches),  # MG-SYNC-08
        "mgather.elem": lambda rows, cols, batches: Work(scalar=rows * cols),  # MG-SYNC-09
        "mgather.elem.nz": lambda rows, cols, batches: Work(scalar=rows * cols),
        "mgather.l1.row": lambda rows, cols, batches: Work(dma=rows),
        "mgather.l1.elem": lambda rows, cols, batches: Work(dma=1, scalar=rows * cols),
    },
    costs={
        "clock GHz": 1.85,
        "GM to UB GB/s": 100.9,
        "GM to L1 GB/s": 135.0,
        "UB to GM GB/s": 188.5,
        "cache line bytes": 64,
    },
    statements=(
        "MG-COST-02",
        "MG-COST-03",
        "MG-COST-04",
        "MG-COST-05",
        "MG-COST-06",
        "MG-COST-11",
        "MG-PERF-01",
        "MG-PERF-02",
    ),
    left_form="zz",
    mixed_cores="hazard",
)
