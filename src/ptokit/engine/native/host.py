"""The processor that code runs on: its instructions and caches, and what pays on it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# llvmlite has no types.

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

from llvmlite import binding

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
NEVER = 1 << 62
"""A number of bytes that no array has."""


@dataclass(frozen=True)
class Host:
    """What the choice of code and of strategies depends on."""

    gathers: bool = False
    """Whether the processor has an instruction that gathers elements."""
    packs: bool = False
    """Whether it has one that puts some elements of a vector side by side."""
    near: int = 1 << 20
    """Bytes of a table that fits the caches of a core: neither prefetching nor sorting of lanes pays."""
    copies: bool = True
    """Whether indices that must be checked first are copied by the same pass; otherwise they are read again."""
    unfetched: tuple[str, ...] = ()
    """Kinds of moves whose rows are not prefetched, as `streamed store rows`: that does not pay. Streamed is what goes
    past the caches; max and min `pick`."""
    locality: int = 2
    """How rows of bags are prefetched, as LLVM numbers it: 2 is to the second cache, 3 to all."""
    stream_from: int = NEVER
    """Bytes of a result from which on it is written past the caches."""
    sorts: tuple[str, ...] = ("store", "add", "pick")
    """Kinds of scatters for which elements of eight bytes are sorted by their destination first, if that is far away;
    shorter ones always are."""
    wake: int = 60_000
    """Nanoseconds of work for which a second thread does not pay."""


X86 = Host(
    copies=False,
    unfetched=("streamed store rows", "add elements"),
    locality=3,
    stream_from=4 << 20,
    sorts=("add",),
)
KINDS = {"x86_64": X86, "amd64": X86}
"""What pays, by architecture, where it differs from the default."""
INSTRUCTIONS = {"gathers": "avx2", "packs": "avx512vl"}
"""The extensions of x86-64 with the instructions."""


@cache
def caches() -> dict[int, int]:
    """Bytes of the data caches of a core, by level; empty if the system does not say."""
    found: dict[int, int] = {}
    with suppress(OSError, ValueError, KeyError, IndexError):
        for place in sorted(CACHES.glob("index*")):
            level, kind, size = ((place / name).read_text().strip() for name in ("level", "type", "size"))
            if kind != "Instruction":
                found[int(level)] = int(size[:-1]) * UNITS[size[-1]]
    return found


def _found() -> Host:
    features = cast("Mapping[str, bool]", binding.get_host_cpu_features())
    kind = KINDS.get(platform.machine().lower(), Host())
    own = caches().get(2, kind.near)
    streams = max(kind.stream_from, 2 * own)
    given = {field: features.get(name, False) for field, name in INSTRUCTIONS.items()}
    return replace(kind, near=own, stream_from=streams, **given)


HOST = _found()
