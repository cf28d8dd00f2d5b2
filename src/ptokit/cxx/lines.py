"""Addresses of a library as places in its source: DWARF line tables, versions 2 to 5. Bounded, whatever they hold."""

from __future__ import annotations

import os.path
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ptokit.cxx.demangle import shown_function
from ptokit.cxx.elf import MOST_CHARACTERS, Elf, FunctionTable, Strings
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.recording import Frame

MOST_ROWS = 1_000_000
MOST_FILES = 100_000
MOST_BYTES = 8 << 20
"""Of line programs that are run."""
LONGEST_PATH = 4096
"""Characters of the name of a file or folder."""
LOOK_BACK = 16
"""Rows before one without a line: code that a compiler made belongs to the line before it."""
PATH, DIRECTORY = 1, 2
COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN = 1, 2, 3, 4, 5
CONST_ADD_PC, FIXED_ADVANCE = 8, 9
END_SEQUENCE, SET_ADDRESS = 1, 2
STRING, LINE_STRP, STRP, UDATA, DATA16, BLOCK, DATA1, DATA2, DATA4, DATA8 = (
    0x08, 0x1F, 0x0E, 0x0F, 0x1E, 0x09, 0x0B, 0x05, 0x06, 0x07,
)  # fmt: skip
FIXED = {DATA1: "<B", DATA2: "<H", DATA4: "<I", DATA8: "<Q"}


class _Cursor:
    """A position in bytes. Reading beyond the end raises."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        if self.at + size > self.end:
            raise ValueError("a table ends early")
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return value

    def leb(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.number("<B")
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

    def text(self) -> str:
        end = self.data.find(b"\0", self.at, self.end)
        begin, end = self.at, self.end if end < 0 else end
        self.at = end + 1
        return self.data[begin : min(end, begin + LONGEST_PATH)].decode("utf-8", "replace")

    def skip(self, size: int) -> None:
        if size < 0 or self.at + size > self.end:
            raise ValueError("a table ends early")
        self.at += size


@dataclass
class _Unit:
    """The head of one line program."""

    version: int
    wide: bool
    program: _Cursor
    least: int
    line_base: int
    line_range: int
    opcode_base: int
    lengths: bytes
    folders: list[str]
    files: list[tuple[str, int]]
    """Each with the number of its folder."""

    def path(self, number: int) -> str:
        """The path of a file; empty if there is none of this number. Relative folders are in the first one."""
        number -= self.version < 5
        if not 0 <= number < len(self.files):
            return ""
        name, folder = self.files[number]
        return os.path.join(*self.folders[:1], *self.folders[folder : folder + 1], name)


class LineTable:
    """Rows sorted by address."""

    def __init__(self, elf: Elf, folder: str = "") -> None:
        self._folder = folder
        """Where the compiler was run: relative paths start there."""
        names = {LINE_STRP: ".debug_line_str", STRP: ".debug_str"}
        self._strings = {form: Strings(elf.section(name), LONGEST_PATH) for form, name in names.items()}
        self._paths: dict[str, int] = {}
        self._left = MOST_CHARACTERS
        self._rows: list[tuple[int, int, int, int, int]] = []
        """Address, 1 if a sequence goes on, path, line, column."""
        data = elf.section(".debug_line")[:MOST_BYTES]
        for begin, end, wide in islice(_units(data), MOST_FILES):
            self._unit(data, begin, end, wide=wide)
        self._rows.sort(key=lambda row: row[:2])
        self._addresses = array("Q", [row[0] for row in self._rows])
        self.paths = list(self._paths)

    def find(self, address: int) -> tuple[str, int, int] | None:
        """File, line and column of an address; the file may be empty."""
        k = bisect_right(self._addresses, address) - 1
        if k < 0 or not self._rows[k][1]:
            return None
        k = next((j for j in range(k, max(k - LOOK_BACK, -1), -1) if self._rows[j][3]), k)
        _, inside, path, line, column = self._rows[k]
        return (self.paths[path], line, column) if inside else None

    def _unit(self, data: bytes, begin: int, end: int, *, wide: bool) -> None:
        try:
            self._run(self._head(_Cursor(data, begin, end), wide=wide))
        except (ValueError, IndexError, struct.error):
            return  # the rest of a unit that no compiler writes is left out

    def _head(self, cursor: _Cursor, *, wide: bool) -> _Unit:
        version = cursor.number("<H")
        if not 2 <= version <= 5:
            raise ValueError("an unknown version")
        if version == 5:
            cursor.skip(2)
        length = cursor.number("<Q" if wide else "<I")
        program = _Cursor(cursor.data, cursor.at, cursor.end)
        program.skip(length)
        least = cursor.number("<B")
        cursor.skip(1 if version < 4 else 2)
        line_base, line_range, opcode_base = cursor.number("<b"), cursor.number("<B"), cursor.number("<B")
        if not line_range or not opcode_base:
            raise ValueError("a table of another kind")
        lengths = cursor.data[cursor.at : cursor.at + opcode_base - 1]
        cursor.skip(opcode_base - 1)
        if version == 5:
            folders = [path for path, _ in self._entries5(cursor, wide=wide)]
            files = self._entries5(cursor, wide=wide)
        else:
            folders, files = _files4(cursor)
        return _Unit(version, wide, program, least, line_base, line_range, opcode_base, lengths, folders, files)

    def _entries5(self, cursor: _Cursor, *, wide: bool) -> list[tuple[str, int]]:
        formats = [(cursor.leb(), cursor.leb()) for _ in range(cursor.number("<B"))]
        count = cursor.leb()
        if count > MOST_FILES or not formats:
            raise ValueError("too many files")
        entries: list[tuple[str, int]] = []
        for _ in range(count):
            path, folder = "", 0
            for content, form in formats:
                value = self._value(cursor, form, wide=wide)
                if content == PATH and isinstance(value, str):
                    path = value
                elif content == DIRECTORY and isinstance(value, int):
                    folder = value
            entries.append((path, folder))
        return entries

    def _value(self, cursor: _Cursor, form: int, *, wide: bool) -> str | int:
        if form == STRING:
            return cursor.text()
        if form in self._strings:
            return self._strings[form].at(cursor.number("<Q" if wide else "<I"))
        if form == UDATA:
            return cursor.leb()
        if form in FIXED:
            return cursor.number(FIXED[form])
        if form in (DATA16, BLOCK):
            cursor.skip(16 if form == DATA16 else cursor.leb())
            return 0
        raise ValueError("an unknown form")

    def _run(self, unit: _Unit) -> None:
        """Runs a line program: the state is address, file, line and column."""
        paths: dict[int, int] = {}
        cursor, rows = unit.program, self._rows
        data, end = cursor.data, cursor.end
        constant = (255 - unit.opcode_base) // unit.line_range * unit.least
        address, file, line, column = 0, 1, 1, 0

        def path() -> int:
            if file not in paths:
                paths[file] = self._number(unit.path(file))
            return paths[file]

        while cursor.at < end:
            opcode = data[cursor.at]
            cursor.at += 1
            if opcode >= unit.opcode_base:
                step = opcode - unit.opcode_base
                address += step // unit.line_range * unit.least
                line += unit.line_base + step % unit.line_range
                rows.append((address & _ALL, 1, path(), line, column))
            elif opcode == 0:
                size = cursor.leb()
                after = cursor.at + size
                kind = cursor.number("<B") if size else 0
                if kind == END_SEQUENCE:
                    rows.append((address & _ALL, 0, 0, 0, 0))
                    address, file, line, column = 0, 1, 1, 0
                elif kind == SET_ADDRESS and size == 9:
                    address = cursor.number("<Q")
                cursor.at = after
            elif opcode == COPY:
                rows.append((address & _ALL, 1, path(), line, column))
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
                address += cursor.number("<H")
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


_ALL = (1 << 64) - 1


def _units(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Begin, end and width of every unit."""
    at = 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        wide = length == 0xFFFFFFFF
        if wide:
            if at + 8 > len(data):
                return
            (length,) = struct.unpack_from("<Q", data, at)
            at += 8
        end = min(at + length, len(data))
        yield at, end, wide
        at = end


