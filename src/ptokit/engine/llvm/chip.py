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
    program_lanes: int = 0
    """Those of a block that executes a program, if they are more."""
    lane: str = ""
    """The intrinsic that reads the number of a thread in its block."""
    barrier: str = ""
    """The intrinsic that waits for all threads of a block."""
    any: str = ""
    """The intrinsic that waits too, and says whether any of them has a bit set."""
    piece: int = 64
    """Bytes that a lane moves at a time, at most."""
    depth: int = 4
    """Pieces that a lane loads before it stores the first of them."""
    units: tuple[tuple[str, tuple[str, str]], ...] = ()
    """The intrinsics of matrix units by the type that is multiplied, and the type of their operands."""
    wide_units: tuple[str, ...] = ()
    """Types that 128 lanes multiply together, of tiles in shared memory, while they go on with other work."""
    has_ptx: bool = False
    """Whether it takes instructions of PTX as they are; others call functions in their place."""
    unrolled: bool = True
    """Whether loops may be unrolled: on a GPU that takes longer to assemble than it saves."""
    outlined: str = "noinline nounwind"
    """The attributes of functions that code is divided into."""
    kernel: str = "void"
    """The result and the calling convention of a kernel: a function that every block of a grid executes."""
    block: str = ""
    """The intrinsic that reads the number of a block in its grid; without it, kernels take that as an argument."""
    blocks: str = ""
    """The same for the number of blocks."""
    by_value: str = ""
    """The attribute of a pointer of a kernel whose memory is copied when it is launched."""
    reductions: tuple[tuple[tuple[str, int], str], ...] = ()
    """Additions to global memory by many lanes at once: for so many elements of a type, the instruction over an address
    and words of 32 bits. Others are made of atomic instructions of LLVM."""


CPU = Chip()
