"""Launches and other code of a device, rewritten for a host compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptokit.cxx.source_text import SourceTokens, masked, tokens_of

_NEWLINE = re.compile(r"\\?\r?\n")
_NAME = re.compile(r"\w+|::|##")
"""A token of a launched name."""


def rewrite(text: str) -> str:
    """The text as a host compiler takes it: launches are calls, code of the device's registers is gone, addresses of
    on-chip memories become pointers; lines stay."""
    if "<<<" in text:
        text = rewrite_launches(text)
    text = _ON_CHIP.sub(_on_chip, text) if "buf__" in text else text
    text = re.sub(r"\[\s*aicore\s*\]", lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    text = _replaced(text, ("asm", "__asm__"), "(", "(void)0") if "asm" in text else text
    return _replaced(text, (SCOPE,), "{", '::ptokit::record("vec_scope");') if SCOPE in text else text


SCOPE = "__VEC_SCOPE__"
_ON_CHIP = re.compile(
    r"\breinterpret_cast\s*<\s*(?P<const>(?:\b(?:const|volatile)\s+)*)__(?P<memory>ubuf|cbuf)__\s+"
    r"(?P<type>[\w:]+(?:\s+[\w:]+)*\s*\*)\s*>"
)
"""A cast to a pointer into an on-chip memory."""
_MEMORIES = {"ubuf": "vec", "cbuf": "mat"}


def _on_chip(match: re.Match[str]) -> str:
    lines = "".join(_NEWLINE.findall(match[0]))
    return f"::ptokit::on_chip<::ptokit::Memory::{_MEMORIES[match['memory']]}, {match['const']}{match['type']}>{lines}"


def _replaced(text: str, words: tuple[str, ...], bracket: str, by: str) -> str:
    """The text with each part from a word up to the end of the bracket behind it replaced."""
    tokens = tokens_of(text)
    pieces: list[str] = []
    done = 0
    for number, word in enumerate(tokens.texts):
        start = tokens.starts[number]
        if word not in words or start < done:
            continue
        opened = number + 1 + (tokens.text(number + 1) in ("volatile", "__volatile__"))
        if tokens.text(opened) == bracket and (closed := tokens.partners[opened]) >= 0:
            pieces += [text[done:start], by, *_NEWLINE.findall(text[start : tokens.starts[closed]])]
            done = tokens.end(closed)
    return "".join([*pieces, text[done:]])


def rewrite_launches(text: str) -> str:
    """The text with `kernel<<<blocks, ...>>>(arguments)` as calls of `ptokit::chevron`; lines keep their numbers."""
    tokens, plain = tokens_of(text), masked(text)
    pieces: list[str] = []
    done = 0
    for places in _launches(tokens):
        start, opened, closed, last = (tokens.starts[number] for number in places)
        name, config = (_one_line(plain[begin:end]) for begin, end in ((start, opened), (opened + 3, closed)))
        kept = "".join(_NEWLINE.findall(text[opened:closed]))
        pieces += [text[done:start], f"::ptokit::chevron(PTOKIT_TEXT({name}), [&] {{ ", text[start:opened], kept]
        done = last + 1
        pieces.append(f"{text[closed + 3 : done]}; }}, {config})")
    return "".join([*pieces, text[done:]])


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", _NEWLINE.sub(" ", text)).strip()


def _launches(tokens: SourceTokens) -> Iterator[tuple[int, int, int, int]]:
    """The tokens where each launched name, its `<<<` and its `>>>` begin, and its arguments end. None of them is beyond
    another `<<<`."""
    places = [number for number, text in enumerate(tokens.texts) if text == "<<<"]
    after = 0
    for before, opened, later in zip((-1, *places), places, (*places[1:], len(tokens.texts)), strict=False):
        if opened < after:
            continue
        start, closed = _name_start(tokens, opened - 1, before + 1), _chevron_end(tokens, opened + 1, later)
        if start is not None and closed is not None and tokens.text(closed + 3) == "(":
            last = tokens.partners[closed + 3]
            if last >= 0:
                after = last
                yield start, opened, closed, last


def _chevron_end(tokens: SourceTokens, number: int, end: int) -> int | None:
    """Where `>>>` first is outside brackets."""
    while number < end:
        if tokens.texts[number : number + 3] == [">"] * 3 and tokens.starts[number + 2] == tokens.end(number + 1):
            return number if tokens.starts[number + 1] == tokens.end(number) else None
        if tokens.texts[number] in ("(", "[", "{", ")", "]", "}"):
            if tokens.partners[number] < number:  # one that closes, or that is not closed
                return None
            number = tokens.partners[number]
        number += 1
    return None


def _name_start(tokens: SourceTokens, last: int, first: int) -> int | None:
    """Where a name with its template arguments starts, from its last token; not before another one."""
    if tokens.text(last) == ">":
        last = _angle_start(tokens, last, first) - 1
    if last >= first and tokens.texts[last] == ")":  # a macro that makes the name
        last = tokens.partners[last] - 1
    start = last + 1
    while start > first and _NAME.fullmatch(tokens.texts[start - 1]):
        is_joined = start > last or "##" in tokens.texts[start - 1 : start + 1]
        if not is_joined and tokens.end(start - 1) != tokens.starts[start]:
            break
        start -= 1
    return start if first <= start <= last else None


def _angle_start(tokens: SourceTokens, number: int, first: int) -> int:
    """The `<` that belongs to a `>`; -1 if there is none."""
    angles = 0
    while number >= first:
        text = tokens.texts[number]
        angles += (text == ">") - (text == "<")
        if angles == 0:
            return number
        if text in ("(", "[", "{", ";"):
            return -1
        number = tokens.partners[number] - 1 if text in (")", "]", "}") else number - 1
    return -1
