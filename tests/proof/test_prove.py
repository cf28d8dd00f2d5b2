"""`pto.prove` and `ptokit check --prove`: verdicts, what they cover, and launches that show a fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.proof import solver
from tests.cli.shell import ptokit_
from tests.examples.test_gallery import GALLERY, Entry, rng

pytest.importorskip("z3", reason="proofs about numbers need the solver", exc_type=ImportError)
DECIDED = [entry for entry in GALLERY if entry.name != "paged_kv_gather"]
"""Kernels that are right whatever their arrays hold."""


def manual(body: Any) -> Any:
    return pto.kernel(mode="manual")(body)


def arrays(rows: int = 64) -> tuple[Any, Any]:
    return np.zeros((rows, 16), "float32"), np.zeros((rows, 16), "float32")


@manual
def in_turns(x, y, n, ahead):
    first, second = (pto.Tile("vec", "float32", 8, 16, addr=at) for at in (0, 512))
    pto.set_flag("V", "MTE2", 0)
    pto.set_flag("MTE3", "V", 0)
    for i in pto.range(n):
        pto.wait_flag("V", "MTE2", 0)
        pto.tload(first, x[i % 8 * 8 : i % 8 * 8 + 8])
        pto.set_flag("MTE2", "V", 0)
        pto.wait_flag("MTE2", "V", 0)
        pto.wait_flag("MTE3", "V", 0)
        pto.texp(second, first)
        pto.set_flag("V", "MTE2", 0)
        pto.set_flag("V", "MTE3", 0)
        pto.wait_flag("V", "MTE3", 0)
        pto.tstore(y[i % 8 * 8 : i % 8 * 8 + 8], second)
        pto.set_flag("MTE3", "V", 0)
    pto.wait_flag("V", "MTE2", 0)
    with pto.when(ahead == 0):
        pto.wait_flag("MTE3", "V", 0)


@manual
def waits_inside(x, y, n):
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(tile, x[0:8])
    pto.set_flag("MTE2", "MTE3", 0)
    for _ in pto.range(n):
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.tstore(y[0:8], tile)
        pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)


@manual
def late(x, y, n):
    """The fault shows from the fourth iteration on."""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    for i in pto.range(n):
        with pto.when(i < 3):
            pto.barrier("ALL")
        pto.tload(tile, x[0:8])
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.tstore(y[0:8], tile)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_kernel_is_proved_for_every_number_of_iterations(target: str) -> None:
    x, y = arrays()
    proof = pto.prove(waits_inside, x, y, 4, target=target)
    assert proof.verdict == "proved" and not proof.findings
    assert proof[target].covers == ("one block", "every number of iterations", "every n")


def test_a_flag_that_a_branch_leaves_set_is_refuted_by_the_smallest_launch() -> None:
    x, y = arrays()
    proof = pto.prove(in_turns, x, y, 4, 0, target="a5")["a5"]
    assert proof.verdict == "refuted" and proof.counterexample is not None
    assert proof.counterexample.numbers == {"ahead": 1, "n": 0} and proof.counterexample.grid == 1
    assert "still set when a block ends" in proof.findings[0].message


def test_a_fault_of_later_iterations_is_found() -> None:
    x, y = arrays()
    accepted = late[1](x.copy(), y.copy(), 3, target="a5", engine="machine")
    assert accepted.ok
    proof = pto.prove(late, x, y, 3, target="a5")["a5"]
    assert proof.verdict == "refuted" and proof.counterexample is not None
    assert proof.counterexample.numbers["n"] == 4


@pytest.mark.parametrize("entry", DECIDED, ids=lambda entry: entry.name)
def test_the_gallery_is_proved_for_all_grids(entry: Entry) -> None:
    for target in set(entry.targets) & {"a2a3", "a5"}:
        proof = pto.prove(entry.kernel, target=target, **entry.make(rng(), **entry.sizes[0]))
        assert proof.verdict == "proved", proof
        assert any("grid" in each for each in proof[target].covers)


def test_data_that_leads_outside_an_array_is_refuted() -> None:
    """The paged gather takes lengths from memory, and some are longer than its arrays."""
    entry = next(entry for entry in GALLERY if entry.name == "paged_kv_gather")
    proof = pto.prove(entry.kernel, target="a5", **entry.make(rng(), **entry.sizes[0]))["a5"]
    assert proof.verdict == "refuted" and proof.counterexample is not None
    assert proof.counterexample.data["lengths"] >= 1 << 10
    assert proof.findings[0].rule == "KN-10"


def test_lengths_may_be_any_number() -> None:
    kernel = next(entry.kernel for entry in GALLERY if entry.name == "embedding_lookup")
    given = pto.shaped("float32", "v", 20), pto.shaped("int32", "n"), pto.shaped("float32", "n", 20)
    proof = pto.prove(kernel, *given, rows=32, oob="zero", target="a5")
    assert proof.verdict == "proved", proof


def test_lengths_that_do_not_fit_are_refuted() -> None:
    """`out` has lengths of its own, so rows may be missing."""
    kernel = next(entry.kernel for entry in GALLERY if entry.name == "embedding_lookup")
    given = pto.shaped("float32", "v", 20), pto.shaped("int32", "n"), pto.shaped("float32", "m", 20)
    proof = pto.prove(kernel, *given, rows=32, oob="zero", target="a5")
    assert proof.verdict == "refuted", proof


def test_python_that_branches_on_a_length_is_refused() -> None:
    @pto.kernel
    def small(x, y):
        tile = pto.Tile("vec", "float32", 8, 16)
        if x.shape[0] == 1009:
            pto.tload(tile, x[0:8])
        else:
            pto.tload(tile, x[8:16])
        pto.tstore(y[0:8], tile)

    proof = pto.prove(small, pto.shaped("float32", "n", 16), arrays()[1], target="a5")
    assert proof.verdict == "refuted" and "depends on a length" in proof.findings[0].message


def test_without_the_solver_numbers_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "find_spec", lambda _: None)
    entry = next(entry for entry in GALLERY if entry.name == "embedding_lookup")
    proof = pto.prove(entry.kernel, target="a5", **entry.make(rng(), **entry.sizes[0]))
    assert proof.verdict == "unproved" and any("ptokit[prove]" in each.message for each in proof.findings)


def test_time_is_bounded() -> None:
    entry = next(entry for entry in GALLERY if entry.name == "embedding_bag")
    proof = pto.prove(entry.kernel, target="a5", seconds=0.01, **entry.make(rng(), **entry.sizes[0]))
    assert proof.verdict == "unproved"


@pytest.mark.parametrize("dims", [(), (8, "n"), (-1,)])
def test_shapes_that_make_no_sense_are_refused(dims: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="dim"):
        pto.shaped("float32", *dims)


def test_the_command_line_states_verdict_and_coverage(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(
        "import ptokit as pto\n\n\n"
        "@pto.kernel(mode='manual')\n"
        "def loads(x, y, n):\n"
        "    tile = pto.Tile('vec', 'float32', 8, 16, addr=0)\n"
        "    for _ in pto.range(n):\n"
        "        pto.tload(tile, x[0:8])\n"
        "        pto.barrier('ALL')\n"
        "        pto.tstore(y[0:8], tile)\n"
        "        pto.barrier('ALL')\n"
    )
    words = ["check", f"{file}:loads", "--prove", "--target", "a5"]
    given = ["--arg", "x=f32[8,16]", "--arg", "y=f32[8,16]", "--arg", "n=4"]
    done = ptokit_(*words, *given)
    assert done.exit_code == 0 and "loads on a5: proved for one block, every number of iterations" in done.output
    data = json.loads(ptokit_(*words, *given, "--json").output)
    assert data["targets"]["a5"]["verdict"] == "proved" and not data["targets"]["a5"]["findings"]
    file.write_text(file.read_text().replace("        pto.barrier('ALL')\n        pto.tstore", "        pto.tstore"))
    done = ptokit_(*words, *given)
    assert done.exit_code == 1 and "refuted by a launch with 1 block, n = 1" in done.output


def test_reads_past_a_stale_cache_are_not_proved() -> None:
    """DMA stores to a table that the vector pipe of A5 then gathers from through its cache."""

    @pto.kernel
    def refill(table, rows, idx, out):
        part = pto.Tile("vec", "float32", 8, 16)
        pto.tload(part, rows[0:8])
        pto.tstore(table[0:8], part)
        ids = pto.Tile("vec", "int32", 1, 8)
        pto.tload(ids, idx[0:8])
        found = pto.Tile("vec", "float32", 8, 16)
        pto.mgather(found, table, ids, oob="clamp")
        pto.tstore(out[0:8], found)

    given = (np.zeros((8, 16), "float32"), np.zeros((8, 16), "float32"), np.zeros(8, "int32"))
    proof = pto.prove(refill, *given, np.zeros((8, 16), "float32"), target="a5")
    assert proof.verdict == "refuted" and proof.findings[0].rule == "A-70"
