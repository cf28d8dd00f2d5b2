"""Places of addresses and names of functions: compared with binutils; damaged libraries end in a clear error."""

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

from ptokit.cxx import elf as libraries
from ptokit.cxx import lines
from ptokit.cxx.demangle import shown_function
from ptokit.cxx.elf import SYMBOL, Elf, ElfError
from ptokit.cxx.lines import LONGEST_PATH, LineTable, SourcePlaces
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.record import EntryError, find_symbol
from tests.cxx.building import COMPILER, Built, library

needs_compiler = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"needs {tool}")


def built(*options: str) -> Built:
    return library("values", *options)


@needs_compiler
@needs("addr2line")
@pytest.mark.parametrize("options", [(), ("-gdwarf-4",), ("-gz=zlib",)])
def test_lines_agree_with_addr2line(options: tuple[str, ...]) -> None:
    made = built(*options)
    elf = Elf.read(made.path)
    table = LineTable(elf, str(Path.cwd()))
    step = 4
    inside = [function for function in elf.functions() if table.find(function.begin)]
    addresses = [at for function in inside for at in range(function.begin, function.end, step)][:3000]
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
    """Of functions with lines: no others are shown, and a library may hold parts of the standard library without, or
    all of the compiler's own run time."""
    elf = Elf.read(library("hostile", "-pthread").path)
    table = LineTable(elf, str(Path.cwd()))
    places = {function.name: table.find(function.begin) for function in elf.functions()}
    symbols = sorted(name for name, place in places.items() if place and "/libcxxabi/" not in place[0])
    symbols = [symbol for symbol in symbols if symbol.startswith("_Z") and "Ul" not in symbol and "." not in symbol]
    text = "\n".join(symbols)
    shown = subprocess.run(
        ["c++filt", "-p"], input=text, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    pairs = [pair for pair in zip(symbols, shown, strict=True) if pair[0] != pair[1]]  # c++filt knows not all of C++20
    assert len(pairs) > 100
    wrong = [pair for pair in pairs if plain(shown_function(pair[0])) != plain(pair[1])]
    assert len(wrong) <= 0.02 * len(pairs), wrong[:10]


def plain(name: str) -> str:
    return re.sub(r"(?<=\d)ul?l?\b|\[abi:\w+\]", "", name.replace(" ", ""))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("launch", "launch"),
        ("_Z6launchPf", "launch"),
        ("_ZN2ns6helperIfLi3EEEvPT_", "ns::helper<float, 3>"),
        ("_ZN2ns6helperIfLin1EEEvPT_", "ns::helper<float, -1>"),
        ("_Z3runIN2ns4TileIDhLi16ELi16EEELb1EEvRT_", "run<ns::Tile<half, 16, 16>, true>"),
        ("_ZN12_GLOBAL__N_14flagEi", "(anonymous namespace)::flag"),
        ("_ZN1AC2Ev", "A::A"),
        ("_ZN1A2B_D1Ev", "A::B_::~B_"),
        ("_ZNK1AclEi", "A::operator()"),
        ("_ZZ5entryENKUlvE_clEv", "entry::{lambda}::operator()"),
        ("_ZSt4sortIPiEvT_S1_", "std::sort<int*>"),
        ("_Z4pairIiJfdEEvv", "pair<int, float, double>"),
        ("_Z1fIL4Mode2EEvv", "f<(Mode)2>"),
        ("_Z", "_Z"),
        ("_Z99999x", "_Z99999x"),
        ("_ZN" + "1aI" * 400, "a::a::a::a"),
        ("_ZN" + "1a" * 40_000 + "E", "a::a::a::a"),
    ],
)
def test_names(symbol: str, name: str) -> None:
    assert shown_function(symbol) == name


def test_a_name_that_doubles_is_bounded() -> None:
    symbol = "_Z1fI" + "St4pairIS_S_E" * 1 + "".join(f"St4pairIS{k}_S{k}_E" for k in range(10)) + "Evv"
    assert len(shown_function(symbol)) < 100_000


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
            places = SourcePlaces(Elf(bytes(damaged[: rng.choice((len(damaged), rng.randrange(len(damaged))))])), ())
        except ElfError:
            continue
        places.frames(tuple(range(0, 20_000, 37)))


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\2\1" + bytes(58), b"\x7fELF\1\1" + bytes(100), bytes(300)])
def test_other_files_are_no_libraries(data: bytes) -> None:
    with pytest.raises(ElfError):
        SourcePlaces(Elf(data), ())


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
    assert SourcePlaces(Elf(bytes(head)), ()).frames((1, 2, 3)) == ()


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


