"""The options of a table."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from numbers import Real
from typing import Any

from ptokit.brief import brief
from ptokit.sharded.messages import ShardedError
from ptokit.sharded.ray_owners import RayOwners

MOST_SHARDS = 1024
TIMEOUT = 300.0
"""Seconds that an owner may take for one call."""
LOG_BYTES, LOG_MEMORY = 1 << 30, 1 << 26
"""Bytes of the log of an owner until its part is saved, and at least of those that stay in memory."""
LOG_SHARE = 16
"""The share of the machine's memory that all logs may take."""
DEFAULTS = {"directory": None, "timeout": TIMEOUT, "log_bytes": LOG_BYTES, "log_memory": None, "threads": None}
LEAST = {"timeout": 0, "log_bytes": 0, "log_memory": 0, "threads": 1}


@dataclass(frozen=True)
class TableOptions:
    """What the user chose, and what starts the owners."""

    folder: str
    """A new folder of the table alone."""
    timeout: float
    log_bytes: int
    log_memory: int
    threads: int
    owners: RayOwners


def parse_options(given: dict[str, Any], shards: int, by: str) -> TableOptions:
    """The options of a table; makes its folder."""
    if by not in ("rows", "columns"):
        raise ValueError(f"by takes 'rows' or 'columns'; found {brief(by)}")
    if not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
        raise ValueError(f"a table has 1 to {MOST_SHARDS} shards; found {brief(shards)}")
    owners = given.pop("_owners", None)
    if unknown := [name for name in given if name not in DEFAULTS]:
        raise TypeError(f"unexpected keyword argument {brief(unknown[0])}; a table takes {', '.join(DEFAULTS)}")
    how = DEFAULTS | given
    for name, least in LEAST.items():
        _check_number(name, how[name], least)
    owners = owners or RayOwners()
    if how["threads"] is None:
        how["threads"] = max(1, (os.cpu_count() or 1) * getattr(owners, "machines", 1) // shards)
    if how["log_memory"] is None:
        how["log_memory"] = min(LOG_BYTES, max(LOG_MEMORY, _memory() // (LOG_SHARE * shards)))
    return TableOptions(_new_folder(how.pop("directory")), owners=owners, **how)


def _memory() -> int:
    """Bytes of this machine's memory; 0 if the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def _check_number(name: str, found: object, least: int) -> None:
    if found is None and DEFAULTS[name] is None:
        return
    if not isinstance(found, Real) or not float(found) >= least:
        raise ValueError(f"{name} takes a number from {least} on; found {brief(found)}")


def _new_folder(directory: str | os.PathLike[str] | None) -> str:
    try:
        return tempfile.mkdtemp(prefix="ptokit-", dir=None if directory is None else os.path.abspath(directory))
    except OSError as problem:
        where = tempfile.gettempdir() if directory is None else os.path.abspath(directory)
        raise ShardedError(f"cannot make a folder in {where}: {problem.strerror}") from problem
