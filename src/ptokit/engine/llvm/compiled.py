"""Code that LLVM makes of text, once for each key: in this process, and on disk for the next one."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# llvmlite has no types.

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import llvmlite
from llvmlite import binding

from ptokit import _version
from ptokit.engine.kept import recall, remember
from ptokit.engine.llvm import store

MOST = 1024
"""Entries of a cache in memory; the least recently used one is dropped first."""
LINES = 12
"""Lines of LLVM's message that an error shows."""
T = TypeVar("T")

BUILDING = threading.RLock()
"""Held while LLVM runs, which is serial anyway. Two threads that ask for one key build it once."""


class JitError(RuntimeError):
    """LLVM refused code that ptokit generated: a fault of ptokit."""


@contextmanager
def explained(symbol: str = "") -> Generator[None]:
    """Turn an error of LLVM into a `JitError`."""
    try:
        yield
    except RuntimeError as problem:
        message = "\n".join(line[:300] for line in str(problem).strip().splitlines()[:LINES])
        what = f"has no usable {symbol} in" if symbol else "refuses"
        raise JitError(f"LLVM {what} code that ptokit generated; this is a fault of ptokit:\n{message}") from problem


@contextmanager
def optimized(text: str, triple: str, machine: Any, passes: Sequence[str]) -> Generator[Any]:
    """A text as a module of LLVM for a machine, behind some passes; errors of LLVM in the block are explained."""
    with explained(), binding.create_context() as context, binding.parse_assembly(text, context) as module:
        module.triple, module.data_layout = triple, str(machine.target_data)
        module.verify()
        with (
            binding.create_pipeline_tuning_options(speed_level=1) as options,
            binding.create_pass_builder(machine, options) as builder,
            binding.create_new_module_pass_manager() as manager,
        ):
            for name in passes:
                getattr(manager, f"add_{name}_pass")()
            manager.run(module, builder)
        yield module


@dataclass(frozen=True)
class IrSource:
    """LLVM IR as text, and facts about it to be kept with the code: whatever JSON can hold."""

    text: str
    facts: dict[str, Any] = field(default_factory=dict)


class CodeCache(Generic[T]):
    """The code of one kind of processor, loaded: `load` is given the digest of a key, and what is kept for it."""

    def __init__(
        self, machine: Callable[[], object], translate: Callable[[str], bytes], load: Callable[[str, store.Entry], T]
    ) -> None:
        """`machine` describes the processor, `translate` makes code of text."""
        self._translate, self._load = translate, load
        self._kept: dict[str, T] = {}
        with BUILDING:
            versions = _version.__version__, llvmlite.__version__, cast("tuple[int, ...]", binding.llvm_version_info)
            self._maker = sha256(repr((versions, machine(), _sources())).encode())

    def get(self, key: str, build: Callable[[], IrSource]) -> T:
        """The code for a key, which describes all inputs of the code; `build` is called only if it is not cached."""
        digest = self.digest(key)
        found: T | None = recall(self._kept, digest)
        if found is not None:
            return found
        with BUILDING:
            found = recall(self._kept, digest) or self._stored(digest) or self._built(digest, build)
            return remember(self._kept, digest, found, MOST)

    def digest(self, key: str) -> str:
        """The name of a key on disk."""
        digest = self._maker.copy()
        digest.update(key.encode())
        return digest.hexdigest()

    def clear(self) -> None:
        """Drop what is in memory."""
        self._kept.clear()

    def _stored(self, digest: str) -> T | None:
        entry = store.load(digest)
        return self._load(digest, entry) if entry else None

    def _built(self, digest: str, build: Callable[[], IrSource]) -> T:
        source = build()
        facts = json.loads(json.dumps(source.facts))  # the same whether they come from here or from disk
        entry = store.Entry(facts, self._translate(source.text))
        made = self._load(digest, entry)
        store.save(digest, entry)
        return made


def _sources() -> list[tuple[str, int, int]]:
    """The source files that generate code, with size and time: a change invalidates the cache."""
    home = Path(_version.__file__).parent
    files = [file for package in ("isa", "target", "program", "engine") for file in (home / package).rglob("*.py")]
    abouts = [(str(file.relative_to(home)), file.stat()) for file in sorted(files)]
    return [(name, about.st_size, about.st_mtime_ns) for name, about in abouts]


# --- processes -------------------------------------------------------------------------------------------------


if hasattr(os, "register_at_fork"):  # a child that forks while LLVM holds its locks would wait for ever
    os.register_at_fork(before=BUILDING.acquire, after_in_parent=BUILDING.release, after_in_child=BUILDING.release)
