"""Launches and other code of a device, rewritten for a host compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptokit.cxx.source_text import closing, masked

_NEWLINE = re.compile(r"\\?\r?\n")
_OPEN, _CLOSE = "([{", ")]}"
LONGEST = 4000
"""Characters of the name of a launched kernel, and of a launch's configuration. Neither has a launch in it."""


def rewrite(text: str) -> str:
    """The text as a host compiler takes it: launches are calls, code of the device's registers is gone, addresses of
    on-chip memories become pointers; lines stay."""
    if "<<<" in text:
        text = rewrite_launches(text)
    text = _ON_CHIP.sub(_on_chip, text) if "buf__" in text else text
    text = re.sub(r"\[\s*aicore\s*\]", lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    text = _replaced(text, _ASSEMBLY, "(void)0") if "asm" in text else text
    return _replaced(text, _REGISTERS, '::ptokit::record("vec_scope");') if "__VEC_SCOPE__" in text else text


_ON_CHIP = re.compile(
    r"\breinterpret_cast\s*<\s*(?P<const>(?:\b(?:const|volatile)\s+)*)__(?P<memory>ubuf|cbuf)__\s+"
    r"(?P<type>[\w:]+(?:\s+[\w:]+)*\s*\*)\s*>"
)
"""A cast to a pointer into an on-chip memory."""
_MEMORIES = {"ubuf": "vec", "cbuf": "mat"}


def _on_chip(match: re.Match[str]) -> str:
    lines = "".join(_NEWLINE.findall(match[0]))
    return f"::ptokit::on_chip<::ptokit::Memory::{_MEMORIES[match['memory']]}, {match['const']}{match['type']}>{lines}"


_ASSEMBLY = re.compile(r"\b(?:asm|__asm__)\b\s*(?:\b(?:volatile|__volatile__)\b\s*)?\(")
_REGISTERS = re.compile(r"\b__VEC_SCOPE__\s*\{")


def _replaced(text: str, start: re.Pattern[str], by: str) -> str:
    """The text with each part that a pattern starts, up to its closing bracket, replaced."""
    plain = masked(text)
    pieces: list[str] = []
    done = 0
    for match in start.finditer(plain):
        end = closing(plain, match.end() - 1) + 1
        if match.start() >= done and end:
            pieces += [text[done : match.start()], by, *_NEWLINE.findall(text[match.start() : end])]
            done = end
    return "".join([*pieces, text[done:]])


def rewrite_launches(text: str) -> str:
    """The text with `kernel<<<blocks, ...>>>(arguments)` as calls of `ptokit::chevron`; lines keep their numbers."""
    plain = masked(text)
    pieces: list[str] = []
    done = 0
    for start, opened, closed, end in _launches(plain):
        head = text[start:opened]
        config = re.sub(r"\s+", " ", _NEWLINE.sub(" ", plain[opened + 3 : closed])).strip()
        kept = "".join(_NEWLINE.findall(text[opened:closed]))
        name = re.sub(r"\s+", " ", _NEWLINE.sub(" ", plain[start:opened])).strip()
        pieces += [text[done:start], f"::ptokit::chevron(PTOKIT_TEXT({name}), [&] {{ ", head, kept]
        pieces += [text[closed + 3 : end]]
        pieces.append(f"; }}, {config})")
        done = end
    return "".join([*pieces, text[done:]])


def _launches(plain: str) -> Iterator[tuple[int, int, int, int]]:
    """The start of each launched name, of its `<<<` and `>>>`, and the end of its arguments."""
    after = 0
    places = [match.start() for match in re.finditer(r"(?<!<)<<<(?!<)", plain)]
    for before, opened, later in zip((0, *places), places, (*places[1:], len(plain)), strict=False):
        if opened < after:
            continue
        start = _name_before(plain, opened, before)
        closed = _level_end(plain, opened + 3, min(later, opened + LONGEST), ">>>")
        if start is None or closed is None:
            continue
        bracket = re.compile(r"(?:\s|\\\r?\n)*\(").match(plain, closed + 3)
        end = closing(plain, bracket.end() - 1) + 1 if bracket else 0
        if end:
            after = end
            yield start, opened, closed, end


def _name_before(plain: str, opened: int, first: int) -> int | None:
    """Where the name before a position starts, with its template arguments; not before another position."""
    first = max(first, opened - LONGEST)
    place = _blank_before(plain, opened)
    if place and plain[place - 1] == ">":
        opening = _angle_before(plain, place - 1, first)
        if opening is None:
            return None
        place = _blank_before(plain, opening)
    if place and plain[place - 1] == ")":  # a macro that makes the name
        opening = _bracket_before(plain, place - 1, first)
        if opening is None:
            return None
        place = _blank_before(plain, opening)
    match = re.search(r"(?:\w|::|\s*##\s*+)+$", plain[max(first, place - 500) : place])
    if match is None or not match[0].strip():
        return None
    return place - len(match[0].lstrip())


def _blank_before(plain: str, place: int) -> int:
    while place and (plain[place - 1].isspace() or (plain[place - 1] == "\\" and plain[place : place + 1] in "\r\n")):
        place -= 1
    return place


def _bracket_before(plain: str, place: int, first: int) -> int | None:
    """The bracket that the closing one at a position belongs to."""
    depth = 0
    for index in range(place, first - 1, -1):
        depth += (plain[index] in _CLOSE) - (plain[index] in _OPEN)
        if depth == 0:
            return index
    return None


def _angle_before(plain: str, place: int, first: int) -> int | None:
    """The `<` that belongs to the `>` at a position."""
    angles = depth = 0
    for index in range(place, first - 1, -1):
        char = plain[index]
        if char in _CLOSE:
            depth += 1
        elif char in _OPEN:
            depth -= 1
            if depth < 0:
                return None
        elif depth == 0 and char == ">" and plain[index - 1 : index] != "-":
            angles += 1
        elif depth == 0 and char == "<":
            angles -= 1
            if angles == 0:
                return index
        elif depth == 0 and char == ";":
            return None
    return None


def _level_end(plain: str, start: int, end: int, stop: str) -> int | None:
    """Where `stop` first occurs outside brackets."""
    depth = 0
    for index in range(start, end):
        if plain[index] in _OPEN:
            depth += 1
        elif plain[index] in _CLOSE:
            depth -= 1
        elif depth == 0 and plain.startswith(stop, index):
            return index
        if depth < 0:
            return None
    return None
