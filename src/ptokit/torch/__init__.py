"""Gather, scatter, embedding bags and segment sums for PyTorch, with the same bits on any device and number of threads.

| file | contents |
|---|---|
| `indexed.py` | `gather`, `scatter`, `scatter_`; axes, modes, words for reductions around the operators |
| `operators.py` | their operators: schemas, kernels, shapes, gradients, batches; reductions; sums in a fixed order |
| `remap.py` | policies for indices outside of the table, as tensor code |
| `bag_kernel.py` | bags of rows: on an engine, in one pass if it can |
| `bag_gradients.py` | the gradient of their table in one call, on an engine that has it, or part by part |
| `updates.py` | sparse gradients of tables, and optimizers that update their rows in backward |
| `bag_operator.py` | the operator of bags with its gradient, `embedding_bag`; `segment_reduce`, `segment_sum`, … |
| `modules.py` | `Embedding`, `EmbeddingBag`, `embedding` |
| `tables.py` | `EmbeddingBags`: many tables in one call |
| `sharded_tables.py` | `ShardedEmbeddingBags`: tables of other processes |
| `dispatch.py` | operators of PyTorch's library, and the shortest way to each |

`import ptokit` does not import PyTorch; this package does.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as _problem:
    raise ImportError("ptokit.torch needs PyTorch: pip install 'ptokit[torch]'") from _problem

from ptokit.brief import brief
from ptokit.finding import suggestion as _suggestion
from ptokit.torch.bag_operator import embedding_bag, segment_max, segment_mean, segment_min, segment_reduce, segment_sum
from ptokit.torch.indexed import gather, scatter, scatter_
from ptokit.torch.modules import Embedding, EmbeddingBag, embedding
from ptokit.torch.sharded_tables import ShardedEmbeddingBags
from ptokit.torch.tables import EmbeddingBags

__all__ = [
    "Embedding",
    "EmbeddingBag",
    "EmbeddingBags",
    "ShardedEmbeddingBags",
    "embedding",
    "embedding_bag",
    "gather",
    "scatter",
    "scatter_",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_reduce",
    "segment_sum",
]


def __getattr__(name: str) -> object:
    hint = "" if name.startswith("_") else _suggestion(name, __all__)
    raise AttributeError(f"module {__name__!r} has no attribute {brief(name)}{hint}", name=name, obj=None)
