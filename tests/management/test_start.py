"""``manage.py hitl start``: one run per line, and independence of invalid lines."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import OperationalError
from pydantic import BaseModel

from hitl_django import StateGraph, register, services
from hitl_django.graph_registry.registry import unregister
from hitl_django.models import AuditEntry, Run, Thread

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def graphs() -> Any:
    """Register two graphs with different names of their fields."""

    def build(field: str) -> Any:
        from typing import TypedDict

        state = TypedDict("state", {field: int})  # type: ignore[misc]
        graph = StateGraph(state)
        graph.add_node("same", lambda state: state)
        graph.set_entry_point("same")
        return graph

    register("counting")(lambda: build("count"))
    register("weighing")(lambda: build("grams"))
    yield
    unregister("counting")
    unregister("weighing")


class Said:
    """The output of a command, and whether the command failed."""

    def __init__(self, *arguments: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        self.failure = ""
        try:
            call_command("hitl", "start", *arguments, stdout=out, stderr=err)
        except CommandError as error:
            self.failure, self.code = str(error), error.returncode
        self.out, self.err = out.getvalue(), err.getvalue()


@pytest.fixture
def lines(tmp_path: Path) -> Any:
    """Write lines to a file, and return the name of the file."""

    def write(*values: Any) -> str:
        path = tmp_path / "requests.jsonl"
        texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
        path.write_text("\n".join(texts) + "\n")
        return str(path)

    return write


def test_start_command_starts_one_run_per_line(lines: Any) -> None:
    said = Said("counting", "--input", lines({"count": 1}, {"count": 2}, {"count": 3}))
    assert (said.out, said.err, said.failure) == (
        "3 started, 0 already existed, 0 failed.\n",
        "",
        "",
    )
    assert Run.objects.filter(graph="counting", state="queued").count() == 3


def test_start_command_is_logged_with_via_command_and_no_user(lines: Any) -> None:
    Said("counting", "--input", lines({"count": 1}))
    entry = AuditEntry.objects.get(verb="start")
    assert (entry.via, entry.actor) == ("command", None)


def test_start_command_reports_invalid_lines_and_starts_valid_lines(lines: Any) -> None:
    said = Said(
        "counting",
        "--input",
        lines({"count": 1}, "{nonsense", {"count": "many"}, {"colour": 1}, {"count": 2}),
    )
    assert said.out == "2 started, 0 already existed, 3 failed.\n"
    reported = said.err.splitlines()
    assert [line.partition(":")[0] for line in reported[:-1]] == ["line 2", "line 3", "line 4"]
    assert reported[-1].startswith("Started without a key: 2 lines. ")
    assert "invalid JSON" in reported[0]
    assert "$.count" in reported[1]
    assert "$.colour" in reported[2]
    assert said.failure == "3 of 5 lines failed."
    assert said.code == 1
    assert Run.objects.count() == 2


def test_start_command_repeated_with_keys_starts_no_second_run(lines: Any) -> None:
    name = lines({"input": {"count": 1}, "key": "a"}, {"input": {"count": 2}, "key": "b"})
    Said("counting", "--input", name)
    assert Said("counting", "--input", name).out == "0 started, 2 already existed, 0 failed.\n"
    assert Run.objects.count() == 2


def test_start_command_repeated_without_key_starts_another_run_per_line(lines: Any) -> None:
    name = lines({"count": 1}, {"input": {"count": 1}}, {"input": {"count": 2}, "key": "b"})
    assert Said("counting", "--input", name).err == ""
    said = Said("counting", "--input", name)
    assert (said.out, said.err) == ("2 started, 1 already existed, 0 failed.\n", "")
    assert Run.objects.count() == 5


REPEATED = "If you repeat the command, a line without a key starts another run."


def test_start_command_with_failed_line_warns_of_runs_started_without_key(lines: Any) -> None:
    said = Said("counting", "--input", lines({"input": {"count": 1}, "key": "a"}, "[]"))
    assert said.err == "line 2: expected an object, got a list\n"
    said = Said("counting", "--input", lines({"count": 2}, "[]", {"input": {"count": 3}}))
    assert said.err.splitlines()[1:] == [f"Started without a key: 2 lines. {REPEATED}"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OperationalError])
def test_start_command_stopped_by_error_warns_of_runs_started_without_key(
    lines: Any, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    start, err = services.start, io.StringIO()

    def stopped(graph: str, given: Any, **options: Any) -> Any:
        if given["count"] == 2:
            raise error
        return start(graph, given, **options)

    monkeypatch.setattr("hitl_django.services.start", stopped)
    with pytest.raises((CommandError, OperationalError)):
        call_command(
            "hitl", "start", "counting", input=lines({"count": 1}, {"count": 2}), stderr=err
        )
    assert err.getvalue() == f"Started without a key: 1 line. {REPEATED}\n"


def test_start_command_reports_a_key_used_with_different_input(lines: Any) -> None:
    said = Said(
        "counting",
        "--input",
        lines({"input": {"count": 1}, "key": "a"}, {"input": {"count": 2}, "key": "a"}),
    )
    assert said.out == "1 started, 0 already existed, 1 failed.\n"
    assert "line 2: Idempotency key 'a' was already used" in said.err


def test_start_command_without_graph_argument_starts_graphs_named_by_lines(lines: Any) -> None:
    said = Said(
        "--input",
        lines(
            {"graph": "counting", "input": {"count": 1}},
            {"graph": "weighing", "input": {"grams": 1}},
            {"graph": "guessing", "input": {}},
            {"grams": 2},
        ),
    )
    assert said.out == "2 started, 0 already existed, 2 failed.\n"
    assert "line 3: Graph 'guessing' is not registered." in said.err
    assert 'line 4: no graph: add "graph" to the line' in said.err


def test_start_command_stores_the_subject_of_a_line_on_the_thread(lines: Any) -> None:
    team = Group.objects.create(name="Night shift")
    subject = {"type": "auth.group", "id": str(team.pk)}
    said = Said("counting", "--input", lines({"input": {"count": 1}, "subject": subject}))
    assert said.out == "1 started, 0 already existed, 0 failed.\n"
    assert Thread.objects.get().subject == team


def test_start_command_reports_unknown_subject_with_reason(lines: Any) -> None:
    wrong = [("auth.grup", "1"), ("group", "1"), ("auth.group", "0"), ("auth.group", "x")]
    said = Said(
        "counting",
        "--input",
        lines(
            *({"input": {"count": 1}, "subject": {"type": kind, "id": pk}} for kind, pk in wrong),
        ),
    )
    assert said.err.splitlines() == [
        "line 1: subject: names no installed model: 'auth.grup'",
        "line 2: subject: names no installed model: 'group'",
        "line 3: subject: names no auth.Group that exists: '0'",
        "line 4: subject: names no auth.Group that exists: 'x'",
    ]
    assert not Run.objects.exists()
    assert not Thread.objects.exists()


def test_start_command_stores_context_and_configurable_and_reports_invalid_values(
    lines: Any,
) -> None:
    class Caller(BaseModel):
        user_id: str

    graph = StateGraph(Any, context_schema=Caller).add_node("idle", lambda state: {})
    register("contextual")(lambda: graph.add_edge("__start__", "idle"))
    try:
        said = Said(
            "contextual",
            "--input",
            lines(
                {"input": {}, "context": {"user_id": "ann"}, "configurable": {"tenant": "t1"}},
                {"input": {}, "context": {"user_id": 3}},
                {"input": {}, "context": {"user_id": "ann"}, "configurable": ["t1"]},
                {"input": {}, "context": {"user_id": "ann"}, "configurable": {"thread_id": "x"}},
            ),
        )
    finally:
        unregister("contextual")
    assert Run.objects.get().options == {
        "context": {"user_id": "ann"},
        "configurable": {"tenant": "t1"},
    }
    reported = said.err.splitlines()
    assert reported[0].startswith("line 2: context.user_id: ")
    assert reported[1:-1] == [
        "line 3: configurable: is not a dict",
        "line 4: configurable.thread_id: is the engine's own",
    ]
    assert reported[-1].startswith("Started without a key: 1 line. ")


def test_start_command_rejects_line_naming_another_graph_than_the_argument(lines: Any) -> None:
    said = Said("counting", "--input", lines({"graph": "weighing", "input": {"grams": 1}}))
    assert said.out == "0 started, 0 already existed, 1 failed.\n"
    assert not Run.objects.exists()


def test_start_command_with_unregistered_graph_fails_before_reading_the_file() -> None:
    said = Said("guessing", "--input", "no such file")
    assert said.failure.startswith("Graph 'guessing' is not registered.")


@pytest.mark.parametrize("name", ["no such file", "."])
def test_start_command_with_unreadable_file_names_the_file(name: str) -> None:
    assert Said("counting", "--input", name).failure.startswith(f"Can't read {name}: ")


def test_start_command_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"count": 1}\n\n{"count": 2}')))
    assert Said("counting", "--input", "-").out == "2 started, 0 already existed, 0 failed.\n"


def test_start_command_with_empty_file_succeeds(lines: Any) -> None:
    said = Said("counting", "--input", lines())
    assert (said.out, said.failure) == ("0 started, 0 already existed, 0 failed.\n", "")


def test_start_command_on_a_terminal_shows_bar_and_failed_lines(
    lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl_django.management.progress.TERMINAL_INTERVAL", 0.0)
    err = io.StringIO()
    err.isatty = lambda: True  # type: ignore[method-assign]
    with pytest.raises(CommandError):
        call_command(
            "hitl", "start", "counting", input=lines({"count": 1}, "[]"), stderr=err,
            stdout=io.StringIO(), no_color=True,
        )  # fmt: skip
    text = err.getvalue()
    assert "[#" in text
    assert "\rline 2: expected an object, got a list" in text


def test_start_command_interrupted_by_ctrl_c_prints_counts_and_exits_with_130(
    lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hitl_django.services.start", interrupted)
    said = Said("counting", "--input", lines({"count": 1}))
    assert said.failure == "Stopped. 0 started, 0 already existed, 0 failed."
    assert said.code == 130


def test_start_command_raises_database_errors(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr("hitl_django.services.start", down)
    with pytest.raises(OperationalError):
        call_command("hitl", "start", "counting", input=lines({"count": 1}))
