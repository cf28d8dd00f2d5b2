# pyright: strict
"""Calls over whole arrays of a GPU, or over torch tensors, that were made before: with the same signatures, only the
addresses are new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptokit.engine.faults import IndexFault, IndexReport
from ptokit.engine.kept import remember
from ptokit.finding import OutOfBoundsError
from ptokit.lang import gpu
from ptokit.lang.arrays import notify

MOST_CALLS = 1024


@dataclass(slots=True)
class RepeatedCall:
    """A call that can be repeated."""

    execute: Callable[..., None]
    """Executes it; takes the addresses of the operands."""
    is_in_order: Callable[[], bool]
    """Whether work on such arrays is done in their order anyway."""
    is_tracked: bool
    """Whether what is written is a torch tensor."""
    operands: tuple[str, ...]
    """Their names, in the order of the addresses."""
    overlap: Callable[[Mapping[str, int]], bool] | None
    """Whether what is written shares memory with what is read; None for new memory."""
    outside: Callable[[IndexReport], OutOfBoundsError]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    """Those of the result of a gather."""
    attempt: Callable[..., bool] | None = None
    """Executes it, but returns False if an index must be refused; a scatter on a GPU also takes `initial`."""
    apart: list[int] = field(default_factory=list[int])
    """Addresses at which what is written shares no memory with what is read."""

    def is_apart(self, addresses: list[int]) -> bool:
        """Whether what is written shares no memory with what is read."""
        if self.overlap is None or addresses == self.apart:
            return True
        if self.overlap(dict(zip(self.operands, addresses, strict=True))):
            return False
        self.apart = addresses
        return True

    def gather(self, table: object, out: Any, addresses: list[int]) -> Any:
        """Repeat a gather; returns `out`, or a new array of the library of the table."""
        made = out
        if out is None:
            made, address = gpu.new(table, self.shape, self.dtype)
            addresses.append(address)
        self.run(out, addresses)
        return made

    def run(self, written: object, addresses: Sequence[int]) -> None:
        """Repeat a call; `written` is the user's own array, if there is one."""
        is_written = self.is_tracked and written is not None
        try:
            self.execute(*addresses)
        except IndexFault as fault:
            is_written = False
            raise self.outside(fault.report) from None
        finally:
            if is_written:
                notify(written)


CALLS: dict[Any, RepeatedCall] = {}
"""By the call, its options and the signatures of its arrays."""


def find(how: tuple[Any, ...], *operands: object) -> tuple[RepeatedCall, list[int]] | None:
    """A call that was made before and can be repeated, and the addresses of its operands.

    `how` are the name of the call and its options.
    """
    found = _key(how, operands)
    if found is None:
        return None
    key, addresses = found
    try:
        known = CALLS.get(key)
    except TypeError:  # an invalid policy
        return None
    return (known, addresses) if known is not None and known.is_in_order() and known.is_apart(addresses) else None


def keep(how: tuple[Any, ...], operands: Sequence[object], made: RepeatedCall) -> None:
    """Keep a call that was executed in order, if it could have been found."""
    found = _key(how, operands)
    if found is not None and made.is_apart(found[1]):
        remember(CALLS, found[0], made, MOST_CALLS)


def _key(how: tuple[Any, ...], operands: Sequence[object]) -> tuple[Any, list[int]] | None:
    """The key of a call, and the addresses of its operands; None for others than CuPy arrays and torch tensors."""
    key: list[Any] = [*how]
    addresses: list[int] = []
    for each in operands:
        if each is not None:
            if (found := (SIGNED.get(type(each)) or _signature)(each)) is None:
                return None
            addresses.append(found[0])
            key.append(found[1])
    return tuple(key), addresses


SIGNED: dict[type[Any], Callable[[Any], tuple[int, gpu.Signature] | None]] = {}
"""How the signature of a type is read, for those that `_signature` has met."""


def _signature(source: Any) -> tuple[int, gpu.Signature] | None:
    """As `gpu.signature`, for torch tensors on the host, too."""
    found = gpu.sign_tensor if gpu.is_torch(source) else gpu.signature
    SIGNED[type(source)] = found
    return found(source)
