"""What can go wrong besides an end of owners: full disks, corrupt files, other versions, owners that hang."""

from __future__ import annotations

import copy
import errno
import gc
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.sharded import files, segments, shard
from ptokit.sharded.messages import Message, checksum, packed, unpacked
from tests.sharded.inprocess import InProcess, same, table

ARRAY = np.arange(60, dtype="float32").reshape(10, 6)
ALL = np.arange(10)


def end(made: Any, owner: int = 0) -> None:
    """End an owner: the next call to it starts another."""
    made._group.shards[owner]._endpoint.is_dead = True


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
    broken = made._group.shards[1].log
    broken.path = "/dev/full"
    with pytest.raises(pto.ShardedError, match=r"cannot log the call: No space left on device.*Nothing was written"):
        made.scatter(1, ALL, atomic="add")
    assert same(made, ARRAY + 1)
    end(made)
    assert same(made, ARRAY + 1)  # the first owner does not repeat what was refused
    broken.path = made._group.folder + "/again"
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
        assert made._group.shards[0].log.nbytes <= limits.get("log_bytes", 1 << 20) + 200
        end(made, step % 2)
        assert same(made, wanted)
    assert len(made.findings) == 12
    made.close()


def test_a_small_part_is_saved_instead_of_writing_calls() -> None:
    most = 4 * ARRAY.nbytes
    made = table(ARRAY, 2, log_memory=most)
    shard = made._group.shards[0]
    first = shard.base
    for _ in range(200):
        made.scatter(ARRAY, ALL, atomic="add")
        assert shard.log.nbytes <= most and not os.path.exists(shard.log.path)
    assert shard.base is not first
    end(made)
    assert np.allclose(made.to_numpy(), 201 * ARRAY)
    made.close()


# --- Corrupt files


def test_a_changed_byte_of_the_log_is_an_error_and_restore_helps(tmp_path: Path) -> None:
    made = table(ARRAY, 2, log_memory=0)
    made.checkpoint(tmp_path)
    made.scatter(1, ALL, atomic="add")
    flip(Path(made._group.shards[0].log.path))
    end(made)
    for _ in range(2):
        with pytest.raises(pto.ShardedError, match="the checksum of the record is wrong"):
            made.gather(ALL)
    made.restore(tmp_path)
    assert same(made, ARRAY)
    made.close()


@pytest.mark.parametrize("at", [0, 9, 20, -1])
def test_records_are_checked(at: int, tmp_path: Path) -> None:
    record = b"".join(packed(Message({"do": "scatter"}, (ALL, ARRAY))))
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
    flip(Path(made._group.shards[0].base.own[0]))
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
    owner = made._group.shards[0]._endpoint.owner
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
    assert not made._group.results._free
    later = made.gather_async(ALL[::-1].copy())
    assert np.array_equal(later.result(), ARRAY[::-1])
    assert made._group.results._free  # the owner has done the first call
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
    first, send = made._group.shards[0], made._group.shards[0].send_change
    interrupts = [KeyboardInterrupt()]

    def interrupted(*change: Any) -> Any:
        sent = send(*change)
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
    kept = shard.CallLog(str(tmp_path / "log"), 100)
    for seq in range(5):
        kept.append(seq, Message({"seq": seq}, (np.full(10, seq),)))
    kept.drop_last(4)
    kept.append(4, Message({"seq": 4}, (np.full(10, 4),)))
    assert [(seq, int(message.arrays[0][0])) for seq, message in kept.after(1)] == [(2, 2), (3, 3), (4, 4)]
    kept.clear()
    assert not len(kept) and not kept.nbytes
    kept.append(5, Message({"seq": 5}, (np.full(50, 5),)))  # over what the file held
    assert [(seq, int(message.arrays[0].sum())) for seq, message in kept.after(0)] == [(5, 250)]
    kept.remove()
    assert not (tmp_path / "log").exists()


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
    monkeypatch.setattr("ptokit.sharded.shard.MOST_LOGGED", 3)
    made = table(ARRAY, 1)
    for step in range(10):
        made.scatter(step, [0])
        assert len(made._group.shards[0].log) <= 3
    end(made)
    assert made.gather([0])[0, 0] == 9
    made.close()


# --- Memory that is shared


