"""Loops of C++ text: where they begin and end, whatever their bodies are."""

from __future__ import annotations

import pytest

from ptokit.cxx.source_loops import loop_around, loops_in_text
from ptokit.cxx.source_text import masked

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


@pytest.mark.parametrize(
    "part", ["for (", "for (;;) ", "do {", "do ", "if (a) b; else ", "while (", "{", ")", "'", 'R"(']
)
def test_text_that_is_no_cpp_has_an_end(part: str) -> None:
    loops_in_text(masked(part * 1000))
