"""The host: NumPy arrays. Every element type, no 32-byte rule, no memory limits."""

from ptokit.isa.policy import TileType
from ptokit.target.profile import Memory, Profile

HOST = Profile(name="host", title="Host arrays", memories={loc: Memory("host", None) for loc in TileType})