def test_an_owner_that_cannot_open_the_memory_returns_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(ARRAY, 2)

    def refused(*_: object) -> None:
        raise OSError("the segment is on another machine")

    call = made.gather_async(ALL[::-1].copy())
    for each in made._group.shards:
        monkeypatch.setattr(each._endpoint.owner._segments, "view", refused)
    assert np.array_equal(call.result(), ARRAY[::-1])
    assert not made.findings
    made.close()


def test_a_source_that_an_owner_cannot_open_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptokit.sharded.table.LEAST_SHARED", 0)
    made = table(ARRAY, 2)

    def refused(*_: object) -> None:
        raise OSError("the segment is on another machine")

    monkeypatch.setattr(made._group.shards[1]._endpoint.owner._segments, "view", refused)
    made.scatter(ARRAY, ALL, atomic="add")
    assert same(made, ARRAY * 2)
    assert [("owner 1" in found.message, "OSError" in found.message) for found in made.findings] == [(True, True)]
    made.close()


def test_memory_of_sources_is_used_again_when_the_log_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptokit.sharded.table.LEAST_SHARED", 0)
    made = table(ARRAY, 1, log_bytes=3 * (ARRAY.nbytes + ALL.nbytes))
    for step in range(9):
        made.scatter(ARRAY + step, ALL)
        assert len(made._group.sources._lent) == step % 3 + 1
        assert same(made, ARRAY + step)
    made.close()
    assert not made._group.sources._free


def test_many_results_take_few_descriptors() -> None:
    made, before = table(ARRAY, 2), len(os.listdir("/proc/self/fd"))
    results = [made.gather(np.roll(ALL, k)) for k in range(200)]
    own = 2 * segments.MOST_OPEN  # of two owners, in this process
    assert len(os.listdir("/proc/self/fd")) - before <= 2 * segments.MOST_LENT + own
    assert all(np.array_equal(found, ARRAY[np.roll(ALL, k)]) for k, found in enumerate(results))
    made.close()
    del results, made
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_freed_memory_is_free_for_owners_that_have_it_open() -> None:
    pool, owner = segments.Segments(), segments.OpenedSegments()
    array, spec = pool.array((1 << 20,), np.dtype("uint8")) or (None, None)
    held = owner.view(spec, (1 << 20,), np.dtype("uint8"))
    descriptor = os.open(str(spec and spec["path"]), os.O_RDONLY)
    assert held.nbytes == 1 << 20 and os.fstat(descriptor).st_blocks * 512 >= 1 << 20
    del array
    pool.close()
    assert os.fstat(descriptor).st_blocks == 0
    os.close(descriptor)


def test_a_forked_process_leaves_files_and_memory() -> None:
    made = table(ARRAY, 2)
    found = made.gather(ALL)
    child = os.fork()
    if not child:
        try:
            made._group._removed()
            del found
            made._group.results.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert np.array_equal(found, ARRAY)
    end(made)
    assert same(made, ARRAY)
    made.close()


def test_a_forked_process_is_refused_at_once_and_ends_nothing() -> None:
    with table(np.arange(12.0).reshape(4, 3), 2) as made:
        there, under_way = made.gather_async([1]), made.gather_async([2])
        there.result()
        child = os.fork()
        if not child:
            problems = 0
            for call in (lambda: made.gather([0]), lambda: made.scatter(1.0, [0]), under_way.result, made.rebalance):
                try:
                    call()
                    problems += 1
                except pto.ShardedError as refused:
                    problems += "was made by process" not in str(refused)
            problems += there.result().tolist() != [[3.0, 4.0, 5.0]]
            made.close()
            os._exit(problems)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert under_way.result().tolist() == [[6.0, 7.0, 8.0]]
        assert made.gather([3]).tolist() == [[9.0, 10.0, 11.0]]


def test_calls_that_are_given_up_write_no_more(tmp_path: Path) -> None:
    fails = [False]
    owners = InProcess(lambda do: "before" if fails[0] and do == "scatter" else "")
    made = table(ARRAY, 1, owners=owners)
    made.checkpoint(tmp_path)
    fails[0] = True
    made.scatter_async(1, ALL)
    given_up = made.gather_async(ALL)
    last = owners.started[-1]
    made.restore(tmp_path)
    assert owners.started[-1] is not last and all(each.is_dead for each in owners.started[:-1])
    with pytest.raises(pto.ShardedError, match="the table was restored"):
        given_up.result()
    fails[0] = False
    assert same(made, ARRAY)
    made.close()


