"""The table of instructions that ptokit knows by their effects only."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from ptokit.isa import opaque as module
from ptokit.isa.barriers import inside
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Call
from ptokit.isa.opaque import (
    ACCESS,
    EXACT,
    NONE,
    PIPES,
    WITH_VALUES,
    OpaqueForm,
    OpaqueRow,
    form_for,
    form_in_text,
    is_form,
    opaque,
    opaque_rows,
    pipe_of,
    row_of_op,
)
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import TileType
from ptokit.program.instr_calls import effects

HEADERS = """
    mgather mscatter set_img2col_padding set_img2col_rpt set_quant_scalar set_quant_vector setfmatrix syncall
    tabs tadd taddc tadddeqrelu taddreluconv tadds taddsc talloc tand tands tassign taxpy tbroadcast tci tcmp tcmps
    tcolargmax tcolargmin tcolexpand tcolexpandadd tcolexpanddiv tcolexpandexpdif tcolexpandmax tcolexpandmin
    tcolexpandmul tcolexpandsub tcolmax tcolmin tcolprod tcolsum tconcat tcvt tdeinterleave tdequant tdiv tdivs
    texp texpands textract textract_fp tfillpad tfillpad_expand tfillpad_inplace tfmod tfmods tfree tfusedmuladd
    tfusedmuladdrelu tgather tgatherb tgemv tgemv_acc tgemv_bias tgemv_mx tget tget_async tget_scale_addr thistogram
    timg2col tinsert tinsert_fp tinterleave tload tlog tlrelu tmatmul tmatmul_acc tmatmul_bias tmatmul_mx tmax tmaxs
    tmin tmins tmov tmov_fp tmrgsort tmul tmuladddst tmuls tneg tnot tnotify tor tors tpack tpairreducesum tpartadd
    tpartargmax tpartargmin tpartmax tpartmin tpartmul tpop tpow tpows tprefetch tprefetch_async tprelu tprint tpush
    tput tput_async tquant trandom trecip treduce trelu trem trems treshape trowargmax trowargmin trowexpand
    trowexpandadd trowexpanddiv trowexpandexpdif trowexpandmax trowexpandmin trowexpandmul trowexpandsub trowmax
    trowmin trowprod trowsum trsqrt tscatter tsel tsels tshl tshls tshr tshrs tsort32 tsqrt tstore tstore_fp tsub
    tsubc tsubrelu tsubreluconv tsubs tsubsc tsubview tsync ttest ttrans ttri twait txor txors
"""
"""The instructions that the public headers declare."""

DIALECT = """
    tpush_to_aiv tpush_to_aic tpop_from_aiv tpop_from_aic tfree_from_aiv tfree_from_aic aic_initialize_pipe
    aiv_initialize_pipe initialize_l2l_pipe initialize_l2g2l_pipe reserve_buffer import_reserved_buffer tgetval tsetval
    get_buf rls_buf build_async_session wait_async_event test_async_event tmatmul.mx tmatmul.mx.acc tmatmul.mx.bias
    tgemv.mx tgemv.mx.acc tgemv.mx.bias bitcast print trap
