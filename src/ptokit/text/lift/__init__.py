"""From a `Program` to a tree of operations, for every form of text.

| file | what it knows |
|---|---|
| `lifting.py` | statements and instructions, with destinations or with values |
| `writing.py` | unique names, numbers as operations, views of memory |
"""

from ptokit.text.lift.lifting import Form, lift

__all__ = ["Form", "lift"]
