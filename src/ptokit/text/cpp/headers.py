"""What the headers of August 2026 refuse, or compute otherwise than the instruction says, beyond its own rules."""

from __future__ import annotations

from collections.abc import Iterator

from ptokit.finding import Finding
from ptokit.isa import mscatter
from ptokit.isa.instruction import DEVICES, Call, Case, Rule, error
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import (
    CmpMode,
    Coalesce,
    GatherExec,
    RoundMode,
    ScatterAtomicOp,
    ScatterConflict,
    SLayout,
    TileType,
)
from ptokit.program.bounds import reaches
from ptokit.program.ir import Assign, Instr, Program, TileDecl, TileUse, walk
from ptokit.program.verify import CORES
from ptokit.target import Profile
from ptokit.target.profile import KB
from ptokit.text.cpp.columns import RULES as COLUMNS
from ptokit.text.cpp.scatter import RULES as ROW_SCATTER
from ptokit.text.cpp.simulator import COMPARES, SELECTS

ADD_TYPES = {"a2a3": ("int32", "float32", "float16"), "a5": mscatter.ADD_TYPES}
ORDER_TYPES = {"a2a3": (), "a5": mscatter.ORDER_TYPES}
"""The element types of atomic scatters that the documents and the headers both have; the simulator takes all."""


def _atomic(rule: str, op: ScatterAtomicOp, table: dict[str, tuple[str, ...]]) -> Rule:
    def allowed(call: Call) -> str:
        types = ", ".join(call.here(table))
        return f"{types} for atomic {op.text}" if types else f"scattered otherwise: there is no atomic {op.text}"

    return Rule(
        rule, "src", allowed, lambda c: c.src.dtype.name in c.here(table), on=error(*table),
        when=Case(f"atomic {op.text}", lambda c: c.atomic is op), found=lambda c: f"{c.src.dtype}, {c.atomic.text}",
        fix="scatter another type, or combine the values in a tile first",
    )  # fmt: skip


def _one_type(call: Call) -> bool:
    tiles = (call.dst, call.src0, call.src1)
    return len({(t.rows, t.cols, t.blayout, t.pad, t.dynamic, t.valid) for t in tiles}) == 1


IGNORES_MODE = Rule(
    "CP-HDR-01", "mode", "eq for int32: the headers compare for equality whatever is asked",
    lambda c: c.mode is CmpMode.EQ or c.values[c.instruction.operands[1].name].dtype.name != "int32",
    on=error("a2a3"), found=lambda c: c.mode.text, fix="compare as float32: tcvt converts",
)  # fmt: skip

RULES: dict[str, tuple[Rule, ...]] = {
    "mscatter": (
        _atomic("MS-ATOM-05", ScatterAtomicOp.Add, ADD_TYPES),
        _atomic("MS-ATOM-06", ScatterAtomicOp.Max, ORDER_TYPES),
        _atomic("MS-ATOM-07", ScatterAtomicOp.Min, ORDER_TYPES),
        Rule("MS-ATOM-06", "coalesce", "elem for atomic max and min: the simulator's row form reads another cell",
             lambda c: c.coalesce is Coalesce.Elem, on=error("cpu"), found=lambda c: c.coalesce.text,
             when=Case("atomic max or min", lambda c: c.atomic in (ScatterAtomicOp.Max, ScatterAtomicOp.Min)),
             fix="scatter by element"),
        Rule("MS-CONF-01", "conflict", "default with an atomic operation",
             lambda c: c.conflict is ScatterConflict.Default or c.atomic is ScatterAtomicOp.NONE, on=error("cpu"),
             found=lambda c: f"{c.conflict.text}, atomic {c.atomic.text}", fix="leave conflict= out"),
    ),
    "mgather": (
        Rule("MG-SIMT-18", "executor", "scalar: the other runs on both cores, and a kernel is emitted for one",
             lambda c: c.executor is not GatherExec.Simt, on=error(*DEVICES), found=lambda c: c.executor.text,
             fix='leave executor= out, or give "scalar"'),
    ),
    "tscatter": ROW_SCATTER,
    "tcmp": (IGNORES_MODE,),
    "tcmps": (IGNORES_MODE, COMPARES),
    "tsel": (SELECTS,),
    "tdivs": (
        Rule("CP-HDR-01", "src", "float: the headers divide integers through float and destroy src",
             lambda c: not c.src.dtype.is_integer, on=error("a2a3"), found=lambda c: str(c.src.dtype),
             fix="tcvt to float32 first"),
    ),
    "tcvt": (
        Rule("CP-HDR-01", "round", "another mode than odd: the simulator rounds to odd only where a value is a tie",
             lambda c: c.round is not RoundMode.Odd, on=error("cpu"), found=lambda c: c.round.text,
             fix="choose another mode"),
    ),
    "tadd": (
        Rule("CP-HDR-01", "dst", "of one tile type with src0 and src1, valid extents included", _one_type,
             on=error("cpu"), fix="give the three tiles one shape, and the same valid extents"),
    ),
    **COLUMNS,
}  # fmt: skip
"""By instruction."""