def _files4(cursor: _Cursor) -> tuple[list[str], list[tuple[str, int]]]:
    """Folders and files; the first folder is that of the compiler."""
    folders, files = [""], list[tuple[str, int]]()
    while text := cursor.text():
        folders.append(text)
        if len(folders) > MOST_FILES:
            raise ValueError("too many folders")
    while text := cursor.text():
        files.append((text, cursor.leb()))
        cursor.leb()
        cursor.leb()
        if len(files) > MOST_FILES:
            raise ValueError("too many files")
    return folders, files


class SourcePlaces:
    """Return addresses of a library as frames; each address is looked up once."""

    def __init__(self, elf: Elf, own: tuple[str, ...], folder: str = "", texts: SourceTexts | None = None) -> None:
        self._lines = LineTable(elf, folder)
        self._functions = FunctionTable(elf.functions())
        self._own = own
        self._texts = texts or SourceTexts()
        self._frames: dict[int, Frame | None] = {}
        self._left = MOST_CHARACTERS

    def frames(self, addresses: tuple[int, ...]) -> tuple[Frame, ...]:
        """The frames of return addresses, without those of ptokit's own files."""
        return tuple(frame for address in addresses if (frame := self._frame(address)) is not None)

    def _frame(self, address: int) -> Frame | None:
        if address not in self._frames:
            self._frames[address] = self._find(address - 1)
        return self._frames[address]

    def _find(self, address: int) -> Frame | None:
        place = self._lines.find(address)
        if place is None or not place[0] or place[0].startswith(self._own):
            return None
        file, line, column = place
        return Frame(self._texts.name(file), line, self._texts.column(file, line, column), self._function(address))

    def _function(self, address: int) -> str:
        """The name of the function at an address. Those beyond `MOST_CHARACTERS` are empty."""
        symbol = self._functions.find(address)
        name = shown_function(symbol) if self._left > 0 else ""
        self._left -= len(symbol) + len(name)
        return name
