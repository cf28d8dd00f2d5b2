"""The examples of clauses about values assert the right ones: each fails on an engine that is wrong about its clause.

The wrong engines are in `engine_mutants.py`. An example must fail by one of its assertions, on every target of the
clause. Other exceptions do not count.
"""

from __future__ import annotations

from itertools import product

import pytest

from ptokit import spec
from tests.conformance.engine_mutants import MUTANTS
from tests.conformance.harness import run, targets_of

BROKEN_BY: dict[str, tuple[str, ...]] = {
    "CO-LAY-04": ("tile rows closer",),
    "CO-LAY-05": ("tiles by columns",),
    "CO-LAY-06": ("tiles by columns", "index by columns"),
    "CO-LAY-02": ("tile rows closer",),
    "CO-ALIGN-04": ("one column less", "tile rows closer"),
    "CO-ALIGN-05": ("one column less",),
    "MG-BUDG-07": ("one kilobyte more",),
    "CP-BIN-03": ("sum is difference", "max takes NaN"),
    "CP-SCA-03": ("operands swapped",),
    "CP-UNA-03": ("root is reciprocal",),
    "CP-EXP-03": ("copy of zeroes", "one computed column less"),
    "CP-CI-03": ("counts one up",),
    "CP-CVT-03": ("conversion one off",),
    "CP-CMP-03": ("mask bits reversed",),
    "CP-SEL-03": ("selection of zeroes",),
    "CP-RED-03": ("row sum one off",),
    "CP-RXP-03": ("operands swapped", "first element is spread"),
    "CP-COL-03": ("column sum one off",),
    "CP-PRT-03": ("inputs by columns", "copy of zeroes"),
    "CP-SRT-03": ("pairs of zeroes",),
    "CP-MRG-03": ("merge of zeroes",),
    "CP-GTM-03": ("source rows closer", "one column less"),
    "CP-QNT-03": ("quantised one off",),
    "CP-FIX-03": ("factors one off",),
    "CP-FIX-04": ("factors one off",),
    "CP-DEQ-03": ("operands swapped", "conversion one off"),
    "CP-AXP-03": ("multiples of zeroes",),
    "CP-FUS-03": ("multiples of zeroes",),
    "CP-ADC-03": ("operands swapped", "sums of three of zeroes"),
    "CP-ILV-03": ("copy of zeroes",),
    "CP-CNV-03": ("rectified sums of zeroes",),
    "CP-PRS-03": ("sum is difference",),
    "CP-PAI-03": ("copy of zeroes",),
    "CP-HIS-03": ("histogram of zeroes",),
    "CP-INS-03": ("destination rows closer", "source by columns"),
    "CP-CAT-03": ("destination rows closer", "one column less"),
    "CP-PAD-03": ("nothing is zeroed", "one column less"),
    "CP-TRI-03": ("triangle turned",),
    "CP-ARG-03": ("position one off",),
    "CP-BRD-03": ("first element is spread", "copy of zeroes"),
    "CP-CXP-03": ("operands swapped", "first element is spread"),
    "CP-TRN-03": ("inputs by columns",),
    "CP-MM-04": ("product one off",),
    "CP-MX-04": ("scaled product one off",),
    "CP-EXT-03": ("window of zeroes",),
    "MG-L1-02": ("source rows closer", "destination rows closer"),
    "MG-L1-09": ("source rows closer", "one index for all"),
    "MG-L1-11": ("nothing is zeroed",),
    "MG-L1-12": ("destination rows closer", "destination by columns"),
    "MG-L1-13": ("nothing is zeroed",),
    "MG-L1-24": ("source rows closer", "clamp one short"),
    "MG-L1-25": ("wrap one short",),
    "MG-SIMT-01": ("one warp more",),
    "MG-SIMT-03": ("one warp more",),
    "MG-SIMT-04": ("one warp more",),
    "MG-SIMT-05": ("one warp more",),
    "MG-SIMT-06": ("one warp more",),
    "MG-SIMT-08": ("one warp more",),
    "MG-SIMT-18": ("one warp more",),
    "MG-SIMT-19": ("destination rows closer",),
    "MG-SIMT-20": ("nothing is zeroed", "zero is clamp"),
    "MG-SIMT-21": ("destination rows closer", "destination by columns"),
    "MG-SIMT-22": ("one warp more",),
    "MG-SYNC-04": ("handshakes reversed",),
    "MG-SYNC-05": ("handshakes reversed",),
    "MG-SYNC-10": ("handshakes reversed",),
    "MG-SYNC-11": ("handshakes reversed",),
    "MG-SYNC-13": ("handshakes reversed",),
    "MG-SYNC-14": ("handshakes reversed",),
    "MG-SYNC-07": ("one operation more",),
    "MG-SYNC-08": ("one operation more",),
    "MG-SYNC-09": ("one operation more",),
    "MG-BUDG-06": ("one kilobyte more",),
    "MG-BUDG-12": ("one kilobyte more",),
    "MG-COST-03": ("one operation more",),
    "MG-COST-04": ("one operation more",),
    "MG-COST-09": ("one warp more",),
    "MG-SEM-01": ("one index for all",),
    "MG-SEM-02": ("one index for all", "source rows closer"),
    "MG-SEM-03": ("rows for elements", "one index for all"),
    "MG-SEM-05": ("destination is cleared",),
    "MG-SEM-07": ("source rows closer", "clamp one short"),
    "MG-SEM-08": ("source rows closer", "clamp one short"),
    "MG-SEM-09": ("source rows closer", "clamp one short"),
    "MG-SEM-11": ("rows for elements",),
    "MG-SEM-12": ("one column less",),
    "MG-SEM-13": ("destination rows closer",),
    "MG-SEM-14": ("index rows closer",),
    "MG-MODE-02": ("rows for elements",),
    "MG-OOB-05": ("clamp is wrap", "clamp one short"),
    "MG-OOB-06": ("wrap is clamp", "wrap one short"),
    "MG-OOB-07": ("zero is clamp", "zero one early"),
    "MG-OOB-08": ("indices keep their sign",),
    "MG-OOB-09": ("clamp is wrap", "wrap is clamp", "zero is clamp"),
    "MG-OOB-12": ("nothing is zeroed",),
    "MG-OOB-13": ("zero is skip",),
    "MG-OOB-16": ("clamp one short", "wrap one short"),
    "MG-NZ-01": ("destination rows closer",),
    "MG-NZ-05": ("one operation more",),
    "MG-NZ-06": ("source rows closer", "destination rows closer"),
    "MG-NZ-07": ("table one column narrower",),
    "MG-NZ-08": ("source rows closer",),
    "MG-NZ-09": ("destination rows closer",),
    "MG-NZ-12": ("zero is skip",),
    "MG-NZ-15": ("destination rows closer", "tile rows closer"),
    "TL-03": ("one column less",),
    "MS-SEM-01": ("one index for all",),
    "MS-SEM-02": ("rows for elements",),
    "MS-SEM-03": ("source rows closer", "one column less"),
    "MS-SEM-04": ("destination is cleared",),
    "MS-SEM-05": ("rows for elements", "destination rows closer"),
    "MS-SEM-07": ("skip one early",),
    "MS-SEM-08": ("wrap one short",),
    "MS-MODE-01": ("rows for elements",),
    "MS-MODE-02": ("rows for elements",),
    "MS-MODE-03": ("rows for elements",),
    "MS-OOB-03": ("skip is clamp",),
    "MS-OOB-04": ("clamp one short", "clamp is wrap"),
    "MS-OOB-05": ("wrap one short", "wrap is clamp"),
    "MS-OOB-07": ("wrap one short",),
    "MS-ATOM-02": ("add is store",),
    "MS-ATOM-03": ("max is min", "min is max"),
    "MS-CONF-01": ("store is add",),
    "MS-SIMT-01": ("one warp more",),
    "MS-EX-02": ("add is store",),
    "MS-EX-03": ("wrap is clamp",),
    "MS-EX-04": ("clamp is wrap",),
    "MS-HAZ-05": ("rows for elements",),
    "SL-06": ("slices are copies",),
    "TS-SEM-01": ("one index for all",),
    "TS-SEM-02": ("one index for all",),
    "TS-SEM-03": ("destination is cleared",),
    "MG-SIMT-12": ("threads by default",),
}
"""By clause: the engines that are wrong about it."""


@pytest.mark.parametrize(("name", "mutant"), [(name, mutant) for name, row in BROKEN_BY.items() for mutant in row])
def test_an_example_fails_on_an_engine_that_is_wrong(name: str, mutant: str) -> None:
    example = spec.examples()[name]
    for target, op in product(targets_of(name), example.each or ("",)):
        with MUTANTS[mutant](), pytest.raises(AssertionError):
            run(example.meets, target, op)


def test_every_clause_about_values_is_refused_somewhere_or_has_a_wrong_engine() -> None:
    values = [name for name, clause in spec.clauses().items() if clause.kind == "value" and name in spec.examples()]
    assert [name for name in values if name not in BROKEN_BY and not spec.examples()[name].breaks] == []


def test_every_wrong_engine_is_used_and_known() -> None:
    assert {mutant for row in BROKEN_BY.values() for mutant in row} <= set(MUTANTS)


def test_no_example_breaks_a_clause_by_a_false_assertion() -> None:
    """Code that breaks a clause is refused; what it asserts beside that holds."""
    shown = {outcome for rows in spec.outcomes().values() for row in rows for outcome in row.values()}
    assert not [outcome for outcome in shown if "assertion" in outcome]
