"""Every rule is needed on every target that it names: without it there, an example no longer has its finding.

`make test` removes each rule on one of its targets, `make fuzz` on all.

A finding is identified by its clause, its operand, its instruction and what it expects, so that no other refusal and
no other exception passes for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from ptokit import spec
from ptokit.finding import Finding
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction, Rule
from ptokit.target import profile
from tests.conformance.harness import findings_on, identities, rules_of, without_rule
from tests.conformance.test_coverage import examples_about
from tests.loops import FULL

LONG_PRODUCT = """
m, n = {}
product, kind = ("acc", "float32", m, n), "float32"
a, b, bias = ("left", kind, m, 16), ("right", kind, 16, n), ("bias", kind, 1, n)
tiles = {{"dst": product, "acc": product, "a": a, "b": b, "bias": bias}}
order = {{"tmatmul": "dst a b", "tmatmul_acc": "dst acc a b", "tmatmul_bias": "dst a b bias"}}[op.__name__]
op(*(pto.Tile(*tiles[name]).write(1) for name in order.split()))
"""
LARGE_TILES = """
product, kind = ("acc", "float32", {dst}, 16), "float32"
tiles = {{"dst": product, "acc": product, "a": ("left", kind, 32, 48), "b": ("right", kind, {b}, 16),
         "bias": ("bias", kind, 1, 16)}}
