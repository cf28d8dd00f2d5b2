"""Every example of the clause table does what it says."""

from __future__ import annotations

import pytest

from conformance.harness import check_example
from ptokit import spec


@pytest.mark.parametrize("name", sorted(spec.examples()))
def test_example(name: str) -> None:
    check_example(name)
