"""Which mutants are judged: those that do not mean the same as the source, some of them drawn by a seed."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from points import Mutant, find

T = TypeVar("T")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = ROOT / "src" / "ptokit"
FOLDERS = ("isa", "engine", "target")


def drawn(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Some of the mutants, the same ones in the same order for the same seed."""
    return random.Random(seed).sample(mutants, min(count, len(mutants)))


@dataclass(frozen=True)
class Equivalents:
    """Changes that no test can notice, and why."""

    modules: tuple[dict[str, str], ...]
    mutants: tuple[dict[str, str], ...]

    @classmethod
    def read(cls, file: Path = HERE / "equivalent.toml") -> Equivalents:
        """The listed ones."""
        listed = tomllib.loads(file.read_text(encoding="utf-8"))
        return cls(tuple(listed.get("module", ())), tuple(listed.get("mutant", ())))

    def has(self, mutant: Mutant) -> bool:
        """Whether a mutant is listed."""
        named = any(_names_module(row, mutant) for row in self.modules)
        return named or any(_matches(row, mutant) for row in self._by_module.get(mutant.module, ()))

    @cached_property
    def _by_module(self) -> dict[str, list[dict[str, str]]]:
        return grouped((row["module"], row) for row in self.mutants)

    def stale(self, mutants: Iterable[Mutant]) -> list[str]:
        """Entries that fit no mutant."""
        known = list(mutants)
        rows = [str(row) for row in self.modules if not any(_names_module(row, m) for m in known)]
        of = grouped((mutant.module, mutant) for mutant in known)
        return rows + [str(row) for row in self.mutants if not any(_matches(row, m) for m in of.get(row["module"], ()))]


def grouped(pairs: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    """The second parts by the first."""
    found: dict[str, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _names_module(row: dict[str, str], mutant: Mutant) -> bool:
    return fnmatchcase(mutant.module, row["module"]) and fnmatchcase(mutant.function, row.get("function", "*"))


def _matches(row: dict[str, str], mutant: Mutant) -> bool:
    fields = ("module", "function", "original", "mutation")
    return all(row[name] in ("*", part) for name, part in zip(fields, mutant.key, strict=True))


def candidates(only: str = "") -> tuple[list[Mutant], int]:
    """The mutants whose text has a part, but those that are listed as equivalent, and how many these are."""
    every, equivalents = find(PACKAGE, FOLDERS), Equivalents.read()
    for entry in equivalents.stale(every):
        print(f"equivalent.toml names what is not there: {entry}")
    named = [mutant for mutant in every if only in str(mutant)]
    found = [mutant for mutant in named if not equivalents.has(mutant)]
    return found, len(named) - len(found)
