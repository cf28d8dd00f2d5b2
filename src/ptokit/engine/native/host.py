"""The processor that code runs on: its instructions and caches, what pays on it, and what `ptokit tune` measured."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# llvmlite has no types.

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from llvmlite import binding

from ptokit.engine.llvm import store

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
NEVER = 1 << 62
"""A number of bytes that no array has."""
FETCHED = (
    "gather rows", "streamed gather rows", "gather elements", "store rows", "streamed store rows", "store elements",
    "add rows", "add elements", "pick rows", "pick elements",
)  # fmt: skip
"""Kinds of moves that may prefetch the rows of a table. Streamed is what goes past the caches; max and min pick."""


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
    """Kinds of moves, of `FETCHED`, for which prefetching does not pay."""
    locality: int = 2
    """How rows of bags are prefetched, as LLVM numbers it: 2 is to the second cache, 3 to all."""
    stream_from: int = NEVER
    """Bytes of a result from which on it is written past the caches."""
    sorts: tuple[str, ...] = ("store", "add", "pick")
    """Kinds of scatters for which elements are sorted by their destination first, if that is far away."""
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
CHECKS: dict[str, Callable[[Any], bool]] = {
    "copies": lambda value: isinstance(value, bool),
    "unfetched": lambda value: isinstance(value, list) and all(each in FETCHED for each in cast("list[object]", value)),
    "stream_from": lambda value: type(value) is int and 0 < value <= NEVER,
    "wake": lambda value: type(value) is int and 1_000 <= value <= 10_000_000,
}
"""What is measured, and which values are possible."""


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


def untuned() -> Host:
    """This processor, without measurements."""
    features = cast("Mapping[str, bool]", binding.get_host_cpu_features())
    kind = KINDS.get(platform.machine().lower(), Host())
    own = caches().get(2, kind.near)
    streams = max(kind.stream_from, 2 * own)
    given = {field: features.get(name, False) for field, name in INSTRUCTIONS.items()}
    return replace(kind, near=own, stream_from=streams, **given)


def _key() -> str:
    return sha256(repr(("host", binding.get_host_cpu_name(), os.cpu_count(), caches())).encode()).hexdigest()


def tuned() -> dict[str, Any] | None:
    """The valid measurements that are kept for this processor, if there are any."""
    entry = store.load(_key())
    facts: dict[str, Any] = entry.facts if entry else {}
    valid = {name: facts[name] for name, holds in CHECKS.items() if name in facts and holds(facts[name])}
    return {**valid, "unfetched": tuple(valid["unfetched"])} if valid.keys() == CHECKS.keys() else None


def keep(host: Host | None) -> None:
    """Keep what was measured for later processes; None forgets it."""
    facts = {name: value for name, value in asdict(host).items() if name in CHECKS} if host else {}
    store.save(_key(), store.Entry(facts, b""))


def _found() -> Host:
    return replace(untuned(), **tuned() or {})


HOST = _found()
