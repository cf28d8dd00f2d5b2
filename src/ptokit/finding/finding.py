"""Findings on calls and programs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from ptokit.brief import LONGEST, MOST, elided, named
from ptokit.finding.conflict import ConflictAccess, Seen, Where, bytes_of, moments
from ptokit.finding.fix import Fix
from ptokit.markup import Displayed, Markup, badge, clipped, dim, joined, tag

Level = Literal["error", "hazard", "unmodelled", "note"]
"""`error`: refused. `hazard`: right here, wrong elsewhere. `unmodelled`: ptokit does not model this, and does not say
whether it is right. `note`: a remark, shown on request."""


LEVELS: tuple[Level, ...] = ("error", "hazard", "unmodelled", "note")
"""The most severe first."""
FAULTS: tuple[Level, ...] = ("error", "hazard")
"""The levels of faults of the user's code."""
OPAQUE = "opaque"
"""In the place of a clause: the table of instructions that are known by their effects only."""
SHARDED = "sharded"
"""In the place of a clause: what happens to the owners of a sharded table."""
TEXTS = {"message": LONGEST, "fix": LONGEST, "expected": LONGEST, "found": LONGEST, "operand": MOST}
"""Characters of the texts of a finding, at most."""


@dataclass(frozen=True)
class Finding(Displayed):
    """One fault or remark: what was expected, what was found, where, under which clause, and how to fix it."""

    level: Level
    rule: str
    """The clause id, or the number of the decision (A-nn) if only a decision supports the rule."""
    message: str
    kind: str | None = None
    """The number of the hazard (H-nn) that this finding is an instance of."""
    operand: str = ""
    expected: str = ""
    found: str = ""
    fix: str = ""
    where: Where | None = None
    target: str = ""
    """The target it was found on; empty if it holds on every target."""
    blocks: bool = field(default=False, compare=False, repr=False)
    """Whether it blocks execution: an engine that reports errors and goes on cannot go on after this one."""
    unwritten: Literal["", "memory", "index"] = field(default="", compare=False, repr=False)
    """Of a read of memory that nothing has written, which a check and a run on the machine both find: what is read."""
    heads: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """What the message begins with: the function that refuses, and perhaps its operand."""
    compared: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Other operands that it is about."""
    names: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """The operands of the instruction, and the author's names of their tiles and arrays."""
    ends: tuple[ConflictAccess, ...] = field(default=(), compare=False, repr=False)
    """Of a conflict: the earlier access and the later one, where it was seen first; of a read of undefined or
    overwritten memory, the read."""
    seen: Seen | None = field(default=None, compare=False, repr=False)
    """Of a run on the machine: how often."""
    tiles: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The tiles that share bytes, if it says that they should not."""

    def __post_init__(self) -> None:
        """Bound the length of texts whose parts should be short already."""
        for name, most in TEXTS.items():
            if len(text := getattr(self, name)) > most:
                object.__setattr__(self, name, elided(text, most))

    @property
    def path(self) -> tuple[Where, ...]:
        """The place, and the calls that lead there."""
        return self.where.path if self.where else ()

    @property
    def is_fault(self) -> bool:
        """Whether it is a fault of the user's code: an error or a hazard."""
        return self.level in FAULTS

    def at(self, where: Where | None) -> Finding:
        """The same finding, pointing at a place."""
        return replace(self, where=where)

    def headed(self, *heads: str) -> Finding:
        """The same finding of another function, or of an operand with another name."""
        rest = self.message[len("".join(self.heads)) :]
        return replace(self, message="".join(heads) + rest, heads=heads)

    def in_form(self, form: str) -> Finding:
        """The same finding, with its fix in the language of a form."""
        return replace(self, fix=self.fix.written(form)) if form and isinstance(self.fix, Fix) else self

    def on(self, target: str) -> Finding:
        """The same finding, on a target."""
        return self if self.target else replace(self, target=target)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return "\n    ".join((f"{place}{self.head}", *self.lines))

    @property
    def head(self) -> str:
        """The first line, without the place."""
        name = f"{self.rule}, {self.kind}" if self.kind else self.rule
        return f"{self.level} [{name}] {self.message}"

    def _repr_html_(self) -> str:
        """The finding in a notebook."""
        return tag("div", finding_html(self), style="box", tabindex=0)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines below the first: the fix, and the details."""
        return (f"fix: {self.fix}", *self.details) if self.fix else self.details

    @property
    def details(self) -> tuple[str, ...]:
        """The lines after the fix: which bytes, in which blocks and iterations, through which calls."""
        operands = bytes_of(self.ends[-1]) if self.ends else self._names()
        lines = operands, moments(self.seen, self.first), self._calls()
        return tuple(elided(line) for line in lines if line)

    @property
    def first(self) -> ConflictAccess | None:
        """The earlier access of a conflict."""
        return self.ends[0] if len(self.ends) > 1 else None

    def _names(self) -> str:
        """`dst is out, idx is ids`: the names of the operands that it is about."""
        about = (self.operand, *self.compared)
        return ", ".join(
            f"{operand} is {named(name)}" for operand, name in self.names if operand in about and operand != name
        )

    def _calls(self) -> str:
        """`called from k.py:31, k.py:12; mgather's write from k.py:28`."""
        first = self.first
        ends = (("", self.where), (f"{first.act} " if first else "", first.where if first else None))
        through = [f"{what}called from {', '.join(map(str, end.calls))}" for what, end in ends if end and end.calls]
        return "; ".join(through)

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        return plain | {
            "names": dict(self.names),
            "where": str(self.where) if self.where else None,
            "calls": [str(call) for call in self.where.calls] if self.where else [],
            "ends": [end.as_dict() for end in self.ends] if self.ends else None,
            "seen": self.seen.as_dict() if self.seen else None,
        }


def finding_html(finding: Finding) -> Markup:
    """Level, clause and place, then the message, the fix and the details."""
    name = f"{finding.rule}, {finding.kind}" if finding.kind else finding.rule
    place = [" ", tag("code", finding.where)] if finding.where else []
    head = tag("div", badge(finding.level, finding.level), " ", tag("strong", name), *place)
    return joined(head, tag("div", clipped(finding.message)), *(dim(clipped(line)) for line in finding.lines))
