"""Tables whose rows or columns are held by several processes (docs/sharded.md).

| file | contents |
|---|---|
| `placement.py` | a table as rows and columns; which owner holds which; a placement that fits observed accesses |
| `messages.py` | calls as plain data, and as bytes with a checksum; what a table raises |
| `files.py` | parts of tables in files, checkpoints |
| `segments.py` | memory that the driver and owners on its machine share |
| `owner.py` | an owner: a part of a table, and the calls on it in their order |
| `shard.py` | the driver's side of an owner: calls under way, the log of calls, restart and replay |
| `route.py` | the lanes of a call by owner |
| `options.py` | the options of a table, and its folder |
| `group.py` | the owners of a table: a call that reaches all of them or none; checkpoints, new placements |
| `refusals.py` | the errors of `pto.gather` and `pto.scatter`, before anything is sent |
| `table.py` | `pto.ShardedTable`: what the user calls; calls sent to owners, and their answers |
| `ray_owners.py` | owners as Ray actors; plain functions as Ray tasks |
"""
