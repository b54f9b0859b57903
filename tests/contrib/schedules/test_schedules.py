"""Schedules: each due time has one run or is counted as skipped."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from hitl_django import START, StateGraph, audit, services, testing
from hitl_django.contrib.schedules import cron, schedule, start_due
from hitl_django.contrib.schedules.errors import CodeDefinedScheduleError, ScheduleNotFound
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.registered import unschedule
from hitl_django.contrib.schedules.services import (
    ScheduleInfo,
    change_schedule,
    create_schedule,
    delete_schedule,
)
from hitl_django.errors import (
    EmptyInputError,
    InvalidInputError,
    NoSuchThread,
    NotAllowedError,
    PayloadLimitError,
    UnknownGraphError,
)
from hitl_django.graph_registry import registry
from hitl_django.management import diagnosis
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.services.runs.threads import METADATA_BYTES
from hitl_django.worker.sweeper import find_missed_since, sweep
from tests.graphs import approval, steps

pytestmark = pytest.mark.django_db

Register = Callable[..., None]


@pytest.fixture
def register() -> Iterator[Register]:
    names = []

    def call(
        name: str, every: str = "", factory: Any = steps, *, api: bool = True, **options: Any
    ) -> None:
        names.append(name)
        registry.unregister(name)
        unschedule(name)
        registry.register(name, api=api)(lambda: factory())
        if every:
            schedule(name, every, **options)

    yield call
    for name in names:
        registry.unregister(name)
        unschedule(name)


def make(graph: str = "steps", expression: str = "0 7 * * *", **options: Any) -> ScheduleInfo:
    options.setdefault("input", {"log": []})
    return create_schedule(graph, expression, options.pop("input"), **options)


def come_due(schedule: UUID, **ago: float) -> datetime:
    rows = Schedule.objects.filter(pk=schedule)
    rows.update(next_at=Now() - timedelta(**(ago or {"seconds": 1})))
    due = rows.get().next_at
    assert due is not None
    return due


def read(schedule: UUID) -> Schedule:
    return Schedule.objects.get(pk=schedule)


def make_person(*codenames: str) -> User:
    person = User.objects.create_user("dana")
    person.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return User.objects.get(pk=person.pk)


# Started runs.


def test_due_schedule_starts_one_run_over_repeated_sweeps() -> None:
    made = make(expression="0 0 1 1 *")
    due = come_due(made.id)
    for _ in range(3):
        sweep()
    run = Run.objects.select_related("thread").get()
    row = read(made.id)
    assert (run.graph, run.started_by, run.started_by_label) == ("steps", None, "system")
    assert (row.last_run_id, row.started, row.skipped) == (run.pk, 1, 0)
    assert row.last_due_at == due
    assert row.next_at is not None
    assert row.next_at > due + timedelta(seconds=1)
    assert run.thread.metadata["schedule"] == str(made.id)
    assert run.key is not None
    assert run.key.startswith(f"schedule:{made.id}:1:")
    entry = run.thread.audit.get()
    assert (entry.verb, entry.via) == ("start", "schedule")


def test_schedule_paused_or_not_due_starts_no_run() -> None:
    make()
    paused = make(is_active=False)
    come_due(paused.id)
    assert start_due.start_due() == []
    assert not Run.objects.exists()


def test_schedule_next_due_time_is_in_its_time_zone() -> None:
    made = make(expression="0 7 * * *", timezone="Asia/Kolkata")
    assert made.next_at is not None
    assert f"{made.next_at.astimezone(UTC):%H:%M}" == "01:30"
    for name in ("UTC", "Europe/Berlin"):
        with override_settings(TIME_ZONE=name):
            assert make().timezone == name


def test_schedule_with_missed_due_times_starts_one_run_and_counts_the_skipped_due_times() -> None:
    made = make(expression="0 * * * *", timezone="UTC")
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=50)
    Schedule.objects.filter(pk=made.id).update(next_at=begin)
    assert len(start_due.start_due()) == 1
    row = read(made.id)
    due = row.last_due_at
    assert due is not None
    assert (row.started, row.skipped) == (1, (due - begin) / timedelta(hours=1))
    assert row.skipped >= 50
    assert row.last_skipped_at == due - timedelta(hours=1)
    assert row.next_at == due + timedelta(hours=1)
    assert Run.objects.get().thread.metadata["due_at"] == f"{due:%Y-%m-%dT%H:%M:%SZ}"
    assert start_due.start_due() == []


def test_schedule_counts_at_most_about_a_thousand_missed_due_times() -> None:
    made = make(expression="* * * * *")
    come_due(made.id, days=900)
    assert len(start_due.start_due()) == 1
    assert 1000 <= read(made.id).skipped <= 1001


@pytest.mark.parametrize("state", Run.ACTIVE)
def test_schedule_skips_due_time_while_its_previous_run_is_active(state: str) -> None:
    made = make()
    come_due(made.id)
    [run] = start_due.start_due()
    Run.objects.filter(pk=run).update(state=state)
    due = come_due(made.id)
    assert start_due.start_due() == []
    row = read(made.id)
    assert (row.started, row.skipped, row.last_skipped_at) == (1, 1, due)
    assert row.last_error == ""
    Run.objects.filter(pk=run).update(state="succeeded")
    come_due(made.id)
    assert len(start_due.start_due()) == 1


def test_schedule_with_overlap_allow_starts_a_run_beside_the_active_run() -> None:
    made = make("approval", input={"text": "x"}, overlap="allow")
    for _ in range(2):
        come_due(made.id)
        assert len(start_due.start_due()) == 1
    assert read(made.id).skipped == 0
    assert Run.objects.count() == 2


def test_schedule_whose_last_run_was_deleted_starts_its_next_run() -> None:
    made = make()
    come_due(made.id)
    [run] = start_due.start_due()
    Run.objects.get(pk=run).thread.delete()
    come_due(made.id)
    assert len(start_due.start_due()) == 1


# Schedules that can't start.


def breaks_off(made: ScheduleInfo, caplog: pytest.LogCaptureFixture) -> str:
    """Sweep at the due time, and return the error. Another schedule starts at the same time."""
    other = make()
    come_due(made.id, seconds=9)
    come_due(other.id)
    with caplog.at_level(logging.WARNING, "hitl_django"):
        start_due.start_due()
    row = read(made.id)
    assert (row.started, row.skipped) == (0, 1)
    assert row.next_at is not None
    assert row.next_at > row.created_at
    assert read(other.id).started == 1
    assert f"schedule {made.id} could not start a run: " in caplog.text
    return row.last_error


def test_schedule_of_unregistered_graph_stores_error_and_does_not_delay_other_schedules(
    caplog: pytest.LogCaptureFixture, register: Register
) -> None:
    register("passing")
    made = make("passing")
    registry.unregister("passing")
    assert "'passing'" in breaks_off(made, caplog)


def test_schedule_with_invalid_stored_input_stores_error_until_corrected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = make()
    Schedule.objects.filter(pk=made.id).update(input=["no", "state"])
    assert breaks_off(made, caplog)
    # The error is deleted after the next successful start.
    change_schedule(made.id, input={"log": []})
    come_due(made.id)
    start_due.start_due()
    assert read(made.id).last_error == ""


def test_schedule_of_deleted_owner_starts_no_run_and_stores_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    person = make_person("manage_schedules", "start_run", "view_schedule")
    made = make(by=person)
    person.delete()
    assert read(made.id).owner_label == "dana"
    assert "no longer exists" in breaks_off(made, caplog)


@pytest.mark.parametrize("loss", ["permission", "activity"])
def test_schedule_of_deactivated_or_unpermitted_owner_starts_no_run_and_stores_error(
    caplog: pytest.LogCaptureFixture, loss: str
) -> None:
    person = make_person("manage_schedules", "start_run", "view_schedule")
    made = make(by=person)
    if loss == "permission":
        person.user_permissions.clear()
    else:
        User.objects.update(is_active=False)
    assert "have permission to start" in breaks_off(made, caplog)


def test_schedule_of_graph_closed_to_the_api_starts_no_run_and_stores_error(
    caplog: pytest.LogCaptureFixture, register: Register
) -> None:
    person = make_person("manage_schedules", "start_run", "view_schedule")
    register("narrowed")
    made = make("narrowed", by=person)
    register("narrowed", api=False)
    assert "have permission to start" in breaks_off(made, caplog)


def test_schedule_whose_run_start_failed_with_database_error_is_due_in_the_next_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = make()
    due = come_due(made.id)
    monkeypatch.setattr(start_due, "start", Mock(side_effect=OperationalError("server is away")))
    assert start_due.start_due() == []
    row = read(made.id)
    assert (row.next_at, row.skipped, row.last_error) == (due, 0, "")


def test_schedule_starts_its_run_as_the_owner() -> None:
    person = make_person("manage_schedules", "start_run", "view_schedule")
    made = make(by=person)
    come_due(made.id)
    start_due.start_due()
    assert Run.objects.get().started_by == person


# Schedules declared in code.


def test_code_defined_schedule_is_stored_by_the_first_sweep(register: Register) -> None:
    register("daily", "0 7 * * *", timezone="Asia/Kolkata", input={"log": ["a"]})
    assert not Schedule.objects.exists()
    for _ in range(2):
        start_due.start_due()
    row = Schedule.objects.get()
    assert (row.graph, row.expression, row.timezone) == ("daily", "0 7 * * *", "Asia/Kolkata")
    assert (row.input, row.overlap, row.owner_label) == ({"log": ["a"]}, "skip", "system")
    come_due(row.pk)
    assert len(start_due.start_due()) == 1
    assert Run.objects.get().started_by is None


def test_paused_code_defined_schedule_is_updated_by_changes_in_code_and_remains_paused(
    register: Register,
) -> None:
    register("daily", "0 7 * * *", timezone="UTC")
    start_due.start_due()
    row = Schedule.objects.get()
    change_schedule(row.pk, is_active=False)
    register("daily", "0 9 * * *", timezone="UTC", overlap="allow", input={"log": ["b"]})
    come_due(row.pk)
    start_due.start_due()
    row.refresh_from_db()
    assert (row.expression, row.overlap, row.input) == ("0 9 * * *", "allow", {"log": ["b"]})
    assert not row.is_active
    assert row.next_at is not None
    assert row.next_at.astimezone(UTC).hour == 9
    assert not Run.objects.exists()


def test_code_defined_schedule_change_or_deletion_raises_code_defined_schedule_error(
    register: Register,
) -> None:
    register("daily", "0 7 * * *")
    start_due.start_due()
    row = Schedule.objects.get()
    with pytest.raises(CodeDefinedScheduleError):
        change_schedule(row.pk, expression="0 8 * * *")
    with pytest.raises(CodeDefinedScheduleError):
        delete_schedule(row.pk)
    register("daily")
    come_due(row.pk)
    start_due.start_due()
    row.refresh_from_db()
    assert "isn't scheduled in code" in row.last_error
    delete_schedule(row.pk)
    assert not Schedule.objects.exists()


# Creating, changing and deleting schedules.


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"expression": "0 25 * * *"}, "expression"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"overlap": "queue"}, "overlap"),
        ({"description": "x" * 256}, "description"),
    ],
)
def test_schedule_with_invalid_field_raises_invalid_input_error_for_the_field(
    options: dict[str, str], name: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        make(**options)
    assert [fault[0] for fault in refused.value.faults] == [name]
    made = make()
    with pytest.raises(InvalidInputError):
        change_schedule(made.id, **options)


def test_schedule_with_invalid_or_empty_input_or_unknown_graph_raises_an_input_error() -> None:
    with pytest.raises(InvalidInputError):
        make(input=["no", "state"])
    with pytest.raises(EmptyInputError):
        make(input=None)
    with pytest.raises(UnknownGraphError):
        make("no such graph")


def test_schedule_resumed_after_a_pause_does_not_run_missed_times() -> None:
    made = make()
    change_schedule(made.id, is_active=False)
    come_due(made.id, days=3)
    resumed = change_schedule(made.id, is_active=True)
    assert resumed.next_at is not None
    assert resumed.next_at > resumed.created_at
    assert start_due.start_due() == []


def test_schedule_owner_changes_when_a_user_changes_the_input_but_not_when_pausing() -> None:
    person = make_person("manage_schedules", "start_run", "view_schedule")
    made = make()
    assert change_schedule(made.id, is_active=False, by=person).owner_label == "system"
    assert change_schedule(made.id, input={"log": ["a"]}, by=person).owner_label == "dana"


def test_schedule_changes_require_manage_and_start_permission() -> None:
    made = make()
    person = make_person("start_run", "view_schedule")
    for act in (
        lambda: make(by=person),
        lambda: change_schedule(made.id, is_active=False, by=person),
        lambda: delete_schedule(made.id, by=person),
    ):
        with pytest.raises(NotAllowedError):
            act()
    person.user_permissions.set(
        Permission.objects.filter(codename__in=["manage_schedules", "view_schedule"])
    )
    person = User.objects.get(pk=person.pk)
    change_schedule(made.id, is_active=False, by=person)
    with pytest.raises(NotAllowedError):
        make(by=person)
    with pytest.raises(NotAllowedError):
        change_schedule(made.id, input={"log": ["a"]}, by=person)
    person.user_permissions.clear()
    with pytest.raises(ScheduleNotFound):
        delete_schedule(made.id, by=User.objects.get(pk=person.pk))


def test_deleted_schedule_starts_no_run_and_preserves_its_earlier_runs() -> None:
    made = make()
    come_due(made.id)
    start_due.start_due()
    delete_schedule(made.id)
    assert start_due.start_due() == []
    assert Run.objects.count() == 1
    with pytest.raises(ScheduleNotFound):
        delete_schedule(made.id)


# The sweep.


def test_sweep_without_schedules_takes_one_query() -> None:
    with CaptureQueriesContext(connection) as asked:
        start_due.start_due()
    assert len(asked) == 1


@pytest.mark.database("postgresql")
def test_due_schedules_query_uses_its_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "hitl_schedule_due" in start_due.select_due().order_by("next_at").explain()


def test_schedule_due_without_sweep_for_hours_is_reported_as_missed() -> None:
    made = make()
    assert find_missed_since() is None
    due = come_due(made.id, hours=5)
    assert find_missed_since() == due


def test_advance_time_of_graph_environment_starts_due_schedules(register: Register) -> None:
    register("daily", "0 7 * * *", approval, timezone="UTC", input={"text": "x"})
    with testing.GraphEnvironment() as hitl:
        hitl.sweep()
        for day in range(3):
            hitl.advance_time(days=1)
            assert Run.objects.count() == day + 1
            hitl.decide(None, "approve", graph="daily")
        assert Run.objects.filter(state="succeeded").count() == 3
        hitl.advance_time(days=1)
        hitl.advance_time(days=1)  # the interrupt is still pending
        assert Interrupt.objects.filter(status="pending").count() == 1
    row = Schedule.objects.get()
    assert (row.started, row.skipped) == (4, 1)
    assert audit.find_faults is not None


def test_schedule_without_cronsim_fails_system_check_and_creation(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cron, "is_installed", lambda: False)
    assert "hitl_schedules.E001" not in {each.id for each in run_checks()}
    register("daily", "0 7 * * *")
    [found] = [
        each for each in run_checks(tags=["hitl_django"]) if each.id == "hitl_schedules.E001"
    ]
    assert "daily" in found.msg
    assert "hitl-django[schedules]" in str(found.hint)
    with pytest.raises(InvalidInputError, match="is not installed"):
        make()


def test_doctor_and_schedules_commands_report_failing_schedules() -> None:
    made = make(description="Mondays")
    make(is_active=False)
    Schedule.objects.filter(pk=made.id).update(input=["no", "state"])
    come_due(made.id)
    start_due.start_due()
    found = diagnosis.examine_installation(audited=False)
    [finding] = [each for each in found if each.message.startswith("Schedule ")]
    assert (finding.level, str(made.id) in finding.message) == ("warning", True)
    out = io.StringIO()
    call_command("hitl", "schedules", stdout=out)
    head, one, other = out.getvalue().splitlines()
    assert head.split()[:3] == ["id", "graph", "expression"]
    assert str(made.id) in one
    assert "paused" in other
    out = io.StringIO()
    call_command("hitl", "schedules", "--json", stdout=out)
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [each["skipped"] for each in told] == [1, 0]
    Schedule.objects.all().delete()
    err = io.StringIO()
    call_command("hitl", "schedules", stderr=err)
    assert err.getvalue() == "No results.\n"


@dataclass
class Person:
    user_id: str


def build_with_context() -> StateGraph:
    graph = StateGraph(dict, context_schema=Person)
    return graph.add_node("end", lambda state: {}).add_edge(START, "end")


@pytest.mark.any_database
@pytest.mark.parametrize("context", [None, {"user_id": "ann"}])
def test_scheduled_graph_without_required_context_fails_system_check(
    context: Any, register: Register
) -> None:
    register("nightly", "0 2 * * *", build_with_context, context=context)
    found = [each.msg for each in run_checks() if each.id == "hitl_schedules.E002"]
    assert [("'nightly'" in msg, "context" in msg) for msg in found] == (
        [] if context else [(True, True)]
    )


@pytest.mark.any_database
def test_schedule_of_unregistered_graph_fails_system_check(register: Register) -> None:
    register("nightly", "0 2 * * *")
    registry.unregister("nightly")
    [found] = [each.msg for each in run_checks() if each.id == "hitl_schedules.E003"]
    assert "'nightly'" in found


# Ends, metadata and threads.


def test_schedule_starts_no_runs_after_its_end() -> None:
    end = datetime.now(UTC) + timedelta(minutes=90)
    made = make(expression="0 * * * *", timezone="UTC", ends_at=end)
    last = end.replace(minute=0, second=0, microsecond=0)
    # The sweep was stopped until after the end.
    Schedule.objects.filter(pk=made.id).update(
        next_at=last - timedelta(hours=5), ends_at=last - timedelta(hours=3, minutes=10)
    )
    assert len(start_due.start_due()) == 1
    row = read(made.id)
    assert (row.last_due_at, row.skipped) == (last - timedelta(hours=4), 1)
    assert row.next_at is None
    assert start_due.start_due() == []
    changed = change_schedule(made.id, ends_at=end)
    assert changed.next_at is not None
    assert changed.next_at <= end
    assert changed.updated_at > made.updated_at
    assert change_schedule(made.id, ends_at=None, expression="0 0 1 1 *").next_at is not None


def test_schedule_with_end_in_the_past_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="ends_at is in the past"):
        make(ends_at=datetime.now(UTC) - timedelta(seconds=1))
    made = make()
    with pytest.raises(InvalidInputError):
        change_schedule(made.id, ends_at=datetime.now(UTC) - timedelta(seconds=1))


def test_schedule_stores_its_metadata_with_run_and_new_thread() -> None:
    made = make(metadata={"team": "north", "schedule": "mine"})
    come_due(made.id)
    [pk] = start_due.start_due()
    run = Run.objects.select_related("thread").get(pk=pk)
    stored = {"team": "north", "schedule": str(made.id)}
    for metadata in (run.thread.metadata, (run.options or {})["metadata"]):
        assert stored.items() <= metadata.items()
    with pytest.raises(PayloadLimitError):
        make(metadata={"text": "x" * (METADATA_BYTES - 20)})


def test_schedule_with_thread_continues_the_thread_unless_its_run_has_not_ended() -> None:
    thread = services.start("approval", {"text": "first"}).thread_id
    made = make("approval", input={"text": "again"}, thread_id=thread)
    come_due(made.id)
    assert start_due.start_due() == []
    row = read(made.id)
    assert (row.skipped, row.last_error) == (1, "")
    change_schedule(made.id, overlap="allow")
    come_due(made.id)
    [waiting] = start_due.start_due()
    run = Run.objects.select_related("thread").get(pk=waiting)
    assert (run.state, run.thread.thread_id) == ("waiting", thread)


@pytest.mark.parametrize(
    ("remove", "words"),
    [
        (services.erase_thread, "erased"),
        (lambda pk: Thread.objects.get(thread_id=pk).delete(), "no longer exists"),
    ],
    ids=["erased", "deleted"],
)
def test_schedule_of_erased_or_deleted_thread_starts_no_run(
    caplog: pytest.LogCaptureFixture, remove: Callable[[str], object], words: str
) -> None:
    with testing.inline() as advance:
        thread = services.start("steps", {"log": []}).thread_id
        advance()
    made = make(thread_id=thread)
    remove(thread)
    assert words in breaks_off(made, caplog)


def test_schedule_for_unknown_or_hidden_thread_or_thread_of_another_graph_is_refused() -> None:
    thread = services.start("approval", {"text": "x"}).thread_id
    with pytest.raises(NoSuchThread):
        make(thread_id="unknown")
    with pytest.raises(InvalidInputError, match="belongs to graph"):
        make("steps", thread_id=thread)
    person = make_person("manage_schedules", "start_run")
    with pytest.raises(NoSuchThread):
        make("approval", input={"text": "x"}, thread_id=thread, by=person)
    own = services.start("approval", {"text": "x"}, by=person).thread_id
    with pytest.raises(NotAllowedError, match="view_thread"):
        make("approval", input={"text": "x"}, thread_id=own, by=person)
    assert not Schedule.objects.exists()
