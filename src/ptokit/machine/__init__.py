"""A model of the target's core: the values of the reference engine, and what hardware would do with the program.

| file | what it knows |
|---|---|
| `report.py` | the options of a run and the blocks that it takes; its result, with repairs |
| `pipes.py` | the engine that runs flags, events, barriers and queues |
| `clocks.py`, `schedule.py`, `adversary.py` | that engine with vector clocks, with cycles, with a random order |
| `shadow.py`, `memories.py` | which bytes an access touches, the last accesses to them, in which memory |
| `site.py` | an instruction before its data are known, and after it; repeated destinations |
| `hazards.py` | the hazards, their messages, and what a fix writes |
| `ends.py` | for findings: the two accesses of a conflict with their iterations |
| `outcomes.py` | the outcome of every lane; sums over all executions |
| `ways.py` | accesses to global memory, and their sums |
| `costs.py`, `formulas.py` | how long instructions take: numbers and transfer sizes; formulas |
| `timer.py`, `timeline.py` | when pipes are busy, and what they wait for; that as text and for Perfetto |
| `advice.py` | changes of a block, timed again |
| `fit.py` | costs from measured times |
| `deferred.py` | an instruction whose pipes run their parts at different times, and may read stale data |
| `trial.py`, `repairs.py` | a launch run again with other flags; the search for a repair |
| `session.py`, `access_checks.py`, `findings.py` | one launch: its memory, its checks, and their findings |
| `block_cache.py` | what is remembered of blocks, so that equal ones are checked once |
| `instruction.py`, `executable.py` | a block, an instruction and a program that a session observes |
"""

MACHINE = "machine"
"""The name of this engine."""
ENOUGH = "enough"
"""For the option `blocks`: all blocks, or as many of a large launch as a check needs."""
