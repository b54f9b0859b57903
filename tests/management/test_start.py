"""``manage.py hitl start``: one run per line, and no line in another's way."""

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
    """Two graphs that can be told apart by the name of their field."""

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
    """What a command printed, and whether it failed."""

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
    """Write lines to a file and return its name."""

    def write(*values: Any) -> str:
        path = tmp_path / "requests.jsonl"
        texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
        path.write_text("\n".join(texts) + "\n")
        return str(path)

    return write


def test_one_run_is_started_per_line(lines: Any) -> None:
    said = Said("counting", "--input", lines({"count": 1}, {"count": 2}, {"count": 3}))
    assert (said.out, said.err, said.failure) == (
        "3 started, 0 already existed, 0 failed.\n",
        "",
        "",
    )
    assert Run.objects.filter(graph="counting", state="queued").count() == 3


def test_audit_log_names_the_command(lines: Any) -> None:
    Said("counting", "--input", lines({"count": 1}))
    entry = AuditEntry.objects.get(verb="start")
    assert (entry.via, entry.actor) == ("command", None)


def test_invalid_line_is_reported_and_others_start(lines: Any) -> None:
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


def test_repeated_file_starts_nothing(lines: Any) -> None:
    name = lines({"input": {"count": 1}, "key": "a"}, {"input": {"count": 2}, "key": "b"})
    Said("counting", "--input", name)
    assert Said("counting", "--input", name).out == "0 started, 2 already existed, 0 failed.\n"
    assert Run.objects.count() == 2


def test_repeated_line_without_key_starts_another_run(lines: Any) -> None:
    name = lines({"count": 1}, {"input": {"count": 1}}, {"input": {"count": 2}, "key": "b"})
    assert Said("counting", "--input", name).err == ""
    said = Said("counting", "--input", name)
    assert (said.out, said.err) == ("2 started, 1 already existed, 0 failed.\n", "")
    assert Run.objects.count() == 5


REPEATED = "If you repeat the command, a line without a key starts another run."


def test_failed_file_warns_of_lines_without_key(lines: Any) -> None:
    said = Said("counting", "--input", lines({"input": {"count": 1}, "key": "a"}, "[]"))
    assert said.err == "line 2: expected an object, got a list\n"
    said = Said("counting", "--input", lines({"count": 2}, "[]", {"input": {"count": 3}}))
    assert said.err.splitlines()[1:] == [f"Started without a key: 2 lines. {REPEATED}"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OperationalError])
def test_stopped_file_warns_of_lines_without_key(
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


def test_key_used_for_other_input_is_rejected(lines: Any) -> None:
    said = Said(
        "counting",
        "--input",
        lines({"input": {"count": 1}, "key": "a"}, {"input": {"count": 2}, "key": "a"}),
    )
    assert said.out == "1 started, 0 already existed, 1 failed.\n"
    assert "line 2: Idempotency key 'a' was already used" in said.err


def test_file_can_start_several_graphs(lines: Any) -> None:
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


def test_line_with_subject_links_its_thread(lines: Any) -> None:
    team = Group.objects.create(name="Night shift")
    subject = {"type": "auth.group", "id": str(team.pk)}
    said = Said("counting", "--input", lines({"input": {"count": 1}, "subject": subject}))
    assert said.out == "1 started, 0 already existed, 0 failed.\n"
    assert Thread.objects.get().subject == team


def test_line_with_unknown_subject_is_rejected_with_reason(lines: Any) -> None:
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


def test_line_with_context_and_configurable_stores_them(lines: Any) -> None:
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


def test_line_for_other_graph_than_the_command_is_rejected(lines: Any) -> None:
    said = Said("counting", "--input", lines({"graph": "weighing", "input": {"grams": 1}}))
    assert said.out == "0 started, 0 already existed, 1 failed.\n"
    assert not Run.objects.exists()


def test_unknown_graph_is_rejected_before_reading() -> None:
    said = Said("guessing", "--input", "no such file")
    assert said.failure.startswith("Graph 'guessing' is not registered.")


@pytest.mark.parametrize("name", ["no such file", "."])
def test_unreadable_file_is_named(name: str) -> None:
    assert Said("counting", "--input", name).failure.startswith(f"Can't read {name}: ")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"count": 1}\n\n{"count": 2}')))
    assert Said("counting", "--input", "-").out == "2 started, 0 already existed, 0 failed.\n"


def test_empty_file_succeeds(lines: Any) -> None:
    said = Said("counting", "--input", lines())
    assert (said.out, said.failure) == ("0 started, 0 already existed, 0 failed.\n", "")


def test_terminal_shows_bar_and_reasons_on_their_own_lines(
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


def test_ctrl_c_prints_the_counts(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hitl_django.services.start", interrupted)
    said = Said("counting", "--input", lines({"count": 1}))
    assert said.failure == "Stopped. 0 started, 0 already existed, 0 failed."
    assert said.code == 130


def test_database_error_is_not_an_invalid_line(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr("hitl_django.services.start", down)
    with pytest.raises(OperationalError):
        call_command("hitl", "start", "counting", input=lines({"count": 1}))
