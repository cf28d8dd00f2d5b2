"""What a checkout of the public headers states, and how that differs from a revision that ptokit knows.

A revision is kept as digests: of instructions' signatures, of headers, of what they assert, and of what calls of the
vendor's test kernels did. Texts are those of the user's checkout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from ptokit.target import families_in_cpp
from ptokit.witness.effects import Observed
from ptokit.witness.headers import INSTRUCTION, Checkout

FOLDER = Path(__file__).parent / "revisions"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\")", re.DOTALL)
TOKEN = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|\w+|[^\w\s]")
INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([\w./-]+)[>\"]", re.MULTILINE)
ASSERTION = re.compile(r"\b(?:static_assert|PTO_(?:STATIC_)?ASSERT)\s*\(")
MOST_ASSERTED = 4096
"""Characters of an assertion."""
Digests = dict[str, list[str]]


def digest(text: str) -> str:
    """A text without its comments and its layout, in short. Strings that follow each other are one."""
    plain = COMMENT.sub(lambda match: match[1] or " ", text)
    return _short(" ".join(TOKEN.findall(plain)).replace('" "', ""))


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Assertion:
    """What a header asserts."""

    header: str
    line: int
    text: str

    @property
    def digest(self) -> str:
        """The text in short."""
        return digest(self.text)


@dataclass(frozen=True)
class HeaderFacts:
    """What the headers of a checkout state, but for those of other families and of the cost model."""

    checkout: Checkout

    @cached_property
    def texts(self) -> dict[str, str]:
        """The headers by their include path."""
        others = "|".join(families_in_cpp())
        left_out = re.compile(rf"pto/(costmodel|npu/(?!({others})/)\w+)/")
        return {name: text for name, text in self.checkout.texts.items() if not left_out.match(name)}

    @cached_property
    def signatures(self) -> dict[str, list[str]]:
        """The forms of each public instruction, in the order of the headers."""
        found: dict[str, list[str]] = {}
        for text in self.texts.values():
            for match in INSTRUCTION.finditer(text):
                if match["name"]:
                    start = text.rfind("template", 0, match.start())
                    head = text[start if start >= 0 and "}" not in text[start : match.start()] else match.start() :]
                    found.setdefault(match["name"], []).append(" ".join(head[: head.index("{")].split()))
        return found

    @cached_property
    def assertions(self) -> list[Assertion]:
        """All assertions, with their places."""
        return [each for header, text in self.texts.items() for each in _assertions(header, text)]

    def closure(self, header: str) -> set[str]:
        """A header, and all that it includes."""
        found, left = set[str](), [header]
        while left:
            name = left.pop()
            if name not in found and name in self.texts:
                found.add(name)
                left += (_resolved(name, path) for path in INCLUDED.findall(self.texts[name]))
        return found

    def implementing(self, family: str) -> dict[str, set[str]]:
        """The headers in which a family's functions of each instruction are, with what these include."""
        found: dict[str, set[str]] = {}
        for header, text in self.texts.items():
            if f"/npu/{family}/" in header:
                for name in re.findall(r"\b(?:PTO_INTERNAL|PTO_INST)\b[^;{}()]*?\b([A-Z][A-Z0-9_]+)_IMPL\s*\(", text):
                    found.setdefault(name, set()).update(self.closure(header))
        return found

    def recorded(self) -> dict[str, Digests | dict[str, str]]:
        """The facts as a revision keeps them."""
        asserted: Digests = {}
        for each in self.assertions:
            asserted.setdefault(each.header, []).append(each.digest)
        return {
            "instructions": {name: sorted(map(digest, texts)) for name, texts in sorted(self.signatures.items())},
            "headers": {name: digest(text) for name, text in sorted(self.texts.items())},
            "assertions": {name: sorted(digests) for name, digests in sorted(asserted.items())},
        }


