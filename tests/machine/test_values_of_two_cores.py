"""Random kernels for two cores: every engine gives the values of a model that runs each pipe by itself.

The kernels are those of `two_cores_kernels.py`: rings of slots with back-pressure, in one loop or in two, of equal and
unequal length; tiles that items declare; flags of a core, barriers and branches while pipes wait for the other core.
The model is that of `two_cores_model.py`. It shares no code with ptokit.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.launch import mode_of
from ptokit.lang.loaded import TextKernel
from ptokit.program import ir
from tests.machine.two_cores_kernels import Draft, arrays_of
from tests.machine.two_cores_model import Arrays, BlockModel, Stuck, text_of
from tests.property.strategies import FUZZ
from tests.snippet import compiled

PROGRAMS = 1200 if FUZZ else 36
CHUNKS = 6
TARGETS = ("cpu", "a2a3", "a5")


def drawn(seed: int) -> tuple[Draft, list[Any], Any, str, Arrays]:
    draft = Draft(seed)
    body, arrays = draft.body(), arrays_of(draft.dice)
    code = f"def kernel({', '.join(arrays)}, items):\n    n = pto.block_idx()\n" + "\n".join(text_of(body)) + "\n"
    names: dict[str, Any] = {"pto": pto}
    exec(compiled(f'@pto.kernel(mode="manual")\n{code}', "kernel for two cores"), names)
    return draft, body, names["kernel"], code, arrays


def model(draft: Draft, body: list[Any], arrays: Arrays, holds_core: bool, dice: Random) -> Arrays | None:
    """What the model makes of the arrays; None if it is stuck."""
    found = {name: array.copy() for name, array in arrays.items()}
    try:
        for block in range(draft.grid):
            BlockModel(body, found, {"n": block, "items": draft.items}, holds_core).run(dice)
    except Stuck:
        return None
    return found


def without_addresses(kernel: Any, given: list[Any], target: str, copies: int) -> Any:
    """The kernel as a text without addresses: ptokit places its tiles, and the author writes the flags. Tiles of loops
    have so many copies."""
    program = kernel.trace(kernel.bind(given, {}), mode_of(target)).program

    def change(stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.Loop) and not any(isinstance(inner, ir.Loop) for inner in ir.walk(stmt.body)):
            return replace(stmt, buffers=copies, body=ir.transform(stmt.body, copied))
        return replace(stmt, addresses=(), fresh=True) if isinstance(stmt, ir.TileDecl) else stmt

    def copied(stmt: ir.Stmt) -> ir.Stmt:
        return replace(stmt, buffers=copies) if isinstance(stmt, ir.TileDecl) else stmt

    return TextKernel(replace(program, mode="flags", body=ir.transform(program.body, change)))


ENGINES = ("reference", "native", "machine")


def compare(seed: int, target: str) -> bool:
    """Every engine gives the values of the model, and no finding; or says that a wait never ends. Returns which."""
    draft, body, kernel, code, arrays = drawn(seed)
    if draft.is_text:
        kernel = without_addresses(kernel, [*arrays.values(), draft.items], target, draft.copies)
    expected, again = (model(draft, body, arrays, target == "a2a3", Random(k)) for k in (seed, seed + 1))
    message = f"seed {seed} on {target}, {draft.items} items, grid {draft.grid}\n{code}"
    assert (expected is None) == (again is None), message
    for engine in ENGINES:
        given = {name: array.copy() for name, array in arrays.items()}
        if expected is None:
            options = {"options": pto.MachineOptions(checks=("order",))} if engine == "machine" else {}
            try:
                run = kernel[draft.grid](*given.values(), draft.items, target=target, engine=engine, **options)
            except pto.VerifyError as refusal:
                findings = refusal.findings
            else:
                assert engine == "machine", f"{engine}\n{message}"
                findings = run.findings
            assert any("waits forever" in finding.message for finding in findings), f"{engine}: {findings}\n{message}"
            continue
        assert all((expected[name] == again[name]).all() for name in given), message
        run = kernel[draft.grid](*given.values(), draft.items, target=target, engine=engine)
        for name, array in given.items():
            assert (array == expected[name]).all(), f"{engine}: {name}\n{message}"
        found = [finding for finding in run.findings if finding.level != "note"]
        assert not found, f"{engine}: {found}\n{message}"
    return expected is not None


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_engine_gives_the_values_of_two_streams(chunk: int) -> None:
    """Each kernel on one target, or on all of them."""
    pytest.importorskip("llvmlite")
    seeds = range(chunk, PROGRAMS, CHUNKS)
    seen = [compare(seed, target) for k, seed in enumerate(seeds) for target in (TARGETS if FUZZ else [TARGETS[k % 3]])]
    assert sum(seen) > len(seen) // 4


def test_many_kernels_need_waits_that_hold_a_pipe_and_not_a_core() -> None:
    """They end if waits hold pipes, and else they never end."""
    seen = 0
    for seed in range(PROGRAMS):
        draft = Draft(seed)
        body, arrays = draft.body(), arrays_of(draft.dice)
        by_pipe, by_core = (model(draft, body, arrays, holds, Random(seed)) for holds in (False, True))
        assert by_pipe is not None or by_core is None
        seen += by_core is None and by_pipe is not None
    assert seen > PROGRAMS // 10


# --- a wait of A5 holds a pipe, not a core


@pto.kernel(mode="manual")
def prefetched(x, out, trips: pto.const = 4):
    """The vector core waits for the next slot before it computes with this one, and hands this one back after that. The
    cube core has no other slot to fill in between."""
    source = pto.Tile("mat", "float32", 16, 16, addr=0, blayout="col_major", slayout="row_major")
    slot = pto.Tile("vec", "float32", 16, 16, addr=0)
    for i in pto.range(trips):
        result = pto.Tile("vec", "float32", 16, 16, addr=0x1000 + (i % 2) * 0x1000)
        with pto.when(i == 0):
            pto.sync_wait("V", 0)
        pto.tadds(result, slot, 1.0)
        pto.set_flag("V", "MTE3", i % 2)
        pto.sync_wait("V", 0)
        pto.wait_flag("V", "MTE3", i % 2)
        pto.sync_set("MTE3", 1)
        pto.tstore(out[i * 16 : i * 16 + 16], result)
    for k in pto.range(trips + 1):
        pto.set_flag("MTE1", "MTE2", 0)
        pto.wait_flag("MTE1", "MTE2", 0)
        pto.tload(source, x[k * 16 : k * 16 + 16])
        pto.set_flag("MTE2", "MTE1", 0)
        pto.wait_flag("MTE2", "MTE1", 0)
        with pto.when(k > 0):
            pto.sync_wait("AIC.MTE1", 1)
        pto.tmov(slot, source)
        pto.sync_set("AIC.MTE1", 0)


@pytest.mark.parametrize("target", ["cpu", "a5"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_core_goes_on_behind_a_wait_that_holds_one_pipe(engine: str, target: str) -> None:
    """Sets of MTE3 do not come after the waits of V in the text before them."""
    pytest.importorskip("llvmlite")
    x = np.arange(5 * 256, dtype="float32").reshape(-1, 16)
    out = np.zeros((64, 16), "float32")
    run = prefetched[1](x, out, target=target, engine=engine)
    assert not [finding for finding in run.findings if finding.level != "note"], run
    assert (out == x[:64] + 1).all()


def test_the_same_program_never_ends_where_a_wait_holds_its_core() -> None:
    x = np.arange(5 * 256, dtype="float32").reshape(-1, 16)
    found = pto.check(prefetched, x, np.zeros((64, 16), "float32"), grid=1, target="a2a3")
    assert any("waits forever" in finding.message for finding in found.findings), found


@pto.kernel(mode="manual")
def declared_behind(x, out):
    """The second iteration declares its tile while the store of the first one waits."""
    for i in pto.range(2):
        tile = pto.Tile("vec", "float32", 16, 16)
        pto.sync_set("V", 1)
        with pto.when(i > 0):
            pto.wait_flag("MTE3", "MTE2", 0)
        pto.tload(tile, x[i * 16 : i * 16 + 16])
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.sync_wait("MTE3", 0)
        pto.tstore(out[i * 16 : i * 16 + 16], tile)
        with pto.when(i < 1):
            pto.set_flag("MTE3", "MTE2", 0)
    for _ in pto.range(2):
        pto.sync_wait("AIC.S", 1)
    for _ in pto.range(2):
        pto.sync_set("FIX", 0)


@pto.kernel(mode="manual")
def held_in_turn(x, out):
    """Both cores come to one barrier behind a wait: the cube core in the first iteration, the vector core in the
    second one, with a load that waits."""
    tile = pto.Tile("vec", "float32", 16, 16, addr=0)
    for i in pto.range(2):
        with pto.when(i == 0):
            pto.sync_wait("AIC.MTE2", 0)
            pto.sync_set("FIX", 0)
            pto.sync_wait("AIV.MTE2", 0)
        with pto.otherwise():
            pto.sync_wait("AIC.S", 1)
            pto.sync_wait("AIV.MTE2", 1)
            pto.tload(tile, x)
            pto.sync_set("MTE3", 1)
        pto.barrier("ALL")
        with pto.when(i == 0):
            pto.sync_set("MTE3", 0)
        with pto.otherwise():
            pto.tstore(out, tile)
            pto.sync_set("FIX", 1)


@pytest.mark.parametrize(("kernel", "rows"), [(declared_behind, 32), (held_in_turn, 16)])
@pytest.mark.parametrize("target", ["cpu", "a5"])
@pytest.mark.parametrize("engine", ENGINES)
def test_declarations_and_shared_barriers_behind_a_wait(kernel: Any, rows: int, engine: str, target: str) -> None:
    pytest.importorskip("llvmlite")
    x = np.arange(rows * 16, dtype="float32").reshape(rows, 16)
    out = np.zeros_like(x)
    run = kernel[1](x, out, target=target, engine=engine)
    assert not [finding for finding in run.findings if finding.level != "note"], run
    assert (out == x).all()


@pto.kernel(mode="manual")
def ends_or_not(x, out, waits):
    tile = pto.Tile("vec", "float32", 16, 16, addr=0)
    pto.tload(tile, x)
    pto.sync_set("FIX", 0)
    for _ in pto.range(waits):
        pto.sync_wait("AIV.S", 0)
    pto.barrier("ALL")
    pto.tstore(out, tile)


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_the_machine_reports_a_wait_that_a_number_makes_endless(target: str) -> None:
    """`cpu` has no pipes, so that no clock does."""
    x, out = np.ones((16, 16), "float32"), np.zeros((16, 16), "float32")
    assert ends_or_not[1](x, out, 1, target=target, engine="machine").ok
    assert (out == 1).all()
    with pytest.warns(pto.HazardWarning, match="waits forever"):
        run = ends_or_not[1](x, out, 2, target=target, engine="machine")
    assert [finding.rule for finding in run.findings if finding.level == "error"] == ["KN-13"]
