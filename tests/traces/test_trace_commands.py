"""`ptokit trace-indices` and `ptokit replay`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ptokit as pto
from ptokit.cli import indices, request
from tests.cli.shell import fine, misuse, process, ptokit_

PROGRAM = """
import os, sys
import numpy as np
import ptokit as pto
from helper import NUMBER
from ptokit import gather

table = np.zeros((100, 8), "float32")
for k in range(5):
    gather(table, np.array([k, NUMBER]), oob="clamp")
    pto.scatter(table, 1, np.array([k, k], "int32"), atomic="add")
print("printed", sys.argv[1:], __name__, os.path.basename(__file__))
if "fail" in sys.argv:
    raise RuntimeError("it went wrong")
if "fork" in sys.argv and os.fork() == 0:
    gather(table, np.array([99]))
    sys.exit(0)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "lookups.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "part" / "helper.py").write_text("NUMBER = 105", encoding="utf-8")
    return tmp_path


def test_a_program_is_recorded_as_it_would_be_started() -> None:
    done = process("trace-indices", "-o", "out.npz", "--json", "--", "part/lookups.py", "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "printed ['--epochs', '3'] __main__ lookups.py\n"
    data = json.loads(done.stdout)
    assert (data["command"], data["file"], data["calls"], data["seen"], data["status"]) == (
        "trace-indices", "out.npz", 10, 10, 0)  # fmt: skip
    trace = pto.IndexTrace.load("out.npz")
    assert [call.indices.tolist() for call in trace.calls[:4]] == [[0, 105], [0, 0], [1, 105], [1, 1]]
    assert trace.source == "part/lookups.py --epochs 3"
    assert [(use["call"], use["outside"]) for use in data["tables"]] == [("gather", 5), ("scatter", 0)]


def test_a_module_is_recorded_within_limits(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.chdir(folder / "part")
    printed = fine("trace-indices", "-m", "--limit", "3", "--", "lookups")
    assert printed.startswith("1 call of 10, 2 indices; the first ones, up to 3 indices\n")


def test_a_sample_of_a_program_is_recorded() -> None:
    drawn: list[list[list[int]]] = []
    for seed in ("1", "1", "2"):
        printed = fine("trace-indices", "--sample", "4", "--seed", seed, "--", "part/lookups.py")
        assert printed.startswith(f"4 calls of 10, 8 indices; drawn at random, seed {seed}, up to 4 calls\n")
        drawn.append([call.indices.tolist() for call in pto.IndexTrace.load("trace.npz").calls])
    made = [ids for k in range(5) for ids in ([k, 105], [k, k])]
    assert [made.index(ids) for ids in drawn[0]] == sorted(made.index(ids) for ids in drawn[0])
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_program_that_fails_leaves_what_it_did() -> None:
    done = ptokit_("trace-indices", "part/lookups.py", "fail")
    assert done.exit_code == 1
    assert "part/lookups.py ended with status 1; what it did until then is in trace.npz" in done.stderr
    assert len(pto.IndexTrace.load("trace.npz").calls) == 10


def test_a_process_that_a_program_forks_writes_no_trace() -> None:
    fine("trace-indices", "part/lookups.py", "fork")
    assert len(pto.IndexTrace.load("trace.npz").calls) == 10


def test_a_program_without_lookups_is_misuse(folder: Path) -> None:
    (folder / "none.py").write_text("print(1)", encoding="utf-8")
    assert "none.py makes no call that is recorded" in misuse("trace-indices", "none.py")
    assert not (folder / "trace.npz").exists()


def test_words_that_make_no_sense_are_misuse() -> None:
    assert "takes a program after --" in misuse("trace-indices")
    assert "takes a program after --" in misuse("trace-indices", "--generate", "zipf", "part/lookups.py")
    assert "there is no file nothing.py" in misuse("trace-indices", "nothing.py")
    assert "there is no directory" in misuse("trace-indices", "-o", "no/x.npz", "--generate", "zipf")
    assert "did you mean zipf" in misuse("trace-indices", "--generate", "zpf")
    for option in ("limit", "sample", "seed"):
        told = misuse("trace-indices", f"--{option}", str(1 << 70), "part/lookups.py")
        assert f"{option} takes a whole number from" in told


def test_a_program_that_kills_itself_is_named(folder: Path) -> None:
    (folder / "dead.py").write_text("import os\nos._exit(7)", encoding="utf-8")
    assert "dead.py ended with status 7 and left no trace" in misuse("trace-indices", "dead.py")


def test_a_generated_trace_is_replayed() -> None:
    printed = fine("trace-indices", "--generate", "zipf:rows=200,lanes=64,calls=2,width=16", "-o", "zipf.npz")
    assert printed.startswith("2 calls of 2, 128 indices\n")
    heading, head, *rows = fine("replay", "zipf.npz").splitlines()
    assert heading == "2 calls of 2, 128 indices"
    assert head.split()[:4] == ["table", "call", "shape", "target"]
    assert [row.split()[3] for row in rows] == ["a2a3", "a5"]
    data = json.loads(fine("replay", "zipf.npz", "--target", "a5", "--lanes", "10", "--json"))
    assert (data["engine"], data["rows"][0]["indices"], len(data["notes"])) == ("machine", 10, 1)
    assert data["source"].startswith("zipf:rows=200,skew=1.0")
    assert "NumPy" in fine("replay", "zipf.npz", "--engine", "native")


def test_names_are_completed() -> None:
    assert [*request.generators("p")] == ["paged_kv:"]
    assert [*request.replay_engines("")] == ["machine", "native", "sharded"]


def test_replays_of_other_files_are_misuse(folder: Path) -> None:
    (folder / "bad.npz").write_bytes(b"PK" * 100)
    assert "bad.npz is no index trace" in misuse("replay", "bad.npz")
    assert "cannot read none.npz: No such file" in misuse("replay", "none.npz")
    pto.IndexTrace().save("empty.npz")
    assert "the engines are machine, native, sharded" in misuse("replay", "empty.npz", "--engine", "x")
    assert ptokit_("replay", "empty.npz", "--target", "a9").exit_code == 2
    assert fine("replay", "empty.npz") == "0 calls of 0, 0 indices\n\n"


def test_an_interrupted_program_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    wait = indices.subprocess.Popen.wait

    def interrupted(self: object, *args: object, **options: object) -> int:
        waits.append(1)
        if len(waits) == 1:
            raise KeyboardInterrupt
        return wait(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(indices.subprocess.Popen, "wait", interrupted)
    assert ptokit_("trace-indices", "part/lookups.py").exit_code == 130
    assert len(pto.IndexTrace.load("trace.npz").calls) == 10
