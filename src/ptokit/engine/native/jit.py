"""LLVM text to machine code, once for each key: in this process, and on disk for the next one.

What is loaded is always an object image, fresh or from disk, so that both run the same bytes. JITLink puts an
image into one piece of memory and reaches outside functions through a table beside it: small, position-independent code
is right on x86-64 and AArch64, wherever that memory lies.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# llvmlite has no types.

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, cast

import llvmlite
from llvmlite import binding

from ptokit import _version
from ptokit.engine.native import store

MOST = 1024
"""Libraries in the cache; the least recently used one is dropped first."""
LINES = 12
"""Lines of LLVM's message that an error shows."""

_libraries: OrderedDict[str, Library] = OrderedDict()
_cache_lock = threading.Lock()
BUILDING = threading.RLock()
"""Held while LLVM runs, which is serial anyway. Two threads that ask for one key build it once."""
_numbers = count()


class JitError(RuntimeError):
    """LLVM refused code that ptokit generated: a fault of ptokit."""


@dataclass(frozen=True)
class IrSource:
    """LLVM IR as text, and facts about it to be kept with the code: whatever JSON can hold."""

    text: str
    facts: dict[str, Any] = field(default_factory=dict)


class Library:
    """Machine code in memory, for as long as this object lives: keep it while its addresses are in use."""

    __slots__ = ("_addresses", "_name", "_trackers", "facts")

    def __init__(self, key: str, entry: store.Entry) -> None:
        self.facts = entry.facts
        self._addresses: dict[str, int] = {}
        self._name = f"{key}-{next(_numbers)}"
        with explained():
            builder = binding.JITLibraryBuilder().add_object_img(entry.code).add_current_process()
            self._trackers = [builder.link(_linker(), self._name)]  # the code stays while they all do

    def address(self, symbol: str) -> int:
        """Where a function or global of the library begins."""
        if symbol not in self._addresses:
            with BUILDING, explained(symbol):
                found = _linker().lookup(self._name, symbol)
                self._trackers.append(found)
                self._addresses[symbol] = found[symbol]
        return self._addresses[symbol]


def library(key: str, build: Callable[[], IrSource]) -> Library:
    """The code for a key, which describes all inputs of the code; `build` is called only if it is not cached."""
    digest = _digest(key)
    found = _cached(digest)
    if found is None:
        with BUILDING:
            found = _cached(digest) or _cache(digest, _loaded(digest) or _built(digest, build()))
    return found


def _cached(digest: str) -> Library | None:
    with _cache_lock:
        found = _libraries.get(digest)
        if found is not None:
            _libraries.move_to_end(digest)
        return found


def _cache(digest: str, made: Library) -> Library:
    forgotten = None
    with _cache_lock:
        _libraries[digest] = made
        if len(_libraries) > MOST:
            forgotten = _libraries.popitem(last=False)
    del forgotten  # only now: taking code out of memory may have to wait for LLVM
    return made


def _loaded(digest: str) -> Library | None:
    entry = store.load(digest)
    return Library(digest, entry) if entry else None


def _built(digest: str, source: IrSource) -> Library:
    facts = json.loads(json.dumps(source.facts))  # the same whether they come from here or from disk
    entry = store.Entry(facts, _compiled(source.text))
    made = Library(digest, entry)
    store.save(digest, entry)
    return made


# --- LLVM ------------------------------------------------------------------------------------------------------


def _compiled(text: str) -> bytes:
    """The object image of a text.

    The text has its vectors, prefetches and unrolled loops already, so little is left for passes: functions are inlined
    that say so, variables go into registers, and branches are straightened. Instruction selection does the rest.
    """
    if "\0" in text:
        raise JitError("there is a zero byte in the code that ptokit generated")
    machine = _machine()
    with explained(), binding.create_context() as context, binding.parse_assembly(text, context) as module:
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        module.verify()
        with (
            binding.create_pipeline_tuning_options(speed_level=1) as options,
            binding.create_pass_builder(machine, options) as builder,
            binding.create_new_module_pass_manager() as passes,
        ):
            passes.add_always_inliner_pass()
            passes.add_sroa_pass()
            passes.add_simplify_cfg_pass()
            passes.run(module, builder)
        return machine.emit_object(module)


@contextmanager
def explained(symbol: str = "") -> Generator[None]:
    """Turn an error of LLVM into a `JitError`."""
    try:
        yield
    except RuntimeError as problem:
        message = "\n".join(line[:300] for line in str(problem).strip().splitlines()[:LINES])
        what = f"has no usable {symbol} in" if symbol else "refuses"
        raise JitError(f"LLVM {what} code that ptokit generated; this is a fault of ptokit:\n{message}") from problem


@cache
def _machine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    triple, cpu, features = _host()
    target = binding.Target.from_triple(triple)
    return target.create_target_machine(cpu, features, opt=2, reloc="pic", codemodel="small", jit=True)


@cache
def _linker() -> Any:
    binding.initialize_native_target()
    return binding.create_lljit_compiler(use_jit_link=True, suppress_errors=True)


@cache
def _host() -> tuple[str, str, str]:
    """The triple, the processor's name and its features."""
    return binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


# --- keys ------------------------------------------------------------------------------------------------------


def _digest(key: str) -> str:
    digest = _maker().copy()
    digest.update(key.encode())
    return digest.hexdigest()


@cache
def _maker() -> Any:
    """The hash of the versions, the processor and the sources that code depends on."""
    with BUILDING:
        versions = _version.__version__, llvmlite.__version__, cast("tuple[int, ...]", binding.llvm_version_info)
        return sha256(repr((versions, _host(), _sources())).encode())


def _sources() -> list[tuple[str, int, int]]:
    """The source files that generate code, with size and time: a change invalidates the cache."""
    home = Path(_version.__file__).parent
    files = [file for package in ("isa", "target", "program", "engine") for file in (home / package).rglob("*.py")]
    abouts = [(str(file.relative_to(home)), file.stat()) for file in sorted(files)]
    return [(name, about.st_size, about.st_mtime_ns) for name, about in abouts]


# --- processes -------------------------------------------------------------------------------------------------


def _hold() -> None:
    BUILDING.acquire()
    _cache_lock.acquire()


def _let_go() -> None:
    _cache_lock.release()
    BUILDING.release()


if hasattr(os, "register_at_fork"):  # a child that forks while LLVM holds its locks would wait for ever
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_let_go)


_maker()  # what every library needs is made ready while this file is imported, not when the first one is waited for
_linker()
