"""What the headers of August 2026 refuse, or compute otherwise than the instruction says, beyond its own rules."""

from __future__ import annotations

from collections.abc import Iterator

from ptokit import spec as clauses
from ptokit.finding import Finding
from ptokit.isa.common import names
from ptokit.isa.instruction import ALWAYS, DEVICES, Call, Case, Rule, error
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
from ptokit.isa.vector import types
from ptokit.program.bounds import reaches
from ptokit.program.ir import Assign, Flag, Instr, Program, Stmt, TileDecl, TileUse, walk
from ptokit.program.verify import CORES
from ptokit.target import Profile
from ptokit.target.profile import KB
from ptokit.text.cpp.columns import RULES as COLUMNS
from ptokit.text.cpp.scatter import RULES as ROW_SCATTER
from ptokit.text.cpp.simulator import COMPARES, MASKS, ROUNDS, SELECTS

ADD_TYPES = {"a2a3": ("int32", "float32", "float16")}
ORDER_TYPES: dict[str, tuple[str, ...]] = {"a2a3": ()}
"""The element types of atomic scatters that the documents and the headers both have, where the headers have fewer."""


def _atomic(rule: str, op: ScatterAtomicOp, table: dict[str, tuple[str, ...]]) -> Rule:
    def allowed(call: Call) -> str:
        types = ", ".join(call.here(table))
        return f"{types} for atomic {op.text}" if types else f"scattered otherwise: there is no atomic {op.text}"

    return Rule(
        rule, "src", allowed, lambda c: c.src.dtype.name in c.here(table), on=error(*table),
        when=Case(f"atomic {op.text}", lambda c: c.atomic is op), found=lambda c: f"{c.src.dtype}, {c.atomic.text}",
        fix="scatter another type, or combine the values in a tile first",
    )  # fmt: skip


def _typed(operand: str, table: dict[str, str], when: Case = ALWAYS) -> Rule:
    """The element types that the headers assert, by target."""
    allowed = {target: types(listed) for target, listed in table.items()}
    return Rule(
        "CP-HDR-01", operand, lambda c: f"one of {names(c.here(allowed))} for the C++ headers",
        lambda c: c.values[operand].dtype in c.here(allowed), on=error(*table), when=when,
        found=lambda c: str(c.values[operand].dtype), fix="tcvt converts between types",
    )  # fmt: skip


def _one_type(first: str, *others: str, on: tuple[str, ...]) -> Rule:
    """Operands for which the headers have one template parameter."""

    def kinds(call: Call) -> set[object]:
        tiles = (call.values[name] for name in (first, *others))
        return {(t.rows, t.cols, t.blayout, t.pad, t.dynamic, t.valid) for t in tiles}

    return Rule(
        "CP-HDR-01", first, f"of one tile type with {' and '.join(others)}, valid extents included",
        lambda c: len(kinds(c)) == 1, on=error(*on), fix="give the tiles one shape, and the same valid extents",
    )  # fmt: skip


def _between(*pairs: tuple[TileType, TileType]) -> Case:
    """From one of some memories to another."""
    text = " or ".join(f"{src.name} to {dst.name}" for src, dst in pairs)
    return Case(text, lambda c: (c.src.loc, c.dst.loc) in pairs)


IN_UB = _between((TileType.Vec, TileType.Vec))
TO_CUBE = _between((TileType.Mat, TileType.Left), (TileType.Mat, TileType.Right))
PLAIN_LOAD = Case("an ND tile in UB", lambda c: c.dst.loc is TileType.Vec and c.dst.form == "nd")
MOST_ROWS = 4095
"""Rows of an ND tile that A2/A3 loads into UB."""

EIGHT_TO_32 = "i8 u8 i16 u16 i32 u32 f16 bf16 f32"
"""What A2/A3 loads and stores: no 8-bit floats."""
ROW_EXPANDS = "i16 u16 i32 u32 f16 f32"


