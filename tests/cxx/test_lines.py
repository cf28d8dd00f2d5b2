"""Places of addresses and names of functions: compared with binutils; damaged lines end in a clear error."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from ptokit.cxx import lines
from ptokit.cxx.lines import LONGEST_PATH, Elf, ElfError, FunctionTable, LineTable, SourcePlaces, shown_function
from ptokit.cxx.names_in_source import SourceTexts
from tests.cxx.building import COMPILER, Built, library

needs_compiler = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"needs {tool}")


def built(*options: str) -> Built:
    return library("values", *options)


@needs_compiler
@needs("addr2line")
def test_lines_agree_with_addr2line() -> None:
    made = built()
    elf = Elf.read(made.path)
    table = LineTable(elf, str(Path.cwd()))
    step = 4
    functions = [(int(each["value"]), int(each["size"])) for each in FunctionTable(elf).symbols]
    addresses = [at for begin, size in functions if table.find(begin) for at in range(begin, begin + size, step)][:3000]
    text = "\n".join(hex(at) for at in addresses)
    shown = subprocess.run(
        ["addr2line", "-e", str(made.path)], input=text, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(addresses) > 500
    for at, other in zip(addresses, shown, strict=True):
        place = table.find(at)
        file, _, line = other.partition(" (")[0].rpartition(":")
        if line == "?":
            continue  # code without a line
        found = f"{place[0]}:{place[1]}" if place else "??:0"
        assert found == (f"{file}:{line}" if file != "??" else "??:0"), hex(at)


@needs_compiler
@needs("c++filt")
def test_names_agree_with_cxxfilt() -> None:
    """Up to the template arguments, of functions with lines: no others are shown."""
    elf = Elf.read(library("hostile", "-pthread").path)
    table, functions = LineTable(elf, str(Path.cwd())), FunctionTable(elf)
    begins = [int(each["value"]) for each in functions.symbols]
    places = {functions.find(begin): table.find(begin) for begin in begins}
    symbols = sorted(name for name, place in places.items() if place and "/libcxxabi/" not in place[0])
    own = [symbol for symbol in symbols if re.match(r"_ZN?(St)?\d", symbol)]
    shown = subprocess.run(
        ["c++filt", "-p"], input="\n".join(own), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    pairs = [pair for pair in zip(own, shown, strict=True) if pair[0] != pair[1]]  # c++filt knows not all of C++20
    assert len(pairs) > 50
    wrong = [pair for pair in pairs if not plain(pair[1]).startswith(shown_function(pair[0]))]
    assert len(wrong) <= 0.02 * len(pairs), wrong[:10]


def plain(name: str) -> str:
    return re.sub(r"\[abi:\w+\]", "", name)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("launch", "launch"),
        ("_Z6launchPf", "launch"),
        ("_ZN2ns6helperIfLi3EEEvPT_", "ns::helper"),
        ("_Z3runIN2ns4TileIDhLi16ELi16EEELb1EEvRT_", "run"),
        ("_ZN12_GLOBAL__N_14flagEi", "(anonymous namespace)::flag"),
        ("_ZNK1A2goEi", "A::go"),
        ("_ZL4loadRi", "load"),
        ("_ZSt4sortIPiEvT_S1_", "std::sort"),
        ("_ZNSt6vectorIiE4sizeEv", "std::vector"),
        ("_ZZ5entryENKUlvE_clEv", "_ZZ5entryENKUlvE_clEv"),
        ("_Z", "_Z"),
        ("_Z99999x", "_Z99999x"),
        ("_ZN" + "1a" * 3 + "99b", "_ZN1a1a1a99b"),
    ],
)
def test_names(symbol: str, name: str) -> None:
    assert shown_function(symbol) == name


@needs_compiler
def test_damaged_libraries_end_in_an_error_or_in_places() -> None:
    data = built().path.read_bytes()
    rng = random.Random(3)
    begin = data.find(b".debug_line\0")
    assert begin > 0
    for _ in range(25):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 20, 400))):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 255, rng.randrange(256)))
        try:
            cut = rng.choice((len(damaged), rng.randrange(len(damaged))))
            places = SourcePlaces(Elf(bytes(damaged[:cut])), (), SourceTexts())
        except ElfError:
            continue
        places.frames(tuple(range(0, 20_000, 37)))


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\2\1" + bytes(58), b"\x7fELF\1\1" + bytes(100), bytes(300)])
def test_other_files_are_no_libraries(data: bytes) -> None:
    with pytest.raises(ElfError):
        SourcePlaces(Elf(data), (), SourceTexts())


def test_columns_count_characters(tmp_path: Path) -> None:
    """Compilers count bytes: two for each umlaut; a byte that is no UTF-8 is one character."""
    file = str(tmp_path / "names.cpp")
    Path(file).write_bytes("plain(a);\nä = ö(u);\n".encode() + b"\xe4 = f(u);")
    texts = SourceTexts([tmp_path])
    assert [texts.column(file, 1, byte) for byte in (0, 1, 6)] == [0, 1, 6]
    assert [texts.column(file, 2, byte) for byte in (1, 3, 6, 8)] == [1, 2, 5, 6]
    assert [texts.column(file, 3, byte) for byte in (1, 6)] == [1, 6]
    assert texts.column(file, 9, 4) == texts.column("no such file", 1, 4) == 4


def test_a_library_without_lines_has_no_places() -> None:
    head = bytearray(64 + 64)
    head[:6] = b"\x7fELF\2\1"
    head[40:48] = (64).to_bytes(8, "little")
    head[58:64] = b"\x40\0\1\0\0\0"
    assert SourcePlaces(Elf(bytes(head)), (), SourceTexts()).frames((1, 2, 3)) == ()


# --- debug information that stands for more than it is


def elf_of(names: bytes, **sections: bytes) -> Elf:
    """A library with sections; that of `symtab` has its names in `names`."""
    parts = {"": b"", ".strtab": names, **{f".{name}": content for name, content in sections.items()}}
    titles = "\0".join(parts).encode() + b"\0"
    data, heads = bytearray(64), list[bytes]()
    for name, content in {**parts, ".shstrtab": titles}.items():
        title = titles.find(b"\0" + name.encode() + b"\0") + 1 if name else 0
        heads.append(struct.pack("<IIQQQQIIQQ", title, 1, 0, 0, len(data), len(content), 1, 0, 1, 0))
        data += content
    data[:6] = b"\x7fELF\2\1"
    data[40:48] = struct.pack("<Q", len(data))
    data[58:64] = struct.pack("<HHH", 64, len(heads), len(heads) - 1)
    return Elf(bytes(data) + b"".join(heads))


def leb(value: int) -> bytes:
    return bytes([*(value >> shift & 0x7F | 0x80 for shift in (0, 7, 14)), value >> 21])


def unit(files: bytes, program: bytes) -> bytes:
    """A unit of a line table."""
    head = bytes([1, 1, 1, 256 - 5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + files
    body = struct.pack("<HI", 4, len(head))
    return struct.pack("<I", len(body + head + program)) + body + head + program


def files_of(*names: bytes) -> bytes:
    """Files without folders."""
    return b"\0" + b"".join(name + b"\0\0\0\0" for name in names) + b"\0"


def rows_of(files: int) -> bytes:
    """A program with a row at 1, 2, ... for each of the files from 1 on."""
    return b"".join(b"\4" + leb(number) + b"\2\1\1" for number in range(1, files + 1))


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that some work takes."""
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


