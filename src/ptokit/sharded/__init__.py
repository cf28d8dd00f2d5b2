"""Tables whose rows or columns are held by several processes (docs/sharded.md).

| file | contents |
|---|---|
| `errors.py` | what a table raises, and how the end of an owner is told |
| `placement.py` | which owner holds which rows or columns; a placement that fits observed accesses |
| `messages.py` | calls as plain data, and as bytes with a checksum |
| `files.py` | parts of tables in files, checkpoints |
| `segments.py` | memory that the driver and owners on its machine share |
| `owner.py` | an owner: a part of a table, and the calls on it in their order |
| `log.py` | the calls since the last saved state of an owner |
| `shard.py` | the driver's side of an owner: calls under way, restart and replay |
| `refusals.py` | the errors of `pto.gather` and `pto.scatter`, before anything is sent |
| `route.py` | the lanes of a call by owner |
| `table.py` | `pto.ShardedTable` |
| `ray_owners.py` | owners as Ray actors |
| `tasks.py` | plain functions as Ray tasks |
"""