"""
"""Operations of the public dialect that are no C++ instructions, or have another name there."""

ROWS = list(opaque_rows().values())


def test_every_public_instruction_is_known() -> None:
    known = {*INSTRUCTIONS, *opaque_rows()}
    assert not set(HEADERS.split()) - known
    assert not [op for op in DIALECT.split() if row_of_op(op) is None]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_well_formed(row) -> None:
    assert row.pipe in ("", "ALL", *PIPES)
    forms = [form.letters for form in row.forms]
    assert len(set(forms)) == len(forms)
    for form in row.forms:
        assert is_form(form.key) and len(form.names) == len(form.letters) == len(set(form.names))
        assert "tmp" not in form.names  # the name of the workspace
        definition = opaque(row.name, form.key)
        assert [param.access for param in definition.operands] == [ACCESS[letter] for letter in form.letters]
        is_modelled = EXACT.get(row.name) == form.key or (row.name, form.key) in WITH_VALUES
        assert definition.opaque_form == ("" if is_modelled else form.key) and definition.op == row.op


TILE, MEMORY, NUMBER = "tile", "memory", "number"


@pytest.mark.parametrize(
    ("name", "kinds", "form"),
    [
        ("tquant", (TILE, TILE, TILE), "wrr"),
        ("tsort32", (TILE, TILE, TILE, TILE), "wrrs"),
        ("tmrgsort", (TILE, TILE, NUMBER), "wrn"),
        ("tmrgsort", (TILE, TILE, TILE, TILE, TILE), "wwsrr"),
        ("tpartargmax", (TILE,) * 6, "wrrwrr"),
        ("tfusedmuladd", (TILE, TILE, TILE), "urr"),
        ("tfree", (), NONE),
        ("syncall", (MEMORY,), "r"),
        ("an_unknown_call", (NUMBER, MEMORY, TILE, TILE), "nrwr"),
        ("an_unknown_call", (NUMBER, MEMORY), "nw"),
        ("an_unknown_call", (), NONE),
        ("tquant", (TILE, NUMBER), "wn"),  # no form of the table
    ],
)
def test_the_form_of_a_call_in_the_order_of_cpp(name, kinds, form: str) -> None:
    assert form_for(name, kinds) == form
    definition = opaque(name, form_for(name, kinds))
    assert (definition.name, definition.opaque_form) == (name, form)


def test_destinations_and_sources_of_a_text_find_their_places() -> None:
    form = form_in_text(row_of_op("tpartargmax"), (TILE, TILE), (TILE,) * 4)
    assert [form.names[k] for k in form.outs] == ["dst", "dst_idx"]
    assert [form.names[k] for k in form.ins] == ["src0", "src1", "src0_idx", "src1_idx"]
    assert form_in_text(None, (TILE,), (NUMBER, TILE)).key == "wnr"


def tile(place: TileType, valid_rows: int = 16, valid_cols: int = 16) -> TileSpec:
    return TileSpec(dtype("float32"), place, 16, 16, valid_rows, valid_cols)


GM = TensorSpec(dtype("float32"), (1, 1, 1, 16, 16), (256, 256, 256, 16, 1))


@pytest.mark.parametrize(
    ("dst", "src", "pipe"),
    [
        (tile(TileType.Vec), tile(TileType.Vec), "V"),
        (tile(TileType.Vec), GM, "MTE2"),
        (GM, tile(TileType.Vec), "MTE3"),
        (GM, tile(TileType.Acc), "FIX"),
        (tile(TileType.Mat), tile(TileType.Acc), "FIX"),
        (tile(TileType.Scaling), tile(TileType.Mat), "FIX"),
        (tile(TileType.Left), tile(TileType.Mat), "MTE1"),
        (tile(TileType.ScaleLeft), tile(TileType.Mat), "MTE1"),
        (tile(TileType.ScaleRight), tile(TileType.Mat), "MTE1"),
        (tile(TileType.Right), tile(TileType.Mat), "MTE1"),
        (tile(TileType.Bias), tile(TileType.Mat), "MTE1"),
        (tile(TileType.Mat), tile(TileType.Vec), "MTE3"),
        (tile(TileType.Acc), tile(TileType.Left), "M"),
    ],
)
def test_the_pipe_is_between_the_memories(dst: OperandSpec, src: OperandSpec, pipe: str) -> None:
    call = Call(opaque("an_unknown_call", "wr"), {"dst": dst, "src0": src}, (), "a5")
    assert pipe_of(call) == pipe
    assert {(effect.operand, effect.access, effect.pipe) for effect in effects(call)} == {
        ("dst", "write", pipe),
        ("src0", "read", pipe),
    }


@pytest.mark.parametrize(
    ("name", "form", "place", "pipe"),
    [("tload", "w", "Vec", "MTE2"), ("tload", "w", "Mat", "MTE2"), ("tstore", "r", "Vec", "MTE3"),
     ("tstore", "r", "Acc", "FIX"), ("an_unknown_call", "w", "Left", "MTE1"),
     ("an_unknown_call", "w", "Right", "MTE1"), ("an_unknown_call", "w", "Bias", "MTE1"),
     ("an_unknown_call", "w", "ScaleLeft", "MTE1"), ("an_unknown_call", "w", "ScaleRight", "MTE1")],
)  # fmt: skip
def test_a_transfer_whose_memory_is_not_known_is_on_its_pipe(name: str, form: str, place: str, pipe: str) -> None:
    definition = opaque(name, form)
    call = Call(definition, {definition.operands[0].name: tile(TileType[place])}, (), "a5")
    assert pipe_of(call) == pipe and {effect.pipe for effect in effects(call)} == {pipe}


def called(name: str, form: str, **others: TileSpec) -> Call:
    """A call with tiles in UB."""
    definition = opaque(name, form)
    operands = {each.name: others.get(each.name, tile(TileType.Vec)) for each in definition.operands}
    return Call(definition, operands, (), "a2a3")


@pytest.mark.clause("A-73")
def test_a_barrier_inside_comes_before_operands_that_the_form_has() -> None:
    for row in opaque_rows().values():
        for form in (*(form.key for form in row.forms), "wr", "wrs"):
            call = called(row.name, form)
            assert {*(inside(call).first or ())} <= {*call.operands}, (row.name, form)
    assert inside(called("tgather", "wr")).first is None, "by a mask, all is moved at once (TGather.hpp:113)"
    assert inside(called("ttrans", "wrs")).first is None, "stages by shapes (TTrans.hpp:783)"


@pytest.mark.clause("A-73")
@pytest.mark.parametrize(
    ("rows", "cols", "ends"), [((4, 4), (16, 16), True), ((3, 4), (16, 16), False), ((3, 4), (8, 16), True)]
)
@pytest.mark.parametrize("name", ["tpartargmax", "tpartargmin"])
def test_rows_of_one_source_alone_are_copied_behind_the_last_barrier(
    name: str, rows: tuple[int, int], cols: tuple[int, int], ends: bool
) -> None:
    for one, other in ((0, 1), (1, 0)):
        smaller, larger = tile(TileType.Vec, rows[0], cols[0]), tile(TileType.Vec, rows[1], cols[1])
        sources = {f"src{one}": smaller, f"src{one}_idx": smaller, f"src{other}": larger, f"src{other}_idx": larger}
        call = Call(INSTRUCTIONS[name], {"dst": larger, "dst_idx": larger, **sources}, (), "a2a3")
        assert inside(call).ends == ends


@pytest.mark.parametrize("name", ["tcolargmax", "tcolargmin"])
@pytest.mark.parametrize(("cols", "nbytes"), [(64, 512), (200, 512), (9, 128), (8, 64)])
def test_positions_and_elements_of_columns_take_two_rows_of_a_workspace(name: str, cols: int, nbytes: int) -> None:
    """Which may be longer than its tile (TColReduceIdx.hpp:129, 253)."""
    src, work = TileSpec(dtype("float32"), TileType.Vec, 4, 256, 4, cols), tile(TileType.Vec, 1, 16)
    call = called(name, "wwrs", src=src, work=work)
    reached = {each.extent(call).length for each in effects(call) if each.operand == "work" and each.extent is not None}
    assert reached == {nbytes}


def test_a_recorded_call_accesses_the_bytes_that_were_recorded() -> None:
    """Elements of 4 bytes: two rows of 32 columns, 64 apart, and behind the tile nothing."""
    definition = opaque("an_unknown_call", "w@V[2x128/256],r@MTE2[3x64/96],r;S,S-V,V")
    names = [param.name for param in definition.operands]
    large = TileSpec(dtype("float32"), TileType.Vec, 16, 64, 16, 64)
    call = Call(definition, dict.fromkeys(names, large), (), "a5")
    kernel = call.route_kernel
    found = {(each.operand, each.access, each.pipe): each.extent(call) for each in kernel.effects if each.extent}
    assert found == {(names[0], "write", "V"): (2, 128, 256), (names[1], "read", "MTE2"): (3, 64, 96)}
    assert kernel.handshake.between == (("S", "V"),) and set(kernel.handshake.body) == {"S", "V", "MTE2"}
    (step,) = definition.lower(call)
    assert step.shape == (2, 32)
    assert [step.dst.layout.offset(i, j) for i in range(2) for j in (0, 31)] == [0, 31, 64, 95]


@pytest.mark.parametrize(
    ("recorded", "rows", "cols", "pitch"),
    [
        ("2x128/256", 2, 32, 64),
        ("100x128/256", 8, 32, 64),  # as far as the tile reaches
        ("7x256/256", 7, 64, 64),
        ("1x2048/2048", 1, 512, 512),
        ("3x4/8", 3, 1, 2),
        ("2x130/256", 8, 64, 64),  # no whole elements
        ("2x128/130", 8, 64, 64),
        ("1x2052/2052", 8, 64, 64),  # more than the tile
        ("0x0/0", 8, 64, 64),
    ],
)
def test_a_recorded_call_writes_the_elements_that_were_recorded(
    recorded: str, rows: int, cols: int, pitch: int
) -> None:
    """Of a tile of 2048 bytes, or all of it."""
    definition = opaque("an_unknown_call", f"w@V[{recorded}]")
    small = TileSpec(dtype("float32"), TileType.Vec, 8, 64, 8, 64)
    (step,) = definition.lower(Call(definition, {definition.operands[0].name: small}, (), "a5"))
    assert step.shape == (rows, cols)
    assert [step.dst.layout.offset(i, 0) for i in range(rows)] == list(range(0, rows * pitch, pitch))


def test_flags_of_a_recorded_call_stand_around_its_work() -> None:
    definition = opaque("an_unknown_call", "w@S[1x4/4];V-S,MTE2-S,S,S-V,V,V-MTE3")
    call = Call(definition, {definition.operands[0].name: tile(TileType.Vec)}, (), "a5")
    handshake = call.route_kernel.handshake
    assert handshake.before == (("V", "S"), ("MTE2", "S"))
    assert handshake.between == (("S", "V"),) and handshake.after == (("V", "MTE3"),)
    assert handshake.body == ("S", "V")


@pytest.mark.parametrize(
    ("extent", "shape"), [("valid", (5, 9)), ("pairs", (5, 5)), ("tile", (8, 64)), ("none", (8, 64))]
)
def test_a_call_of_the_table_writes_what_the_witness_saw(
    extent: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column for each pair that is begun."""
    monkeypatch.setattr(
        module, "recorded_effects", lambda: {"a5": {"effects": {"an_unknown_call wr": f"{extent} none"}}}
    )
    definition = opaque("an_unknown_call", "wr")
    part = TileSpec(dtype("float32"), TileType.Vec, 8, 64, 5, 9)
    names = [param.name for param in definition.operands]
    (step,) = definition.lower(Call(definition, dict.fromkeys(names, part), (), "a5"))
    assert step.shape == shape


