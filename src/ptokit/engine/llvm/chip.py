"""What code depends on of the processor that runs it. Everything else about moves and computations is the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chip:
    """How the work of a block is shared, and how wide one lane moves data.

    A block is executed by `lanes` threads together. Code outside a phase is executed by all of them with the same
    numbers; in a phase each takes its part, and at its end all have written. Without `lane`, the lanes of a phase are
    iterations of a loop: one thread executes the code of many.
    """

    lanes: int = 1
    lane: str = ""
    """The intrinsic that reads the number of a thread in its block."""
    barrier: str = ""
    """The intrinsic that waits for all threads of a block."""
    piece: int = 64
    """Bytes that a lane moves at a time, at most."""
    outlined: str = "noinline nounwind"
    """The attributes of functions that code is divided into."""


CPU = Chip()