valid = {{"dst": (32, 16), "acc": (32, 16), "b": (48, 16)}}
order = {{"tmatmul": "dst a b", "tmatmul_acc": "dst acc a b", "tmatmul_bias": "dst a b bias"}}[op.__name__]
op(*(pto.Tile(*tiles[name], valid=valid.get(name)).write(1) for name in order.split()))
"""
LESS_THAN_VALID = """
tile = pto.Tile("mat", "float32", 16, 16, blayout="col_major", slayout="row_major")
pto.tload(tile, pto.GlobalTensor(np.ones((15, 16), "float32")))
"""
NOTHING_TO_LOAD = """
pto.tload(pto.Tile("vec", "float32", 1, 8, valid=(0, 8)), pto.GlobalTensor(np.zeros((1, 8), "float32")))
"""
NOTHING_TO_STORE = """
pto.tstore(pto.GlobalTensor(np.zeros((1, 8), "float32")), pto.Tile("vec", "float32", 1, 8, valid=(1, 0)))
"""
LONG_ROW = """
k, n = {}
product, kind = ("acc", "float32", 1, n), "float32"
a, b, bias = ("left", kind, 1, k), ("right", kind, k, n), ("bias", kind, 1, n)
tiles = {{"dst": product, "acc": product, "a": a, "b": b, "bias": bias}}
order = {{"tgemv": "dst a b", "tgemv_acc": "dst acc a b", "tgemv_bias": "dst a b bias"}}[op.__name__]
op(*(pto.Tile(*tiles[name]).write(1) for name in order.split()))
"""
LONG_SCALED = """
k, n = {}
product = ("acc", "float32", 16, n, (1, n))
a, b = ("left", "float8_e4m3", 16, k, (1, k)), ("right", "float8_e4m3", k, n)
tiles = {{"dst": product, "acc": product, "a": a, "b": b,
         "a_scale": ("scale_left", "float8_e8m0", 16, k // 32), "b_scale": ("scale_right", "float8_e8m0", k // 32, n),
         "bias": ("bias", "float32", 1, n)}}
form = op.__name__.partition("_mx")[2]
names = ["dst", *["acc"] * (form == "_acc"), "a", "a_scale", "b", "b_scale", *["bias"] * (form == "_bias")]
op(*(pto.Tile(*tiles[name][:4], valid=(*tiles[name], None)[4]).write(1) for name in names))
"""
UNEVEN_ROWS = """
table = pto.GlobalTensor(np.zeros(200, "float32"), shape=(2, 1, 1, 4, 8), stride=(100, 1, 1, 8, 1))
pto.mgather(pto.Tile("vec", "float32", 8, 8), table, pto.Tile("vec", "int32", 1, 8).write(0))
"""
ADDED_BITS = """
table = pto.GlobalTensor(np.zeros((4, 32), "uint8"), dtype="hifloat8")
src = pto.Tile("vec", "hifloat8", 1, 32)
src.buffer[:] = 0
pto.mscatter(table, src, pto.Tile("vec", "int32", 1, 1).write(0), atomic="add")
"""
LAST_WRITER = """
src, idx = pto.Tile("vec", "int32", 2, 8).write(1), pto.Tile("vec", "int32", 2, 1).write([[0], [1]])
pto.mscatter(pto.GlobalTensor(np.zeros((4, 8), "int32")), src, idx, conflict="last")
"""
BY_COLUMNS = """
table, idx = pto.GlobalTensor(np.zeros((4, 8), "float32")), pto.Tile("vec", "int32", 1, 8).write(0)
pto.mgather(pto.Tile("vec", "float32", 8, 8, blayout="col_major"), table, idx)
"""
MASKED_BYTES = 'pto.tgather_mask(pto.Tile("vec", "{}", 1, 32).write(1), pto.Tile("vec", "{}", 1, 32).write(1))'
BY_COLUMN = """
src, idx = pto.Tile("vec", "float32", 8, 8).write(1), pto.Tile("vec", "int32", 8, 8, valid=(1, 8), blayout="col_major")
pto.mscatter(pto.GlobalTensor(np.zeros((8, 8), "float32")), src, idx.write([[*range(8)]]))
"""
NZ_SCATTER = """
table = pto.GlobalTensor(np.zeros(256, "float32"), shape=(1, {}, 8), layout="nz")
src = pto.Tile("vec", "float32", {}).write(1)
pto.mscatter(table, src, pto.Tile("vec", "int32", 1, 32, valid=(1, src.shape[0])).write(0))
"""
NZ = 'blayout="col_major", slayout="row_major"'
NARROW_WORDS = """
src, idx = pto.Tile("vec", "int64", 1, 8).write(1), pto.Tile("vec", "int16", 1, 16, valid=(1, 8)).write(0)
pto.tscatter(pto.Tile("vec", "int64", 1, 8).write(0), src, idx)
"""
SCATTERED_ROWS = """
table = pto.GlobalTensor(np.zeros(200, "float32"), shape=(2, 1, 1, 4, 8), stride=(100, 1, 1, 8, 1))
pto.mscatter(table, pto.Tile("vec", "float32", 8, {}).write(1), pto.Tile("vec", "int32", 1, 8).write(0))
"""
MORE = {
    "A-72": [
        BY_COLUMN,
        NARROW_WORDS,
        NZ_SCATTER.format("1, 2, 16", "16, 8"),
        NZ_SCATTER.format("1, 2, 16", f"24, 8, {NZ}"),
        NZ_SCATTER.format("1, 4, 8", f"16, 8, {NZ}"),
        NZ_SCATTER.format("2, 1, 16", f"16, 8, {NZ}"),
    ],
    "A-03": [BY_COLUMNS],
    "MS-CONF-02": [LAST_WRITER],
    "CP-MM-02": [
        LONG_PRODUCT.format("4096, 16"),
        LONG_PRODUCT.format("16, 4096"),
        LARGE_TILES.format(b=64, dst=32),
        LARGE_TILES.format(b=48, dst=48),
    ],
    "TL-02": [LESS_THAN_VALID],
    "A-55": [NOTHING_TO_LOAD, NOTHING_TO_STORE],
    "CP-MM-05": [LONG_ROW.format("4096, 16"), LONG_ROW.format("16, 4096")],
    "CP-MX-02": [LONG_SCALED.format("4096, 32"), LONG_SCALED.format("64, 4096")],
    "CP-GTM-02": [MASKED_BYTES.format("float8_e4m3", "uint8"), MASKED_BYTES.format("uint8", "float8_e4m3")],
    "A-57": [UNEVEN_ROWS, SCATTERED_ROWS.format(8), SCATTERED_ROWS.format(16)],
    "A-16": [ADDED_BITS],
}
"""Code beside the examples, for cases that no page shows: the host profile, and headers alone."""


REVISIONS = {profile(name).family: (name,) for name in ("a2a3@2026.08", "a5@2026.08")}
"""By family: targets where rules are needed that the family has only by a row of theirs."""


def samples(rule: str, instruction: str) -> Iterator[tuple[str, str]]:
    """Code about a rule, with the instruction to run it with where it is for several."""
    yield from ((code, instruction) for code in MORE.get(rule, ()))
    for name in examples_about(rule):
        example = spec.examples()[name]
        if example.each and instruction not in example.each:
            continue
        for code in (*example.breaks, *filter(None, [example.meets])):
            yield code, instruction if example.each else ""


@cache
def found(code: str, target: str, op: str, header: bool) -> list[Finding]:
    """What some code has with all rules."""
    return findings_on(code, target, op, header=header)


def is_proved(instruction: Instruction, k: int, target: str) -> bool:
    """Whether an example has a finding of the rule, and without the rule has it no longer."""
    rule = rules_of(instruction)[k]

    def own(findings: list[Finding]) -> set[tuple[str, str, str]]:
        return identities(findings, instruction.name, rule, target)

    for header in (False, True):  # nearly all are proved without headers
        for code, op in samples(rule.id, instruction.name):
            if before := own(found(code, target, op, header)):
                with without_rule(instruction, k, target):
                    if before - own(findings_on(code, target, op, header=header)):
                        return True
    return False


def tried(name: str, k: int, rule: Rule) -> list[str]:
    """The targets on which a rule of an instruction is removed: another one for the next rule."""
    targets = [*rule.on]
    return targets if FULL else targets[(sum(name.encode()) + k) % len(targets) :][:1]


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_every_rule_is_needed_on_every_target(name: str) -> None:
    instruction = INSTRUCTIONS[name]
    unproved = [
        (name, rule.id, rule.operand, target)
        for k, rule in enumerate(rules_of(instruction))
        for target in tried(name, k, rule)
        if not any(is_proved(instruction, k, each) for each in (target, *REVISIONS.get(target, ())))
    ]
    assert unproved == []