PAGE = Path(__file__).parents[2] / "docs/instructions.md"
LISTS = {
    "modelled": INSTRUCTIONS.keys(),
    "opaque": opaque_rows().keys() - INSTRUCTIONS.keys(),
    "forms": opaque_rows().keys() & INSTRUCTIONS.keys(),
}
"""The lists of the page, each between two marks."""


def written(page: str) -> str:
    """The page with its lists."""
    for mark, names in LISTS.items():
        listed = textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)), 118, break_on_hyphens=False)
        around = page.split(f"<!-- {mark} -->")
        assert len(around) == 3
        page = f"<!-- {mark} -->".join((around[0], f"\n{listed}\n", around[2]))
    return page


# --- The table


@pytest.mark.parametrize(
    "row",
    [
        lambda: OpaqueRow("|", "V", ()),
        lambda: OpaqueRow("tsome", "VECTOR", ()),
        lambda: OpaqueForm(("dst", "src="), "wr"),
        lambda: OpaqueForm(("dst", "dst"), "wr"),
        lambda: OpaqueForm(("dst",), "wr"),
        lambda: OpaqueForm(("dst",), "x"),
    ],
)
def test_rows_that_are_none_are_refused(row: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"no (instruction|operands)"):
        row()


def test_forms_of_modelled_instructions_follow_from_them() -> None:
    rows = opaque_rows()
    assert [form.names for form in rows["tpow"].forms] == [("dst", "src0", "src1"), ("dst", "src0", "src1", "work")]
    assert [form.letters for form in rows["tpows"].forms] == ["wrn", "wrns"]
    assert [form.letters for form in rows["tquant"].forms[:4]] == ["wrr", "wrrr", "wrrs", "wrrsr"]
    assert (rows["tmatmul_mx_bias"].pipe, rows["tfillpad"].pipe) == ("M", "")


def test_pipes_of_a_grid_move_through_memory() -> None:
    """GridTPush.hpp:23 stores a tile into the window of a neighbour, GridTPop.hpp loads it."""
    for name, form, pipe in (
        ("grid_tpush", "rnnn", "MTE3"),
        ("grid_tpush_span", "rnn", "MTE3"),
        ("grid_tpop", "wnnn", "MTE2"),
    ):
        assert [*opaque(name, form).kernels["a2a3"]] == [f"{name}.{pipe}"]
