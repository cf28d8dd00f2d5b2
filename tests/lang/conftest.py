"""Tests that clear Python's cache of source lines clear a copy: other tests keep the sources of their kernels there."""

from __future__ import annotations

import linecache

import pytest


@pytest.fixture(autouse=True)
def own_cache_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))
