"""Names and comments in C++: no name of a program can change the meaning of the text."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePath

from ptokit.finding import Where

KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq"""
API = """
    AtomicType BLayout CmpMode Coalesce CompactMode GatherExec GatherOOB GlobalTensor Layout PadValue RoundMode SLayout
    SaturationMode ScatterAtomicOp ScatterConflict ScatterOOB Shape Stride Tile TileType bfloat16_t event_t
    get_block_idx get_block_num half pipe_barrier pto set_flag wait_flag floor_div floor_mod least greatest
    kDynUbBytes stream blocks"""
"""Names that the emitted text uses itself."""
BUILT_IN = """
    block block_idx block_num status l2_vaddr_base l2_in_main linux unix errno assert stdin stdout stderr std main abort
    exit free malloc time"""
"""Macros and variables of the vendor's compiler, and of every C++ program."""
RESERVED = frozenset((*KEYWORDS.split(), *API.split(), *BUILT_IN.split()))
PATTERN = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]|u?int\d+_t|(hi)?float8_\w+")
"""Names all in capitals, which may be macros or instructions; element types."""

LONGEST = 60
"""Characters of a name or of a comment's part; what is longer is cut."""


def identifier(name: str) -> str:
    """A name as a C++ identifier: ASCII letters, no name that C++ or the vendor's headers use."""
    plain = re.sub(r"[\W_]+", "_", name[: 2 * LONGEST], flags=re.ASCII)[:LONGEST]
    if not re.match(r"[A-Za-z]", plain):
        plain = f"x{plain}"
    return _clear(plain)


def _clear(name: str) -> str:
    """A name that C++ and the vendor's headers do not use."""
    return f"{name}_" if name in RESERVED or PATTERN.fullmatch(name) else name


class Identifiers:
    """One C++ name for each name of a program, and new unique names."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._given: dict[tuple[str, str], str] = {}
        self._last: dict[str, int] = defaultdict(int)

    def of(self, name: str, kind: str = "") -> str:
        """The C++ name of a program's name; names of different kinds, as a tile and an argument, may be equal there."""
        if (kind, name) not in self._given:
            self._given[kind, name] = self.fresh(name)
        return self._given[kind, name]

    def fresh(self, base: str) -> str:
        """A new name, made from another one."""
        first = name = identifier(base)
        while name in self._taken:
            self._last[first] += 1
            name = _clear(f"{first.rstrip('_')}_{self._last[first]}")
        self._taken.add(name)
        return name


def pipe(name: str) -> str:
    """`PIPE_MTE2`."""
    return f"PIPE_{re.sub('[^A-Z0-9]', '', name)}"


def place_text(where: Where | None) -> str:
    """`file.py:12`, without the folders around it."""
    return printable(f"{PurePath(where.file.replace(chr(92), '/')).name[-LONGEST:]}:{where.line}") if where else ""


def comment(text: str) -> str:
    """A line that C++ skips."""
    return f"// {printable(text if len(text) <= 2 * LONGEST else f'{text[: 2 * LONGEST]} ...')}"


def printable(text: str) -> str:
    """The text without characters that end or continue a line, including the trigraph of a backslash."""
    return re.sub(r"[^\x20-\x3e\x40-\x5b\x5d-\x7e]", "_", text)
