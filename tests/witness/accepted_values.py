"""Differences between the values of ptokit and those of the headers that stay, each with its reason."""

from __future__ import annotations

import re

FLOATS = "(float16|float32) .*"
ANY = "rounding|value|NaN or infinity|sign of zero"
MASKS = "bits behind the last column are 0 in the documents (CP-CMP-01); the header compares whole steps (TCmp.hpp:92)"
EQUALITY = (
    "the header compares int32 for equality whatever the mode (TCmp.hpp:27, TCmps.hpp:53); ptokit does what the page "
    "means and says so (CP-HDR-01)"
)
AS_HALVES = (
    "the header compares integers of 16 bits as float16 (TCmps.hpp:66); ptokit does what the page means (decisions)"
)
REMAINDER = (
    "the documents state the exact remainder (CP-BIN-03); the header rounds a quotient and its product with the "
    "divisor (TRem.hpp:30, TRemS.hpp:28, TFmod.hpp:23, TFmodS.hpp:24)"
)
POWER = "the documents state 2 ulp (CP-BIN-03); the header takes exp(y ln x) in float32 (TPow.hpp:148)"
RECIPROCAL = (
    "the documents state correct rounding (decisions, accumulation order); in place the header multiplies by a "
    "rounded reciprocal (TDivS.hpp:110)"
)
SUM = (
    "the documents add in ascending column order in float32 (decisions, accumulation order); the header adds steps "
    "lane by lane, then a tree, in the element type (TRowReduceOps.hpp:287); sums that are exact are equal"
)
PRODUCT = (
    "the documents multiply in ascending column order; the header multiplies blocks, then their lanes (TRowProd.hpp:44)"
)
NOT_A_NUMBER = (
    "a later NaN is passed over (CP-ARG-03); the header takes its row, as the comparison is false "
    "(TColArgMax.hpp:76), by what is assumed of a NaN in vmax and vmin"
)
AFTER_THE_END = "what follows the end of a list is unspecified; the header copies its workspace (TMrgSort.hpp:127)"
MODES = (
    "between floats, and from integers to floats, the documents ignore the mode of rounding (compute.md, tcvt); the "
    "header rounds by it (TCvt.hpp:97)"
)
INFINITIES = (
    "under saturation infinities clamp, too (compute.md, tcvt); it is assumed that a conversion to a wider float "
    "keeps them"
)
UNROUNDED = "no document states what `none` is from float32 to float32; the header rounds to the nearest (TCvt.hpp:139)"
ZEROS = "no document states the sign of a zero that a number is rounded to"
ACCEPTED: tuple[tuple[str, str, str, str], ...] = (
    ("tcmps?", ".*", "bits behind the columns", MASKS),
    ("tcmps?", "int32 .*", "value", EQUALITY),
    ("tcmps", "u?int16 .*", "value", AS_HALVES),
    ("trems?|tfmods?", "float32 .*", f"({ANY})( of NaN)?", REMAINDER),
    ("tpows?", "float32 .*", f"({ANY})( of NaN)?", POWER),
    ("tdivs", FLOATS + "in src", "rounding", RECIPROCAL),
    ("trowsum", FLOATS, "rounding|value|NaN or infinity", SUM),
    ("trowprod", FLOATS, "rounding|value|NaN or infinity", PRODUCT),
    ("tcolarg(max|min)", FLOATS, "value of NaN", NOT_A_NUMBER),
    ("tcvt", r"\w+ (float|bfloat)\w+ (ROUND|FLOOR|CEIL|TRUNC|ODD) .*", "rounding|value|NaN or infinity", MODES),
    ("tcvt", "(float16|bfloat16) float32 .*", "NaN or infinity", INFINITIES),
    ("tcvt", "float32 float32 NONE .*", ANY, UNROUNDED),
    ("tcvt", "float32 float32 ROUND .*", "sign of zero", ZEROS),
    ("tmrgsort[234]", FLOATS, "NaN or infinity|value", AFTER_THE_END),
)
"""Instructions, kernels (their types, shapes and so on) and kinds of difference, as patterns, and the reason."""


def reason(name: str, label: str, what: str) -> str:
    """Why a difference stays; empty if it must not."""
    found = (
        why
        for names, labels, kinds, why in ACCEPTED
        if re.fullmatch(names, name) and re.fullmatch(labels, label) and re.fullmatch(kinds, what)
    )
    return next(found, "")
