"""The sections and functions of a shared library (ELF, 64 bits, little-endian). Bounded, whatever the file holds."""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

LARGEST = 1 << 30
"""Bytes of a library that is read."""
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
COMPRESSED, ZLIB = 0x800, 1
FUNCTION = 2
MOST_SECTIONS = 100_000


class ElfError(Exception):
    """A file that is no library which can be read."""


@dataclass(frozen=True)
class _Section:
    name: str
    flags: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
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
        if size != SECTION.size or count > MOST_SECTIONS:
            raise ValueError("a table of sections of another kind")
        heads = [SECTION.unpack_from(data, table + k * size) for k in range(count)]
        begin, length = heads[names][4:6]
        strings = data[begin : begin + length]
        return [_Section(text_at(strings, head[0]), head[2], head[4], head[5], head[6]) for head in heads]

    def section(self, name: str) -> bytes:
        """The bytes of a section, decompressed; empty if there is none."""
        found = next((section for section in self._sections if section.name == name), None)
        if found is None:
            return b""
        data = self._data[found.offset : found.offset + found.size]
        if not found.flags & COMPRESSED:
            return data
        if len(data) < 24 or struct.unpack_from("<I", data)[0] != ZLIB:
            return b""
        try:
            return zlib.decompressobj().decompress(data[24:], LARGEST)
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
        names = self._data[strings.offset : strings.offset + strings.size]
        found: list[FunctionSymbol] = []
        for name, info, _, section, value, size in SYMBOL.iter_unpack(data[: len(data) // SYMBOL.size * SYMBOL.size]):
            if info & 15 == FUNCTION and section and size:
                found.append(FunctionSymbol(value, value + size, text_at(names, name)))
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


def text_at(strings: bytes, offset: int) -> str:
    """A text that ends with a zero byte."""
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)].decode("utf-8", "replace")
