"""Copies from arrays into shared memory that a lane begins, and waits for later."""

from __future__ import annotations

from ptokit.engine.llvm.emit import IrBuilder, IrValue

PIECE = 16
"""Bytes of a copy."""


def begin_copy(into: IrValue, at: IrValue, nbytes: IrValue) -> None:
    """Begin to copy a piece, both ends aligned: so many bytes, then zeroes."""
    code = into.code
    ends = code.in_space(into, 3), code.in_space(at, 1)
    size = "" if nbytes.number == PIECE else ", $2"
    text = f"cp.async.cg.shared.global [$0], [$1], {PIECE}{size};"
    code.ptx("void", "begin_copy", text, "l,l,r,~{memory}", *ends, nbytes)


def close_group(code: IrBuilder) -> None:
    """The copies since the last call are a group."""
    code.ptx("void", "close_group", "cp.async.commit_group;", "~{memory}")


def await_groups(code: IrBuilder, later: int) -> None:
    """Wait for all groups of this lane but the last ones; then for the other lanes. Matrix units find the data."""
    text = f"cp.async.wait_group {later}; fence.proxy.async;"
    with code.phase():
        code.ptx("void", f"await_groups_{later}", text, "~{memory}")
