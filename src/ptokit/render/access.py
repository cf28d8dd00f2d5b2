"""Gathers and scatters on a terminal: the cells that their lanes touch, the indices, and what left the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

BARS, PLAIN_BARS = ".▁▂▃▄▅▆▇█", ".:-=+*#%@"
"""From no lane to the most, on terminals that have these characters, and on others."""
FULL, PLAIN_FULL = "█", "#"
MOST_BUCKETS, MOST_REPEATS, MOST_OUTSIDE = 16, 5, 8
"""Lines of a histogram; repeated cells and moved lanes that are listed."""
LONGEST_BAR = 40
HEAT = ("dim", "blue", "blue", "cyan", "cyan", "green", "yellow", "yellow", "red")


def access_lines(found: Mapping[str, Any], width: int, *, is_plain: bool = False) -> Iterator[Text]:
    """One gather or scatter: `found` is an entry of `report.access.access_maps`."""
    yield Text(_title(found), style="bold")
    yield Text(f"  {_touched(found)}")
    yield from _strip(found["by_cell"]["counts"], found["cells"], width, PLAIN_BARS if is_plain else BARS)
    yield Text(f"  {_outcomes(found)}", style="red" if _outside(found) else "")
    yield from (Text(f"    {line}") for line in _moved(found))
    if found["repeats"]:
        yield Text(f"  most repeated: {_repeats(found)}")
    yield Text("  indices", style="bold")
    yield from _histogram(found, width, PLAIN_FULL if is_plain else FULL)


def _title(found: Mapping[str, Any]) -> str:
    where = found["where"]
    place = f" ({where['file']}:{where['line']})" if where else ""
    many = f" in {found['executions']:,} executions" if found["executions"] > 1 else ""
    lanes = f"{found['lanes']:,} lanes{many} of {found['lane_bytes']:,} bytes"
    return f"{found['instruction']}{place}: {lanes} over {found['cells']:,} {found['unit']}s of {found['table']}"


def _touched(found: Mapping[str, Any]) -> str:
    total, distinct = found["cells"], found["distinct"]
    share = f" ({distinct / total:.0%})" if total else ""
    efficiency = "" if found["efficiency"] is None else f"; efficiency {found['efficiency']:.0%} of the bytes moved"
    return f"touches {distinct:,} of {total:,} {found['unit']}s{share}{efficiency}"


def _strip(bins: Sequence[int], cells: int, width: int, bars: str) -> Iterator[Text]:
    """The table from its first cell to its last: darker where more lanes touch it."""
    last = f"{max(cells - 1, 0):,}"
    room = max(8, width - len(last) - 8)
    folded = _folded(bins, room)
    most = max(folded, default=0)
    line = Text("  0 |")
    for count in folded:
        level = -(-count * (len(bars) - 1) // most) if most else 0
        line.append(bars[level], HEAT[level])
    yield line.append(f"| {last}")


def _folded(counts: Sequence[int], most: int) -> list[int]:
    """Counts of neighbours together, so that at most `most` are left."""
    size = max(1, -(-len(counts) // most))
    return [sum(counts[first : first + size]) for first in range(0, len(counts), size)]


def _outside(found: Mapping[str, Any]) -> int:
    return found["outside_below"] + found["outside_above"]


def _outcomes(found: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count:,} {name}" for name, count in found["counts"].items())
    if not _outside(found):
        return f"lanes: {counts}; none is out of bounds"
    return f"lanes: {counts}; {_outside(found):,} out of bounds ({_sides(found)})"


def _sides(found: Mapping[str, Any]) -> str:
    sides = (f"{found['outside_below']:,} below 0", found["outside_below"]), (
        f"{found['outside_above']:,} above {found['capacity'] - 1:,}", found["outside_above"],
    )  # fmt: skip
    return ", ".join(text for text, count in sides if count)


def _moved(found: Mapping[str, Any]) -> Iterator[str]:
    """Lanes whose index left the table, and what became of them."""
    listed = found["listed"]
    rows = [row for row in listed["rows"] if row[3] or not 0 <= row[2] < found["capacity"]]
    for block, _, index, code, cell, *_ in rows[:MOST_OUTSIDE]:
        to = f" to {found['unit']} {cell:,}" if cell >= 0 and code else ""
        yield f"block {block}: index {index:,} {listed['outcomes'][code]}{to}"
    total = max(len(rows), _outside(found))  # not every lane is listed
    if total > MOST_OUTSIDE:
        yield f"... {total - MOST_OUTSIDE:,} more"


def _repeats(found: Mapping[str, Any]) -> str:
    named = [f"{found['unit']} {cell:,} x {count:,}" for cell, count in found["repeats"][:MOST_REPEATS]]
    return ", ".join(named)


def _histogram(found: Mapping[str, Any], width: int, full: str) -> Iterator[Text]:
    """Index values as they were read; red where they are outside."""
    edges, counts = found["histogram"]["edges"], found["histogram"]["counts"]
    size = max(1, -(-len(counts) // MOST_BUCKETS))
    folded, starts = _folded(counts, MOST_BUCKETS), edges[:-1:size]
    ends = [*starts[1:], edges[-1]]
    names = [_bucket(first, end - 1) for first, end in zip(starts, ends, strict=True)]
    wide, most = max(map(len, names)), max(folded)
    number = len(f"{most:,}")
    room = max(4, min(LONGEST_BAR, width - wide - number - 8))
    for name, first, end, count in zip(names, starts, ends, folded, strict=True):
        is_outside = first < 0 or end > found["capacity"]
        bar = full * -(-count * room // most) if most else ""
        line = Text(f"    {name:>{wide}} ")
        line.append(bar.ljust(room), "red" if is_outside and count else "cyan")
        yield line.append(f" {count:>{number},}")


def _bucket(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,}..{last:,}"
