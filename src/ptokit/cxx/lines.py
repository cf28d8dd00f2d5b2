"""Addresses of a library (ELF, 64 bits, little-endian) as functions and places in its source: DWARF line tables of
version 4, as ptokit has compilers write them. Bounded, whatever the file holds.
"""

from __future__ import annotations

import os.path
import re
import struct
from array import array
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.recording import Frames, RecordedFrame

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


VERSION = 4
MOST_ROWS = 1_000_000
MOST_FILES = 100_000
MOST_BYTES = 8 << 20
"""Of line programs that are run."""
MOST_CHARACTERS = 32 << 20
"""Of all paths together, and of all names of functions."""
LONGEST_PATH = 4096
"""Characters of the name of a file or folder."""
MOST_KEPT, MOST_KEPT_ROWS = 4, 100_000
"""Tables that are kept for the next recording, and rows of each."""
LOOK_BACK = 16
"""Rows before one without a line: code that a compiler made belongs to the line before it."""
COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN = 1, 2, 3, 4, 5
CONST_ADD_PC, FIXED_ADVANCE = 8, 9
END_SEQUENCE, SET_ADDRESS = 1, 2
ADDRESSES = 1 << 64
LINE_TABLES: dict[tuple[bytes, str], LineTable] = {}
"""By the digest of their section, and the folder where the compiler was run."""


