"""What ptokit does, in seven short acts: `ptokit demo`."""

from __future__ import annotations

import warnings
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.console import Console
from rich.rule import Rule
from rich.table import Table

import ptokit as pto
from ptokit.render.document import new_console
from ptokit.render.findings import finding_text, report_lines
from ptokit.render.layouts import LayoutPicture

if TYPE_CHECKING:
    from ptokit.lang.kernel import Kernel
    from ptokit.machine.report import MachineReport

TARGETS = ("cpu", "a2a3", "a5")


def run(console: Console) -> None:
    """All acts."""
    for title, act in ACTS.items():
        console.print(Rule(title, align="left"))
        act(console)
        console.print()


def embedding_lookup(console: Console) -> None:
    """Rows of a table by index; two indices do not exist."""
    array = np.arange(10, dtype="float32")[:, None] + np.zeros((10, 8), "float32")
    indices = np.array([[3, 9, 10, 25, 0, 7, 3, 1]], dtype="uint32")
    console.print(f"a table of 10 rows; the row that each index of {indices[0].tolist()} gets:")
    table = Table("policy", *TARGETS)
    for policy in ("clamp", "wrap", "zero"):
        cells: list[str] = []
        for name in TARGETS:
            with pto.target(name):
                idx = pto.Tile("vec", "uint32", 1, 8).write(indices)
                dst = pto.Tile("vec", "float32", 8, 8)
                pto.mgather(dst, pto.GlobalTensor(array), idx, oob=policy)
            cells.append(" ".join(f"{value:.0f}" for value in dst.read()[:, 0]))
        table.add_row(policy, *cells)
    console.print(table)
    idx = pto.Tile("vec", "uint32", 1, 8).write(indices)
    try:
        pto.mgather(pto.Tile("vec", "float32", 8, 8), pto.GlobalTensor(array), idx)
    except pto.OutOfBoundsError as refusal:
        console.print('Without a policy, oob="undefined" is a promise, and it is checked:')
        console.print(*map(finding_text, refusal.findings), sep="\n")


def gradient_accumulation(console: Console) -> None:
    """Sparse gradients: several tokens add to one row."""
    gradients = np.zeros((6, 8), "float32")
    tokens = [[2], [4], [2], [2], [99], [0], [4], [5]]
    with pto.target("a5"):
        idx = pto.Tile("vec", "int32", 8, 1).write(tokens)
        src = pto.Tile("vec", "float32", 8, 8).write(np.full((8, 8), 0.5))
        pto.mscatter(pto.GlobalTensor(gradients), src, idx, atomic="add", oob="skip")
    console.print(f"tokens {[t for (t,) in tokens]}, each adds 0.5; token 99 is skipped")
    console.print(f"rows are now {gradients[:, 0].tolist()}")


def gather_into_l1(console: Console) -> None:
    """Rows straight into the cube core's fractal layout."""
    array = np.arange(26, dtype="float32")[:, None] + np.zeros((26, 16), "float32")
    rows = np.array([4, 9, 4, 0, 25, 7, 70, 1, 2, 3, 9, 9, 12], dtype="int32")
    with pto.target("a2a3"):
        dst = pto.Tile("mat", "float32", 16, 16, valid=(13, 16), blayout="col_major", slayout="row_major")
        pto.mgather(dst, pto.GlobalTensor(array), pto.GlobalTensor(rows), oob="zero")
    seen = dst.read()[:, 0].astype(int).tolist()
    console.print(f"index {rows.tolist()}: the rows of the tile begin with {seen}", soft_wrap=True)
    console.print(LayoutPicture(dst.spec).text(console.width))


def one_accepts_another_refuses(console: Console) -> None:
    """The same call on three targets."""
    table = pto.GlobalTensor(np.zeros((64, 64), "float16"))
    for name in TARGETS:
        with pto.target(name) as here:
            idx = pto.Tile("vec", "int32", 8, 1, blayout="col_major").write(0)
            dst = pto.Tile("vec", "float16", 8, 64)
            try:
                pto.mgather(dst, table, idx)
                console.print(f"[bold]{name}[/bold]: accepted, {len(here.findings)} note(s)")
            except pto.VerifyError as refusal:
                console.print(f"[bold]{name}[/bold]: refused")
                console.print(*map(finding_text, refusal.findings), sep="\n")


@pto.kernel
def lookup(table, tokens, out, rows: pto.const = 16):
    """`out[i] = table[tokens[i]]`, a tile of rows for each block."""
    first = pto.block_idx() * rows
    n = pto.min(rows, tokens.shape[0] - first)
    ids = pto.Tile("vec", tokens.dtype, 1, rows, valid=(1, n))
    vectors = pto.Tile("vec", table.dtype, rows, table.shape[1], valid=(n, table.shape[1]))
    pto.tload(ids, tokens[first : first + n])
    pto.mgather(vectors, table, ids, oob="clamp")
    pto.tstore(out[first : first + n], vectors)