HIDDEN = {"a2a3": 184 * KB}
"""Where the headers keep a workspace of their own in UB."""
USE_HIDDEN = tuple(f"trowexpand{op}" for op in ("add", "sub", "mul", "div", "max", "min"))


def tile_findings(name: str, spec: TileSpec) -> Iterator[Finding]:
    """A tile type that the headers assert against: storage that is no whole number of blocks."""
    if spec.slayout is SLayout.NoneBox:
        found, whole = f"{spec.burst_bytes} bytes", spec.burst_bytes % 32 == 0
        wanted = "of rows (or columns, if it is ColMajor) that are a multiple of 32 bytes"
    else:
        rows, cols = spec.box
        free_rows = spec.loc is TileType.Vec or spec.rows == 1
        found, whole = f"{spec.rows} x {spec.cols}", spec.cols % cols == 0 and (free_rows or spec.rows % rows == 0)
        wanted = f"of whole boxes of {rows} x {cols}"
    if not whole:
        said = f"{name} must be {wanted} for the C++ tile type; found {found}"
        yield Finding("error", "CO-ALIGN-01", said, None, name, wanted, found, "pad the tile and give valid=")


def cores(program: Program, profile: Profile) -> dict[str, str]:
    """The cores whose tiles a program uses, and a tile of each; empty where the target has none."""
    uses = (
        operand.tile
        for stmt in walk(program.body)
        if isinstance(stmt, Instr)
        for operand in stmt.operands
        if isinstance(operand, TileUse)
    )
    return {CORES.get(program.tiles[tile].spec.loc, "AIC"): tile for tile in uses} if profile.cores else {}


def program_findings(program: Program, profile: Profile, used: int, *, has_workspace: bool) -> Iterator[Finding]:
    """What only the whole program shows: both cores in one kernel, tiles where the headers have a workspace."""
    if has_workspace:
        yield from _unknown_addresses(program)
    here = cores(program, profile)
    if len(here) > 1:
        said = f"{program.name}: C++ is emitted for one core; {' and '.join(here.values())} belong to two"
        fix = "split the kernel in two, and pass data through memory"
        yield Finding("error", "KN-16", said, None, "", "tiles of one core", fix=fix, where=program.where)
    end = HIDDEN.get(profile.family)
    for stmt in walk(program.body):
        if isinstance(stmt, Instr) and stmt.name in USE_HIDDEN and end is not None and used > end:
            said = f"{stmt.name}: the headers use UB from {end:#x} on themselves; the tiles end at {used:#x}"
            yield Finding(
                "error", "A-38", said, "H-38", "", f"below {end:#x}", fix="use smaller tiles", where=stmt.where
            )


def _unknown_addresses(program: Program) -> Iterator[Finding]:
    """A workspace lies behind the tiles, so it must be known where these end."""
    for stmt, reach in reaches(program, None):
        addresses = (
            stmt.addresses if isinstance(stmt, TileDecl) else (stmt.address,) if isinstance(stmt, Assign) else ()
        )
        for address in addresses:
            if not isinstance(address, int) and reach.value(address) is None:
                said = f"{program.name}: a workspace must lie behind the tiles, and one of them lies at {address}"
                fix = "give the tile an address that does not depend on the block or an argument"
                yield Finding("error", "A-38", said, None, "", "a known address", fix=fix, where=stmt.where)
