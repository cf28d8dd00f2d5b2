"""Without PyTorch there is nothing here to collect; `make test-extras` installs it."""

from __future__ import annotations

from ptokit.engines import is_installed

collect_ignore_glob = [] if is_installed("torch") else ["test_*.py"]
