"""Numbers, words and strings of PTO-AS, read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ptokit.brief import named
from ptokit.engine.number import float_bits
from ptokit.isa.dtype import DType, dtype
from ptokit.program.ir import Constant
from ptokit.text.cursor import bare_or_quoted, escaped
from ptokit.text.tree import Type, items_of

DIGITS = 40
"""The longest number."""
_KEYWORD = re.compile(r"#\w+(?:\.(\w+))?\s*<\s*(?:(\w+)\s+)?(\w+)\s*>|#([\w.]+)|<\s*(\w+)\s*>")


def plain_number(text: str) -> int | float:
    """A Python number."""
    if len(text) > DIGITS:
        raise ValueError(f"`{named(text)}` has too many digits")
    if "x" in text.lower():
        return int(text, 16)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(f"expected a number, found `{text}`")


def constant(text: str, kind: Type) -> int | Constant:
    """A number of a type: an integer, or the bits of a float, which hexadecimal digits give directly."""
    if not isinstance(kind, str):
        raise ValueError("a number stands here, and its type is not that of a number")
    number = {"true": 1, "false": 0}.get(text)
    number = plain_number(text) if number is None else number
    if kind == "index" or not dtype(kind).is_float:
        return _whole(number, kind)
    element = dtype(kind)
    if isinstance(number, int) and "x" in text.lower():
        if not 0 <= number < 1 << (8 * element.size):
            raise ValueError(f"{text} has more bits than {kind}")
        return Constant(element, number)
    try:
        return Constant(element, int(float_bits(np.asarray(float(number)), element, kind)[0]))
    except OverflowError:
        raise ValueError(f"{named(text)} is not representable in {kind}") from None


def _whole(number: int | float, kind: str) -> int:
    if not isinstance(number, int):
        raise ValueError(f"expected a whole number for {kind}, found {number}")
    width = 64 if kind == "index" else 1 if kind == "i1" else 8 * dtype(kind).size
    if not -(1 << (width - 1)) <= number < 1 << width:
        raise ValueError(f"{number} does not fit {kind}")
    return number


def constant_text(value: int | Constant, kind: Type) -> str:
    """The text of a number, which reads back as the same number."""
    if isinstance(value, Constant):
        return _bits_text(value.dtype, value.bits)
    return ("true" if value else "false") if kind == "i1" else str(int(value))


def _bits_text(element: DType, bits: int) -> str:
    if not element.is_float:
        return str(bits)
    number = np.array([bits], element.bits).view(element.numpy)[0]
    for text in (str(number), repr(float(number))):
        if np.isfinite(float(number)) and constant(text, element.mlir) == Constant(element, bits):
            return text if "." in text or "e" in text else f"{text}.0"
    return f"0x{bits:0{2 * element.size}X}"


def keyword(text: str) -> tuple[str, str]:
    """The name and the word of `#pto.pipe<PIPE_V>`, `#pto<pipe PIPE_V>`, `<PIPE_V>` or `#word`."""
    found = _KEYWORD.fullmatch(text)
    if found is None:
        raise ValueError(f"`{named(text)}` is not a keyword, expected one as in #pto.pipe<PIPE_V>")
    name, spaced, *word = found.groups("")
    return name or spaced, "".join(word)


def attributes_text(attributes: Mapping[str, Any]) -> str:
    """`{key = value, ...}`."""
    return "{" + ", ".join(f"{_word_text(key)} = {value_text(value)}" for key, value in attributes.items()) + "}"


def value_text(value: object) -> str:
    """The value of an attribute."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case Constant(element, bits):
            return f"{_bits_text(element, bits)} : {element.mlir}"
        case str():
            return _word_text(value)
        case None:
            return "true"
        case _ if (items := items_of(value)) is not None:
            return f"[{', '.join(map(value_text, items))}]"
        case _:
            raise ValueError(f"an attribute that is {type(value).__name__} has no spelling")


def _word_text(word: str) -> str:
    return escaped(word) if word in ("true", "false") else bare_or_quoted(word)
