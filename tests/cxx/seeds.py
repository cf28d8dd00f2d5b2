"""The kernels of `seeded/`, and copies of them with a fault each: `python -m tests.cxx.seeds` counts what is found."""

from __future__ import annotations

import re
import sys
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from ptokit.cxx.compile import CompileOptions
from ptokit.finding import Finding, OutOfBoundsError, VerifyError
from ptokit.lang.cpp_entries import CppSource, chosen_entry
from ptokit.lang.prove import prove
from ptokit.lang.recorded import CppKernel
from tests.cxx.building import folder
from tests.cxx.launches import KERNELS, value_of

SEEDED = Path(__file__).with_name("seeded")
TARGETS = ("a2a3", "a5")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Fault:
    """A change of a kernel, and what is found."""

    kind: str
    before: str
    after: str
    line: str
    rule: str
    target: str = ""


@dataclass(frozen=True)
class Seeded:
    """A kernel and its faults."""

    name: str
    targets: tuple[str, ...]
    arguments: dict[str, Any]
    faults: tuple[Fault, ...]

    @property
    def text(self) -> str:
        """The source."""
        return (SEEDED / f"{self.name}.cpp").read_text()

    def values(self) -> dict[str, Any]:
        """The arguments of a launch, the same ones for every call."""
        rng = np.random.default_rng(len(self.name))
        return {name: value_of(text, rng) for name, text in self.arguments.items()}

    def faults_of(self, target: str) -> list[Fault]:
        """Those that a target has."""
        return [fault for fault in self.faults if fault.target in ("", target)]

    def changed(self, fault: Fault) -> str:
        """The source with a fault."""
        at, size = _place(self.text, fault.before)
        return self.text[:at] + fault.after + self.text[at + size :]

    def line(self, fault: Fault) -> int:
        """The line at which it is found."""
        text = self.changed(fault)
        return text.count("\n", 0, _place(text, fault.line)[0]) + 1


def _place(text: str, part: str) -> tuple[int, int]:
    """Where a part is, and its length: `part #2` is the second one."""
    words, _, number = part.partition(" #")
    found = [match.start() for match in re.finditer(re.escape(words), text)]
    return found[int(number or 1) - 1], len(words)


@lru_cache
def kernels() -> dict[str, Seeded]:
    """All kernels, by name."""
    tables = tomllib.loads((SEEDED / "faults.toml").read_text())
    return {name: _seeded(name, table) for name, table in tables.items()}


def _seeded(name: str, table: dict[str, Any]) -> Seeded:
    faults = tuple(Fault(*row) for row in table["faults"])
    return Seeded(name, tuple(table.get("targets", TARGETS)), table["arguments"], faults)


def many(texts: Iterable[str]) -> tuple[str, list[int]]:
    """Sources in one, each in a namespace of its own, and how many lines are before each."""
    copies = [text.replace('extern "C" ', "").splitlines() for text in texts]
    includes = [line.replace("../kernels/", "") for line in copies[0] if line.startswith("#include")]
    lines, starts = includes, list[int]()
    for number, copy in enumerate(copies):
        code = ["" if line.startswith("#include") else line for line in copy]
        starts.append(len(lines) + 1)
        lines = [*lines, f"namespace s{number} {{", *code, "}"]
    return "\n".join([*lines, ""]), starts


@dataclass(frozen=True)
class Launched:
    """What was found in a launch, and the arguments afterwards."""

    found: list[Finding]
    given: dict[str, Any]
    start: int
    """How many lines are before the kernel."""
    is_proved: bool = False
    """Whether a proof says that no launch has a fault."""

    def lines(self) -> list[tuple[int, str]]:
        """Lines of the kernel, and the rules that are broken there."""
        return [(found.where.line - self.start if found.where else 0, found.rule) for found in self.found]


def launches(seeded: Seeded, target: str, faults: Iterable[Fault | None]) -> Iterator[Launched]:
    """Runs a kernel with each of its faults on the machine; none is the kernel itself."""
    file = Path(mkdtemp(dir=folder())) / f"{seeded.name}.cpp"
    text, starts = many(seeded.changed(fault) if fault else seeded.text for fault in faults)
    file.write_text(text)
    source = CppSource(str(file), CompileOptions(flags=(f"-I{KERNELS}",)))
    built = source.build(target)
    for number, start in enumerate(starts):
        kernel = CppKernel(source, chosen_entry(built, f"s{number}::launch_{seeded.name}"), target)
        given = seeded.values()
        try:
            findings = kernel[1](**given, target=target, engine="machine").findings
        except (OutOfBoundsError, VerifyError) as refused:
            findings = refused.findings
        proof = prove(kernel, target=target, **seeded.values())
        yield Launched([found for found in findings if found.level != "note"], given, start, proof.verdict == "proved")


def shown(launch: Launched) -> str:
    """Findings, one on a line."""
    found = zip(launch.lines(), launch.found, strict=True)
    return "\n".join(f"    {line}: [{rule}] {each.level} {each.message}" for (line, rule), each in found)


def misses(seeded: Seeded, target: str, faults: Sequence[Fault]) -> Iterator[tuple[Fault, str]]:
    """The faults that are not found at their lines, or that a proof misses, and what is found."""
    for fault, launch in zip(faults, launches(seeded, target, faults), strict=True):
        line = seeded.line(fault)
        if launch.is_proved or not any(at == line and rule.startswith(fault.rule) for at, rule in launch.lines()):
            what = f"{seeded.name} on {target}: {fault.before} => {fault.after}: {fault.rule} at line {line}"
            yield fault, f"{what}\n{shown(launch)}"


def _main(names: Sequence[str]) -> None:
    warnings.simplefilter("ignore")
    counts, missed = Counter[str](), Counter[str]()
    for name, seeded in kernels().items():
        for target in seeded.targets if name in (names or kernels()) else ():
            faults = seeded.faults_of(target)
            counts.update(fault.kind for fault in faults)
            for fault, what in misses(seeded, target, faults):
                missed[fault.kind] += 1
                print(what)
    for kind, count in sorted(counts.items()):
        print(f"{kind:12} {count - missed[kind]:4} of {count}")
    print(f"{'all':12} {counts.total() - missed.total():4} of {counts.total()}")


if __name__ == "__main__":
    _main(sys.argv[1:])