class _Cursor:
    """A position in bytes. Reading beyond the end raises."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return found

    def leb(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise ValueError("a number without an end")

    def signed_leb(self) -> int:
        begin = self.at
        value = self.leb()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) else value

    def texts(self, more: int = 0) -> list[tuple[str, int]]:
        """Texts up to an empty one, each with the first of the numbers behind it."""
        found: list[tuple[str, int]] = []
        while (end := self.data.index(b"\0", self.at)) > self.at:
            text = self.data[self.at : min(end, self.at + LONGEST_PATH)].decode("utf-8", "replace")
            self.at = end + 1
            numbers = [self.leb() for _ in range(more)]
            found.append((text, numbers[0] if numbers else 0))
            if len(found) > MOST_FILES:
                raise ValueError("too many files")
        self.at = end + 1
        return found


@dataclass
class _Unit:
    """A line program."""

    program: _Cursor
    least: int
    line_base: int
    line_range: int
    opcode_base: int
    lengths: bytes
    folders: list[str]
    files: list[tuple[str, int]]
    """Each with the number of its folder."""

    @classmethod
    def read(cls, data: bytes) -> _Unit:
        """A unit without its length."""
        cursor = _Cursor(data)
        version, length = cursor.numbers("<HI")
        if version != VERSION:
            raise ValueError("another version")
        program = _Cursor(data, cursor.at + length)
        least, _, _, line_base, line_range, opcode_base = cursor.numbers("<BBBbBB")
        if not line_range or not opcode_base:
            raise ValueError("a table of another kind")
        lengths = data[cursor.at : cursor.at + opcode_base - 1]
        cursor.at += opcode_base - 1
        folders = [text for text, _ in cursor.texts()]
        return cls(program, least, line_base, line_range, opcode_base, lengths, folders, cursor.texts(3))

    def path(self, number: int) -> str:
        """The path of a file; empty if there is none of this number."""
        if not 0 < number <= len(self.files):
            return ""
        name, folder = self.files[number - 1]
        return os.path.join(*self.folders[folder - 1 : folder], name) if folder else name


class LineTable:
    """Rows sorted by address."""

    def __init__(self, elf: Elf, folder: str) -> None:
        self._folder = folder
        """Where the compiler was run: relative paths start there."""
        self._paths: dict[str, int] = {}
        self._left = MOST_CHARACTERS
        self._rows: list[tuple[int, int, int, int, int]] = []
        """Address, 1 if a sequence goes on, path, line, column."""
        data, at, units = elf.section(".debug_line")[:MOST_BYTES], 0, 0
        while at + 4 <= len(data) and units < MOST_FILES:
            (length,) = struct.unpack_from("<I", data, at)
            with suppress(ValueError, IndexError, struct.error):  # a unit that no compiler writes ends here
                self._run(_Unit.read(data[at + 4 : at + 4 + length]))
            at, units = at + 4 + length, units + 1
        self._rows.sort(key=lambda row: row[:2])
        self._addresses = array("Q", [row[0] for row in self._rows])
        self.paths = list(self._paths)

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, address: int) -> tuple[str, int, int] | None:
        """File, line and column of an address; the file may be empty."""
        k = bisect_right(self._addresses, address) - 1
        if k < 0 or not self._rows[k][1]:
            return None
        k = next((j for j in range(k, max(k - LOOK_BACK, -1), -1) if self._rows[j][3]), k)
        _, inside, path, line, column = self._rows[k]
        return (self.paths[path], line, column) if inside else None

    def _run(self, unit: _Unit) -> None:
        """Runs a line program: the state is address, file, line and column."""
        paths: dict[int, int] = {}
        cursor, rows = unit.program, self._rows
        data, end = cursor.data, len(cursor.data)
        constant = (255 - unit.opcode_base) // unit.line_range * unit.least
        address, file, line, column = 0, 1, 1, 0
        while cursor.at < end:
            opcode = data[cursor.at]
            cursor.at += 1
            is_special = opcode >= unit.opcode_base
            if is_special:
                step = opcode - unit.opcode_base
                address += step // unit.line_range * unit.least
                line += unit.line_base + step % unit.line_range
            if is_special or opcode == COPY:
                if file not in paths:
                    paths[file] = self._number(unit.path(file))
                rows.append((address % ADDRESSES, 1, paths[file], line, column))
            elif opcode == 0:
                size = cursor.leb()
                after = cursor.at + size
                kind = data[cursor.at] if size else 0
                if kind == END_SEQUENCE:
                    rows.append((address % ADDRESSES, 0, 0, 0, 0))
                    address, file, line, column = 0, 1, 1, 0
                elif kind == SET_ADDRESS and size == 9:
                    _, address = cursor.numbers("<BQ")
                cursor.at = after
            elif opcode == ADVANCE_PC:
                address += cursor.leb() * unit.least
            elif opcode == ADVANCE_LINE:
                line += cursor.signed_leb()
            elif opcode == SET_FILE:
                file = cursor.leb()
            elif opcode == SET_COLUMN:
                column = cursor.leb()
            elif opcode == CONST_ADD_PC:
                address += constant
            elif opcode == FIXED_ADVANCE:
                address += cursor.numbers("<H")[0]
            else:
                for _ in range(unit.lengths[opcode - 1]):
                    cursor.leb()
            if len(rows) > MOST_ROWS:
                raise ValueError("too many rows")

    def _number(self, path: str) -> int:
        """The number of a path. Those beyond `MOST_CHARACTERS` have no name."""
        whole = os.path.join(self._folder, path) if path else ""
        self._left -= len(whole)
        return self._paths.setdefault(os.path.normpath(whole) if whole and self._left > 0 else "", len(self._paths))


def line_table(elf: Elf, folder: str) -> LineTable:
    """The table of a library, made once: several entries of it are recorded one after the other."""
    key = sha256(elf.section(".debug_line")).digest(), folder
    if key not in LINE_TABLES:
        table = LineTable(elf, folder)
        if len(table) > MOST_KEPT_ROWS:
            return table
        if len(LINE_TABLES) == MOST_KEPT:
            del LINE_TABLES[next(iter(LINE_TABLES))]
        LINE_TABLES[key] = table
    return LINE_TABLES[key]


class SourcePlaces:
    """Return addresses of a library as frames; each address is looked up once."""

    def __init__(self, elf: Elf, own: tuple[str, ...], texts: SourceTexts) -> None:
        self._lines = line_table(elf, texts.here)
        self._functions = FunctionTable(elf)
        self._own, self._texts = own, texts
        self._frames: dict[int, RecordedFrame | None] = {}
        self._left = MOST_CHARACTERS

    def frames(self, addresses: tuple[int, ...]) -> Frames:
        """The frames of return addresses, without those of ptokit's own files."""
        return tuple(frame for address in addresses if (frame := self._frame(address)) is not None)

    def _frame(self, address: int) -> RecordedFrame | None:
        if address not in self._frames:
            self._frames[address] = self._find(address - 1)
        return self._frames[address]

    def _find(self, address: int) -> RecordedFrame | None:
        place = self._lines.find(address)
        if place is None or not place[0] or place[0].startswith(self._own):
            return None
        file, line, column = place
        name = shown_function(self._functions.find(address)) if self._left > 0 else ""
        self._left -= len(name)
        return RecordedFrame(self._texts.name(file), line, self._texts.column(file, line, column), name)
