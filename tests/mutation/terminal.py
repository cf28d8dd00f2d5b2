"""The progress bar of the package, loaded without the package: children import that from their copies."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "src/ptokit/progress.py"
_spec = spec_from_file_location("progress_of_mutants", FILE)
assert _spec is not None and _spec.loader is not None
progress = module_from_spec(_spec)
_spec.loader.exec_module(progress)