def a_whole_kernel(console: Console) -> None:
    """A kernel over a grid: run on three targets, and printed with what auto mode adds for one of them."""
    rng = np.random.default_rng(0)
    table, tokens = rng.random((100, 64), "float32"), rng.integers(0, 100, 40, "int32")
    out = np.zeros((40, 64), "float32")
    for name in TARGETS:
        out[:] = 0
        lookup[3](table, tokens, out, target=name)
        console.print(f"[bold]{name}[/bold]: 3 blocks, equal to NumPy: {np.array_equal(out, table[tokens])}")
    console.print("The program for a5; auto mode has added the addresses and the lines with a plus:")
    pto.show(lookup, table, tokens, out, target="a5")


SCATTER = """\
.kernel histogram
.arg %bins : !pto.memref<1x16xi32>
.arg %counts : !pto.memref<1x64xi32>
.const %one = 1 : i32
%index = tload %bins : (!pto.memref<1x16xi32>) -> !pto.tile<1x16xi32>
%ones = texpands %one : (i32) -> !pto.tile<1x16xi32>
mscatter.elem.atomic_add.skip %counts, %ones, %index : (!pto.memref<1x64xi32>, !pto.tile<1x16xi32>, !pto.tile<1x16xi32>)
"""


def a_program_as_text(console: Console) -> None:
    """Plain PTO-AS: run, and turned into MLIR and C++."""
    from ptokit.lang.loaded import from_text
    from ptokit.target import profile
    from ptokit.text.cpp import emit
    from ptokit.text.forms import print_program

    kernel = from_text(SCATTER, "histogram.ptoas")
    bins, counts = np.array([[3, 3, 9, 70] * 4], "int32"), np.zeros((1, 64), "int32")
    kernel[1](bins, counts, target="a5")
    console.print(SCATTER, markup=False, highlight=False, soft_wrap=True)
    console.print(f"bins {bins[0, :4].tolist()}, four times: counts[3] = {counts[0, 3]}, counts[9] = {counts[0, 9]}")
    console.print("The scatter as Level 2, and as C++ for a5:")
    for text in (print_program(kernel.program, "l2"), emit(kernel.program, profile("a5"))):
        line = next(line for line in text.splitlines() if "mscatter" in line.lower() and "(" in line)
        console.print(f"  {line.strip()}", markup=False, highlight=False, soft_wrap=True)


@pto.kernel(mode="manual")
def racy(table, tokens, out):
    """The kernel states its own addresses and flags, and one pair of flags is missing."""
    ids = pto.Tile("vec", "int32", 1, 16, addr=0x0)
    vectors = pto.Tile("vec", "float32", 16, 64, addr=0x1000)
    pto.tload(ids, tokens)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.mgather(vectors, table, ids)
    pto.tstore(out, vectors)


def a_missing_flag(console: Console) -> None:
    """The machine: right values, and what hardware may do instead."""
    rng = np.random.default_rng(0)
    table, tokens = rng.random((100, 64), "float32"), rng.integers(0, 100, 16, "int32")

    def launch(kernel: Kernel, **options: Any) -> tuple[MachineReport, bool]:
        out = np.zeros((16, 64), "float32")
        chosen = pto.MachineOptions(quiet=True, **options)
        report = kernel[1](table, tokens, out, target="a5", engine="machine", options=chosen)
        return cast("MachineReport", report), np.array_equal(out, table[tokens])

    report, is_right = launch(racy)
    console.print(f"No flag between gather and store. In program order, equal to NumPy: {is_right}")
    console.print(*islice(report_lines(report), 1 + len(report.hazards)), sep="\n", soft_wrap=True)
    wrong = sum(not launch(racy, seed=seed)[1] for seed in range(20))
    console.print(f"Under 20 other schedules that the flags allow, {wrong} results differ.")
    (repair,) = report.repairs
    console.print("The repair that it found and tried (ptokit check --fix):")
    console.print(*repair.diff.splitlines()[2:], sep="\n", markup=False, highlight=False)
    report, _ = launch(repair.patch.kernel)
    wrong = sum(not launch(repair.patch.kernel, seed=seed)[1] for seed in range(20))
    console.print(f"With it, {wrong} results differ:")
    console.print(next(report_lines(report)))


ACTS = {
    "1. Embedding lookup with indices that do not exist": embedding_lookup,
    "2. Gradient accumulation with repeated indices": gradient_accumulation,
    "3. A gather into an L1 tile in NZ layout": gather_into_l1,
    "4. One call, three targets": one_accepts_another_refuses,
    "5. A whole kernel": a_whole_kernel,
    "6. A program as text": a_program_as_text,
    "7. A missing flag, on a model of the hardware": a_missing_flag,
}


def main() -> None:
    """Run the demo on the terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.HazardWarning)
        run(new_console())
