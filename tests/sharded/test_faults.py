"""What can go wrong besides an end of owners: full disks, corrupt files, other versions, owners that hang."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.sharded import files, log, shard
from ptokit.sharded.messages import Message, packed, unpacked
from tests.sharded.inprocess import InProcess, same, table

ARRAY = np.arange(60, dtype="float32").reshape(10, 6)
ALL = np.arange(10)


def end(made: Any, owner: int = 0) -> None:
    """End an owner: the next call to it starts another."""
    made._shards[owner]._endpoint.is_dead = True


def flip(path: Path, at: int = -1) -> None:
    """Change one byte."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# --- Full disks


def test_a_call_that_cannot_be_logged_is_refused_everywhere() -> None:
    made = table(ARRAY, 2, log_memory=0)
    made.scatter(1, ALL, atomic="add")
    broken = made._shards[1].log
    broken.path = "/dev/full"
    with pytest.raises(pto.ShardedError, match=r"cannot log the call: No space left on device.*Nothing was written"):
        made.scatter(1, ALL, atomic="add")
    assert same(made, ARRAY + 1)
    end(made)
    assert same(made, ARRAY + 1)  # the first owner does not repeat what was refused
    broken.path = made._folder + "/again"
    made.scatter(1, np.arange(5), atomic="add")
    made.close()


@pytest.mark.parametrize("when", ["checkpoint", "bound of the log", "restore", "rebalance"])
def test_a_full_disk_loses_nothing(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(ARRAY, 2, log_bytes=300)
    made.checkpoint(tmp_path)
    made.scatter(np.float32(1), np.repeat(ALL[:3], 5), atomic="add")
    wanted = made.to_numpy().copy()
    does = {
        "checkpoint": lambda: made.checkpoint(tmp_path),
        "bound of the log": lambda: made.scatter(1, np.zeros(30, int), atomic="add"),
        "restore": lambda: made.restore(tmp_path),
        "rebalance": made.rebalance,
    }
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_files", full)
        with pytest.raises(pto.ShardedError, match="No space left"):
            does[when]()
        assert same(made, wanted)
    end(made, 0)
    end(made, 1)
    assert same(made, wanted)
    made.restore(tmp_path)
    assert same(made, ARRAY)
    made.close()


def test_a_table_that_cannot_be_saved_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "write_files", full)
    with pytest.raises(pto.ShardedError, match=r"cannot save the table.*No space left"):
        table(ARRAY)


# --- Bounds of the log


@pytest.mark.parametrize("limits", [{"log_bytes": 200}, {"log_memory": 0}, {"log_bytes": 500, "log_memory": 100}])
def test_calls_are_repeated_from_a_bounded_log(limits: dict[str, int]) -> None:
    made, wanted = table(ARRAY, 2, **limits), ARRAY.copy()
    for step in range(12):
        made.scatter(np.float32(step), ALL[step % 5 :], atomic="add")
        wanted[step % 5 :] += step
        assert made._shards[0].log.nbytes <= limits.get("log_bytes", 1 << 20) + 200
        end(made, step % 2)
        assert same(made, wanted)
    assert len(made.findings) == 12
    made.close()


# --- Corrupt files


def test_a_changed_byte_of_the_log_is_an_error_and_restore_helps(tmp_path: Path) -> None:
    made = table(ARRAY, 2, log_memory=0)
    made.checkpoint(tmp_path)
    made.scatter(1, ALL, atomic="add")
    flip(Path(made._shards[0].log.path))
    end(made)
    for _ in range(2):
        with pytest.raises(pto.ShardedError, match="the checksum of the record is wrong"):
            made.gather(ALL)
    made.restore(tmp_path)
    assert same(made, ARRAY)
    made.close()


@pytest.mark.parametrize("at", [0, 9, 20, -1])
def test_records_are_checked(at: int, tmp_path: Path) -> None:
    record = packed(Message({"do": "scatter"}, (ALL, ARRAY)))
    found = unpacked(record, "here")
    assert found.header == {"do": "scatter"} and np.array_equal(found.arrays[1], ARRAY)
    changed = bytearray(record)
    changed[at] ^= 1
    with pytest.raises(pto.ShardedError, match="checksum"):
        unpacked(bytes(changed), "here")
    with pytest.raises(pto.ShardedError, match=r"cut short|checksum"):
        unpacked(record[: at % 30], "here")


def test_a_corrupt_checkpoint_is_refused_and_the_table_stays(tmp_path: Path) -> None:
    made = table(ARRAY, 2)
    made.checkpoint(tmp_path)
    made.scatter(7, ALL)
    first = sorted(tmp_path.glob("shard-*"))[0]
    for damage in (lambda: flip(first), lambda: first.write_bytes(first.read_bytes()[:-5]), first.unlink):
        damage()
        with pytest.raises(pto.ShardedError, match=r"corrupt|cannot read"):
            made.restore(tmp_path)
        with pytest.raises(pto.ShardedError, match=r"corrupt|cannot read"):
            pto.ShardedTable.from_checkpoint(tmp_path, _owners=InProcess())
        assert same(made, np.full_like(ARRAY, 7))
    made.close()


