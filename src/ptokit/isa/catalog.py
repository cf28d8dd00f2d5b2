"""All instructions by name. A new instruction is a file, and a line here."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from keyword import iskeyword
from typing import ParamSpec, TypeVar

from ptokit.brief import brief
from ptokit.isa.columns import COLUMNS
from ptokit.isa.elementwise import ELEMENTWISE
from ptokit.isa.fixes import add_attributes
from ptokit.isa.fused import FUSED
from ptokit.isa.instruction import Call, Instruction
from ptokit.isa.kernel import without_cost
from ptokit.isa.mgather import MGATHER
from ptokit.isa.mscatter import MSCATTER
from ptokit.isa.parts import COMBINED
from ptokit.isa.reduce import REDUCE
from ptokit.isa.select import SELECT
from ptokit.isa.spelling import TMP
from ptokit.isa.tassign import TASSIGN
from ptokit.isa.tdequant import TDEQUANT
from ptokit.isa.tgather_mask import TGATHER_MASK
from ptokit.isa.tgatherb import TGATHERB
from ptokit.isa.thistogram import THISTOGRAM
from ptokit.isa.tload import TLOAD
from ptokit.isa.tmatmul import CUBE
from ptokit.isa.tmov import TMOV, TMOV_FP
from ptokit.isa.tmrgsort import MERGES
from ptokit.isa.tquant import QUANTISATIONS
from ptokit.isa.tscatter import TSCATTER
from ptokit.isa.tsort32 import TSORT32
from ptokit.isa.tstore import TSTORE, TSTORE_FP

MOVES = (MGATHER, MSCATTER, TSCATTER, TLOAD, TSTORE, TSTORE_FP, TMOV, TMOV_FP, TASSIGN)
COMPUTE = (
    *ELEMENTWISE,
    *SELECT,
    *REDUCE,
    *COLUMNS,
    *COMBINED,
    *FUSED,
    TGATHERB,
    THISTOGRAM,
    TGATHER_MASK,
    TSORT32,
    *MERGES,
    TDEQUANT,
    *QUANTISATIONS,
    *CUBE,
)

INSTRUCTIONS: dict[str, Instruction] = {instruction.name: instruction for instruction in (*MOVES, *COMPUTE)}
"""The catalogue. Tables that are derived from it are functions marked `derived`."""

RESERVED = {"wait", TMP, *dir(Call), "operands", "values", "instruction", "target", "family", "repeats", "clashes"}
"""Arguments of every call, and attributes of `Call`."""

Arguments = ParamSpec("Arguments")
Derived = TypeVar("Derived")
_DERIVED: list[Callable[[], None]] = []


def derived(make: Callable[Arguments, Derived]) -> Callable[Arguments, Derived]:
    """A table made from the catalogue: computed at its first use, and again after the catalogue has changed."""
    cached = lru_cache(maxsize=1024)(make)
    _DERIVED.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


@derived
def variants(name: str) -> tuple[Instruction, ...]:
    """An instruction and those that are other forms of it; none if the name is not one of an instruction."""
    found = INSTRUCTIONS.get(name)
    if found is None or found.is_statement or found.text.variant_of:
        return ()
    return found, *(each for each in INSTRUCTIONS.values() if each.text.variant_of == name)


def add(instruction: Instruction) -> None:
    """Put an instruction into the catalogue and into every derived table. Raises ValueError, which lists every problem,
    if Python or the machine could not use it."""
    if problems := list(problems_of(instruction)):
        raise ValueError(f"{instruction.name} cannot be added: {'; '.join(problems)}")
    INSTRUCTIONS[instruction.name] = instruction
    add_attributes(instruction.modifiers)
    _clear_derived()


def remove(name: str) -> None:
    """Take an instruction out of the catalogue."""
    del INSTRUCTIONS[name]
    _clear_derived()


def problems_of(instruction: Instruction) -> Iterator[str]:
    """Names that Python or `Call` cannot have, and kernels without a cost."""
    names = [each.name for each in (*instruction.operands, *instruction.modifiers)]
    for name in dict.fromkeys((instruction.name, *names)):
        if not name.isidentifier() or iskeyword(name) or name.startswith("_"):
            yield f"{brief(name)} is no name of a function or an argument in Python"
        elif name in names and (name in RESERVED or names.count(name) > 1):
            yield f"the name {brief(name)} is taken"
    for family, kernels in instruction.kernels.items():
        for route, kernel in kernels.items():
            if missing := without_cost(instruction, kernel):
                yield f"the kernel {route} on {family} has no cost for {', '.join(missing)}"


for _instruction in INSTRUCTIONS.values():
    add_attributes(_instruction.modifiers)


def _clear_derived() -> None:
    for clear in _DERIVED:
        clear()
