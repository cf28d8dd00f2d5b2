"""Index traces: which entries of which tables a program reads and writes, in order.

- `traced_calls.py`: calls of a trace; what policies make of indices; a table with as much as calls touch
- `file.py`: `IndexTrace`, and how its tables are used; traces as files
- `recording.py`, `recorder.py`, `hooks.py`: `pto.record_indices`; limits; the calls of ptokit and of torch that it sees
- `described.py`, `table_memory.py`: such calls as a trace has them; which of them are on the same table
- `process.py`: the process that runs a user's program for `ptokit trace-indices`
- `draws.py`, `generate.py`: random numbers with the same bits everywhere; `zipf`, `moe_routing`, `paged_kv`
- `replay.py`: `replay`, and its result as a table
- `kernels.py`, `on_machine.py`: a trace on the machine
- `on_host.py`, `on_shards.py`: on the native engine, against other libraries; on a sharded table
"""

from ptokit.traces.file import IndexTrace
from ptokit.traces.generate import GENERATORS, generate, moe_routing, paged_kv, zipf
from ptokit.traces.recording import record_indices
from ptokit.traces.replay import ReplayResult, replay
from ptokit.traces.traced_calls import LookupKind, TracedCall

__all__ = [
    "GENERATORS", "IndexTrace", "LookupKind", "ReplayResult", "TracedCall", "generate", "moe_routing", "paged_kv",
    "record_indices", "replay", "zipf",
]  # fmt: skip