def test_manifests_are_checked(tmp_path: Path) -> None:
    made = table(ARRAY, 2)
    with pytest.raises(pto.ShardedError, match="no checkpoint in"):
        made.restore(tmp_path)
    made.checkpoint(tmp_path)
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    changes: list[tuple[dict[str, Any], str]] = [
        ({"format": 2}, "is of format 2; this version of ptokit"),
        ({"shape": [10, 7]}, "its checksum is wrong"),
    ]
    for change, message in changes:
        path.write_text(json.dumps(content | change))
        with pytest.raises(pto.ShardedError, match=message):
            made.restore(tmp_path)
    evil = {k: v for k, v in content.items() if k != "checksum"}
    evil["files"] = [{**each, "file": "../../etc/passwd"} for each in evil["files"]]
    path.write_text(json.dumps(evil | {"checksum": files._checksum(evil)}))
    with pytest.raises(pto.ShardedError, match="is no file of a checkpoint"):
        made.restore(tmp_path)
    path.write_text("{")
    with pytest.raises(pto.ShardedError, match="corrupt"):
        made.restore(tmp_path)
    assert same(made, ARRAY)
    made.close()


def test_a_corrupt_saved_state_is_an_error() -> None:
    made = table(ARRAY, 2)
    flip(Path(made._shards[0].base.own[0]))
    end(made)
    with pytest.raises(pto.ShardedError, match="is corrupt"):
        made.gather(ALL)
    made.close()


def test_a_file_that_changed_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, ARRAY)
    made = pto.ShardedTable.from_file(path, _owners=InProcess())
    assert same(made, ARRAY)
    np.save(path, np.zeros((20, 6), "float32"))
    end(made)
    with pytest.raises(pto.ShardedError, match="has changed since"):
        made.gather(ALL)
    made.close()
    for wrong in (np.asfortranarray(ARRAY), np.array([None])):
        np.save(path, wrong, allow_pickle=True)
        with pytest.raises((pto.ShardedError, TypeError)):
            pto.ShardedTable.from_file(path, _owners=InProcess())


# --- Owners


def test_an_owner_of_another_version_is_refused() -> None:
    owners = InProcess()
    owners.about = {"ptokit": "0.0.1"}
    with pytest.raises(pto.ShardedError, match=r"runs ptokit 0\.0\.1 .*install the same version"):
        table(ARRAY, owners=owners)


def test_an_owner_that_hangs_is_replaced() -> None:
    owners = InProcess()
    made = table(ARRAY, 2, owners=owners, timeout=0)
    made.scatter(1, ALL, atomic="add")
    owners.hung[made.owner_pids()[1]] = True
    assert same(made, ARRAY + 1)
    assert "owner 1" in made.findings[0].message and "did not answer within 0 s" in made.findings[0].message
    made.close()


def test_an_owner_that_never_starts_is_an_error_and_calls_are_kept() -> None:
    dies = [False]
    owners = InProcess(lambda do: "before" if dies[0] else "")
    made = table(ARRAY, 1, owners=owners)
    dies[0] = True
    with pytest.raises(pto.ShardedError, match=r"could not be started, 8 times.*do not repeat them"):
        made.scatter(1, ALL, atomic="add")
    dies[0] = False
    assert same(made, ARRAY + 1)  # once
    made.close()


def test_a_repeated_call_is_applied_once_and_a_gap_is_seen() -> None:
    made = table(ARRAY, 1)
    owner = made._shards[0]._endpoint.owner
    scatter = {"do": "scatter", "seq": 5, "after": 0, "options": {"atomic": "add"}}
    arrays = (ALL, np.ones((), "float32"))
    assert owner.answer(scatter, arrays).header == {}
    assert owner.answer(scatter, arrays).header == {"repeated": True}
    assert np.array_equal(owner.array, ARRAY + 1)
    assert owner.answer({**scatter, "seq": 9, "after": 7}, arrays).header == {"fault": "gap", "applied": 5}
    gather = {"do": "gather", "after": 4, "coalesce": "row", "segment": None}
    assert owner.answer(gather, (ALL, ALL[:0])).header["fault"] == "gap"
    assert np.array_equal(owner.array, ARRAY + 1)
    made.close()


def test_calls_after_the_end_are_refused() -> None:
    with table(ARRAY) as made:
        handle = made.gather_async(ALL)
    for call in (lambda: made.gather(ALL), handle.result, lambda: made.scatter(1, ALL), made.rebalance):
        with pytest.raises(pto.ShardedError, match="closed"):
            call()
    made.close()


@pytest.mark.parametrize("wrong", [{"shards": 0}, {"shards": 2000}, {"by": "tiles"}, {"colour": 1}])
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        pto.ShardedTable.create(ARRAY, **{"_owners": InProcess(), **wrong})


# --- Results, placement


