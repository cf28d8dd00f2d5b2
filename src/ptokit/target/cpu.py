"""The CPU simulator: host memory, no pipes, no launches."""

from dataclasses import replace

from ptokit.isa.common import GATHER_TYPES, SCATTER_TYPES
from ptokit.isa.dtype import BASE, FLOAT8
from ptokit.isa.policy import TileType
from ptokit.isa.table import Revision
from ptokit.target.profile import Headers, Memory, Profile

CPU = Profile(
    name="cpu",
    title="CPU simulator",
    memories={loc: Memory("host", None) for loc in TileType},  # MG-BUDG-01
    statements=("MG-COST-01", "MG-SYNC-16", "MG-BUDG-01"),
    headers=Headers(),
)

CPU_AICORE = replace(
    CPU,
    name="cpu@aicore",
    title="CPU simulator, AICORE build",
    revision=Revision(tables=dict.fromkeys((GATHER_TYPES, SCATTER_TYPES), frozenset((*BASE, *FLOAT8)))),
)
"""The simulator built with `__CCE_AICORE__`, which adds float8 (MG-TYPE-02)."""
