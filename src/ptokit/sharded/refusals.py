"""The errors of `pto.gather` and `pto.scatter`, before anything is sent.

A call that is refused is made with those functions on a small stand-in for the table, so that there is one place for
the rules and their messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.gpu import on_gpu
from ptokit.isa.policy import Coalesce, GatherOOB, ScatterOOB
from ptokit.lang.arrays import host_array
from ptokit.ops import gather, scatter
from ptokit.ops.array_call import SCATTER, ArrayCall, outside_policy
from ptokit.ops.library_words import axis_of
from ptokit.ops.operands import LISTS, Array, index_type, indices_of, source_of
from ptokit.ops.reductions import resolve
from ptokit.sharded.route import Resolved

Options = dict[str, Any]

ONE = np.zeros(1, np.int64)
MOST_KNOWN = 256


class Refusals:
    """Checks calls on a table of one shape and type."""

    def __init__(self, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self.shape, self.kind = shape, kind
        self._known: dict[Any, bool] = {}
        self._outline = np.broadcast_to(np.zeros((), kind), shape)
        """An array of the table's shape that takes no memory."""

    def is_by_rows(self, coalesce: object) -> bool:
        """Whether indices name rows; the policy is known to be one."""
        return Coalesce.parse(coalesce) is Coalesce.Row

    def capacity(self, coalesce: object) -> int:
        """How many entries indices can name."""
        return self.shape[0] if self.is_by_rows(coalesce) else int(np.prod(self.shape, dtype=np.int64))

    def entry(self, coalesce: object) -> tuple[int, ...]:
        """The shape of an entry."""
        return self.shape[1:] if self.is_by_rows(coalesce) else ()

    def _tiny(self, entry: tuple[int, ...] | None = None) -> Array:
        """A table of one row."""
        shape = (1,) * len(self.shape) if entry is None else (1, *entry)
        return np.zeros(shape, self.kind)

    def check_policies(self, call: Callable[..., object], options: Options) -> None:
        """Raise what the call raises for these policies."""
        try:
            key = call, *options.values()
            if key in self._known:
                return
        except TypeError:  # an option that is no policy; it is refused by name
            key = None
        tiny = self._tiny()
        operands = (tiny, ONE) if call is gather else (tiny, np.zeros((), self.kind), ONE)
        call(*operands, **options)
        if key is not None and len(self._known) < MOST_KNOWN:
            self._known[key] = True

    def entries(self, call: ArrayCall, options: Options) -> Options:
        """The options with `coalesce` for what `axis` selects: rows, or elements for None. Refuses other axes."""
        axis = options["axis"]
        if axis is None:
            return {**options, "coalesce": Coalesce.Elem, "axis": 0}
        if self.shape and axis_of(call, axis, len(self.shape)):
            message = f"a sharded table has entries along axis 0, or elements for None; found axis={brief(axis)}"
            raise call.refused("CO-SEM-01", message, "move the axis to the front before the table is made", "axis")
        return options

    def indices(self, call: ArrayCall, given: object) -> Array:
        """The indices as an array of the host."""
        found: Any = indices_of(call, given, self._outline)
        if on_gpu(found):
            found.refuse("indices of a sharded table")
        index_type(call, found)
        return found

    def resolved(self, call: ArrayCall, lanes: Array, options: Options, side: type[GatherOOB | ScatterOOB]) -> Resolved:
        """The entries that indices name, by the rules of `pto.gather` and `pto.scatter`."""
        policy = outside_policy(call, side, options["oob"], options["mode"])
        values, outside = resolve(call, lanes, np, self.capacity(options["coalesce"]), self._outline, policy)
        flat = values.reshape(-1)
        if outside is None or not outside.any():
            return Resolved(flat, None)
        inside = np.flatnonzero(~outside)
        return Resolved(flat[inside], inside)

    def source(self, given: object, indices: Array, options: Options) -> Array:
        """The source of a scatter, of the table's type, that broadcasts to the scattered data."""
        shape = indices.shape + self.entry(options["coalesce"])
        if isinstance(given, LISTS):
            given = source_of(SCATTER, cast("object", given), self._outline)
        if _exports(given) and not isinstance(given, np.generic):
            found = np.asarray(host_array(given, "the source of a scatter into a sharded table"))
            if found.dtype == self.kind and _broadcasts(found.shape, shape):
                return found
            table = self._tiny(self.entry(options["coalesce"]) if self.is_by_rows(options["coalesce"]) else ())
            scatter(table, given, np.broadcast_to(ONE[0], indices.shape), coalesce="row")
            raise TypeError(f"the source of a scatter must be of {self.kind} and broadcast to {shape}")
        cell = np.zeros((1,), self.kind)
        scatter(cell, given, ONE)
        return cell.reshape(())

    def check_out(self, out: object, indices: Array, options: Options) -> Array:
        """The output of a gather."""
        shape = indices.shape + self.entry(options["coalesce"])
        found = host_array(out, "the output of a gather from a sharded table") if _exports(out) else None
        if found is not None and found.dtype == self.kind and found.shape == shape and found.flags.writeable:
            return found
        gather(self._outline, np.zeros_like(indices), out=out, **options)
        raise TypeError(f"out must be an array of {self.kind} and {shape}")


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def _exports(given: object) -> bool:
    """Whether an object has memory."""
    names = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")
    return isinstance(given, np.ndarray) or any(hasattr(given, name) for name in names)
