"""The scratch of an element gather into L1: too small (H-31), or overlapping other memory (H-32)."""

from __future__ import annotations

from typing import Any

import numpy as np

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, spread, zeros

NPU = ("a2a3", "a5")
LINE = "pto.mgather(matrix, table, tokens, scratch="


@pto.kernel
def collect(
    table, tokens, scratch, tile: pto.const = (16, 16), valid: pto.const = (16, 16), executor: pto.const = None,
    step: pto.const = 0, size: pto.const = 256,
):  # fmt: skip
    """Elements into L1; block `b` takes its scratch at `b * step`."""
    matrix = pto.Tile("mat", table.dtype, *tile, valid=valid, blayout="col_major", slayout="row_major")
    first = pto.block_idx() * step
    pto.mgather(matrix, table, tokens, scratch=scratch[first : first + size], executor=executor)


GIVEN = {"table": counted(64, 16, dtype="float16"), "tokens": spread(16, 16, below=1024)}


def too_small() -> list[Case]:
    """H-31: the scratch holds less than the padded tile."""
    room = Hazard("H-31", LINE, "scratch", collect, GIVEN)
    padded = {"tokens": spread(3, 5, below=1024), "valid": (3, 5)}
    whole = {"table": counted(64, 16), "tokens": spread(16, 8, below=1024), "tile": (16, 8), "valid": (16, 8)}
    cases: list[Case] = []
    for target in NPU:
        cases += [
            *room.pair("one element less", target, {"size": 255}, {"size": 256}, scratch=zeros(256, dtype="float16")),
            *room.pair("only the valid part", target, {"size": 15}, {"size": 256}, scratch=zeros(256, dtype="float16"),
                       **padded),
            *room.pair("float32", target, {"size": 64}, {"size": 128}, scratch=zeros(128), **whole),
        ]  # fmt: skip
    return [
        *cases,
        *room.pair("by threads", "a5", {"size": 240}, {"size": 256}, scratch=zeros(256, dtype="float16"),
                   executor="simt"),
    ]  # fmt: skip


def parts(scratch: int, tokens: int | None = None) -> dict[str, Any]:
    """One array, of which the table (at element 0) and the scratch are parts, and perhaps the indices."""

    def make() -> dict[str, Any]:
        memory = np.zeros(4096, "float32")
        indices = spread(16, 16, below=1024)()
        if tokens is not None:
            memory[tokens : tokens + 256] = indices.view("float32").ravel()
            indices = memory[tokens : tokens + 256].view("int32").reshape(16, 16)
        return {"table": memory[:1024].reshape(64, 16), "tokens": indices, "scratch": memory[scratch : scratch + 256]}

    return {"arrays": make}


def overlaps() -> list[Case]:
    """H-32: the scratch lies over the table, the indices, or another block's scratch."""
    room = Hazard("H-32", LINE, "scratch", collect, {})
    cases: list[Case] = []
    for target in NPU:
        cases += [
            *room.pair("over the table", target, parts(512), parts(1024)),
            *room.pair("over the table's end", target, parts(1023), parts(1024)),
            *room.pair("over the indices", target, parts(2048, 2000), parts(2304, 2000)),
            *room.pair("of two blocks", target, {"step": 0}, {"step": 256}, grid=2, **GIVEN,
                       scratch=zeros(512, dtype="float16")),
            *room.pair("of three blocks, partly", target, {"step": 128}, {"step": 256}, grid=3, **GIVEN,
                       scratch=zeros(768, dtype="float16")),
        ]  # fmt: skip
    return [
        *cases,
        *room.pair("by threads, of two blocks", "a5", {"step": 0}, {"step": 256}, grid=2, **GIVEN,
                   scratch=zeros(512, dtype="float16"), executor="simt"),
    ]  # fmt: skip


CASES = [*too_small(), *overlaps()]