def _assertions(header: str, text: str) -> Iterator[Assertion]:
    for match in ASSERTION.finditer(text):
        depth, at = 1, match.end()
        while depth and at < min(len(text), match.end() + MOST_ASSERTED):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        yield Assertion(header, text.count("\n", 0, match.start()) + 1, " ".join(text[match.start() : at].split()))


def _resolved(header: str, path: str) -> str:
    """An include path: from the root, or beside the header."""
    return path if path.startswith("pto/") else (Path(header).parent / path).as_posix()


@dataclass(frozen=True)
class RecordedRevision:
    """A revision of the public headers."""

    name: str
    commit: str
    date: str
    facts: Mapping[str, Mapping[str, Sequence[str] | str]]
    effects: Mapping[str, Mapping[str, Mapping[str, str]]]
    """By family and test kernel: each instruction's pipes, flags and bytes."""

    @classmethod
    def newest(cls) -> RecordedRevision:
        """The newest revision that ptokit knows."""
        file = max(FOLDER.glob("*.json"))
        return cls(name=file.stem, **json.loads(file.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class HeaderChanges:
    """How a checkout differs from a revision, but for what its kernels do."""

    added: dict[str, list[str]]
    """Instructions, and forms of instructions, that the revision does not have."""
    removed: list[str]
    """Instructions that the checkout lacks, and instructions that it has only in some forms."""
    headers: list[str]
    """Headers that are new or differ."""
    gone: list[str]
    asserted: list[Assertion]
    dropped: dict[str, int]
    """How many assertions of the revision a header lacks."""

    @classmethod
    def between(cls, revision: RecordedRevision, facts: HeaderFacts) -> HeaderChanges:
        """What differs."""
        known, own = revision.facts, facts.recorded()
        forms = {name: _others(texts, known["instructions"].get(name, ())) for name, texts in facts.signatures.items()}
        asserted = {header: set(digests) for header, digests in known["assertions"].items()}
        return cls(
            {name: texts for name, texts in forms.items() if texts},
            sorted(n for n, each in known["instructions"].items() if not {*each} <= {*own["instructions"].get(n, ())}),
            sorted(name for name, each in own["headers"].items() if known["headers"].get(name) != each),
            sorted({*known["headers"]} - {*own["headers"]}),
            [each for each in facts.assertions if each.digest not in asserted.get(each.header, ())],
            {h: n for h, each in asserted.items() if (n := len(each - {*own["assertions"].get(h, ())}))},
        )

    def affected(self, facts: HeaderFacts, family: str) -> set[str]:
        """The instructions of a family that are made of headers that differ."""
        return {name for name, headers in facts.implementing(family).items() if not headers.isdisjoint(self.headers)}


def _others(texts: Iterable[str], known: Iterable[str]) -> list[str]:
    digests = {*known}
    return [text for text in texts if digest(text) not in digests]


def effects_of(calls: Iterable[Observed]) -> dict[str, str]:
    """What the calls of each instruction did in a kernel: pipes, flags, and a digest of the bytes read and written."""
    found: dict[str, list[Observed]] = {}
    for call in calls:
        found.setdefault(call.name, []).append(call)
    return {name: " ".join(_in_short(same)) for name, same in sorted(found.items())}


def _in_short(calls: Sequence[Observed]) -> tuple[str, str, str]:
    return (
        _joined(call.pipes for call in calls),
        _joined(_flags(call) for call in calls),
        _short(repr([*map(_touched, calls)])),
    )


def _flags(call: Observed) -> set[str]:
    return {"-".join(flag) for flag in call.flags}


def _joined(sets: Iterable[Iterable[str]]) -> str:
    return ",".join(sorted({word for words in sets for word in words})) or "none"


def _touched(call: Observed) -> list[tuple[str, str, int, Any]]:
    return sorted(
        (how, place.memory, place.argument or 0, ranges.tolist())
        for how in ("read", "write")
        for place, ranges in call.bytes_of(how).items()
    )
