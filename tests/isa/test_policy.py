"""Enums: the documents' numbers and names, and no conversion between them."""

from __future__ import annotations

import pytest

import ptokit as pto

NUMBERS = {
    pto.Coalesce: {"Row": 0, "Elem": 1},
    pto.GatherOOB: {"Undefined": 0, "Clamp": 1, "Wrap": 2, "Zero": 3},
    pto.GatherExec: {"Scalar": 0, "Simt": 1},
    pto.ScatterOOB: {"Undefined": 0, "Skip": 1, "Clamp": 2, "Wrap": 3},
    pto.ScatterAtomicOp: {"NONE": 0, "Add": 1, "Max": 2, "Min": 3},
}
NAMES = {
    pto.TileType: {"Vec", "Mat", "Left", "Right", "Acc", "Bias", "Scaling", "ScaleLeft", "ScaleRight"},
    pto.BLayout: {"RowMajor", "ColMajor"},
    pto.SLayout: {"NoneBox", "RowMajor", "ColMajor"},
    pto.Layout: {"ND", "DN", "NZ", *(f"MX_{of}" for of in ("A_ZZ", "A_ND", "A_DN", "B_NN", "B_ND", "B_DN"))},
    pto.ScatterConflict: {"Default", "Last"},
}


@pytest.mark.clause("MG-OOB-01", "MG-API-04", "MG-SIMT-11", "MS-OOB-01", "MS-ATOM-01")
@pytest.mark.parametrize("enum", NUMBERS)
def test_numbers_are_the_documents_own(enum: type) -> None:
    assert {member.name: member.value for member in enum} == NUMBERS[enum]


@pytest.mark.clause("CO-LOC-01", "CO-LAY-01", "CO-LAY-03")
@pytest.mark.parametrize("enum", NAMES)
def test_enums_without_numbers_have_names_only(enum: type) -> None:
    assert {member.name for member in enum} == NAMES[enum]
    assert all(isinstance(member.value, str) for member in enum)


@pytest.mark.parametrize("enum", [*NUMBERS, *NAMES])
def test_every_member_is_also_a_lower_case_string(enum: type) -> None:
    for member in enum:
        assert enum.parse(member) is enum.parse(member.text) is member
        assert member.text == member.text.lower()


@pytest.mark.clause("A-30")
@pytest.mark.parametrize("value", [0, 1, 2, 3, True, None, pto.GatherOOB.Clamp, 1.0])
def test_numbers_and_other_enums_do_not_convert(value: object) -> None:
    with pytest.raises(TypeError, match="'skip', 'clamp', 'wrap'"):
        pto.ScatterOOB.parse(value)


def test_unknown_words_name_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'row', 'elem'"):
        pto.Coalesce.parse("column")
