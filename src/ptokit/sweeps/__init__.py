"""Launches over values of parameters.

- `run.py`: `pto.sweep`, and the launches of a sweep
- `best.py`: points; the best one of a target, and why it is the best
- `result.py`: points as a table, CSV and HTML
- `plot.py`: points as a picture, by matplotlib
"""
