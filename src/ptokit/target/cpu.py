"""The CPU simulator: host memory, no pipes, no launches."""

from dataclasses import replace

from ptokit.isa.policy import TileType
from ptokit.target.profile import Memory, Profile

CPU = Profile(
    name="cpu",
    title="CPU simulator",
    memories={loc: Memory("host", None) for loc in TileType},  # MG-BUDG-01
    statements=("MG-COST-01", "MG-SYNC-16", "MG-BUDG-01"),
)

CPU_AICORE = replace(CPU, name="cpu@aicore", title="CPU simulator, AICORE build")
"""The simulator built with `__CCE_AICORE__`: float8 is there too (MG-TYPE-02)."""
