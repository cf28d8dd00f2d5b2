"""Numbers known at run time: what is decided without them, and what is deferred."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product, zip_longest
from random import Random

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Call, Rule
from ptokit.isa.operand import OperandSpec, ScalarSpec, TensorSpec, TileSpec
from ptokit.isa.policy import BLayout, Coalesce, GlobalLayout, SLayout, TileType
from ptokit.isa.unknown import Undecided, Unknown, certain, is_unknown, unknown

F32, I32 = pto.dtype("float32"), pto.dtype("int32")


def tile(rows: int, cols: int, valid: tuple[object, object], **options: object) -> TileSpec:
    return TileSpec(F32, TileType.Vec, rows, cols, *valid, dynamic=tuple(map(is_unknown, valid)), **options)  # type: ignore[arg-type]


def test_arithmetic_stays_unknown_and_comparisons_are_deferred() -> None:
    n = Unknown()
    for made in (n + 1, 1 - n, n * n, -n, 7 // n, n % 4):
        assert is_unknown(made) and made is not n
    for ask in (
        lambda: n < 1, lambda: n == 1, lambda: 2 - n == 1, lambda: n != Unknown(), lambda: max(n, 1), lambda: not n,
        lambda: range(n), lambda: 1 in (2, n), lambda: (n, 1) == (Unknown(), 1),
    ):  # fmt: skip
        with pytest.raises(Undecided):
            ask()
    assert n == n and str(n) == "?"
    assert n != "n"


def test_a_test_is_certain_if_every_answer_leads_to_it() -> None:
    n, m = Unknown(), Unknown()
    assert certain(lambda: (n, 5) != (4, 7))
    assert certain(lambda: m > 2 or 1 < 2)
    assert certain(lambda: min(n, m) in (n, m))
    assert not certain(lambda: (n, 5) == (4, 5)) and not certain(lambda: (n, 5) != (4, 5))
    assert not certain(lambda: max(n, 1) == 1) and not certain(lambda: max(n, 1) != 1)
    assert not certain(lambda: len(range(n)) == 0)
    with pytest.raises(Undecided):
        bool(n)


def test_descriptions_compare_by_content() -> None:
    one, other, known = (tile(8, 8, (8, extent)) for extent in (Unknown(), Unknown(), 8))
    assert one == other and hash(one) == hash(other) and {one: 1}[other] == 1
    assert one != known and known == tile(8, 8, (8, 8))
    table, same = (TensorSpec(F32, (1, 1, 1, Unknown(), 8), (8, 8, 8, 8, 1)) for _ in range(2))  # type: ignore[arg-type]
    assert table == same and table != replace(same, stride=(8, 8, 8, 9, 1))
    assert str(one) == "vec float32 8x8 valid [8, ?]" and str(table) == "gm float32 Shape<1, 1, 1, ?, 8> ND"


# --- Rules -----------------------------------------------------------------------------------------------------


@pto.kernel
def column(table, tokens, out, n):
    """One index a row, in a column of a wide row-major tile."""
    ids = pto.Tile("vec", "int32", 8, 8, valid=(n, 1))
    got = pto.Tile("vec", "float32", 8, 16, valid=(n, 16))
    pto.tload(ids, tokens[0:n, 0:1])
    pto.mgather(got, table, ids)
    pto.tstore(out[0:n], got)


ARRAYS = (np.zeros((8, 16), "float32"), np.zeros((8, 8), "int32"), np.zeros((8, 16), "float32"))


@pytest.mark.clause("MG-HAZ-11")
def test_a_column_of_indices_is_judged_when_its_length_is_known() -> None:
    """One index is contiguous; several are not. The check and the launch agree."""
    assert "MG-HAZ-11" not in {finding.rule for finding in pto.check(column, *ARRAYS, 1, target="a5").findings}
    column[1](*ARRAYS, 1, target="a5")
    for n in (2, 8):
        assert "MG-HAZ-11" in {finding.rule for finding in pto.check(column, *ARRAYS, n, target="a5").findings}
        with pytest.raises(pto.VerifyError) as refused:
            column[1](*ARRAYS, n, target="a5")
        assert "MG-HAZ-11" in {finding.rule for finding in refused.value.findings}


@pto.kernel
def crooked(table, tokens, out, n):
    """Two rows of indices, for every n: neither one row nor one column."""
    ids = pto.Tile("vec", "int32", 8, 8, valid=(2, 3))
    got = pto.Tile("vec", "float32", 8, 16, valid=(n, 16))
    pto.tload(ids, tokens[0:2, 0:3])
    pto.mgather(got, table, ids)
    pto.tstore(out[0:n], got)


@pytest.mark.parametrize(("target", "rule"), [("a2a3", "MG-MODE-03"), ("a5", "MG-MODE-05"), ("cpu", "MG-MODE-06")])
def test_what_every_number_breaks_is_reported_before_it_is_known(target: str, rule: str) -> None:
    report = pto.check(crooked, *ARRAYS, 3, target=target)[target]
    assert [finding.rule for finding in report.findings if finding.operand == "idx"] == [rule]
    for n in (1, 2, 3, 8):
        with pytest.raises(pto.VerifyError) as refused:
            crooked[1](*ARRAYS, n, target=target)
        assert rule in {finding.rule for finding in refused.value.findings}


EXTENTS = (1, 2, 8, 16)
LAYOUTS = (
    (BLayout.RowMajor, SLayout.NoneBox),
    (BLayout.ColMajor, SLayout.NoneBox),
    (BLayout.ColMajor, SLayout.RowMajor),
)
OPERANDS = {
    "mgather": ("tile", "tensor", "index", ""), "mscatter": ("tensor", "tile", "index"), "tload": ("tile", "tensor"),
    "tstore": ("tensor", "tile"), "tscatter": ("tile", "tile", "index"), "tadd": ("tile",) * 3, "tmov": ("tile",) * 2,
    "trowsum": ("tile",) * 2, "trowexpandmul": ("tile",) * 3, "tcolsum": ("tile",) * 2, "ttrans": ("tile",) * 2,
    "tcolexpand": ("tile",) * 2, "tgather": ("tile", "tile", "index"), "textract": ("tile", "tile", "corner", "corner"),
}  # fmt: skip
"""What random calls of an instruction are given."""


def random_spec(random: Random, what: str) -> OperandSpec | None:
    if what == "corner":
        return ScalarSpec(I32, random.choice((0, 8)))
    if what == "tensor":
        shape = (*(random.choice((1, 1, 2)) for _ in range(3)), random.choice(EXTENTS), random.choice(EXTENTS))
        stride = tuple(int(np.prod(shape[k + 1 :])) for k in range(5))
        return TensorSpec(F32, shape, stride, random.choice((GlobalLayout.ND, GlobalLayout.ND, GlobalLayout.NZ)))
    rows, cols = random.choice(EXTENTS), random.choice(EXTENTS)
    blayout, slayout = random.choice(LAYOUTS)
    kind = I32 if what == "index" else F32
    valid = random.randint(1, rows), random.randint(1, cols)
    return TileSpec(kind, TileType.Vec, rows, cols, *valid, blayout, slayout) if what else None


def random_call(random: Random) -> Call:
    name = random.choice(list(OPERANDS))
    instruction = INSTRUCTIONS[name]
    specs = {
        param.name: random_spec(random, what)
        for param, what in zip_longest(instruction.operands, OPERANDS[name], fillvalue="")
    }
    modifiers: dict[str, object] = {modifier.name: None for modifier in instruction.modifiers}
    if name == "mgather":
        modifiers["coalesce"] = random.choice(tuple(Coalesce))
    return Call(instruction, specs, tuple(modifiers.values()), random.choice(("cpu", "a2a3", "a5", "host")))


def marked(spec: OperandSpec | None, random: Random) -> OperandSpec | None:
    """The operand with some extents that are -1 in its type."""
    if isinstance(spec, TileSpec):
        return replace(spec, dynamic=(random.random() < 0.5, random.random() < 0.5))
    if isinstance(spec, TensorSpec):
        return replace(spec, dynamic=tuple(random.random() < 0.3 for _ in range(10)))
    return spec


def variants(call: Call) -> Iterator[Call]:
    """The call with other values of its dynamic extents."""
    for more in product((0, 1, 3), repeat=2):
        made = call.copy()
        for name, spec in call.operands.items():
            if isinstance(spec, TileSpec):
                rows, cols = (n + k if d else n for n, d, k in zip(spec.valid, spec.dynamic, more, strict=True))
                made.values[name] = replace(spec, valid_rows=rows, valid_cols=cols)
            elif isinstance(spec, TensorSpec):
                numbers = [
                    n + more[k % 2] if d else n
                    for k, (n, d) in enumerate(zip((*spec.shape, *spec.stride), spec.dynamic, strict=True))
                ]
                made.values[name] = replace(spec, shape=tuple(numbers[:5]), stride=tuple(numbers[5:]))
        yield made


def needs_numbers(rule: Rule, call: Call) -> bool:
    """Whether a rule compares an unknown number."""
    try:
        rule.when(call) and rule.holds(call)
    except Undecided:
        return True
    return False


@pytest.mark.clause("CO-DYN-03")
@pytest.mark.parametrize("seed", range(4))
def test_rules_report_only_what_every_number_breaks(seed: int) -> None:
    random, reported, deferred = Random(seed), 0, 0
    for _ in range(120):
        call = random_call(random)
        call = Call(call.instruction, {n: marked(s, random) for n, s in call.operands.items()},
                    tuple(call.values[m.name] for m in call.instruction.modifiers), call.target)  # fmt: skip
        static, concrete = call.copy(static=True), list(variants(call))
        for rule in call.instruction.rules:
            if not call.lookup(rule.on):
                continue
            results = {rule.is_broken(each) for each in concrete}
            if rule.is_broken(static):
                reported += 1
                assert results == {True}, (call.instruction.name, rule.id, call.operands)
            elif needs_numbers(rule, static):
                deferred += 1
            else:
                assert results == {False}, (call.instruction.name, rule.id, call.operands)
    assert reported > 20 and deferred > 100


def test_every_operation_on_an_unknown_number_is_unknown_or_undecided() -> None:
    n = unknown()
    computed = (n / 2, 2 / n, n & 1, 1 | n, n ^ 1, n << 1, 8 >> n, abs(n), -n, +n, ~n, n**2, 2**n, round(n))
    results = (*computed, *divmod(n, 3))
    assert all(is_unknown(result) for result in results)
    assert f"{n:d} {n:#x}" == "? ?"
    for test in (lambda: n == 4.0, lambda: n < 0.5, lambda: bool(n), lambda: int(n), lambda: float(n)):
        with pytest.raises(Undecided):
            test()


@pto.kernel
def narrow(x, out):
    tile = pto.Tile("vec", "float32", 8, 5)
    pto.tload(tile, x)
    pto.tstore(out, tile)


def test_the_machine_executes_and_reports_a_misaligned_tile() -> None:
    x, out = np.arange(40, dtype="float32").reshape(8, 5), np.zeros((8, 5), "float32")
    report = narrow[1](x, out, target="a5", engine="machine")
    assert {finding.rule for finding in report.findings if finding.level == "error"} == {"CO-ALIGN-01"}
    assert np.array_equal(out, x)
    assert report.timeline.cycles > 0 and len(report.traffic) == 2
