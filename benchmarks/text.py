"""Speed of reading and printing MLIR text, by size.

    python benchmarks/text.py

Required: 3,000 lines a second or more for typical Level 2 files, linear in size to 100,000 lines; 1 MB a second or more
from text to program, of up to 10 MB.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ptokit.text.forms import convert, read_program
from ptokit.text.mlir import print_module, read_module

Result = TypeVar("Result")

SIZES = (1_000, 10_000, 100_000)
VIEW = "!pto.partition_tensor_view<64x64xf32>"
TILE = (
    "!pto.tile_buf<loc=vec, dtype=f32, rows=64, cols=64, v_row=64, v_col=?, blayout=row_major, slayout=none_box,"
    " fractal=512, pad=0>"
)
ITERATION = f"""\
    // The tile of iteration {{n}}.
    %o{{n}} = arith.constant {{n}} : index
    %w{{n}} = pto.partition_view %v, offsets = [%o{{n}}, %c0], sizes = [%c, %c] : !pto.tensor_view<?x?xf32> -> {VIEW}
    %t{{n}} = pto.alloc_tile valid_col = %c : {TILE}
    pto.tload ins(%w{{n}} : {VIEW}) outs(%t{{n}} : {TILE})
    pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.tadd ins(%t{{n}}, %t{{n}} : {TILE}, {TILE}) outs(%t{{n}} : {TILE}) loc("kernel.py":{{n}}:5)
    scf.if %full {{{{  // no rest
      pto.tstore ins(%t{{n}} : {TILE}) outs(%w{{n}} : {VIEW})
    }}}}
"""


def program(lines: int) -> str:
    """A program like those of tools, of about `lines` lines."""
    body = "".join(ITERATION.format(n=n) for n in range(lines // 11))
    return f"""\
module attributes {{pto.target_arch = "a2a3"}} {{
  func.func @kernel(%p: !pto.ptr<f32>, %c0: index, %c: index, %full: i1) {{
    %v = pto.make_tensor_view %p, shape = [%c, %c], strides = [%c, %c0] : !pto.tensor_view<?x?xf32>
{body}    return
  }}
}}
"""


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result of some work, and its processor seconds."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def main() -> None:
    """Measure all sizes."""
    read_module(program(100))
    for size in SIZES:
        text = program(size)
        lines = text.count("\n")
        module, reading = timed(lambda text=text: read_module(text))
        _, printing = timed(lambda module=module: print_module(module))
        print(f"{lines:>7} lines: read {lines / reading:>7,.0f} lines/s, print {lines / printing:>7,.0f} lines/s")

    for size in SIZES:
        texts = {"Level 2": program(size), "comments": "//\n" * (size * 60) + program(100)}
        for name, text in {**texts, "PTO-AS": convert(texts["Level 2"], "k.pto", "as")}.items():
            _, seconds = timed(lambda text=text: read_program(text))
            print(f"{name}, {len(text) / 1e6:.1f} MB: to a program, {len(text) / 1e6 / seconds:.2f} MB/s")


if __name__ == "__main__":
    main()
