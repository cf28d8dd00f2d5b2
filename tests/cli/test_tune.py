"""`ptokit tune`: it chooses what is clearly faster, keeps it for this processor, and reads only what is valid."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llvmlite")

from ptokit.cli import tune
from ptokit.engine.llvm import store
from ptokit.engine.native import host
from tests.cli.shell import fine, misuse

PLAIN = host.Host()


@pytest.fixture(autouse=True)
def cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTOKIT_CACHE", "code")
    monkeypatch.setattr(host, "untuned", lambda: PLAIN)
    monkeypatch.setattr(tune, "TABLE", 1 << 12)
    monkeypatch.setattr(tune, "RESULTS", (1 << 12, 1 << 11, 1 << 10, 1 << 9))
    monkeypatch.setattr(tune, "LANES", 64)


def simulated(monkeypatch: pytest.MonkeyPatch, best: host.Host) -> None:
    """A processor on which each choice of `best` makes moves a tenth faster."""

    def seconds(_self: Any, facts: host.Host, call: Any) -> float:
        streams = call.keywords.get("out") is not None and call.keywords["out"].nbytes >= best.stream_from
        wrong = [facts.copies != best.copies, set(facts.unfetched) != set(best.unfetched)]
        wrong.append(facts.stream_from == 1 and not streams)
        wrong.append(facts.stream_from == host.NEVER and streams)
        return 1.1 ** (sum(wrong) + len(set(facts.unfetched) ^ set(best.unfetched)))

    monkeypatch.setattr(tune._Measurement, "_time", seconds)
    monkeypatch.setattr(tune._Measurement, "_wake", lambda _self, _facts: best.wake)


BEST = replace(PLAIN, copies=False, unfetched=("store rows", "add elements"), stream_from=1 << 10, wake=77_000)


@pytest.mark.parametrize(
    "best", [PLAIN, BEST, replace(BEST, stream_from=host.NEVER), replace(PLAIN, stream_from=1 << 9)]
)
def test_what_is_faster_is_kept(best: host.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated(monkeypatch, best)
    shown = json.loads(fine("tune", "--json"))
    assert shown["measured"] and (shown["copies"], shown["wake"]) == (best.copies, best.wake)
    assert shown["stream_from"] == (None if best.stream_from == host.NEVER else best.stream_from)
    assert tuple(shown["unfetched"]) == best.unfetched
    assert json.loads(fine("tune", "--show", "--json")) == shown
    assert host._found() == best
    assert not json.loads(fine("tune", "--reset", "--json"))["measured"]
    assert host._found() == PLAIN and "measured: no\n" in fine("tune", "--show")


def test_little_is_measured_in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "SECONDS", -1)
    before = host.HOST
    assert "unfetched: nothing\n" in fine("tune")
    assert replace(host._found(), wake=PLAIN.wake) == PLAIN and host.HOST is before


def test_a_real_measurement_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "ROUNDS", 2)
    assert fine("tune").startswith("measured: yes\n") and host.tuned() is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [("copies", 1), ("unfetched", ["rows"]), ("unfetched", "gather rows"), ("stream_from", 0), ("stream_from", 1e9),
     ("wake", True), ("wake", -5), ("wake", None)],
)  # fmt: skip
def test_what_is_not_valid_is_not_used(name: str, value: Any) -> None:
    facts = {**{each: fact for each, fact in asdict(BEST).items() if each in host.CHECKS}, "unfetched": []}
    store.save(host._key(), store.Entry({**facts, "stream_from": 1 << 20}, b""))
    assert host.tuned() is not None
    store.save(host._key(), store.Entry({**facts, "stream_from": 1 << 20, name: value}, b""))
    assert host.tuned() is None and host._found() == PLAIN
    store.save(host._key(), store.Entry({key: fact for key, fact in facts.items() if key != name}, b""))
    assert host.tuned() is None


def test_misuse(monkeypatch: pytest.MonkeyPatch) -> None:
    assert misuse("tune", "--show", "--reset") == "ptokit: --show and --reset exclude each other"
    monkeypatch.setenv("PTOKIT_CACHE", "off")
    assert misuse("tune") == "ptokit: the cache is not used: it is switched off by PTOKIT_CACHE"
    assert "measured: no\n" in fine("tune", "--show")


def test_sizes_come_from_the_system(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for nth, facts in enumerate((("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"))):
        place = folder / f"index{nth}"
        place.mkdir()
        for name, text in zip(("level", "type", "size"), facts, strict=True):
            (place / name).write_text(f"{text}\n")
    monkeypatch.setattr(host, "CACHES", folder)
    assert host.caches.__wrapped__() == {1: 48 << 10, 2: 2 << 20}
    (folder / "index0" / "size").write_text("?")
    monkeypatch.setattr(host, "CACHES", folder / "nothing")
    assert host.caches.__wrapped__() == {}
