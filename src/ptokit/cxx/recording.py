"""What a C++ kernel did when it was run: launches, blocks and calls, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ptokit.isa.policy import BLayout, Pad, SLayout, TileType

DTYPES = (
    "float16", "bfloat16", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float64", "float8_e4m3", "float8_e5m2", "hifloat8", "float4_e2m1", "float4_e1m2", "float8_e8m0", "int4", "bool",
)  # fmt: skip
"""Element types, in the order of `DType` in recorder.hpp."""
MEMORIES = (*(member.text for member in TileType), "ctrl")
"""On-chip memories, in the order of `Memory` in recorder.hpp."""
BLAYOUTS = tuple(member.text for member in BLayout)
SLAYOUTS = tuple(member.text for member in SLayout)
PADS = (*(member.text for member in Pad), "custom")
LAYOUTS = ("ND", "DN", "NZ", "SCALE", "MX_A_ND", "MX_A_DN", "MX_A_ZZ", "MX_B_ND", "MX_B_DN", "MX_B_NN", "HIF4_A_ZZ",
           "HIF4_B_NN", "NC1HWC0", "GNC1HWC0")  # fmt: skip
"""Layouts of global tensors, in the order of the public `Layout`; a number above them is spelled `layout 17`."""

CONVOLUTION = 255
"""In the place of the public `CompactMode`: a convolution tile, which is recorded as one row of elements."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
CoreName = Literal["vector", "cube"]


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """One place in the chain of calls that leads to a recorded call."""

    file: str
    line: int
    column: int
    """Counted from 1; 0 if the compiler did not say."""
    function: str
    """Without its parameters: `ns::helper<float>`."""


Frames = tuple[RecordedFrame, ...]
"""A chain of calls, innermost first."""


@dataclass(frozen=True, slots=True)
class RecordedTile:
    """A tile operand, with the values that the call saw."""

    object: int
    """Equal for calls on the same C++ object: 0, 1, ... in the order in which objects appear. Objects that live one
    after the other at the same address have the same number."""
    address: int | None
    """Bytes from the start of its memory; None if nothing was assigned."""
    memory: str
    dtype: str
    rows: int
    cols: int
    valid_rows: int
    valid_cols: int
    blayout: str
    slayout: str
    fractal: int
    pad: str
    pad_bits: int = 0
    compact: int = 0
    dynamic: tuple[bool, bool] = (False, False)
    """Whether the C++ type leaves the valid rows and columns to run time."""
    view: int | None = None
    """For a view of a tile without an address: bytes from the start of that tile, which is the `object`."""


@dataclass(frozen=True, slots=True)
class RecordedArray:
    """A global tensor operand."""

    argument: int | None
    """An index into the launch's `arguments`; None if the pointer is in none of them."""
    offset: int
    """Bytes from the start of the argument; without an argument, the address."""
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    """In elements."""
    layout: str
    dynamic: tuple[bool, ...]
    """Five extents, five strides: whether the C++ type leaves it to run time."""


@dataclass(frozen=True, slots=True)
class RecordedScalar:
    """A scalar operand."""

    dtype: str
    value: int | float


@dataclass(frozen=True, slots=True)
class RecordedPointer:
    """A bare pointer operand."""

    argument: int | None
    offset: int
    memory: str = ""
    """The on-chip memory that the offset is in, where a value is asked for."""


@dataclass(frozen=True, slots=True)
class RecordedText:
    """An operand that is a word: a pipe, an event, a mode."""

    text: str


