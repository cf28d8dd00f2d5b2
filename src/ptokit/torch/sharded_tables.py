"""Bags of rows of tables that other processes hold: `ShardedEmbeddingBags`.

A lookup takes each row that it names once from its owner. Bags are reduced here, and so are gradients; rows are updated
here and stored again. So all bits are those of `EmbeddingBags`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ptokit.lang.faults import public
from ptokit.sharded.table import ShardedTable
from ptokit.torch.bag_operator import IN_WEIGHT
from ptokit.torch.dispatch import is_grad_enabled, renamed
from ptokit.torch.operators import GATHER
from ptokit.torch.remap import ROW
from ptokit.torch.tables import HOW, Batch, batch_of, checked_modes, checked_shapes, reduced
from ptokit.torch.updates import FusedOptimizer, Lookup, update_tables

KINDS = (torch.float32, torch.float64)


class ShardedEmbeddingBags(torch.nn.Module):
    """`EmbeddingBags` whose tables are rows of `ptokit.ShardedTable`s, one for each width, with the state beside them.

    Backward updates the rows that were read; there are no gradients of tables. `weights` are values to begin with, by
    default normal numbers. `options` are those of `ShardedTable.create`. Only the process that made it can call it.
    """

    @public
    def __init__(
        self,
        tables: Sequence[tuple[int, int]],
        mode: str | Sequence[str] = "sum",
        *,
        optimizer: str = "sgd",
        lr: float = 0.01,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.float32,
        weights: Sequence[Tensor] | None = None,
        shards: int = 2,
        **options: Any,
    ) -> None:
        super().__init__()
        self.shapes = checked_shapes(tables)
        self.optimizer = FusedOptimizer(optimizer, lr, eps, weight_decay)
        if dtype not in KINDS:
            raise ValueError(f"sharded tables are of float32 or float64; found {dtype}")
        made = [torch.randn(shape, dtype=dtype) for shape in self.shapes] if weights is None else list(weights)
        if [tuple(each.shape) for each in made] != self.shapes or any(each.dtype is not dtype for each in made):
            raise ValueError(f"weights have the shapes of tables, and are of {dtype}")
        self.modes = checked_modes(mode, made)
        self._updates = 0
        """How often tables were updated."""
        self._numbers: dict[int, list[int]] = {}
        """The tables of each width."""
        for number, (_, width) in enumerate(self.shapes):
            self._numbers.setdefault(width, []).append(number)
        self._starts = {
            number: sum(self.shapes[k][0] for k in own[:nth])
            for own in self._numbers.values()
            for nth, number in enumerate(own)
        }
        """Where in the sharded table the rows of each table begin."""
        self._held: dict[int, ShardedTable] = {}
        try:
            for width, own in self._numbers.items():
                values = [made[number].detach() for number in own]
                rows = [_with_state(each, self.optimizer.state(each)) for each in values]
                self._held[width] = ShardedTable.create(torch.cat(rows).numpy(), shards, **options)
        except BaseException:
            self.close()
            raise

    def forward(self, values: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None) -> tuple[Tensor, ...]:
        """The bags of each table, from indices as `EmbeddingBags` takes them."""
        given = batch_of(values, offsets, per_sample_weights, self.modes)
        rows, lanes = zip(*(self._named(given, number) for number in range(len(self.shapes))), strict=True)
        held = self._gathered(list(rows))
        tables = [each[:, :width].contiguous() for each, (_, width) in zip(held, self.shapes, strict=True)]
        for each in tables:
            each.requires_grad_(is_grad_enabled())
        made = self._updates

        def finish(lookups: Sequence[Lookup], numbers: Sequence[int]) -> Sequence[None]:
            found = held if made == self._updates else self._gathered(list(rows), numbers)  # others may have changed it
            self._store(lookups, numbers, rows, found)
            return [None] * len(numbers)

        return reduced(Batch(torch.cat(lanes), given.offsets, given.weights, self.modes), tables, finish)

    def _named(self, batch: Batch, number: int) -> tuple[Tensor, Tensor]:
        """The rows that the lanes of a table name, ascending, at least one; and the number of that of each lane."""
        lanes, count = batch.part(number)[0], self.shapes[number][0]
        rows, numbers = torch.unique(lanes.to(torch.int64), return_inverse=True)
        if len(rows) and not (int(rows[0]) >= 0 and int(rows[-1]) < count):
            first, last = batch.cuts[number : number + 2]
            known = torch.empty(1).expand(count, 1)
            operand = f"values[{first}:{last}]"
            renamed("ShardedEmbeddingBags", operand, IN_WEIGHT, GATHER, known, lanes, ROW, "undefined", *HOW)
        return rows if len(rows) else torch.zeros(1, dtype=torch.int64), numbers

    def _of_width(self, rows: Sequence[Tensor], numbers: Sequence[int]) -> dict[int, tuple[list[int], Any]]:
        """Of each width: its tables, and the rows of theirs as a sharded table has them."""
        found: dict[int, list[int]] = {}
        for number in numbers:
            found.setdefault(self.shapes[number][1], []).append(number)
        return {
            width: (own, np.concatenate([(rows[number] + self._starts[number]).numpy() for number in own]))
            for width, own in found.items()
        }

    def _gathered(self, rows: Sequence[Tensor], numbers: Sequence[int] | None = None) -> list[Tensor]:
        """The rows of tables, with their state; of others, nothing."""
        wanted = self._of_width(rows, range(len(rows)) if numbers is None else numbers)
        pending = [(own, self._held[width].gather_async(named)) for width, (own, named) in wanted.items()]
        made = [torch.empty(0)] * len(rows)
        for own, call in pending:
            found = torch.from_numpy(np.array(call.result()))
            for number, each in zip(own, found.split([len(rows[number]) for number in own]), strict=True):
                made[number] = each
        return made

    def _store(
        self, lookups: Sequence[Lookup], numbers: Sequence[int], rows: Sequence[Tensor], held: Sequence[Tensor]
    ) -> None:
        """Update rows, and store them again."""
        widths = [self.shapes[number][1] for number in numbers]
        tables = [held[number][:, :width].contiguous() for number, width in zip(numbers, widths, strict=True)]
        states: list[Tensor | None] = [None] * len(tables)
        if self.optimizer.rule != "sgd":
            states = [held[number][:, width:].contiguous() for number, width in zip(numbers, widths, strict=True)]
        if self.optimizer.rule == "rowwise_adagrad":
            states = [None if state is None else state.view(-1) for state in states]
        update_tables(lookups, tables, [self.optimizer] * len(tables), states, HOW)
        done = dict(zip(numbers, map(_with_state, tables, states), strict=True))
        calls = [
            self._held[width].scatter_async(torch.cat([done[number] for number in own]).numpy(), named)
            for width, (own, named) in self._of_width(rows, numbers).items()
        ]
        self._updates += 1
        for call in calls:
            call.result()

    def tables(self) -> list[Tensor]:
        """Copies of all tables."""
        rows = [torch.arange(rows) for rows, _ in self.shapes]
        found = self._gathered(rows)
        return [each[:, :width].clone() for each, (_, width) in zip(found, self.shapes, strict=True)]

    @public
    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Write all tables and their state into folders of a folder."""
        for width, table in self._held.items():
            folder = os.path.join(path, f"width-{width}")
            os.makedirs(folder, exist_ok=True)
            table.checkpoint(folder)

    @public
    def restore(self, path: str | os.PathLike[str]) -> None:
        """Take all tables and their state from a checkpoint."""
        for width, table in self._held.items():
            table.restore(os.path.join(path, f"width-{width}"))
        self._updates += 1

    def close(self) -> None:
        """End the owners."""
        for table in self._held.values():
            table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _with_state(table: Tensor, state: Tensor | None) -> Tensor:
    """Rows, each with its state behind it."""
    return table if state is None else torch.cat([table, state.view(len(table), -1)], 1)
