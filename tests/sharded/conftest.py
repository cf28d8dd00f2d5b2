"""One Ray for all tests of a process, on the loopback address."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    """Ray, started for the tests and ended after them."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    from ptokit.sharded.ray_owners import LOOPBACK, connected

    module = connected()
    assert module.util.get_node_ip_address() in LOOPBACK
    yield module
    module.shutdown()