RecordedOperand = RecordedTile | RecordedArray | RecordedScalar | RecordedPointer | RecordedText


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call, as often as it was made: equal calls from the same place are one object."""

    name: str
    """The C++ function in lower case: `tload`."""
    operands: tuple[RecordedOperand, ...]
    modifiers: tuple[tuple[str, str | int], ...] = ()
    site: int = 0
    """An index into `Recording.sites`."""


VECTOR_CORES = 2
"""How many vector cores a block may have."""


@dataclass(frozen=True, eq=False)
class RecordedBlock:
    """What one core of one block did, in order."""

    index: int
    core: CoreName
    subblock: int
    calls: np.ndarray[Any, np.dtype[np.uint32]]
    """Indices into `Recording.calls`."""


@dataclass(frozen=True, slots=True)
class LaunchArgument:
    """An argument that the user gave, or device memory that the host code allocated."""

    name: str
    dtype: str
    """Of an allocation: `uint8`."""
    shape: tuple[int, ...] | None = None
    """Of an array; None for a scalar."""
    value: int | float | None = None
    """Of a scalar; None for an array, and for a null pointer."""
    is_stored: bool = False
    """Whether it is no argument, but what scalar code and threads have stored, by which a program repeats it."""


MOST_DYNAMIC = 1 << 32
"""Bytes of dynamic UB that a launch may ask for: more than any target has."""


@dataclass(frozen=True, eq=False)
class RecordedLaunch:
    """One launch of a kernel."""

    name: str
    grid: int
    arguments: tuple[LaunchArgument, ...]
    """The entry's arguments in order, then the allocations up to the end: the same for every launch of a recording."""
    blocks: Sequence[RecordedBlock]
    passed: tuple[RecordedOperand, ...] = ()
    """The bytes of dynamic UB that the launch asks for, if it does."""
    complete: bool = True
    """False if the recording ended inside this launch, or is paused there."""

    @property
    def dyn_ub(self) -> int | None:
        """The bytes of dynamic UB that the launch asks for; None if it does not."""
        (asked, *_) = (*self.passed, None)
        return int(asked.value) if isinstance(asked, RecordedScalar) and 0 < asked.value <= MOST_DYNAMIC else None


ProblemKind = Literal[
    "crash", "exception", "limit", "forbidden", "exit", "failure", "undefined", "value", "output", "trace", "threads"
]


@dataclass(frozen=True, slots=True)
class RecordingProblem:
    """Why a recording is not whole, and where."""

    kind: ProblemKind
    message: str
    frames: Frames = ()
    fatal: bool = True
    """Whether the recording ended there."""
    fix: str = ""


@dataclass(frozen=True, eq=False)
class Recording:
    """A run of an entry."""

    target: str
    sites: Sequence[Frames]
    """Chains of calls, innermost first; frames of ptokit's own headers are dropped."""
    calls: Sequence[RecordedCall]
    """The distinct calls, and the launches themselves; a block lists its calls by index. The recorder's sequence makes
    an object when it is asked for."""
    launches: tuple[RecordedLaunch, ...]
    problems: tuple[RecordingProblem, ...] = ()
    output: str = field(default="", repr=False)
    """What the kernel printed, up to the limit."""
    stored: Mapping[str, Bytes] = field(default_factory=dict[str, Bytes], repr=False)
    """The content of arguments that are stored values, by their name."""


@dataclass(frozen=True, slots=True)
class ValueRequest:
    """What a paused kernel waits for."""

    kind: Literal["tile", "memory"]
    operand: RecordedTile | RecordedPointer
    offset: int
    """The element of a tile that is read; 0 for memory."""
    bytes: int
    """How many bytes are read; 0: the shared memories shall be brought up to date, no value is returned."""
    site: int


@dataclass(frozen=True, eq=False)
class PartialRecording(Recording):
    """A recording that is paused: the last launch and its last block may be open, and go on later."""

    request: ValueRequest | None = None
    part: int = 0
    """The number of the library that is run: each has memories of its own."""
    until: float = float("inf")
    """When the value must be known: a time of `time.monotonic`."""


@dataclass(frozen=True, eq=False)
class SharedMemories:
    """Memory that the kernel and ptokit both see, as bytes. Views: what is written here, the kernel reads."""

    arrays: tuple[np.ndarray[Any, np.dtype[np.uint8]] | None, ...]
    """By index of `LaunchArgument`; None for a scalar."""
    local: dict[str, np.ndarray[Any, np.dtype[np.uint8]]]
    """By name of the on-chip memory: of the core that is running."""