def unit(version: int, files: bytes, program: bytes) -> bytes:
    """A unit of a line table."""
    head = bytes([1, *([1] if version > 3 else []), 1, 256 - 5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + files
    body = struct.pack("<H", version) + (b"\x08\0" if version == 5 else b"") + struct.pack("<I", len(head))
    return struct.pack("<I", len(body + head + program)) + body + head + program


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
    for module in (libraries, lines):
        monkeypatch.setattr(module, "MOST_CHARACTERS", MOST_CHARACTERS)
    monkeypatch.setattr(lines, "MOST_ROWS", 100 * MOST_ROWS)
    monkeypatch.setattr(libraries, "MOST_FUNCTIONS", MOST_FUNCTIONS)


def test_many_names_of_one_long_text_are_one_short_one() -> None:
    names = bytes([1, 1, 0x0E]) + leb(9_000) + struct.pack("<I", 0) * 9_000
    elf = elf_of(b"", debug_line=unit(5, names * 2, rows_of(2)), debug_str=LONG)
    tables: list[LineTable] = []
    assert peak_of(lambda: tables.append(LineTable(elf))) < MOST
    place = tables[0].find(1)
    assert place is not None and place[0] == "/".join(["a" * LONGEST_PATH] * 3)


@pytest.mark.parametrize("version", [4, 5])
def test_paths_of_a_long_folder_have_a_bound(version: int) -> None:
    count = 3_000
    if version == 4:
        files = LONG + b"\0" + b"".join(b"%d\0\1\0\0" % number for number in range(count)) + b"\0"
    else:
        named = b"".join(b"%d\0" % number for number in range(count))
        files = bytes([1, 1, 8, 1]) + LONG + bytes([1, 1, 8]) + leb(count) + named
    elf = elf_of(b"", debug_line=unit(version, files, rows_of(count - 1)))
    tables: list[LineTable] = []
    assert peak_of(lambda: tables.append(LineTable(elf, "/folder"))) < MOST
    (table,) = tables
    assert sum(map(len, table.paths)) <= MOST_CHARACTERS
    first, last = table.find(1), table.find(count - 1)
    assert first is not None and first[0].startswith("/folder/aaa") and first[0].endswith("/" + "01"[version == 5])
    assert last is not None and last[0] == ""
    assert SourcePlaces(elf, (), "/folder").frames((count,)) == ()


def test_rows_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_ROWS", MOST_ROWS)
    files = bytes([1, 1, 8, 1]) + b"a\0" + bytes([1, 1, 8, 1]) + b"b\0"
    table = LineTable(elf_of(b"", debug_line=unit(5, files, b"\1" * MOST_ROWS) * 3))
    assert len(table._rows) < MOST_ROWS + 10


def symbols(names: list[int]) -> bytes:
    """Functions at 16, 32, ... with names at offsets."""
    return b"".join(SYMBOL.pack(name, 2, 0, 1, 16 * number, 16) for number, name in enumerate(names, 1))


@pytest.mark.parametrize("table", ["symtab", "dynsym"])
def test_functions_with_ends_of_one_long_name_have_a_bound(table: str) -> None:
    elf = elf_of(LONG, **{table: symbols([*range(10_000)])})
    found: list[str] = []
    read = elf.functions if table == "symtab" else elf.exported
    assert peak_of(lambda: found.extend(each.name for each in read())) < MOST
    assert len(found) == 10_000
    assert sum(map(len, found)) <= MOST_CHARACTERS


def test_functions_have_a_bound() -> None:
    assert len(elf_of(b"a\0", symtab=symbols([0] * (MOST_FUNCTIONS + 5))).functions()) == MOST_FUNCTIONS


def doubled(number: int) -> str:
    """A name of about a hundred characters that is shown with more than a thousand."""
    parts = "".join(f"S_IS{digit}_S{digit}_E" for digit in "01234567")
    return f"_Z6f{number:05}ISt4pairIiiE{parts}Evv"


def test_names_that_double_have_a_bound_together() -> None:
    count = 5_000
    assert count * len(shown_function(doubled(0))) > MOST_CHARACTERS
    names = "\0".join(map(doubled, range(count))).encode() + b"\0"
    starts = [*range(0, len(names), len(doubled(0)) + 1)]
    files = bytes([1, 1, 8, 1]) + b"a\0" + bytes([1, 1, 8, 1]) + b"b\0"
    elf = elf_of(names, symtab=symbols(starts), debug_line=unit(5, files, b"\4\0" + b"\2\1\1" * (16 * count + 16)))
    frames = SourcePlaces(elf, ()).frames(tuple(range(17, 16 * count + 17, 16)))
    assert len(frames) == count and frames[0].function.startswith("f00000<std::pair<int, int>, f00000<")
    assert sum(len(frame.function) for frame in frames) <= MOST_CHARACTERS


def test_a_name_that_is_shown_is_short() -> None:
    for symbol in ("a" * 100_000, "_ZN" + "9999" + "a" * 9999, "_Z" + "Z1fI" + "1a" * 3000 + "EEvvE1g"):
        assert len(shown_function(symbol)) <= 4096


def test_an_entry_is_found_by_its_names() -> None:
    texts = ["_ZN2ns6launchIfEEvPT_", "plain", "_Z4pairIiEvv", "_Z4pairIfEvv"]
    starts = [sum(len(text) + 1 for text in texts[:number]) for number in range(len(texts))]
    elf = elf_of("\0".join(texts).encode() + b"\0", dynsym=symbols(starts))
    for entry in ("_ZN2ns6launchIfEEvPT_", "ns::launch", "ns::launch<float>"):
        assert find_symbol(elf, entry) == "_ZN2ns6launchIfEEvPT_"
    assert find_symbol(elf, "pair<float>") == "_Z4pairIfEvv"
    with pytest.raises(EntryError, match="several functions are called 'pair': pair<int>, pair<float>"):
        find_symbol(elf, "pair")
