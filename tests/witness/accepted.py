"""Differences between the tables and the headers that stay, each with its reason."""

from __future__ import annotations

import re

DATA = "which bytes are read depends on data that the witness does not compute"
MASK_ROWS = "the documents give every row of a mask its value (CP-CMP-01); the header writes the bits that it computes"
FILLED = "rows that are valid in part are filled as if they followed each other (TExpandS.hpp:61): reported (CP-HDR-01)"
HIDDEN = "the headers' own workspace, from 184 KB on, which the machine knows"
RAW = "addresses that the header does not set: what is read there is not used"
PAIRS = "registers are loaded in pairs (TCmp.hpp:121): no result depends on a second one behind the columns"
UNUSED = "an index that the page calls unused is loaded (THistogram.hpp:66): no result depends on it"
ALL_AT_ONCE = "a barrier of all pipes waits for what the table has as flags (SyncAll.hpp)"
FRACTALS = "whole fractals are moved and multiplied, in the padding of boxed tiles: no valid element depends on it"
ACCEPTED: tuple[tuple[str, str, str], ...] = (
    ("tsel|tprelu|trem|trems", "read (more|less)", "the mask is read through an address that lies in the workspace"),
    ("tgather|tgatherb|tscatter", "read (more|less)", DATA),
    ("tcmps?", "write less", MASK_ROWS),
    ("tconcat", "(read|write) less", DATA),
    ("a5:mscatter", "read less", DATA),
    ("syncall", "flags", ALL_AT_ONCE),
    ("a5:(tmov|tmatmul(_acc|_bias)?)", "(read|write) more", FRACTALS),
    ("a5:tcmps?", "read more", PAIRS),
    ("a5:thistogram", "read more", UNUSED),
    ("ttrans", "read more", RAW),
    ("trowexpand\\w+", "write more", HIDDEN),
    ("texpands|tands|tors|txors", "(read|write) (more|less)", FILLED),
    ("tsels?", "read less", "the documents give every row of a mask its value (CP-SEL-01); the header reads its bits"),
)
"""Instructions, of all families or one, and kinds of difference, as patterns, and the reason."""


def reason(family: str, name: str, kind: str) -> str:
    """Why a difference stays; empty if it must not."""
    both = name, f"{family}:{name}"
    known = ((kinds, why) for names, kinds, why in ACCEPTED if any(re.fullmatch(names, each) for each in both))
    return next((why for kinds, why in known if re.fullmatch(kinds, kind)), "")
