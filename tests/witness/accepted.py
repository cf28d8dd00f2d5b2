"""Differences between the tables and the headers that stay, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

DATA = "which bytes are read depends on data that the witness does not compute"
COPIED = "a scatter by P1111 copies (TScatter.hpp:162), in the form of those by other masks, which have the flags"
MASK_ROWS = "the documents give every row of a mask its value (CP-CMP-01); the header writes the bits that it computes"
FILLED = "rows that are valid in part are filled as if they followed each other (TExpandS.hpp:61): reported (CP-HDR-01)"
HIDDEN = "the headers' own workspace, from 184 KB on, which the machine knows"
RAW = "addresses that the header does not set: what is read there is not used"
PAIRS = "registers are loaded in pairs (TCmp.hpp:121): no result depends on a second one behind the columns"
UNUSED = "an index that the page calls unused is loaded (THistogram.hpp:66): no result depends on it"
ALL_AT_ONCE = "a barrier of all pipes waits for what the table has as flags (SyncAll.hpp)"
ONE_REGISTER = "rows of 8-byte types: the headers take the first 64 columns only: reported (CP-HDR-01)"
LOOP = "a scalar loop that no pipe waits for (TDivS.hpp:65); the vendor's test orders it by V (tdivs_kernel.cpp:42)"
ALL_ROWS = "all rows of the tensor are moved (TStore.hpp:225), which C++ sources are told (TL-03): inside the tile"
LOADED = "all rows of the tensor are moved, and whole blocks of boxed rows (TLoad.hpp:26, 44): inside the tile"
AS_SOURCE = "the loop over a tile and a scalar loads the destination (TExpandS.hpp:51), which `vdup` replaces"
BEHIND = "ones are not cut at the last column (TTri.hpp:90): how far they go depends on the diagonal, a number"
MOVED_TWICE = (
    "load and store move one pointer (TTernOp.hpp:59, 63), so that the result would lie a step behind; the vendor's "
    "test expects it in its place (tfusedmuladd_kernel.cpp)"
)
COMPACT = (
    "in compact tiles, columns of fractals are as far apart as what is valid (textract_common.hpp:268, 359, "
    "a5/TExtract.hpp:195, 323, a5/TMov.hpp:518); here, as in whole tiles: producers and consumers agree, and both are "
    "inside the tile"
)
PADDED = (
    "the rest of the last block of valid columns is left to the load, which pads it (a2a3/TFillPad.hpp:328, "
    "a5/TFillPad.hpp:171)"
)
KEPT = "what is valid stays in its place (TFillPad.hpp:227, a5/TFillPad.hpp); here, it is copied onto itself"
INVERTED = "`ne` inverts all bits of the mask (TCmps.hpp:109), also those that no element has"
UP_TO = "the extent of an opaque instruction covers every call that was seen (docs/witness.md)"
UNROLLED = "scales are stored twice (TQuant.hpp:597); the vendor's test has room for both (tmov_zz_kernel.cpp:93)"
FRACTALS = "whole fractals are moved and multiplied, in the padding of boxed tiles: no valid element depends on it"
PADDING = (
    "whole fractals, and rows in L1, are loaded, moved and multiplied (tload_common.hpp:21, 225, TMov.hpp:44, 74, "
    "textract_common.hpp:23, TMatmul.hpp:52): what lies in a tile and outside of its valid region, no valid element "
    "depends on"
)
WRAPPED = "an index of 0, as all are here, makes the number of repeats wrap to 255 (TConcat.hpp:156)"
OF_TENSOR = (
    "more valid elements than the tensor has: by the documents none may be; the header loads what the tensor has"
)
MORE_ROWS = (
    "rows of the tensor that are not valid are moved, too (tload_common.hpp:54, a5/TLoad.hpp:426): reported at the call"
)
OFF_PIPES = "known by its effects only: no core of the model has both L1 and MTE3 (TStore.hpp:274)"
CONVOLUTION = "tiles of convolutions are known by their effects only: pipes depend on shapes (TTrans.hpp:731, 783)"
ONE_WAIT = (
    "an atomic add waits once behind all rows, and S to V and S to MTE2 follow (MScatter.hpp:239, 241): what comes "
    "later waits for the same work"
)
FACTORS = "factors are read at an address in a register (tmov_common.hpp:91): the witness does not count that"
ASSERTED = "the header asserts the same ({}), which is off in the vendor's test"
BY_STEP = (
    "8-byte types: rows as far apart as the columns of the destination by the step (TGather.hpp:274, 289), which is as "
    "wide as the source; the documents ask for one without gaps"
)
BY_ROWS = (
    "of an accumulator whose type states no valid rows, columns of fractals are as far apart as what is valid "
    "(TMov.hpp:124, 129; TMatmul.hpp:41 takes no distance); here, as in whole tiles: producers and consumers agree, "
    "and both are inside the tile"
)
COLUMNS = "all columns of a tensor of fractals are moved (tload_common.hpp:55), in the padding of the tile"
WHOLE_ROWS = "rows of factors and addends are moved whole (TMov.hpp:51, 87): no valid element depends on it"
HALVES = "into L1 by threads, each core does its half (MGather.hpp:403, 426): here, both are one call"
ACCEPTED: tuple[tuple[str, str, str], ...] = (
    ("tsel|trem|trems", "read (more|less)", "the mask is read through an address that lies in the workspace"),
    ("tgather|tgatherb|tscatter", "read (more|less)", DATA),
    ("tcmps?", "write less", MASK_ROWS),
    ("tconcat", "(read|write) less", DATA),
    ("a2a3:tconcat:wrr.+", "(read|write) more", WRAPPED),
    ("a5:mscatter", "read less", DATA),
    ("a2a3:tscatter:wr", "flags", COPIED),
    ("syncall", "flags", ALL_AT_ONCE),
    ("a2a3:(tload|tmov|(tmatmul|tgemv)(_acc|_bias)?)", "(read|write) padding", PADDING),
    ("a2a3:tload:TL-03", "write more", MORE_ROWS),
    ("a2a3:tstore:TT-01", "read more", MORE_ROWS),
    ("a2a3:tstore:-", "read more", OFF_PIPES),
    ("a2a3:mscatter", "flags", ONE_WAIT),
    ("(tmov|tstore|textract|tinsert)(_fp)?", "read less scaling", FACTORS),
    ("a5:tload", "refused by TL-02", f"{OF_TENSOR} (TLoad.hpp:426)"),
    ("a5:tconcat", "refused by CP-CAT-01", ASSERTED.format("TConcat.hpp:103")),
    ("a5:tinterleave", "refused by CP-ILV-01", ASSERTED.format("TInterleave.hpp:38")),
    ("a5:tgather", "refused by CP-GTM-01", BY_STEP),
    ("a5:(tmatmul|tmov):open", "(read|write) less acc", BY_ROWS),
    ("a5:tmov", "write padding (bias|scaling)", WHOLE_ROWS),
    ("a2a3:ttrans:wrs", "pipes|flags|write less", CONVOLUTION),
    ("a5:(tmov|(tmatmul|tgemv)(_mx)?(_acc|_bias)?)", "(read|write) padding (mat|acc|(scale_)?(left|right))", FRACTALS),
    (
        "(a2a3|a5):(textract|tmov|tmatmul|tstore):compact",
        "(read|write) (less|padding) (mat|left|right|acc|vec)",
        COMPACT,
    ),
    ("tfillpad", "write less mat", PADDED),
    ("tfillpad_inplace", "(read|write) less", KEPT),
    ("a2a3:tcmps:wrr", "read more", INVERTED),
    ("a5:tload", "write padding mat", LOADED),
    ("a5:tload", "write padding vec", COLUMNS),
    ("a5:tload:TL-03", "write more mat", MORE_ROWS),
    ("a5:tstore:TT-01", "read more vec", ALL_ROWS),
    ("opaque", "(read|write) less", UP_TO),
    ("a5:tquant", "write more", UNROLLED),
    (
        "a5:(t(row|col)(sum|max|min)|t(row|col)expand|t(add|sub|mul|max|min|shl|shr|rem|div)s|tpart(add|max|min)):8",
        "(read|write) less",
        ONE_REGISTER,
    ),
    ("a5:(tneg|trem|tdiv|tcmps?|tsels?|tgather|ttri|texpands):8", "(read|write) less", ONE_REGISTER),
    ("a5:tdivs", "pipes|flags", LOOP),
    ("a5:tcmps?", "read more", PAIRS),
    ("a5:thistogram", "read more", UNUSED),
    ("ttrans", "read more", RAW),
    ("trowexpand\\w+", "write more", HIDDEN),
    ("a2a3:(texpands|tands|tors|txors)", "(read|write) (more|less)", FILLED),
    ("a5:mgather", "pipes|flags|write less", HALVES),
    ("a5:texpands", "read more", AS_SOURCE),
    ("a5:ttri", "write more", BEHIND),
    ("a5:tfusedmuladd", "write (more|less)", MOVED_TWICE),
    ("tsels", "read less", "the documents give every row of a mask its value (CP-SEL-01); the header reads its bits"),
)
"""Instructions, of all families or one, with the bytes of their widest elements, in a form or with a finding, of
sources with compact tiles or with an accumulator whose valid rows are known at run time only (`open`), or all that are
opaque; kinds of difference, and perhaps a memory; the reason. The first two are patterns. What holds for `more` holds
for `padding`."""


def row_of(names: Sequence[str], kind: str, memory: str) -> int:
    """The first row of a difference that stays; -1 if it must not."""
    kinds = {f"{each}{where}" for each in (kind, kind.replace("padding", "more")) for where in ("", f" {memory}")}

    def fits(pattern: str, words: Iterable[str]) -> bool:
        return any(re.fullmatch(pattern, word) for word in words)

    return next((k for k, row in enumerate(ACCEPTED) if fits(row[0], names) and fits(row[1], kinds)), -1)


def reason(names: Sequence[str], kind: str, memory: str) -> str:
    """Why a difference stays; empty if it must not."""
    row = row_of(names, kind, memory)
    return ACCEPTED[row][2] if row >= 0 else ""


UNCOMPARED: tuple[tuple[str, str, str], ...] = (
    ("", r"(TASSIGN|TRESHAPE|TSUBVIEW|TGET_SCALE_ADDR)\b.*", "states where a tile lies: no work of a pipe"),
    ("", r"(TSYNC|TFREE|TALLOC)\b.*", "flags only: no byte of the chip"),
    ("", r"(SETFMATRIX|SET_IMG2COL_RPT|SET_IMG2COL_PADDING|SET_QUANT_\w+)\b.*", "sets registers"),
    ("", r"TPREFETCH\b.*", "fills a cache: no byte of the chip"),
    ("", r"SYNCALL<SyncCoreType>.*", "a barrier of the hardware: no byte of the chip"),
    ("", r"(TPUSH|TPOP)<TileSplitAxis>\(pipe, gmTensor\)", "hands a tensor over: flags only, no byte of the chip"),
    (
        "a2a3",
        r"TMOV(_FP)?<STPhase.*|TMOV<AccToVecMode.*",
        "does not compile: no `TMOV_IMPL` takes a phase or a mode (TMov.hpp:170, 180, 191, 203)",
    ),
    (
        "a2a3",
        r"TEXTRACT<AccToVecMode.*",
        "does not compile: no `TEXTRACT_IMPL` takes a mode (TExtract.hpp:465, 492, 508, 526)",
    ),
    (
        "a2a3",
        r"TINSERT<AccToVecMode.*",
        "does not compile: no `TINSERT_IMPL` takes a mode (TInsert.hpp:162, 197, 213, 231)",
    ),
    (
        "a2a3",
        r"TQUANT<auto>\(dst, src, scale, offset\)",
        "does not compile: `TQUANT_IMPL` takes a workspace (TQuant.hpp:23)",
    ),
    (
        "a5",
        r"TADDDEQRELU\b.*",
        "does not compile: `pto_instr_impl.hpp` includes no `TADDDEQRELU_IMPL` of this target (a2a3's only, line 172)",
    ),
    (
        "a5",
        r"TQUANT<auto, auto>\(dst, src, exp, max, scaling, exp_zz\)",
        "does not compile: no `TQUANT_IMPL` takes `exp_zz` (TQuant.hpp:3224, 3251, 3308, 3384, 3430)",
    ),
    (
        "a2a3",
        r"(TPUSH|TPOP)<pto::Grid.*",
        "communication: tiles for other ranks, in windows of theirs (GridTPush.hpp, GridTPop.hpp)",
    ),
)
"""Why overloads are not compared: the family, or all; names and operands, as a pattern."""


def uncompared(family: str, overload: str) -> str:
    """Why there is no call of an overload; empty if there must be one."""
    fits = (why for of, name, why in UNCOMPARED if of in ("", family) and re.fullmatch(name, overload))
    return next(fits, "")