@pytest.mark.parametrize("shares", [True, False])
def test_a_gather_under_way_keeps_its_placement(shares: bool) -> None:
    made = table(ARRAY, 2, "columns", InProcess(shares=shares))
    made.gather(np.zeros(50, int), coalesce="elem")  # the first column is hot
    call = made.gather_async(ALL[::-1].copy())
    before = made.placement
    made.rebalance()
    assert made.placement != before
    assert np.array_equal(call.result(), ARRAY[::-1])
    made.close()


# --- Files of others


def test_files_of_killed_owners_do_not_stay_in_checkpoints(tmp_path: Path) -> None:
    made = table(ARRAY, 2)
    left = tmp_path / f".ptokit-{files.new_name(1)}-{'0' * 16}.tmp"
    left.touch()
    (tmp_path / ".ptokit-other.txt-0123456789abcdef.tmp").touch()
    made.checkpoint(tmp_path)
    assert not left.exists() and (tmp_path / ".ptokit-other.txt-0123456789abcdef.tmp").exists()
    made.close()


def test_temporary_files_are_those_that_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("ptokit.atomic.os.replace", lambda temporary, final: seen.append(os.path.basename(temporary)))
    files.save_array(str(tmp_path / files.new_name(7)), ARRAY)
    assert files.LEFT.fullmatch(seen[0])


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"text" * 100])
def test_a_file_that_is_no_array_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "table.npy").write_bytes(content)
    with pytest.raises(pto.ShardedError, match="cannot read"):
        pto.ShardedTable.from_file(tmp_path / "table.npy", _owners=InProcess())


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (), (7,), (2, 3, 4)])
@pytest.mark.parametrize("by", ["rows", "columns"])
def test_files_of_all_shapes(shape: tuple[int, ...], by: str, tmp_path: Path) -> None:
    array = np.arange(np.prod(shape, dtype=int), dtype="uint16").reshape(shape)
    np.save(tmp_path / "table.npy", array)
    with pto.ShardedTable.from_file(tmp_path / "table.npy", 3, by, _owners=InProcess()) as made:
        assert same(made, array)
        made.checkpoint(tmp_path / "saved")
    with pto.ShardedTable.from_checkpoint(tmp_path / "saved", 2, _owners=InProcess()) as made:
        assert same(made, array)


@pytest.mark.parametrize(
    "change",
    [{"shape": [-1, 6]}, {"shape": [12, 6]}, {"shape": [1 << 62, 6]}, {"units": 9}, {"dtype": "code"},
     {"owners": 10**12}, {"pieces": [[0, 10, 7]]}, {"files": []}, {"by": "tiles"}],
)  # fmt: skip
def test_manifests_that_contradict_themselves_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    with table(ARRAY, 2) as made:
        made.checkpoint(tmp_path)
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text()) | change
    del content["checksum"]
    path.write_text(json.dumps(content | {"checksum": files._checksum(content)}))
    with pytest.raises(pto.ShardedError, match="is no manifest"):
        pto.ShardedTable.from_checkpoint(tmp_path, _owners=InProcess())
    path.write_text("[" * 100_000)
    with pytest.raises(pto.ShardedError, match="corrupt"):
        pto.ShardedTable.from_checkpoint(tmp_path, _owners=InProcess())


# --- Threads, options


def test_a_timeout_holds_while_another_thread_waits() -> None:
    made = table(ARRAY, 2)
    call, is_held, may_end = made.gather_async(ALL), threading.Event(), threading.Event()

    def hold() -> None:
        with made._lock:
            is_held.set()
            may_end.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    is_held.wait(60)
    assert not call.done()
    with pytest.raises(TimeoutError, match="another thread"):
        call.result(0.001)
    may_end.set()
    other.join()
    assert np.array_equal(call.result(), ARRAY)
    made.close()


@pytest.mark.parametrize(
    "wrong", [{"timeout": -1}, {"timeout": "x"}, {"timeout": float("nan")}, {"log_bytes": None}, {"threads": 0}]
)
def test_wrong_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(wrong))} takes a number from \d on"):
        table(ARRAY, **wrong)