def _same_storage(on: str, when: Case) -> Rule:
    return Rule(
        "CP-HDR-01", "dst", lambda c: f"{c.src.rows} x {c.src.cols}, as src, for the C++ headers",
        lambda c: (c.dst.rows, c.dst.cols) == (c.src.rows, c.src.cols), on=error(on), when=when,
        found=lambda c: f"{c.dst.rows} x {c.dst.cols}", fix="give both tiles the same rows and columns",
    )  # fmt: skip


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
    "tscatter": ROW_SCATTER,
    "tload": (
        _typed("dst", {"a2a3": EIGHT_TO_32}),
        Rule("CP-HDR-01", "dst", f"of at most {MOST_ROWS} rows for the C++ headers", lambda c: c.dst.rows <= MOST_ROWS,
             on=error("a2a3"), when=PLAIN_LOAD, found=lambda c: f"{c.dst.rows} rows", fix="load in two steps"),
    ),
    "tstore": (_typed("src", {"a2a3": EIGHT_TO_32}),),
    "tmov": (_same_storage("a2a3", IN_UB), _same_storage("a2a3", TO_CUBE), _same_storage("a5", TO_CUBE)),
    "textract": (
        _typed("dst", {"a5": "i8 i32 f16 bf16 f32 f8E4M3FN f8E5M2"}, IN_UB),
        Rule("CP-HDR-01", "dst", lambda c: f"at most {c.src.rows} x {c.src.cols}, as src: the headers compare storage",
             lambda c: c.dst.cols <= c.src.cols and (c.dst.rows <= c.src.rows or c.dst.form != "nd"), on=error("a5"),
             when=IN_UB, found=lambda c: f"{c.dst.rows} x {c.dst.cols}", fix="make dst no larger than src"),
    ),
    "tabs": (_one_type("dst", "src", on=("cpu",)),),
    "tgather": (_typed("idx", {"cpu": "i32 u32"}),),
    "trowsum": (
        _typed("src", {"cpu": "i16 i32 f16 bf16 f32"}),
        Rule("CP-HDR-01", "dst", lambda c: f"of {c.src.rows} rows, as src: the headers compare storage",
             lambda c: c.dst.rows == c.src.rows, on=error("cpu"), found=lambda c: f"{c.dst.rows} rows",
             fix="give dst as many rows as src"),
    ),
    "trowexpandmul": (_typed("dst", {"cpu": f"{ROW_EXPANDS} u8"}),),
    "trowexpandsub": (_typed("dst", {"cpu": ROW_EXPANDS}),),
    "trowexpanddiv": (_typed("dst", {"cpu": ROW_EXPANDS, "a5": ROW_EXPANDS}),),
    "tcmp": (
        IGNORES_MODE,
        _typed("src0", {"cpu": "i32 f16 f32"}, Case("a uint8 mask", lambda c: c.dst.dtype.size == 1)),
        _typed("src0", {"cpu": EIGHT_TO_32}, Case("a uint32 mask", lambda c: c.dst.dtype.size == 4)),
    ),
    "tcmps": (IGNORES_MODE, COMPARES),
    "tsel": (SELECTS, MASKS, _one_type("dst", "src0", "src1", on=DEVICES)),
    "tsels": (_typed("dst", {"a5": "i8 u8 i16 u16 i32 u32 i64 u64 f16 f32"}),),
    "tdivs": (
        Rule("CP-HDR-01", "src", "float: the headers divide integers through float and destroy src",
             lambda c: not c.src.dtype.is_integer, on=error("a2a3"), found=lambda c: str(c.src.dtype),
             fix="tcvt to float32 first"),
    ),
    "tcvt": (
        ROUNDS,
        Rule("CP-HDR-01", "round", "another mode than odd: the simulator rounds to odd only where a value is a tie",
             lambda c: c.round is not RoundMode.Odd, on=error("cpu"), found=lambda c: c.round.text,
             fix="choose another mode"),
    ),
    "tadd": (_one_type("dst", "src0", "src1", on=("cpu",)),),
    **COLUMNS,
}  # fmt: skip
"""By instruction."""

VECTOR_PIPES = ("V", "MTE3")
"""Pipes that only the vector core has."""

HIDDEN = {"a2a3": 184 * KB}
"""Where the headers keep a workspace of their own in UB."""
USE_HIDDEN = tuple(f"trowexpand{op}" for op in ("add", "sub", "mul", "div", "max", "min"))


def tile_findings(name: str, spec: TileSpec, target: str) -> Iterator[Finding]:
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
        rule, fix = clauses.first(("CO-ALIGN-01", "CP-HDR-01"), target), "pad the tile and give valid="
        yield Finding("error", rule, said, None, name, wanted, found, fix, target=target)


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


def is_simt(stmt: Stmt) -> bool:
    """Whether a statement is a gather that the vector core makes for the cube core."""
    return isinstance(stmt, Instr) and stmt.name == "mgather" and GatherExec.Simt in stmt.modifiers


def hand_over_findings(program: Program, profile: Profile) -> Iterator[Finding]:
    """A gather on the vector core hands its result over to the cube core; nothing hands anything back."""
    if not any(is_simt(stmt) for stmt in walk(program.body)):
        return
    for stmt in walk(program.body):
        if isinstance(stmt, Flag) and (stmt.src in VECTOR_PIPES or stmt.dst in VECTOR_PIPES):
            said = f"{program.name}: the gather with executor simt would have to wait for {stmt.src} of the other core"
            fix = 'give every such gather a scratch and a table of its own, outside loops, or use executor="scalar"'
            wanted, target = "no wait across cores", profile.name
            yield Finding("error", "KN-16", said, None, "executor", wanted, fix=fix, where=stmt.where, target=target)


def program_findings(program: Program, profile: Profile, used: int, *, has_workspace: bool) -> Iterator[Finding]:
    """What only the whole program shows: both cores in one kernel, tiles where the headers have a workspace."""
    if has_workspace:
        yield from _unknown_addresses(program)
    here = cores(program, profile)
    if len(here) > 1:
        said = f"{program.name}: C++ is emitted for one core; {' and '.join(here.values())} belong to two"
        fix = "split the kernel in two, and pass data through memory"
        wanted, target = "tiles of one core", profile.name
        yield Finding("error", "KN-16", said, None, "", wanted, fix=fix, where=program.where, target=target)
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
