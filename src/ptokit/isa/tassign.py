"""TASSIGN: bind a tile to an address of its memory. Nothing moves."""
# ruff: noqa: F403, F405

from __future__ import annotations

from ptokit.isa.vocabulary import *

RULES = (
    routing("CO-API-05", "tile", "a tile", lambda c: is_tile(c.tile), fix="only tiles have addresses"),
    needed("CO-API-05", "tile", lambda c: f"at a byte address that is a multiple of {c.tile.dtype.size}, from 0 up",
           lambda c: c.tile.addr is None or (c.tile.addr >= 0 and c.tile.addr % c.tile.dtype.size == 0),
           found=lambda c: hex(c.tile.addr), fix=lambda c: f"use {max(0, c.tile.addr // BLOCK * BLOCK):#x}"),
)  # fmt: skip

TASSIGN = Instruction(
    name="tassign",
    summary="Bind a tile to a byte address of the memory it lives in.",
    meaning=("tile.addr = addr    no data moves; the tile now has the content of that memory",),
    operands=(Param("tile", "update", "the tile to bind"),),
    modifiers=(),
    rules=RULES,
    lower=lambda _: (),
    route=lambda _: "tassign",
    is_statement=True,
    text=OpText(shape="%tile , @addr|%addr {} assigned"),
    spellings={
        "C++": ("TASSIGN(tile, addr)",),
        "PTO-AS": ("tassign %tile, @tile(0x1000)",),
        "Level 1": ("%moved = pto.tassign %tile, %addr : !pto.tile<...> -> !pto.tile<...>",),
        "Level 2": ("%moved = pto.tassign %tile, %addr : !pto.tile_buf<...> -> !pto.tile_buf<...>",),
    },
)
