"""Every example of the clause table does what it says."""

from __future__ import annotations

import pytest

from ptokit import spec
from tests.conformance.harness import check_example, run_once


@pytest.mark.parametrize("name", sorted(spec.examples()))
def test_example(name: str) -> None:
    check_example(name, run=run_once)
