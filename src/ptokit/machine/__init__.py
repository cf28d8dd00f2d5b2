"""A model of the target's core: the values of the reference engine, and what the hardware would have made of them.

| file | what it knows |
|---|---|
| `options.py`, `report.py`, `text.py` | what a run is told, what it gives, and that in words |
| `clocks.py` | pipes, flags, and what certainly comes before what |
| `extent.py`, `shadow.py`, `memories.py` | which bytes an access touches, who touched them last, in which memory |
| `site.py`, `executed.py` | an instruction before its data are known, and after it was executed |
| `hazards.py`, `rules.py`, `repeats.py` | which hazard it is, and how it is said |
| `outcomes.py`, `traffic.py` | what became of every lane; launches, transactions and bursts |
| `costs.py`, `timer.py`, `timeline.py` | how long steps take, when pipes are busy, and what they wait for |
| `adversary.py` | other legal schedules |
| `session.py`, `findings.py`, `executable.py` | one launch, what it has found, and the program that is launched |
"""
