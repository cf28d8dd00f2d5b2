"""A model of the target's core: the values of the reference engine, and what the hardware would have made of them.

| file | what it knows |
|---|---|
| `options.py`, `report.py`, `text.py` | what a run is told, what it gives, and that in words |
| `cores.py`, `pipes.py` | the cores of pipes; the engine that runs flags, events, barriers and queues |
| `clocks.py`, `schedule.py`, `adversary.py` | that engine with vector clocks, with cycles, with a random order |
| `extent.py`, `shadow.py`, `memories.py` | which bytes an access touches, who touched them last, in which memory |
| `site.py`, `executed.py` | an instruction before its data are known, and after it was executed |
| `hazards.py`, `rules.py`, `repeats.py` | which hazard it is, and how it is said |
| `outcomes.py` | what became of every lane |
| `grains.py`, `ways.py`, `traffic.py` | what moves together; who goes to global memory; all that is moved |
| `costs.py`, `formulas.py`, `timed.py` | how long steps take: numbers, formulas, instructions |
| `timer.py`, `timeline.py` | when the pipes of all blocks are busy, and what they wait for |
| `deferred.py` | an instruction whose pipes run their parts at different times |
| `session.py`, `findings.py` | one launch, and what it has found |
| `frame.py`, `instruction.py`, `executable.py` | a block, an instruction and a program while a session looks on |
"""
