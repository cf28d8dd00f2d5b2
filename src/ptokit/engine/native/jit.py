"""LLVM text to machine code, once for each key: in this process, and on disk for the next one.

What is loaded is always an object image, fresh or from disk, so that both run the same bytes. JITLink puts an
image into one piece of memory and reaches outside functions through a table beside it: small, position-independent code
is right on x86-64 and AArch64, wherever that memory lies.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# llvmlite has no types.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

from llvmlite import binding

from ptokit.engine.llvm.compiled import BUILDING, CodeCache, IrSource, JitError, explained, optimized
from ptokit.engine.llvm.store import Entry

_numbers = count()


class Library:
    """Machine code in memory, for as long as this object lives: keep it while its addresses are in use."""

    __slots__ = ("_addresses", "_name", "_trackers", "facts")

    def __init__(self, key: str, entry: Entry) -> None:
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
    return _libraries.get(key, build)


# --- LLVM ------------------------------------------------------------------------------------------------------


def _compiled(text: str) -> bytes:
    """The object image of a text.

    The text has its vectors, prefetches and unrolled loops already, so little is left for passes: functions are inlined
    that say so, variables go into registers, and branches are straightened. Instruction selection does the rest.
    """
    if "\0" in text:
        raise JitError("there is a zero byte in the code that ptokit generated")
    machine = _machine()
    with optimized(text, machine.triple, machine, ("always_inliner", "sroa", "simplify_cfg")) as module:
        return machine.emit_object(module)


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


_libraries = CodeCache(_host, _compiled, Library)
_linker()  # made ready while this file is imported, not when the first library is waited for
