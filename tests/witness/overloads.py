"""The public instructions of a checkout with their overloads, as a target has them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ptokit.cxx.compile import CompileOptions, _Compilation, find_compiler
from ptokit.witness.headers import INSTRUCTION, Checkout
from ptokit.witness.record import options_with

HEADER = "pto/common/pto_instr.hpp"
"""Where they are."""
MARKER = re.compile(r'^# (\d+) "([^"\n]*)"|const ptokit::Scope ptokit_scope\("(\w+)"\)', re.MULTILINE)
FUNCTION = re.compile(r"\b([A-Z]\w+)_IMPL\s*\([^;{}]*\)\s*\{")
CALLED = re.compile(r"\b(?:MAP_INSTR_IMPL\s*\(\s*(\w+)|([A-Z]\w+)_IMPL\b)")
EVENTS = re.compile(r"\bWaitEvents\b")
TYPES = re.compile(r"^(?:typename|class)\b|enable_if_t")


@dataclass(frozen=True)
class Overload:
    """A form of a public instruction."""

    name: str
    """In capitals."""
    line: int
    """Of its body in the header."""
    call: str
    """Arguments of the template that are no types, and the operands: `<AccPhase>(cMatrix, aMatrix, bMatrix)`."""
    made_of: frozenset[str] = frozenset()
    """The instructions whose functions it calls, if its target has none of them."""

    def __str__(self) -> str:
        return self.name + self.call


def overloads(checkout: Checkout, headers: Path, family: str) -> list[Overload]:
    """Those that the preprocessor leaves for a target; `headers`: the changed copies."""
    left, known = _left(headers, family), _implemented(checkout, family)
    found = (each for each in stated(checkout.texts[HEADER]) if (each.name, each.line) in left)
    return [replace(each, made_of=frozenset()) if each.made_of & known else each for each in found]


def _implemented(checkout: Checkout, family: str) -> set[str]:
    """The instructions of which a target has a function."""
    folders = f"pto/npu/{family}/", "pto/common/"
    texts = (text for name, text in checkout.texts.items() if name.startswith(folders))
    return {match[1] for text in texts for match in FUNCTION.finditer(text)}


def stated(text: str) -> Iterator[Overload]:
    """All that a header has."""
    for match in INSTRUCTION.finditer(text):
        if match["name"]:
            start = text.rfind("template", 0, match.start())
            head = text[start : match.start()] if start >= 0 and "}" not in text[start : match.start()] else ""
            given = match[0].partition("(")[2].rpartition(")")[0]
            operands = [_last_word(part) for part in _parts(given) if not EVENTS.search(part)]
            choices = [part.split()[0] for part in _parts(head.partition("<")[2].rpartition(">")[0])
                       if not TYPES.search(part)]  # fmt: skip
            template = f"<{', '.join(choices)}>" if choices else ""
            line = text.count("\n", 0, match.end()) + 1
            body = text[match.end() : text.find("\n}", match.end())]
            called = frozenset(one or other for one, other in CALLED.findall(body))
            yield Overload(match["name"], line, f"{template}({', '.join(operands)})", called)


def _parts(text: str) -> list[str]:
    """What commas separate outside of brackets."""
    found, depth = [""], 0
    for letter in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [" ".join(part.split()) for part in found if part.strip()]


def _last_word(parameter: str) -> str:
    return re.findall(r"\w+", parameter.partition("=")[0])[-1]


def _left(headers: Path, family: str) -> set[tuple[str, int]]:
    """Names and lines of what the preprocessor leaves of the header."""
    folder = headers.parent
    source = folder / "overloads.cpp"
    source.write_text("#include <pto/pto-inst.hpp>\n", encoding="utf-8")
    options = options_with(headers, CompileOptions())
    build = _Compilation(source, family, options, find_compiler(), folder, None)
    command = [*build.command("any"), "-E", str(source)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found, file, line, at = set[tuple[str, int]](), "", 0, 0
    for match in MARKER.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if match[1]:
            file, line = match[2], int(match[1]) - 1
        elif file.endswith(HEADER):
            found.add((match[3], line))
    return found
