"""All instructions by name. A new instruction is a file, and a line here."""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar

from ptokit.isa.columns import COLUMNS
from ptokit.isa.elementwise import ELEMENTWISE
from ptokit.isa.instruction import Instruction
from ptokit.isa.mgather import MGATHER
from ptokit.isa.mscatter import MSCATTER
from ptokit.isa.reduce import REDUCE
from ptokit.isa.select import SELECT
from ptokit.isa.tassign import TASSIGN
from ptokit.isa.tload import TLOAD
from ptokit.isa.tmatmul import CUBE
from ptokit.isa.tmov import TMOV
from ptokit.isa.tscatter import TSCATTER
from ptokit.isa.tstore import TSTORE

MOVES = (MGATHER, MSCATTER, TSCATTER, TLOAD, TSTORE, TMOV, TASSIGN)
COMPUTE = (*ELEMENTWISE, *SELECT, *REDUCE, *COLUMNS, *CUBE)

INSTRUCTIONS: dict[str, Instruction] = {instruction.name: instruction for instruction in (*MOVES, *COMPUTE)}
"""The catalogue. Tables that are derived from it are functions marked `derived`."""

Arguments = ParamSpec("Arguments")
Derived = TypeVar("Derived")
_DERIVED: list[Callable[[], None]] = []


def derived(make: Callable[Arguments, Derived]) -> Callable[Arguments, Derived]:
    """A table made from the catalogue: computed at its first use, and again after the catalogue has changed."""
    cached = lru_cache(maxsize=1024)(make)
    _DERIVED.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


def add(instruction: Instruction) -> None:
    """Put an instruction into the catalogue and into every derived table."""
    INSTRUCTIONS[instruction.name] = instruction
    _clear_derived()


def remove(name: str) -> None:
    """Take an instruction out of the catalogue."""
    del INSTRUCTIONS[name]
    _clear_derived()


def _clear_derived() -> None:
    for clear in _DERIVED:
        clear()
