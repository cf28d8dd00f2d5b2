"""The sections and functions of a shared library (ELF, 64 bits, little-endian). Bounded, whatever the file holds."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from pathlib import Path

import numpy as np

LARGEST, LARGEST_SECTION = 256 << 20, 64 << 20
"""Bytes of a library that is read, and of a section of it; what a section has beyond is left out."""
SECTION = np.dtype("u4,u4,u8,u8,u8,u8,u4,u4,u8,u8").newbyteorder("<")
SYMBOL = np.dtype("u4,u1,u1,u2,u8,u8").newbyteorder("<")
SECTION.names = ("name", "type", "flags", "address", "offset", "size", "link", "info", "alignment", "entry")
SYMBOL.names = ("name", "info", "other", "section", "value", "size")
COMPRESSED = 0x800
FUNCTION = 2
LONGEST_TITLE, LONGEST_SYMBOL, LONGEST = 64, 1 << 15, 4096
"""Characters of the name of a section, of a symbol, and of a function as it is shown."""
MOST_FUNCTIONS = 500_000
OWN_PARTS = re.compile(r"_ZN?(?:[KVrRO]*)(?P<std>St)?(?P<parts>L?\d.*)", re.DOTALL)
"""A linker's name of a function that is not inside another one: `_ZN2ns6helperIfEEvPT_`."""


class ElfError(Exception):
    """A file that is no library which can be read."""


class Elf:
    """A library in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        try:
            if data[:6] != b"\x7fELF\2\1":
                raise ValueError("no 64-bit little-endian ELF file")
            (table,), (size, count, titles) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HHH", data, 58)
            if size != SECTION.itemsize:
                raise ValueError("a table of sections of another kind")
            self._heads = np.frombuffer(data, SECTION, count, table)
            names = self._bytes(titles)
            self._numbers = {text_at(names, int(head["name"]), LONGEST_TITLE): k for k, head in enumerate(self._heads)}
        except (struct.error, IndexError, ValueError) as error:
            raise ElfError(f"the library cannot be read ({error})") from error

    @classmethod
    def read(cls, path: Path) -> Elf:
        """Reads a file."""
        if path.stat().st_size > LARGEST:
            raise ElfError("the library is too large")
        return cls(path.read_bytes())

    def _bytes(self, number: int) -> bytes:
        offset, size = (int(self._heads[number][name]) for name in ("offset", "size"))
        return self._data[offset : offset + min(size, LARGEST_SECTION)]

    def section(self, name: str) -> bytes:
        """The bytes of a section; empty if there is none, or if they are compressed."""
        number = self._numbers.get(name)
        return b"" if number is None or self._heads[number]["flags"] & COMPRESSED else self._bytes(number)


class FunctionTable:
    """Functions of a library by address."""

    def __init__(self, elf: Elf) -> None:
        self._names, symbols = elf.section(".strtab"), elf.section(".symtab")
        table = np.frombuffer(symbols[: len(symbols) // SYMBOL.itemsize * SYMBOL.itemsize], SYMBOL)
        is_function = (table["info"] & 15 == FUNCTION) & (table["section"] != 0) & (table["size"] != 0)
        table = table[is_function][:MOST_FUNCTIONS]
        self.symbols = table[np.lexsort((table["size"], table["value"]))]
        self._begins: list[int] = self.symbols["value"].tolist()

    def find(self, address: int) -> str:
        """The name of the function at an address, as the linker sees it; empty if there is none."""
        k = bisect_right(self._begins, address) - 1
        if k < 0 or address >= self._begins[k] + int(self.symbols[k]["size"]):
            return ""
        return text_at(self._names, int(self.symbols[k]["name"]), LONGEST_SYMBOL)


def text_at(data: bytes, offset: int, longest: int) -> str:
    """The text from an offset on, up to a zero byte; it is cut if it is long."""
    return data[offset : offset + longest].partition(b"\0")[0].decode("utf-8", "replace")


def shown_function(symbol: str) -> str:
    """The name of a function in C++ without template arguments and parameters: `ns::helper` of `_ZN2ns6helperIfEEvPT_`.
    Any other symbol as it is; at most `LONGEST` characters."""
    match = OWN_PARTS.match(symbol)
    found, at = list[str](), 0
    text = match["parts"].removeprefix("L") if match else ""
    while part := re.compile(r"\d{1,5}").match(text, at):
        at = part.end() + int(part[0])
        found.append(text[part.end() : at])
        if len(found[-1]) < int(part[0]):
            return symbol[:LONGEST]
    names = ["(anonymous namespace)" if name.startswith("_GLOBAL__N") else name for name in found]
    return ("::".join([*(["std"] if match and match["std"] else []), *names]) if names else symbol)[:LONGEST]
