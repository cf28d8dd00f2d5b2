"""Values and texts in messages: on one line, and short, whatever the user has passed."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import islice
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

MOST = 100
"""Characters of a value."""
NAME = 60
"""Characters of a name."""
LONGEST = 1000
"""Characters of a message."""
ROOM = 6
"""Characters for quotes and dots."""
ITEMS, DEPTH = 6, 4
"""Items of a container that are shown, and containers inside one another."""
BITS = 256
"""Of an integer that is shown."""
OPEN = {
    list: "[]", tuple: "()", set: "{}", frozenset: ("frozenset({", "})"), dict: "{}", deque: ("deque([", "])"),
}  # fmt: skip
"""What encloses the items of containers."""
NAMED = (FunctionType, BuiltinFunctionType, ModuleType, PurePath, np.generic, np.dtype)
"""Types whose text is their own, and short or cheap."""
NAMED_OF_TORCH = ("dtype", "device")


def brief(value: object, most: int = MOST) -> str:
    """A value as a message shows it. The work is bounded, and of classes that are not known no code runs."""
    try:
        return elided(re.sub(r"\s*\n\s*", " ", _text(value, most, DEPTH)), most)
    except Exception:  # of a class of the user's
        return "<object>"


def named(text: str) -> str:
    """A name or a word of a text as a message shows it, without quotes."""
    return elided(text if text.isprintable() else repr(text[: 2 * NAME])[1:-1], NAME)


def listed(values: Sequence[object]) -> str:
    """The first of some values, with commas between them."""
    return ", ".join([*map(brief, values[:ITEMS]), *["..."] * (len(values) > ITEMS)])


def elided(text: str, most: int = LONGEST) -> str:
    """A text without its middle if it is long."""
    text = str.__getitem__(text, slice(None))  # of a subclass, which may have another one to show
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]}...{text[len(text) - (most - head - 3) :]}"


def _text(value: Any, most: int, depth: int) -> str:
    kind = cast("type[Any]", type(value))
    package = kind.__module__.partition(".")[0]
    if package == "ptokit" or (package == "torch" and kind.__name__ in NAMED_OF_TORCH):
        return repr(value)
    if isinstance(value, Enum):
        return f"{kind.__name__}.{value.name}"
    if isinstance(value, type):
        return type.__repr__(value)
    if isinstance(value, str | bytes | bytearray):
        base: Any = next(each for each in (str, bytes, bytearray) if isinstance(value, each))
        start = repr(base.__getitem__(value, slice(most - ROOM)))
        return start if base.__len__(value) <= most - ROOM else f"{start[:-1]}...{start[-1]}"
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, float | complex):
        number: Any = float if isinstance(value, float) else complex
        return number.__repr__(value)
    if isinstance(value, int):
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= BITS else f"<an integer of {bits:,} bits>"
    if isinstance(value, np.ndarray):
        is_small = kind is np.ndarray and value.nbytes <= MOST and not value.dtype.hasobject
        return repr(value) if is_small else f"<array of {value.dtype} {value.shape}>"
    if isinstance(value, slice | range):
        parts = (_text(part, most, depth) for part in (value.start, value.stop, value.step))
        return f"{kind.__name__}({', '.join(parts)})"
    for base, marks in OPEN.items():
        if isinstance(value, base):
            return _container(value, base, marks, most, depth)
    return repr(value) if isinstance(value, NAMED) else f"<{kind.__qualname__} object>"


def _container(value: Any, base: Any, marks: Iterable[str], most: int, depth: int) -> str:
    if not base.__len__(value):
        return repr(base())
    first, last = marks
    shown = list[str]()
    for each in islice(base.__iter__(value), ITEMS if depth else 0):
        item = _text(each, most, depth - 1)
        shown.append(f"{item}: {_text(base.__getitem__(value, each), most, depth - 1)}" if base is dict else item)
    more = base.__len__(value) - len(shown)
    comma = "," if base is tuple and len(shown) == 1 and not more else ""
    return first + ", ".join([*shown, *["..."] * (more > 0)]) + comma + last