LONG = b"a" * 40_000 + b"\0"
MOST_CHARACTERS, MOST_ROWS, MOST_FUNCTIONS = 1 << 22, 1000, 20_000
MOST = 16 * MOST_CHARACTERS
"""Bytes."""


@pytest.fixture(autouse=True)
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that short tests meet."""
    monkeypatch.setattr(lines, "MOST_CHARACTERS", MOST_CHARACTERS)
    monkeypatch.setattr(lines, "MOST_ROWS", 100 * MOST_ROWS)
    monkeypatch.setattr(lines, "MOST_FUNCTIONS", MOST_FUNCTIONS)


def test_paths_of_a_long_folder_have_a_bound() -> None:
    count = 3_000
    files = LONG + b"\0" + b"".join(b"%d\0\1\0\0" % number for number in range(count)) + b"\0"
    elf = elf_of(b"", debug_line=unit(files, rows_of(count - 1)))
    tables: list[LineTable] = []
    assert peak_of(lambda: tables.append(LineTable(elf, "/folder"))) < MOST
    (table,) = tables
    assert sum(map(len, table.paths)) <= MOST_CHARACTERS
    first, last = table.find(1), table.find(count - 1)
    assert first is not None and first[0] == f"/folder/{'a' * LONGEST_PATH}/0"
    assert last is not None and last[0] == ""
    assert SourcePlaces(elf, (), SourceTexts()).frames((count,)) == ()


@pytest.mark.parametrize(
    "damaged",
    [
        unit(b"a\0" * 200_000 + b"\0\0", b"\1"),
        unit(b"\0" + b"a\0\0\0\0" * 200_000 + b"\0", b"\1"),
        unit(files_of(b"a"), b"")[:20],
        b"\xff\xff\xff\xff" + bytes(8),
        b"\x10\0\0\0\5\0" + bytes(14),
        unit(files_of(b"a"), b"\0" + b"\xff" * 30),
    ],
)
def test_a_unit_that_no_compiler_writes_is_left_out(damaged: bytes) -> None:
    whole = unit(files_of(b"a", b"b"), rows_of(2))
    table = LineTable(elf_of(b"", debug_line=whole + damaged), "")
    assert table.find(1) == ("a", 1, 0) and len(table._rows) == 2


def test_rows_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_ROWS", MOST_ROWS)
    table = LineTable(elf_of(b"", debug_line=unit(files_of(b"a"), b"\1" * MOST_ROWS) * 3), "")
    assert len(table._rows) < MOST_ROWS + 10


def symbols(names: list[int]) -> bytes:
    """Functions at 16, 32, ... with names at offsets."""
    rows = (struct.pack("<IBBHQQ", name, 2, 0, 1, 16 * number, 16) for number, name in enumerate(names, 1))
    return b"".join(rows)


def test_functions_with_ends_of_one_long_name_have_a_bound() -> None:
    count = 10_000
    lines_of_all = unit(files_of(b"a"), b"\2\1\1" * (16 * count + 16))
    elf = elf_of(LONG, symtab=symbols([*range(count)]), debug_line=lines_of_all)
    places = SourcePlaces(elf, (), SourceTexts())
    assert peak_of(lambda: places.frames(tuple(range(17, 16 * count + 17, 16)))) < MOST
    names = [frame.function for frame in places.frames(tuple(range(17, 16 * count + 17, 16)))]
    assert len(names) == count and names[0] == "a" * 4096
    assert sum(map(len, names)) <= MOST_CHARACTERS + 4096


def test_functions_have_a_bound() -> None:
    elf = elf_of(b"a\0", symtab=symbols([0] * (MOST_FUNCTIONS + 5)))
    assert len(FunctionTable(elf).symbols) == MOST_FUNCTIONS


def test_a_name_that_is_shown_is_short() -> None:
    for symbol in ("a" * 100_000, "_ZN" + "9999" + "a" * 9999, "_ZN" + "1a" * 16_000 + "E"):
        assert len(shown_function(symbol)) <= 4096