def test_a_directory_must_exist(tmp_path: Path) -> None:
    with pytest.raises(pto.ShardedError, match=r"cannot make a folder in .*nowhere: No such file"):
        table(ARRAY, directory=tmp_path / "nowhere")
    assert not table(ARRAY, directory=tmp_path).close() and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 8191, 8192, 3 * 8192 + 17])
def test_the_checksum_sees_changes(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    whole = checksum(0, data)
    for at in range(0, size, max(1, size // 50)):
        changed = data.copy()
        changed[at] ^= 1
        assert checksum(0, changed) != whole
    assert checksum(1, data) != whole
    if size > 2 * 8192:
        moved = np.concatenate([data[8192 : 2 * 8192], data[:8192], data[2 * 8192 :]])
        assert (
            checksum(0, moved) != whole and checksum(0, np.concatenate([data[:-16], data[-8:], data[-16:-8]])) != whole
        )


# --- Other processes, copies, and other tables


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps, lambda it: pickle.dumps([it.gather])])
def test_a_table_is_not_copied(copied: Any) -> None:
    made = table(ARRAY)
    with pytest.raises(pto.ShardedError, match=f"a sharded table cannot .* owners answer process {os.getpid()} only"):
        copied(made)
    for inside in (made._group, made._group.shards[0]):
        with pytest.raises(pto.ShardedError, match="cannot be copied or passed to another process"):
            pickle.dumps(inside)
    with pytest.raises(pto.ShardedError, match=r"a call under way cannot .*; pass its result\(\)"):
        pickle.dumps(made.gather_async(ALL))
    assert same(made, ARRAY)
    made.close()


def test_a_spawned_process_gets_no_table() -> None:
    made = table(ARRAY)
    process = multiprocessing.get_context("spawn").Process(target=len, args=(made,))
    with pytest.raises(pto.ShardedError, match="cannot be copied or passed to another process"):
        process.start()
    made.close()


def test_only_one_table_writes_a_checkpoint_into_a_folder(tmp_path: Path) -> None:
    refused: list[BaseException] = []
    other = table(ARRAY * 2)

    def intrude(do: str) -> str:
        if do == "save" and not refused:
            with pytest.raises(pto.ShardedError) as problem:
                other.checkpoint(tmp_path)
            refused.append(problem.value)
        return ""

    made = table(ARRAY, owners=InProcess(intrude))
    made.checkpoint(tmp_path)
    who = f"process {os.getpid()} on "
    assert f"another table writes a checkpoint into {tmp_path} ({who}" in str(refused[0])
    assert not (tmp_path / files.LOCK).exists()
    with pto.ShardedTable.from_checkpoint(tmp_path, _owners=InProcess()) as found:
        assert same(found, ARRAY)
    other.checkpoint(tmp_path)  # now it may
    other.restore(tmp_path)
    assert same(other, ARRAY * 2)
    made.close()
    other.close()


def test_the_lock_of_a_dead_process_is_none(tmp_path: Path) -> None:
    lines = [
        "import os, sys, time; from ptokit.sharded.files import only_writer",
        "with only_writer(sys.argv[1]): print('locked', flush=True); time.sleep(600)",
    ]
    command = [sys.executable, "-c", "\n".join(lines), str(tmp_path)]
    made = table(ARRAY)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"locked\n"
        with pytest.raises(pto.ShardedError, match=f"process {process.pid} on"):
            made.checkpoint(tmp_path)
        process.kill()
    assert (tmp_path / files.LOCK).exists()
    made.checkpoint(tmp_path)
    assert not (tmp_path / files.LOCK).exists()
    made.close()


def test_writers_of_one_folder_take_turns(tmp_path: Path) -> None:
    """Threads that lock and unlock as fast as they can: never two of them at once, and refusals say so."""
    inside, most, taken, refusals = [0], [0], [0], list[str]()

    def work() -> None:
        for _ in range(300):
            try:
                with files.only_writer(str(tmp_path)):
                    inside[0] += 1
                    most[0], taken[0] = max(most[0], inside[0]), taken[0] + 1
                    inside[0] -= 1
            except pto.ShardedError as problem:
                refusals.append(str(problem))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1 and taken[0] + len(refusals) == 4 * 300 and not os.listdir(tmp_path)
    assert all("another table writes a checkpoint" in each for each in refusals)
