"""Tables whose rows or columns are held by several processes (docs/sharded.md).

| file | contents |
|---|---|
| `errors.py` | what a table raises, and how the end of an owner is told |
| `placement.py` | a table as rows and columns; which owner holds which; a placement that fits observed accesses |
| `messages.py` | calls as plain data, and as bytes with a checksum |
| `files.py` | parts of tables in files, checkpoints |
| `segments.py` | memory that the driver and owners on its machine share |
| `owner.py` | an owner: a part of a table, and the calls on it in their order |
| `log.py` | the calls since the last saved state of an owner |
| `shard.py` | the driver's side of an owner: calls under way, restart and replay |
| `route.py` | the lanes of a call by owner |
| `options.py` | the options of a table, and its folder |
| `group.py` | the owners of a table: numbers of calls; a call that reaches all of them or none |
| `refusals.py` | the errors of `pto.gather` and `pto.scatter`, before anything is sent |
| `calls.py` | gathers and scatters: sent to owners, and their answers put together; calls under way |
| `states.py` | the whole table in files: checkpoints, new placements |
| `table.py` | `pto.ShardedTable`: what the user calls |
| `ray_owners.py` | owners as Ray actors; plain functions as Ray tasks |
"""
