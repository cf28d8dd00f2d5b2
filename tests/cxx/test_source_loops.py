"""Loops of C++ text: where they begin and end, whatever their bodies are."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptokit.cxx.entries import find_entries
from ptokit.cxx.includes import read_files, rewrite, write_rewritten
from ptokit.cxx.names_in_source import SourceTexts, argument_names
from ptokit.cxx.recording import RecordedFrame
from ptokit.cxx.source_text import loop_around, loops_in_text, masked
from ptokit.lang.cpp_edits import untaken

TEXT = """\
void f() {
  for (int i = 0; i < 1'000; ++i)
    for (int j = 0; j < 2; j++) { a(1'0); b; }
  do { c; } while (0);
  do {
    d;
    while (q) if (z) w; else if (k) { v; } else u;
  } while (n < 3);
  for (auto& e : list) f([&] { a; b; });
  const char* s = R"x( for (;;) { )x"; char one = '{', two = u8'(';
  // for (int i = 0; i < 3; ++i) {
  if (a) for (;;) { b; } else c;
  while (true)
    ;
}
"""


def test_loops_have_heads_bodies_and_counters() -> None:
    found = [(loop.head, loop.last, loop.counter) for loop in loops_in_text(masked(TEXT))]
    assert found == [(2, 3, "i"), (3, 3, "j"), (5, 8, ""), (7, 7, ""), (9, 9, ""), (12, 12, ""), (13, 14, "")]
    texts = [TEXT[loop.start : loop.end] for loop in loops_in_text(masked(TEXT))]
    assert [text[-1] for text in texts] == ["}", "}", ";", ";", ";", "}", ";"]


def test_the_loop_around_a_line_is_the_innermost() -> None:
    heads = {line: loop.head if (loop := loop_around(TEXT, line, line)) else 0 for line in range(1, 16)}
    assert [line for line, head in heads.items() if not head] == [1, 4, 10, 11, 15]
    assert (heads[3], heads[6], heads[7], heads[8]) == (3, 5, 7, 5)


def test_an_else_belongs_to_the_nearest_condition() -> None:
    text = "if (k) while (q) if (z) a; else b; else for (;;) if (m) c; else d; e;"
    found = [text[loop.start : loop.end] for loop in loops_in_text(text)]
    assert found == ["while (q) if (z) a; else b;", "for (;;) if (m) c; else d;"]


@pytest.fixture
def bounded() -> Iterator[None]:
    """3 s of processor time: what is read once takes less than a half."""

    def stop(*_: object) -> None:
        raise TimeoutError("more than 3 s of processor time")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 3)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


PARTS = [
    "for (", "for (;;) ", "for()()", "do {", "do ", "if (a) b; else ", "if()", "while (", "{", ")", "'", "\\'", '\\"',
    'R"(', 'R"(\n', "##  ", "<<<a", "a><<<(", "f<", "asm(", "[", "if (a) {", "if (a) { x;",
]  # fmt: skip
"""Parts that stand for others that are not closed."""


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.usefixtures("bounded")
def test_each_part_of_a_text_is_read_once(part: str) -> None:
    """Time follows from the length of a text, whatever it is."""
    for text in (
        part * (60_000 // len(part)),
        f"f{part * 100}+<<<",
        f"template <typename T> void f(){{}} {part * 12_000}",
    ):
        rewrite(text)
        loops_in_text(masked(text))
        find_entries(text)
        untaken(masked(text), "x;", (), len(text))


@pytest.mark.usefixtures("bounded")
def test_a_long_line_is_not_searched_for_each_call() -> None:
    texts = SourceTexts(given={"k.cpp": "/* \u00e4 */" + "TADD(a, b);" * 150_000})
    for column in range(1, 1_500_000, 1000):
        assert argument_names(texts, [RecordedFrame("k.cpp", 1, texts.column("k.cpp", 1, column), "f")], "TMUL") == []


@pytest.mark.usefixtures("bounded")
def test_many_names_of_a_header_are_replaced_at_once(tmp_path: Path) -> None:
    (tmp_path / "h.hpp").write_text("void f() { k<<<1, 2, 3>>>(); }\n")
    names = [f"{'./' * number}h.hpp" for number in range(1500)]
    (tmp_path / "k.cpp").write_text("".join(f'#include "{name}"\n' for name in names))
    files = read_files(tmp_path / "k.cpp", [])
    copies = write_rewritten(files, tmp_path)
    text = copies[tmp_path / "k.cpp"].read_text()
    assert text.count(str(copies[tmp_path / "h.hpp"])) == len(names)
    found = read_files(tmp_path / "k.cpp", [tmp_path / "none"] * 65_000)
    assert [*found.texts] == [tmp_path / "k.cpp", tmp_path / "h.hpp"]
