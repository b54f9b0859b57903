"""Fields of log records: ids, and no contents of runs."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hitl_django
from hitl_django import run_leases
from hitl_django.testing import GraphEnvironment

SECRET = "canary 4711"
#: Fields that a log record of the package may have in addition to Python's own fields.
FIELDS = {"run_id", "thread_id", "graph", "interrupt_id", "schedule_id"}
PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
ROOMS = ("worker", "leases", "run_leases", "services", "graph_registry")
#: Messages with this prefix are about one object, and their record has the object's id.
ABOUT = {
    "run %s": "run_id",
    "thread %r": "thread_id",
    "thread %s:": "thread_id",
    "question %s": "interrupt_id",
    "schedule %s": "schedule_id",
}


def read_fields(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in PLAIN}


def list_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "hitl_django"]


def test_log_records_of_a_run_have_run_id_thread_id_and_graph(
    hitl: GraphEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "hitl_django")
    run = hitl.start("approval", {"text": SECRET})
    hitl.decide(run=run, type="approve")
    records = [one for one in list_records(caplog) if one.getMessage().startswith("run ")]
    assert [one.msg for one in records] == [
        "run %s claimed: epoch %s, attempt %s",
        "run %s released: %s",
    ] * 2
    ids = {"run_id": str(run.id), "thread_id": run.thread_id, "graph": "approval"}
    assert [read_fields(one) for one in records] == [ids] * 4


def test_log_records_of_failed_run_contain_ids_and_no_state(
    hitl: GraphEnvironment, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> Any:
        raise ConnectionError(SECRET)

    caplog.set_level(logging.DEBUG, "hitl_django")
    monkeypatch.setattr(run_leases, "keep_renewed", refuse)
    run = hitl.start("approval", {"text": SECRET})
    stopped = [one for one in list_records(caplog) if one.msg == "run %s failed to continue: %s"]
    assert read_fields(stopped[0])["run_id"] == str(run.id)
    for record in list_records(caplog):
        assert set(read_fields(record)) <= FIELDS
        assert SECRET not in str(vars(record))


def list_log_calls() -> Iterator[tuple[str, str, ast.expr | None]]:
    """Yield the position, the message and the fields of each log call in these packages."""
    package = Path(hitl_django.__file__).parent
    for path in sorted(path for room in ROOMS for path in (package / room).rglob("*.py")):
        named: dict[str, ast.expr] = {}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                named[node.targets[0].id] = node.value
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "logger":
                message = next(one for one in node.args if isinstance(one, ast.Constant))
                extra = next((one.value for one in node.keywords if one.arg == "extra"), None)
                extra = named.get(extra.id) if isinstance(extra, ast.Name) else extra
                yield f"{path.name}:{node.lineno}", str(message.value), extra


@pytest.mark.any_database
def test_log_calls_that_name_a_run_or_thread_pass_its_id_as_extra_field() -> None:
    calls = [(*call, field) for call in list_log_calls() for field in find_fields(call[1])]
    assert len(calls) > 12
    assert [
        f"{place}: {message!r} has no {field}"
        for place, message, extra, field in calls
        if field not in name_fields(extra)
    ] == []


@pytest.mark.any_database
def test_extra_fields_of_all_log_calls_are_declared_id_fields() -> None:
    fields = [(place, name_fields(extra)) for place, _, extra in list_log_calls()]
    assert [(place, names - FIELDS) for place, names in fields if names - FIELDS] == []


def find_fields(message: str) -> list[str]:
    return [field for words, field in ABOUT.items() if words in message]


def name_fields(extra: ast.expr | None) -> set[str]:
    """Return the names of the fields in an expression."""
    if extra is None:
        return set()
    if isinstance(extra, ast.Dict):
        return {ast.literal_eval(key) for key in extra.keys if key is not None}
    assert ast.unparse(extra).endswith("lease.log_fields()")  # covered by the tests of log records
    return {"run_id", "thread_id", "graph"}
