"""How instructions are called in text: names, which operand stands where, modifiers as attributes.

An instruction's own definition says most of it: its first operand is what it writes (`outs`), the others follow in
their order (`ins`). The tables here hold what a definition does not know.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction, Modifier
from ptokit.isa.policy import Dividend, IotaOrder, PtoEnum, StoreAtomic
from ptokit.target.profile import EVENT_IDS
from ptokit.target.profile import PIPES as CORE_PIPES

RENAMED = {"tmatmul_acc": "tmatmul.acc", "tmatmul_bias": "tmatmul.bias"}
"""Instructions that text calls otherwise."""

STATEMENTS = ("tassign",)
"""Instructions that are statements of their own in a program."""


@dataclass(frozen=True)
class Attribute:
    """A modifier as an attribute: its key, the kind of keyword, and keywords that are not the modifier's own word."""

    key: str
    kind: str = ""
    """The keyword attribute's name; without one the word is written as a string."""
    words: tuple[tuple[PtoEnum, object], ...] = ()
    upper: bool = False
    inside: bool = False
    """Whether it stands within `ins(...)`."""

    def written(self, member: PtoEnum) -> object:
        """The word for a member of the modifier."""
        return dict(self.words).get(member, member.text.upper() if self.upper else member.text)


ATTRIBUTES: dict[tuple[str, str], Attribute] = {
    ("mgather", "coalesce"): Attribute("coalesce", "coalesce"),
    ("mgather", "oob"): Attribute("gatherOob", "gather_oob"),
    ("mgather", "executor"): Attribute("gatherExec"),
    ("mscatter", "coalesce"): Attribute("coalesce", "coalesce"),
    ("mscatter", "atomic"): Attribute("scatterAtomicOp", "scatter_atomic_op"),
    ("mscatter", "oob"): Attribute("scatterOob", "scatter_oob"),
    ("mscatter", "conflict"): Attribute("scatterConflict", "scatter_conflict"),
    ("tscatter", "index"): Attribute("index"),
    ("tstore", "atomic"): Attribute(
        "atomicType", "atomic_type", ((StoreAtomic.NONE, "atomic_none"), (StoreAtomic.Add, "atomic_add"))
    ),
    ("tcmp", "mode"): Attribute("cmpMode", "cmp", inside=True),
    ("tcmps", "mode"): Attribute("cmpMode", "cmp", inside=True),
    ("tcvt", "round"): Attribute("rmode", "round_mode", upper=True, inside=True),
    ("tcvt", "saturation"): Attribute("satMode", "saturation_mode", upper=True),
    ("tci", "order"): Attribute(
        "descending", "", ((IotaOrder.Ascending, False), (IotaOrder.Descending, True)), inside=True
    ),
}
"""Modifiers as attributes. The dividend of `tdivs` is told by the order of its operands."""

SPOKEN = {("mgather", "coalesce")}
"""Attributes that are written even where they say what goes without saying."""

SYNONYMS = {"round_mode": {"CAST_RINT": "RINT"}}
"""Keywords of a kind that are read as well, and which ones they are."""

PIPES = tuple(f"PIPE_{name}" for name in (*CORE_PIPES, "ALL", "MTE4", "MTE5", "V2"))
"""Pipes: those of a core, all of them, and those that only text knows."""
EVENTS = tuple(f"EVENT_ID{number}" for number in range(EVENT_IDS))


def op_name(instruction: str) -> str:
    """What text calls an instruction."""
    return RENAMED.get(instruction, instruction)


INSTRUCTION_OF = {op_name(name): name for name in INSTRUCTIONS if name not in STATEMENTS}
"""The instructions that text knows, by their names there; dots and underscores are the same to readers."""


def instruction_of(op: str) -> Instruction | None:
    """The instruction that an operation is, if it is one."""
    name = INSTRUCTION_OF.get(op) or INSTRUCTION_OF.get(op.replace("_", "."))
    return INSTRUCTIONS[name] if name else None


def attributes(instruction: Instruction) -> tuple[tuple[Modifier, Attribute], ...]:
    """The modifiers of an instruction that are attributes, in their order."""
    found = ((modifier, ATTRIBUTES.get((instruction.name, modifier.name))) for modifier in instruction.modifiers)
    return tuple((modifier, attribute) for modifier, attribute in found if attribute is not None)


def usual(modifier: Modifier) -> PtoEnum | None:
    """The member that goes without saying, where it does not depend on the rest of a call."""
    if modifier.default_text:
        return next((member for member in modifier.enum if member.text == modifier.default_text), None)
    return modifier.default(None) if modifier.default else None  # type: ignore[arg-type]


def _keywords() -> dict[str, tuple[str, ...]]:
    words: dict[str, tuple[str, ...]] = {}
    for instruction in INSTRUCTIONS.values():
        for modifier, attribute in attributes(instruction):
            words[attribute.kind] = tuple(str(attribute.written(member)) for member in modifier.enum)
    return {kind: (*found, *SYNONYMS.get(kind, ())) for kind, found in words.items() if kind}


KEYWORDS = _keywords()
"""The words of every kind of keyword that a modifier is written as."""


def sources(instruction: Instruction, dividend: PtoEnum | None = None) -> tuple[str, ...]:
    """The names of what an instruction reads, in the order of the text."""
    names = tuple(param.name for param in instruction.operands[1:])
    return names[::-1] if dividend is Dividend.Scalar else names
