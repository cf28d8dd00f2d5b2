"""A model of the target's core: the values of the reference engine, and what the hardware would have made of them.

| file | what it knows |
|---|---|
| `options.py`, `report.py`, `text.py` | what a run is told, what it gives, and that in words |
| `cores.py`, `clocks.py` | whose pipes they are; pipes, flags, and what certainly comes before what |
| `extent.py`, `shadow.py`, `memories.py` | which bytes an access touches, who touched them last, in which memory |
| `site.py`, `executed.py` | an instruction before its data are known, and after it was executed |
| `hazards.py`, `rules.py`, `repeats.py` | which hazard it is, and how it is said |
| `outcomes.py` | what became of every lane |
| `grains.py`, `ways.py`, `traffic.py` | what moves together; who goes to global memory; all that is moved |
| `costs.py`, `formulas.py`, `timed.py` | how long steps take: numbers, formulas, instructions |
| `schedule.py`, `timer.py`, `timeline.py` | when the pipes of a block are busy, of all blocks, and what they wait for |
| `adversary.py`, `deferred.py` | other legal schedules, and instructions in parts |
| `session.py`, `findings.py` | one launch, and what it has found |
| `frame.py`, `instruction.py`, `executable.py` | a block, an instruction and a program while a session looks on |
"""
