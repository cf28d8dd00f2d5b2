"""Without a GPU there is nothing here to collect; `make test-gpu` refuses to run then."""

from __future__ import annotations

from ptokit.engines import is_installed


def _has_gpu() -> bool:
    if not is_installed("cupy") or not is_installed("torch"):
        return False
    import torch

    return torch.cuda.is_available()


collect_ignore_glob = [] if _has_gpu() else ["test_*.py"]
