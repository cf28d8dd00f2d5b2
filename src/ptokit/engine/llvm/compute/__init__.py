"""Computing operations as machine code, one loop nest each.

| file | what it knows |
|---|---|
| `operations.py` | each operation by name: for which types there is code, whether it works in place, the code |
| `walk.py` | regions lane by lane, or in vectors where they lie so |
| `elements.py`, `convert.py` | arithmetic on elements, `exp` and `log`; conversions |
| `rows.py`, `masks.py` | rows reduced; comparisons and selections |
| `cube.py`, `units.py`, `wide.py` | matrix products; on matrix units, from registers or from shared memory |
"""
