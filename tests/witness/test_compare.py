"""Kinds of differences between the machine and the headers, and which of them have a reason."""

from __future__ import annotations

import numpy as np
import pytest

from ptokit.witness.effects import Observed, ObservedAccess, ObservedIntrinsic, ObservedMemory
from ptokit.witness.extents import Ranges
from tests.witness.accepted import reason
from tests.witness.compare import Assumed, Touch, differences


def ranges(*pairs: tuple[int, int]) -> Ranges:
    return np.array(pairs, np.int64).reshape(-1, 2)


def seen(*written: tuple[int, int]) -> Observed:
    access = ObservedAccess("write", ObservedMemory("vec"), ranges(*written))
    return Observed("TADD", [ObservedIntrinsic("vsts", "V", (access,))])


def said(*written: tuple[int, int]) -> Assumed:
    """A call into a tile of 256 bytes."""
    touch = Touch("dst", "write", "UB", ranges(*written), False)
    return Assumed("tadd", frozenset("V"), frozenset(), (touch,), tiles={"vec": ranges((0, 256))})


@pytest.mark.parametrize(
    ("written", "kinds"),
    [
        ([(0, 128)], []),
        ([(0, 64)], ["write less"]),
        ([(0, 256)], ["write padding"]),
        ([(0, 128), (512, 544)], ["write more"]),
        ([(0, 320)], ["write more"]),
    ],
)
def test_padding_is_inside_the_tile(written: list[tuple[int, int]], kinds: list[str]) -> None:
    assert [kind for kind, _ in differences(seen(*written), said((0, 128)))] == kinds


def test_a_reason_holds_for_its_instructions_kinds_and_memories() -> None:
    names = ["tload", "a5:tload", "a5:tload:4"]
    assert reason(names, "write padding", "mat")
    assert not any(reason(names, kind, memory) for kind, memory in (("write more", "mat"), ("write padding", "vec")))
    assert reason(["tneg", "a5:tneg", "a5:tneg:8"], "read less", "vec")
    assert not reason(["tneg", "a5:tneg", "a5:tneg:4"], "read less", "vec")
    assert reason(["a2a3:tors"], "write padding", "vec"), "what may be more may be padding"
    assert not reason(["a5:tors"], "write more", "vec")
