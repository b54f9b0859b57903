"""Runs that wait for earlier runs of their thread."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError
from django.db.models.functions import Now
from django.test import override_settings
from django_q.models import OrmQ

from hitl_django import END, START, StateGraph, audit, interrupt, services, signals, testing
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import archived_thread
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError, RunStateError
from hitl_django.graph_registry import compatibility, registry
from hitl_django.models import AuditEntry, Checkpoint, GraphShape, Interrupt, Run, RunEvent, Thread
from hitl_django.services.runs import waiting
from hitl_django.worker import retention, runner
from hitl_django.worker.sweeper import sweep
from tests.graphs import FAILING

Advance = Callable[[], int]


def start(graph: str = "approval", given: Any = None, **options: Any) -> services.RunInfo:
    return services.start(
        graph, given or {"text": "x"}, thread_id="t", on_pending="wait", **options
    )


def free_with_one_waiting(**options: Any) -> services.RunInfo:
    first = start(given={"text": "one"})
    second = start(given={"text": "two"}, **options)
    Run.objects.filter(pk=first.id).update(state="succeeded")
    Thread.objects.filter(thread_id="t").update(ended_at=Now(), attempts=3)
    return second


def states() -> list[str]:
    rows = Run.objects.order_by("created_at", "pk")
    return list(rows.values_list("state", flat=True))


def thread() -> Thread:
    return Thread.objects.get(thread_id="t")


def answer() -> None:
    services.decide(Interrupt.objects.get(status="pending").pk, "approve")


def test_start_with_on_pending_wait_on_idle_thread_queues_run(advance: Advance) -> None:
    assert start().state == "queued"
    advance()
    answer()
    advance()
    assert start().state == "queued"
    assert not thread().has_waiting


@pytest.mark.promise("P8")
def test_waiting_runs_of_one_thread_execute_in_start_order(advance: Advance) -> None:
    given = [{"log": [name]} for name in ("one", "two", "three")]
    made = [start("steps", each) for each in given]
    assert [each.state for each in made] == ["queued", "waiting", "waiting"]
    assert all(each.created for each in made)
    # The first run's message executes all runs: each run that ends starts the next one.
    advance()
    assert states() == ["succeeded"] * 3
    assert not thread().has_waiting
    log = services.run_result(made[2].id)["log"]
    assert [name for name in log if name in ("one", "two", "three")] == ["one", "two", "three"]
    assert not Run.objects.filter(input__isnull=False).exists()
    assert audit.find_first_fault(thread()) is None


def test_start_with_on_pending_wait_waits_until_pending_interrupt_is_decided(
    advance: Advance,
) -> None:
    start(given={"text": "one"})
    advance()
    start(given={"text": "two"})
    advance()
    assert states() == ["interrupted", "waiting"]
    assert thread().has_waiting
    answer()
    advance()
    assert states() == ["succeeded", "interrupted"]
    assert Interrupt.objects.get(status="pending").title == "Publish two?"


def test_waiting_runs_are_numbered_in_start_order_despite_creation_times(advance: Advance) -> None:
    """The waiting transaction began before the transaction that locked the thread."""
    start("steps", {"log": ["one"]})
    Run.objects.update(created_at=Now() + timedelta(hours=1))
    second = start("steps", {"log": ["two"]})
    third = start("steps", {"log": ["three"]})
    order = Run.objects.order_by("number").values_list("pk", "number")
    assert list(order)[1:] == [(second.id, 2), (third.id, 3)]
    advance()
    assert services.run_result(third.id)["log"].count("three") == 1
    with pytest.raises(RunStateError):
        services.retry(second.id)


def test_run_result_of_first_run_excludes_values_of_the_waiting_run(advance: Advance) -> None:
    first, second = (start("steps", {"log": [name]}) for name in ("one", "two"))
    advance()
    assert "two" not in services.run_result(first.id)["log"]
    assert "two" in services.run_result(second.id)["log"]


def test_waiting_run_starts_after_earlier_run_is_cancelled(advance: Advance) -> None:
    first = start()
    advance()
    start(given={"text": "two"})
    services.cancel(first.id)
    advance()
    assert states() == ["cancelled", "interrupted"]


def test_waiting_run_starts_after_earlier_run_fails(advance: Advance) -> None:
    start("fragile", {"count": 1})
    start("fragile", {"count": 2})
    FAILING.add("work")
    try:
        advance()
    finally:
        FAILING.clear()
    assert states() == ["failed", "failed"]
    assert Run.objects.latest("created_at").input is None


def test_waiting_run_does_not_start_while_earlier_run_is_parked(advance: Advance) -> None:
    first = start("steps", {"log": ["one"]})
    start("steps", {"log": ["two"]})
    Run.objects.filter(pk=first.id).update(state="parked")
    advance()
    assert states() == ["parked", "waiting"]
    services.retry(first.id)
    advance()
    assert states() == ["succeeded", "succeeded"]


def test_cancelled_waiting_run_does_not_start_and_earlier_run_continues(advance: Advance) -> None:
    start()
    second, third = start(), start(given={"text": "three"})
    Thread.objects.update(attempts=2)
    services.cancel(second.id)
    assert thread().attempts == 2  # attempts of the active run
    assert thread().has_waiting
    advance()
    assert states() == ["interrupted", "cancelled", "waiting"]
    services.cancel(third.id)
    assert not thread().has_waiting
    answer()
    assert advance() == 1
    assert states() == ["succeeded", "cancelled", "cancelled"]
    assert services.run_result(Run.objects.earliest("created_at").pk)["text"] == "x"


def test_new_run_on_thread_with_waiting_run_waits_or_raises_run_state_error(
    advance: Advance,
) -> None:
    start(given={"text": "one"})
    advance()
    start(given={"text": "two"})
    checkpoint = None
    for act in (
        lambda: services.start("approval", {"text": "y"}, thread_id="t", on_pending="discard"),
        lambda: services.fork("t", checkpoint),
    ):
        with pytest.raises(RunStateError, match="wait") as caught:
            act()
        assert caught.value.state == "waiting"
    assert states() == ["interrupted", "waiting"]
    # The run has ended, but no worker knows yet.
    Run.objects.filter(state="interrupted").update(state="succeeded")
    with pytest.raises(RunStateError, match="wait"):
        services.start("approval", {"text": "y"}, thread_id="t")
    assert start(given={"text": "three"}).state == "waiting"


def test_update_state_on_thread_with_waiting_run_takes_effect_before_the_run(
    advance: Advance,
) -> None:
    start(given={"text": "one"})
    advance()
    start(given={"text": "two"})
    services.update_state("t", {"answer": "told"}, as_node="ask")
    advance()
    assert states() == ["cancelled", "interrupted"]


def test_start_with_on_pending_wait_validates_input_graph_and_permission_immediately(
    advance: Advance, user: Callable[..., User], unchanged: Callable[..., None]
) -> None:
    start()
    unchanged()
    with pytest.raises(InvalidInputError):
        start(given=["no state"])
    with pytest.raises(InvalidInputError, match="belongs to"):
        start("steps", {"log": []})
    unchanged()
    with pytest.raises(NotAllowedError):
        start(by=user("nina"))
    unchanged(refused=1)


def test_start_with_repeated_key_of_waiting_run_returns_that_run(advance: Advance) -> None:
    start()
    first = start(key="k", given={"text": "two"})
    again = start(key="k", given={"text": "two"})
    assert (first.id, first.created, again.created) == (again.id, True, False)
    assert len(states()) == 2


def test_start_beyond_maximum_number_of_waiting_runs_raises_run_state_error(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_WAITING", 2)
    for _ in range(3):
        start()
    with pytest.raises(RunStateError, match="already has the maximum number of waiting runs: 2"):
        start()
    assert states() == ["queued", "waiting", "waiting"]


def test_waiting_run_writes_start_audit_entry_and_waiting_event_immediately(
    advance: Advance, user: Callable[..., User]
) -> None:
    sam = user("sam", "start_run", "view_thread")
    start(by=sam)
    second = start(by=sam, given={"text": "two"}, via="api")
    entry = AuditEntry.objects.get(subject=str(second.id))
    assert (entry.verb, entry.actor_label, entry.via) == ("start", "sam", "api")
    advance()
    answer()
    advance()
    row = Run.objects.get(pk=second.id)
    assert (row.started_by, row.state, row.input) == (sam, "interrupted", None)
    kinds = RunEvent.objects.filter(run=row).order_by("seq").values_list("kind", "seq")
    assert [kind for kind, _ in kinds if kind in Run.State.values] == [
        "waiting",
        "queued",
        "interrupted",
    ]
    assert [seq for _, seq in kinds] == [*range(1, len(kinds) + 1)]
    assert AuditEntry.objects.filter(subject=str(second.id)).count() == 1


def test_waiting_run_that_cannot_start_fails_and_the_next_waiting_run_starts(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(given={"text": "one"})
    bad, good = start(given={"text": "bad"}), start(given={"text": "good"})
    validate = type(registry.get_graph("approval").graph).validate_input

    def refuse(graph: Any, given: Any) -> Any:
        if given["text"] == "bad":
            raise InvalidInputError("The input is not what it was.", [])
        return validate(graph, given)

    monkeypatch.setattr(type(registry.get_graph("approval").graph), "validate_input", refuse)
    advance()
    answer()
    advance()
    assert states() == ["succeeded", "failed", "interrupted"]
    row = Run.objects.get(pk=bad.id)
    assert "not what it was" in row.error
    assert "in refuse" in row.traceback
    assert row.finished_at is not None
    assert RunEvent.objects.filter(run=row, kind="failed").exists()

    # A later run of the thread has begun, so the operation is refused.
    with pytest.raises(RunStateError, match="newer run"):
        services.retry(bad.id)
    assert services.cancel(good.id).state == "cancelled"


def test_waiting_run_that_cannot_start_sends_failed_signal_and_webhook_and_logs_error(
    advance: Advance,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    told: list[dict[str, Any]] = []

    def hear(signal: Any, sender: Any, **about: Any) -> None:
        told.append(about)

    free_with_one_waiting()
    bad = Run.objects.get(state="waiting")
    webhook_services.create_webhook("https://hooks.example/")
    monkeypatch.setattr(
        type(registry.get_graph("approval").graph), "validate_input", lambda *given: 1 / 0
    )
    signals.run_failed.connect(hear)
    with django_capture_on_commit_callbacks(execute=True):
        assert waiting.start_next_waiting_run(bad.pk) is None
        assert told == []
    ids = {"run_id": str(bad.pk), "thread_id": "t", "graph": "approval"}
    assert told == [{**ids, "state": "failed"}]
    sent = Delivery.objects.get().data
    assert (sent["run_id"], sent["thread_id"]) == (str(bad.pk), "t")
    (line,) = (
        one for one in caplog.records if "could not start: ZeroDivisionError" in one.getMessage()
    )
    assert {name: getattr(line, name) for name in ids} == ids


def test_retry_of_run_that_failed_to_start_makes_run_wait_for_earlier_run_again(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(given={"text": "one"})
    bad = start(given={"text": "two"})
    with monkeypatch.context() as patched:
        patched.setattr(
            type(registry.get_graph("approval").graph), "validate_input", lambda *given: 1 / 0
        )
        advance()
        answer()
        advance()
    assert states() == ["succeeded", "failed"]
    assert services.run_result(Run.objects.earliest("created_at").pk)["text"] == "one"
    with override_settings(HITL={}):
        assert services.retry(bad.id).state == "waiting"
    # Workers that look for queued runs don't find a waiting run without its message.
    assert OrmQ.objects.get().task["args"] == (str(bad.id),)
    testing.run_ids.append(str(bad.id))
    advance()
    assert states() == ["succeeded", "interrupted"]
    assert Interrupt.objects.get(status="pending").title == "Publish two?"


def test_waiting_run_of_unregistered_graph_waits_until_graph_is_registered(
    advance: Advance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = start()
    start(given={"text": "two"})
    Run.objects.filter(pk=first.id).update(state="succeeded")
    Thread.objects.update(ended_at=Now())
    Run.objects.filter(state="waiting").update(graph="elsewhere")
    advance()
    assert "could not be claimed" in caplog.text
    assert states() == ["succeeded", "waiting"]
    Run.objects.filter(state="waiting").update(graph="approval")
    waiting.start_next_waiting_run(first.id)
    assert states() == ["succeeded", "queued"]


def test_sweep_starts_waiting_run_whose_message_was_lost(advance: Advance, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "SWEEP_SECONDS": 0.01}
    first = start("steps", {"log": ["one"]})
    second = start("steps", {"log": ["two"]})
    Run.objects.filter(pk=first.id).update(state="succeeded")
    assert second.id not in sweep()
    Thread.objects.update(ended_at=Now())
    Run.objects.update(last_message_at=Run.objects.get(pk=first.id).created_at)
    assert second.id in sweep()
    advance()
    assert states() == ["succeeded", "succeeded"]


def test_thread_with_waiting_run_is_not_deleted_archived_or_erased(advance: Advance) -> None:
    first = start()
    start()
    Run.objects.filter(pk=first.id).update(state="succeeded")
    Thread.objects.update(ended_at=Thread.objects.get().created_at)
    assert retention.delete_ended(0, 10) == 0
    assert archive_ended(0, 10) == 0
    with pytest.raises(RunStateError, match="is waiting"):
        services.erase_thread("t")


def test_erase_thread_removes_stored_input_of_cancelled_waiting_run(advance: Advance) -> None:
    start()
    second = start(given={"text": "secret"})
    services.cancel(second.id)
    services.cancel(Run.objects.earliest("created_at").pk)
    assert Run.objects.get(pk=second.id).input is not None
    services.erase_thread("t")
    assert not Run.objects.filter(input__isnull=False).exists()


def test_restored_archived_thread_contains_input_of_cancelled_waiting_run(advance: Advance) -> None:
    first = start("steps", {"log": ["one"]})
    second = start("steps", {"log": ["two"]}, key="two")
    services.cancel(second.id)
    advance()
    stored = Run.objects.get(pk=second.id).input
    assert archive_ended(0, 10) == 1
    assert archived_thread("t").state == "succeeded"
    start("steps", {"log": ["three"]})
    assert Run.objects.get(pk=second.id).input == stored
    advance()
    assert Run.objects.get(pk=first.id).state == "succeeded"


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_maximum_number_of_waiting_runs_execute_one_after_another_in_one_process(
    settings: Any,
) -> None:
    settings.HITL = {"DISPATCH": "tests.contrib.langgraph_api.test_streams.Nobody"}
    runs = [start("steps", {"log": []}) for _ in range(1 + waiting.MAX_WAITING)]
    settings.HITL = {"DISPATCH": "hitl_django.task_queue.dispatcher.InlineDispatcher"}
    runner.advance(str(runs[0].id))
    assert set(states()) == {"succeeded"}


class Noted(TypedDict, total=False):
    text: str
    log: Annotated[list[str], operator.add]


class Counted(TypedDict, total=False):
    text: str
    log: int


@pytest.fixture
def deploy() -> Iterator[Callable[..., str]]:
    """Replace the graph "line" by one with a node that interrupts, and return its fingerprint."""
    compatibility.clear_structures()

    def put(node: str = "ask", state: Any = Noted, **options: Any) -> str:
        def ask(given: Any) -> Any:
            return {"log": [interrupt(given["text"])]}

        def build() -> Any:
            return StateGraph(state).add_node(node, ask).add_edge(START, node).add_edge(node, END)

        registry.unregister("line")
        registry.register("line", events=["states"], **options)(build)
        return registry.get_graph("line").fingerprint

    yield put
    registry.unregister("line")
    compatibility.clear_structures()


def test_waiting_run_that_starts_gets_current_version_times_and_queued_event(
    advance: Advance, deploy: Callable[..., str]
) -> None:
    deploy(version="1")
    start("line", {"text": "one"})
    second = start("line", {"text": "two"}, options=services.RunOptions(durability="exit"))
    advance()
    answer()
    testing.run_ids.clear()
    runner.advance(str(Run.objects.earliest("created_at").pk))
    Run.objects.update(
        queued_at=Now() - timedelta(hours=1), last_message_at=Now() - timedelta(hours=1)
    )
    Thread.objects.update(attempts=3)
    newest = deploy(version="2", pin=True, node="ask again")
    GraphShape.objects.all().delete()

    assert waiting.start_next_waiting_run(second.id) == second.id
    row, at = Run.objects.get(pk=second.id), thread()
    assert (row.graph_version, row.fingerprint) == ("2", newest)
    assert row.options == {"durability": "exit", registry.PINNED: True}
    assert GraphShape.objects.filter(pk=newest).exists()
    assert Run.objects.filter(
        pk=row.pk,
        queued_at__gt=Now() - timedelta(minutes=1),
        last_message_at__gt=Now() - timedelta(minutes=1),
    ).exists()
    assert (at.attempts, at.ended_at, at.has_waiting) == (0, None, False)
    assert RunEvent.objects.get(run=row, kind="queued").data == {"reason": "started"}


def test_waiting_run_on_thread_incompatible_with_changed_graph_fails(
    advance: Advance, deploy: Callable[..., str]
) -> None:
    deploy()
    start("line", {"text": "one"})
    second = start("line", {"text": "two"})
    advance()
    answer()
    runner.advance(str(Run.objects.earliest("created_at").pk))
    assert states() == ["succeeded", "waiting"]
    deploy(state=Counted)
    advance()
    assert states() == ["succeeded", "failed"]
    assert "channel 'log'" in Run.objects.get(pk=second.id).error


def test_waiting_run_starts_although_another_thread_has_incompatible_graph_structure(
    advance: Advance, deploy: Callable[..., str]
) -> None:
    deploy()
    first = start("line", {"text": "one"})
    second = start("line", {"text": "two"})
    advance()
    answer()
    runner.advance(str(first.id))
    deploy(state=Counted)
    services.start("line", {"text": "x"}, thread_id="u")
    deploy()
    assert waiting.start_next_waiting_run(second.id) == second.id
    assert states() == ["succeeded", "queued", "queued"]


def test_waiting_run_starts_although_node_of_cancelled_run_was_removed(
    advance: Advance, deploy: Callable[..., str]
) -> None:
    deploy()
    first = start("line", {"text": "one"})
    start("line", {"text": "two"})
    advance()
    services.cancel(first.id)
    deploy(node="ask again")
    advance()
    assert states() == ["cancelled", "interrupted"]


def test_starting_a_waiting_run_leaves_waiting_runs_of_other_threads_unchanged(
    advance: Advance,
) -> None:
    second = free_with_one_waiting()
    beside = [
        services.start("approval", {"text": "x"}, thread_id="u", on_pending="wait").id
        for _ in range(2)
    ]
    Thread.objects.filter(thread_id="u").update(attempts=2)
    assert waiting.start_next_waiting_run(uuid4()) is None
    free = services.start("approval", {"text": "x"}, thread_id="free")
    assert waiting.start_next_waiting_run(free.id) is None
    assert waiting.start_next_waiting_run(beside[1]) is None
    assert Run.objects.get(pk=second.id).state == "waiting"
    assert waiting.start_next_waiting_run(second.id) == second.id
    rows = Run.objects.filter(pk__in=beside).order_by("created_at", "pk")
    assert list(rows.values_list("state", flat=True)) == ["queued", "waiting"]
    other = Thread.objects.get(thread_id="u")
    assert (other.attempts, other.ended_at, other.has_waiting) == (2, None, True)


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_database_error_at_start_of_waiting_run_is_raised_and_run_stays_waiting(
    advance: Advance,
    monkeypatch: pytest.MonkeyPatch,
    unchanged: Callable[[], None],
    error: type[Exception],
) -> None:
    second = free_with_one_waiting()
    unchanged()

    def submit(*given: Any, **options: Any) -> None:
        raise error("the server is away")

    with monkeypatch.context() as patched:
        patched.setattr(waiting, "submit_input", submit)
        with pytest.raises(error):
            waiting.start_next_waiting_run(second.id)
    unchanged()


def test_failed_start_of_waiting_run_stores_no_checkpoints(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = free_with_one_waiting()
    stored, submit = Checkpoint.objects.count(), waiting.submit_input

    def submit_and_fail(*given: Any, **options: Any) -> None:
        submit(*given, **options)
        raise ValueError("the graph's own")

    monkeypatch.setattr(waiting, "submit_input", submit_and_fail)
    assert waiting.start_next_waiting_run(second.id) is None
    assert Checkpoint.objects.count() == stored
    assert Run.objects.get(pk=second.id).state == "failed"

    third = start(given={"text": "three"})
    monkeypatch.setattr(waiting, "submit_input", submit)
    monkeypatch.setattr(waiting, "note_waiting", lambda thread: 1 / 0)
    Run.objects.filter(pk=third.id).update(state="waiting")
    Thread.objects.update(has_waiting=True)
    with pytest.raises(ZeroDivisionError):
        waiting.start_next_waiting_run(third.id)
    assert Run.objects.get(pk=third.id).state != "failed"


def test_start_on_thread_with_outdated_has_waiting_flag_queues_run(advance: Advance) -> None:
    start("steps", {"log": ["one"]})
    advance()
    Thread.objects.update(has_waiting=True)
    assert services.start("steps", {"log": ["two"]}, thread_id="t").state == "queued"
