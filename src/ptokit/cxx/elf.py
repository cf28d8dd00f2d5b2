"""The sections and functions of a shared library (ELF, 64 bits, little-endian). Bounded, whatever the file holds."""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

LARGEST, LARGEST_SECTION = 256 << 20, 64 << 20
"""Bytes of a library that is read, and of a section of it; what a section has beyond is left out."""
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
COMPRESSED, ZLIB = 0x800, 1
FUNCTION = 2
LONGEST_SECTION_NAME, LONGEST_NAME = 64, (1 << 15) + 1
MOST_FUNCTIONS = 500_000
MOST_CHARACTERS = 32 << 20
"""Of all names of a table together: many of them may be the same text, or the end of one."""


class ElfError(Exception):
    """A file that is no library which can be read."""


class Strings:
    """Texts of a section, by offset: each is made once, and cut if it is long. Those beyond `MOST_CHARACTERS` are
    empty."""

    def __init__(self, data: bytes, longest: int) -> None:
        self._data, self._longest, self._left = data, longest, MOST_CHARACTERS
        self._made: dict[int, str] = {}

    def at(self, offset: int) -> str:
        """The text from an offset on, up to a zero byte."""
        if offset not in self._made:
            part = self._data[offset : offset + min(self._longest, self._left)].partition(b"\0")[0]
            self._left -= len(part)
            self._made[offset] = part.decode("utf-8", "replace")
        return self._made[offset]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    flags: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class FunctionSymbol:
    """A function of a library."""

    begin: int
    end: int
    name: str
    """As the linker sees it."""


class Elf:
    """A library in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        try:
            self._sections = self._read_sections()
        except (struct.error, IndexError, ValueError) as error:
            raise ElfError(f"the library cannot be read ({error})") from error

    @classmethod
    def read(cls, path: Path) -> Elf:
        """Reads a file."""
        if path.stat().st_size > LARGEST:
            raise ElfError("the library is too large")
        return cls(path.read_bytes())

    def _read_sections(self) -> list[_Section]:
        data = self._data
        if data[:6] != b"\x7fELF\2\1":
            raise ValueError("no 64-bit little-endian ELF file")
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        if size != SECTION.size:
            raise ValueError("a table of sections of another kind")
        heads = [SECTION.unpack_from(data, table + k * size) for k in range(count)]
        begin, length = heads[names][4:6]
        names = Strings(data[begin : begin + length], LONGEST_SECTION_NAME)
        return [_Section(names.at(head[0]), head[2], head[4], head[5], head[6]) for head in heads]

    def section(self, name: str) -> bytes:
        """The bytes of a section, decompressed; empty if there is none."""
        found = next((section for section in self._sections if section.name == name), None)
        if found is None:
            return b""
        data = self._data[found.offset : found.offset + min(found.size, LARGEST_SECTION)]
        if not found.flags & COMPRESSED:
            return data
        if len(data) < 24 or struct.unpack_from("<I", data)[0] != ZLIB:
            return b""
        try:
            return zlib.decompressobj().decompress(data[24:], LARGEST_SECTION)
        except zlib.error:
            return b""

    def functions(self) -> list[FunctionSymbol]:
        """Functions by address: of the full table if there is one, else of the exported ones."""
        for name in (".symtab", ".dynsym"):
            table = next((section for section in self._sections if section.name == name), None)
            if table is not None and table.link < len(self._sections):
                return self._symbols(table, self._sections[table.link])
        return []

    def exported(self) -> list[FunctionSymbol]:
        """Functions that a caller can find by name."""
        table = next((section for section in self._sections if section.name == ".dynsym"), None)
        if table is None or table.link >= len(self._sections):
            return []
        return self._symbols(table, self._sections[table.link])

    def _symbols(self, table: _Section, strings: _Section) -> list[FunctionSymbol]:
        data = self._data[table.offset : table.offset + table.size]
        names = Strings(self._data[strings.offset : strings.offset + strings.size], LONGEST_NAME)
        found: list[FunctionSymbol] = []
        for name, info, _, section, value, size in SYMBOL.iter_unpack(data[: len(data) // SYMBOL.size * SYMBOL.size]):
            if info & 15 == FUNCTION and section and size:
                found.append(FunctionSymbol(value, value + size, names.at(name)))
                if len(found) == MOST_FUNCTIONS:
                    break
        return sorted(found, key=lambda symbol: (symbol.begin, symbol.end, symbol.name))


class FunctionTable:
    """Functions by address."""

    def __init__(self, functions: list[FunctionSymbol]) -> None:
        self._functions = functions
        self._begins = [function.begin for function in functions]

    def find(self, address: int) -> str:
        """The name of the function at an address, as the linker sees it; empty if there is none."""
        k = bisect_right(self._begins, address) - 1
        return self._functions[k].name if k >= 0 and address < self._functions[k].end else ""