def test_results_of_shared_memory_are_not_overwritten_and_zeros_are_written() -> None:
    made = table(ARRAY + 1, 2)
    first = made.gather(ALL)
    second = made.gather(np.array([99] * 10), oob="zero")
    assert np.array_equal(first, ARRAY + 1) and not second.any()
    del first
    assert not made.gather(np.array([50] * 10), oob="zero").any()  # in memory that was used before
    made.close()


def test_memory_of_a_dropped_call_is_not_used_before_it_is_done() -> None:
    made = table(ARRAY, 2)
    dropped = made.gather_async(ALL)
    del dropped
    assert not made._segments._free
    later = made.gather_async(ALL[::-1].copy())
    assert np.array_equal(later.result(), ARRAY[::-1])
    assert made._segments._free  # the owner has done the first call
    made.close()


def test_many_calls_may_be_under_way() -> None:
    made, wanted = table(ARRAY, 2), ARRAY.copy()
    calls = [made.scatter_async(1, ALL[k % 10 :], atomic="add") for k in range(150)]
    for k in range(150):
        wanted[k % 10 :] += 1
    end(made)
    assert all(call.result() is made for call in calls)
    assert same(made, wanted)
    made.close()


def test_an_interrupted_call_reaches_all_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(ARRAY, 2)
    first, send = made._shards[0], made._shards[0].send_change
    interrupts = [KeyboardInterrupt()]

    def interrupted(seq: int, message: Message) -> Any:
        sent = send(seq, message)
        if interrupts:
            raise interrupts.pop()
        return sent

    monkeypatch.setattr(first, "send_change", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.scatter(1, ALL, atomic="add")
    assert same(made, ARRAY + 1)
    made.close()


def test_hot_ranges_are_split() -> None:
    array = np.zeros((1000, 2), "float32")
    made = table(array, 4)
    rng = np.random.default_rng(0)
    hot = rng.integers(100, 140, 5000)
    made.gather(hot)
    made.rebalance()
    owner = np.zeros(1000, int)
    for start, stop, number in made.placement:
        owner[start:stop] = number
    load = np.bincount(owner[hot], minlength=4)
    assert load.max() <= 1.25 * load.mean()
    assert np.bincount(owner).max() <= 1.6 * 250
    assert same(made, array)
    made.close()


def test_sources_and_indices_may_change_while_a_call_is_under_way() -> None:
    made = table(ARRAY, 2)
    src, indices = np.ones((10, 6), "float32"), ALL.copy()
    write, read = made.scatter_async(src, indices), made.gather_async(indices)
    src[:], indices[:] = 9, 0
    assert write.result() is made and np.array_equal(read.result(), np.ones((10, 6)))
    end(made)
    assert same(made, np.ones((10, 6), "float32"))
    made.close()


def test_the_log_is_no_larger_than_what_it_holds(tmp_path: Path) -> None:
    kept = log.CallLog(str(tmp_path / "log"), 100)
    for seq in range(5):
        kept.append(seq, Message({"seq": seq}, (np.full(10, seq),)))
    kept.drop_last(4)
    kept.append(4, Message({"seq": 4}, (np.full(10, 4),)))
    assert [(seq, int(message.arrays[0][0])) for seq, message in kept.after(1)] == [(2, 2), (3, 3), (4, 4)]
    kept.clear()
    assert not len(kept) and not kept.nbytes and not (tmp_path / "log").exists()


# --- Bounded work


@pytest.mark.parametrize("do", ["gather", "scatter"])
def test_a_call_that_fails_every_time_is_an_error(do: str, tmp_path: Path) -> None:
    fails = [False]
    owners = InProcess(lambda done: "before" if fails[0] and done == do else "")
    made = table(ARRAY, 2, owners=owners)
    made.checkpoint(tmp_path)
    fails[0] = True
    calls = {"gather": lambda: made.gather(ALL), "scatter": lambda: made.scatter(1, ALL, atomic="add")}
    with pytest.raises(pto.ShardedError, match=r"has ended, at call \d+ each of 8 times"):
        calls[do]()
    assert len(owners.started) <= 20
    if do == "scatter":
        made.restore(tmp_path)  # gives the call up
    fails[0] = False
    assert same(made, ARRAY)
    made.close()


def test_asking_whether_a_call_is_done_finds_an_owner_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(shard.time, "monotonic", lambda: clock[0])
    owners = InProcess()
    made = table(ARRAY, 2, owners=owners, timeout=5)
    owners.hung[made.owner_pids()[1]] = True
    call = made.gather_async(ALL)
    for _ in range(4):
        assert not call.done() and not made.findings
        clock[0] += 1
    clock[0] += 2
    assert call.done() and np.array_equal(call.result(), ARRAY)
    assert "did not answer within 5 s" in made.findings[0].message
    made.close()


def test_many_small_calls_do_not_lengthen_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptokit.sharded.table.MOST_LOGGED", 3)
    made = table(ARRAY, 1)
    for step in range(10):
        made.scatter(step, [0])
        assert len(made._shards[0].log) <= 3
    end(made)
    assert made.gather([0])[0, 0] == 9
    made.close()
