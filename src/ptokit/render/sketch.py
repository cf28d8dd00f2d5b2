"""The expectation of a rule without a call: operands and extents appear by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ptokit.isa.instruction import Rule
from ptokit.isa.table import Table, lookup
from ptokit.target import Profile


class Name:
    """The name of a value that is not known: `dst.valid_rows` prints as that."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name if self._text == "" else f"{self._text}.{name}")

    def __getitem__(self, key: object) -> Name:
        return Name(f"{self._text}[{key}]")

    def __add__(self, other: object) -> Name:
        return Name(f"{self._text} + {other}")

    def __mul__(self, other: object) -> Name:
        return Name(f"{self._text} * {other}")

    def __iter__(self) -> Iterator[Name]:
        return iter((Name(f"{self._text}_rows"), Name(f"{self._text}_cols")))

    def __str__(self) -> str:
        return self._text


class Sketch(Name):
    """Replaces a call on a target."""

    def __init__(self, profile: Profile) -> None:
        super().__init__("")
        self._profile = profile
        self.values = Values()

    def here(self, table: Mapping[str, Any] | Table[Any], default: Any = None) -> Any:
        """The row of a table for the target, which is known without a call."""
        return lookup(table, self._profile.name, default)


class Values(dict[str, Name]):
    """Operands by name."""

    def __missing__(self, name: str) -> Name:
        return Name(name)


def sketch(rule: Rule, profile: Profile) -> str:
    """What the rule expects on a target."""
    return rule.expect(Sketch(profile)) if callable(rule.expect) else rule.expect  # type: ignore[arg-type]
