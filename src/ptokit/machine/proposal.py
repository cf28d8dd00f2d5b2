"""A proposed change of a program's flags, and its patch in the user's source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from ptokit.finding import counted
from ptokit.program.ir import Program
from ptokit.program.repair import Edit

ORDER, NEEDLESS = "order", "needless"


@dataclass(frozen=True)
class Patch:
    """The source of a program with a repair: texts by file."""

    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    kernel: Any = field(default=None, compare=False, repr=False)
    """The kernel of the texts after the change, which can be launched."""
    refusal: str = ""
    """Why there is none."""

    @property
    def diff(self) -> str:
        """A unified diff of all files."""
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for file, text in self.after.items()
            for line in _unified(_lines(self.before[file]), _lines(text), file)
        )


def _unified(before: list[str], after: list[str], file: str) -> Iterator[str]:
    """A unified diff. That of `difflib` takes lines that occur often for changed ones."""
    for number, group in enumerate(SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes()):
        yield from () if number else (f"--- {file}\n", f"+++ {file}\n")
        yield f"@@ -{_range(group[0][1], group[-1][2])} +{_range(group[0][3], group[-1][4])} @@\n"
        for tag, one, other, first, last in group:
            yield from (f"{' ' if tag == 'equal' else '-'}{line}" for line in before[one:other])
            yield from (f"+{line}" for line in (after[first:last] if tag != "equal" else ()))


def _range(start: int, stop: int) -> str:
    """The first line and the number of lines."""
    count = stop - start
    return f"{start + 1}" if count == 1 else f"{start + (count > 0)},{count}"


def _lines(text: str) -> list[str]:
    """The lines of a text with their ends; only `\\n` ends one."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [last for last in text.split("\n")[-1:] if last]


@dataclass(frozen=True)
class Repair:
    """A proposal to change the flags of a program."""

    kind: str
    """`order`: it makes the program clean. `needless`: flags or a barrier that nothing needs go."""
    target: str
    edits: tuple[Edit, ...]
    cycles: float = 0.0
    """How many cycles more the launch takes with it, by the model; negative if it saves some."""
    form: str = ""
    """The form of the program's text: `mlir` or `as`; empty for Python."""
    patch: Patch = field(default_factory=Patch, compare=False, repr=False)
    """The change in the user's source."""

    @property
    def diff(self) -> str:
        """The change of the user's source as a unified diff; empty if it cannot be expressed there."""
        return self.patch.diff

    def __str__(self) -> str:
        by = f"{abs(self.cycles):,.0f} cycles {'more' if self.cycles > 0 else 'less'}" if self.cycles else "same time"
        head = f"{self.kind} on {self.target}: {counted(len(self.edits), 'edit')}, {by}"
        return "\n".join([head, *(f"  {edit.text(self.form)}" for edit in self.edits)])


Patcher = Callable[[Sequence[Edit], Callable[[Program], bool]], Patch]
"""Makes edits in the user's source. The second argument tells whether the program of the changed source is right."""


def no_patch(_edits: Sequence[Edit], _is_right: Callable[[Program], bool]) -> Patch:
    """The source of the program is not known."""
    return Patch(refusal="the source of the program is not known")


def nothing(_patched: Patcher, _is_ok: bool) -> tuple[Repair, ...]:
    """No proposal."""
    return ()
