"""Places of addresses and names of functions: compared with binutils; damaged libraries end in a clear error."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ptokit.cxx.demangle import shown_function
from ptokit.cxx.elf import Elf, ElfError
from ptokit.cxx.lines import LineTable, SourcePlaces
from ptokit.cxx.names_in_source import SourceTexts
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
