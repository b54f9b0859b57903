"""Retention: deletion and pruning of ended threads, and erasure of a thread."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db.models import ProtectedError, QuerySet
from django.utils import timezone

from hitl_django import answers, audit, services
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.engine.errors import CorruptPayloadError, ThreadNotFound
from hitl_django.errors import NotAllowedError, RunStateError
from hitl_django.graph_registry import compatibility
from hitl_django.models import (
    AuditEntry,
    ChannelBlob,
    Checkpoint,
    Decision,
    GraphShape,
    Interrupt,
    PendingWrite,
    Run,
    RunEvent,
    Thread,
)
from hitl_django.worker import retention
from hitl_django.worker.sweeper import sweep
from tests import graphs
from tests.chaos import invariants

from .conftest import asked

pytestmark = pytest.mark.django_db
SECRET = "canary 4711"


def ended(advance: Callable[[], int], days: float = 100, text: str = "x") -> Thread:
    """Create a thread with one answered interrupt and a run that ended the given time ago."""
    interrupt = asked("approval", {"text": text}, advance)
    services.decide(interrupt.pk, "respond", {"approved": True, "text": text}, reason=text)
    advance()
    run = Run.objects.get(pk=interrupt.run_id)
    assert run.state == Run.State.SUCCEEDED
    age(run.pk, days)
    return run.thread


def age(run_id: Any, days: float) -> None:
    at = timezone.now() - timedelta(days=days)
    Run.objects.filter(pk=run_id).update(finished_at=at)
    Thread.objects.filter(runs=run_id).update(ended_at=at)


@pytest.fixture
def failing() -> Iterator[None]:
    graphs.FAILING.add("yes")
    yield
    graphs.FAILING.clear()


def kept() -> set[int]:
    return set(Thread.objects.values_list("pk", flat=True))


def test_delete_ended_removes_old_thread_with_all_its_rows_and_leaves_recent_thread(
    advance: Callable[[], int],
) -> None:
    ended(advance)
    recent = ended(advance, days=10)
    assert retention.delete_ended(30, 10) == 1
    assert kept() == {recent.pk}
    for model in (Checkpoint, ChannelBlob, PendingWrite, Interrupt, AuditEntry, Run):
        assert set(model.objects.values_list("thread", flat=True)) == {recent.pk}
    assert retention.delete_ended(30, 10) == 0


@pytest.mark.parametrize("state", Run.ACTIVE)
def test_delete_ended_and_prune_ended_skip_thread_with_active_run(
    advance: Callable[[], int], state: str
) -> None:
    thread = ended(advance)
    Run.objects.create(thread=thread, graph="approval", state=state)
    assert retention.delete_ended(30, 10) == 0
    assert list(retention.prune_ended(30)) == []
    assert kept() == {thread.pk}


def test_delete_ended_measures_age_of_thread_from_end_of_its_last_run(
    advance: Callable[[], int],
) -> None:
    thread = ended(advance)
    later = services.start("approval", {"text": "y"}, thread_id=thread.thread_id)
    assert retention.delete_ended(0, 10) == 0
    services.cancel(later.id)
    age(later.id, 10)
    assert retention.delete_ended(30, 10) == 0
    assert retention.delete_ended(5, 10) == 1


@pytest.mark.parametrize("how", ["retry", "fork", "start"])
def test_retry_fork_or_start_clears_ended_at_of_ended_thread(
    advance: Callable[[], int], failing: None, how: str
) -> None:
    run = services.start("fragile", {"count": 1})
    advance()
    thread = Thread.objects.get()
    assert (thread.runs.get().state, thread.ended_at is None) == ("failed", False)
    if how == "retry":
        services.retry(run.id)
    elif how == "fork":
        newest = Checkpoint.objects.order_by("-checkpoint_id")[0]
        services.fork(run.thread_id, newest.checkpoint_id)
    else:
        services.start("fragile", {"count": 1}, thread_id=run.thread_id)
    assert Thread.objects.get().ended_at is None
    assert not [fault for one in invariants.records() for fault in invariants.rest(one)]


def test_delete_ended_removes_the_longest_ended_threads_first(
    advance: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    threads = [ended(advance, days) for days in (40, 90, 50, 80, 60)]
    assert retention.delete_ended(30, 3) == 3
    assert kept() == {threads[0].pk, threads[2].pk}
    assert retention.delete_ended(30, 100) == 2


def test_delete_ended_skips_only_the_thread_with_an_active_run(advance: Callable[[], int]) -> None:
    goes_on, _, pruned = (ended(advance) for _ in range(3))
    Run.objects.create(thread=goes_on, graph="approval", state=Run.State.RUNNING)
    age(pruned.runs.get().pk, 20)
    assert retention.delete_ended(30, 10) == 1
    assert kept() == {goes_on.pk, pruned.pk}
    assert list(retention.prune_ended(10)) == [1]
    assert Checkpoint.objects.filter(thread=pruned).count() == 1
    assert Checkpoint.objects.filter(thread=goes_on).count() > 1


def test_delete_events_removes_events_only_of_old_ended_runs(
    advance: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    runs = [ended(advance, days).runs.get() for days in (40, 10, 90, 50)]
    goes_on = asked("approval", {"text": "x"}, advance).run
    told = {run.pk: RunEvent.objects.filter(run=run).count() for run in (*runs, goes_on)}
    assert min(told.values()) > 1

    assert retention.delete_events(30, 2) == 2  # the threads that ended first
    left = {pk: RunEvent.objects.filter(run=pk).count() for pk in told}
    assert left == told | {runs[2].pk: 0, runs[3].pk: 0}
    assert retention.delete_events(30, 100) == 1
    assert retention.delete_events(30, 100) == 0
    left = {pk: RunEvent.objects.filter(run=pk).count() for pk in told}
    assert left == told | {runs[at].pk: 0 for at in (0, 2, 3)}
    for run in (*runs, goes_on):
        run.refresh_from_db()
        is_kept = run.pk in (runs[1].pk, goes_on.pk)
        assert run.first_event == (1 if is_kept else run.last_event + 1)


def test_prune_ended_leaves_last_checkpoint_and_readable_result_of_old_thread(
    advance: Callable[[], int],
) -> None:
    thread = ended(advance, text="kept")
    recent = ended(advance, days=1)
    before = services.run_result(thread.runs.get().pk)
    assert list(retention.prune_ended(30)) == [1]
    assert list(retention.prune_ended(30)) == []
    assert Checkpoint.objects.filter(thread=thread).count() == 1
    assert Checkpoint.objects.filter(thread=recent).count() > 1
    assert services.run_result(thread.runs.get().pk) == before
    assert Decision.objects.filter(interrupt__thread=thread).exists()


def test_sweep_deletes_old_threads_only_if_retention_days_is_set(
    advance: Callable[[], int], settings: Any
) -> None:
    ended(advance)
    sweep()
    assert len(kept()) == 1
    settings.HITL = {**settings.HITL, "RETENTION_DAYS": 30}
    sweep()
    assert not kept()


@pytest.mark.parametrize(
    ("terms", "left"),
    [
        ({"approval": 30}, {"chat", "", "mail"}),
        ({"approval": 200, "*": 30}, {"approval"}),
        ({"approval": None, "chat": 200, "*": 30}, {"approval", "chat"}),
        ({"approval": 30, "*": None}, {"chat", "", "mail"}),
        ({"mail": 30, "*": 200}, {"approval", "chat", ""}),
        ({}, {"approval", "chat", "", "mail"}),
    ],
)
@pytest.mark.parametrize(
    "name", ["RETENTION_DAYS", "RETENTION_DAYS of the archive", "ARCHIVE_DAYS"]
)
def test_retention_days_given_per_graph_apply_to_threads_of_that_graph(
    advance: Callable[[], int], settings: Any, terms: Any, left: set[str], name: str
) -> None:
    for graph in ("approval", "chat", "", "mail"):
        Thread.objects.filter(pk=ended(advance).pk).update(graph=graph)
    archived = name.endswith("archive")
    if archived:
        assert archive_ended(30, 10) == 4
    settings.HITL = {**settings.HITL, name.removesuffix(" of the archive"): terms}
    sweep()
    rows: Any = (ArchivedThread if archived else Thread).objects.all()
    assert set(rows.values_list("graph", flat=True)) == left
    assert ArchivedThread.objects.count() == {
        "RETENTION_DAYS": 0, "ARCHIVE_DAYS": 4 - len(left)
    }.get(name, len(left))  # fmt: skip


def test_sweep_deletes_at_most_sweep_batch_threads_of_all_graphs_together(
    advance: Callable[[], int], settings: Any
) -> None:
    for graph in ("approval", "chat", "mail"):
        Thread.objects.filter(pk=ended(advance).pk).update(graph=graph)
    settings.HITL = {**settings.HITL, "RETENTION_DAYS": {"*": 30}, "SWEEP_BATCH": 2}
    sweep()
    assert len(kept()) == 1


def test_sweep_deletes_threads_of_other_graphs_if_one_graph_has_undeletable_threads(
    advance: Callable[[], int],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = ended(advance)
    Thread.objects.filter(pk=ended(advance).pk).update(graph="chat")
    delete = QuerySet.delete

    def refuse(rows: Any) -> Any:
        if rows.model is Thread and rows.filter(pk=held.pk).exists():
            raise ProtectedError("referenced", set())
        return delete(rows)

    settings.HITL = {**settings.HITL, "RETENTION_DAYS": {"approval": 30, "chat": 30}}
    monkeypatch.setattr(QuerySet, "delete", refuse)
    sweep()
    assert kept() == {held.pk}
    assert "hitl purge --days 30 --graph approval" in caplog.text


@pytest.mark.parametrize("name", ["RETENTION_DAYS", "ARCHIVE_DAYS"])
@pytest.mark.parametrize(
    ("terms", "where"),
    [
        ({"chat": 0, "*": 30}, "HITL['{name}'] has the value 0 for 'chat', which must be None"),
        ({"chat": 30, "*": "x"}, "HITL['{name}'] has the value 'x' for '*', which must be None"),
        ({4: 30}, "HITL['{name}'] has the key 4; keys must be graph names or '*'."),
    ],
)
def test_system_check_reports_invalid_retention_days_of_a_graph_with_graph_name(
    settings: Any, terms: Any, where: str, name: str
) -> None:
    where = where.format(name=name)
    settings.HITL = {**settings.HITL, name: terms}
    (found,) = [one for one in run_checks(tags=["hitl_django"]) if name in one.msg]
    assert (found.id, found.msg[: len(where)]) == ("hitl_django.E003", where)


def test_system_check_reports_event_retention_days_given_per_graph(settings: Any) -> None:
    settings.HITL = {**settings.HITL, "EVENT_RETENTION_DAYS": {"chat": 30}}
    (found,) = [one for one in run_checks(tags=["hitl_django"]) if "RETENTION_DAYS" in one.msg]
    assert found.msg == "HITL['EVENT_RETENTION_DAYS'] must be None or a positive number."


def test_sweep_requeues_run_with_lost_message_although_old_thread_is_undeletable(
    advance: Callable[[], int],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def protected(*args: Any) -> None:
        raise ProtectedError("referenced", {SECRET})

    ended(advance)
    run = services.start("approval", {"text": "x"})
    Run.objects.filter(pk=run.id).update(last_message_at=timezone.now() - timedelta(hours=1))
    settings.HITL = {**settings.HITL, "RETENTION_DAYS": 30}
    monkeypatch.setattr(QuerySet, "delete", protected)
    assert sweep() == [run.id]
    assert "hitl purge --days 30" in caplog.text
    assert SECRET not in caplog.text
    assert len(kept()) == 2


def test_delete_ended_removes_other_threads_of_batch_with_undeletable_thread(
    advance: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    threads = [ended(advance, days=90 - number) for number in range(5)]
    held = {threads[0].pk, threads[3].pk}
    delete = QuerySet.delete

    def refuse(rows: Any) -> Any:
        if rows.model is Thread and held.intersection(rows.values_list("pk", flat=True)):
            raise ProtectedError("referenced", set())
        return delete(rows)

    with monkeypatch.context() as patch:
        patch.setattr(QuerySet, "delete", refuse)
        with pytest.raises(ProtectedError):
            retention.delete_ended(30, 10)
    assert set(kept()) == held
    assert retention.delete_ended(30, 10) == 2


def test_prune_ended_prunes_other_threads_if_one_thread_has_damaged_checkpoints(
    advance: Callable[[], int],
) -> None:
    damaged, whole = ended(advance, days=90), ended(advance, days=80)
    Checkpoint.objects.filter(thread=damaged).update(digest="x")
    with pytest.raises(CorruptPayloadError):
        list(retention.prune_ended(30))
    assert Checkpoint.objects.filter(thread=whole).count() == 1


@pytest.mark.parametrize("name", ["RETENTION_DAYS", "EVENT_RETENTION_DAYS"])
@pytest.mark.parametrize("days", [0, -1, "30", True])
def test_system_check_reports_retention_days_that_are_not_positive_numbers(
    days: Any, name: str, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, name: days}
    found = [one for one in run_checks(tags=["hitl_django"]) if f"'{name}'" in one.msg]
    assert [one.id for one in found] == ["hitl_django.E003"]


@pytest.mark.parametrize(("flags", "said"), [([], "deleted"), (["--prune"], "pruned")])
def test_purge_command_deletes_or_prunes_all_batches_of_old_threads(
    advance: Callable[[], int], monkeypatch: pytest.MonkeyPatch, flags: list[str], said: str
) -> None:
    monkeypatch.setattr("hitl_django.management.purge.PORTION", 2)
    for _ in range(3):
        ended(advance)
    out = io.StringIO()
    call_command("hitl", "purge", "--yes", "--days=30", *flags, stdout=out, stderr=io.StringIO())
    assert out.getvalue() == f"3 threads {said}.\n"
    assert len(kept()) == (3 if flags else 0)


@pytest.mark.parametrize("flags", [[], ["--prune"]])
def test_purge_command_with_graph_option_processes_only_threads_of_that_graph(
    advance: Callable[[], int], flags: list[str]
) -> None:
    Thread.objects.filter(pk=ended(advance).pk).update(graph="chat")
    ended(advance)
    out = io.StringIO()
    command = ["purge", "--yes", "--days=30", "--graph=chat", *flags]
    call_command("hitl", *command, stdout=out, stderr=io.StringIO())
    assert out.getvalue().startswith("1 thread ")


@pytest.mark.parametrize(("flags", "verb"), [([], "delete"), (["--prune"], "prune")])
def test_purge_command_dry_run_counts_threads_and_changes_nothing(
    advance: Callable[[], int], flags: list[str], verb: str
) -> None:
    ended(advance)
    ended(advance, days=3)
    before = Checkpoint.objects.count()
    out = io.StringIO()
    call_command("hitl", "purge", "--dry-run", "--days=30", *flags, stdout=out)
    assert out.getvalue() == f"1 thread to {verb}. Nothing was changed.\n"
    assert (len(kept()), Checkpoint.objects.count()) == (2, before)


@pytest.mark.parametrize(("answer", "remaining"), [("yes", 0), ("y", 1), ("", 1)])
def test_purge_command_in_a_terminal_deletes_only_after_confirmation(
    advance: Callable[[], int], monkeypatch: pytest.MonkeyPatch, answer: str, remaining: int
) -> None:
    ended(advance)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    prompts: list[str] = []
    monkeypatch.setattr("builtins.input", lambda text: prompts.append(text) or answer)
    call_command("hitl", "purge", "--days=30", stdout=io.StringIO(), stderr=io.StringIO())
    assert prompts == ["1 thread to delete. This can't be undone. Type 'yes' to continue: "]
    assert len(kept()) == remaining


def test_purge_command_without_terminal_or_yes_option_raises_command_error_and_deletes_nothing(
    advance: Callable[[], int],
) -> None:
    ended(advance)
    with pytest.raises(CommandError, match=r"1 thread to delete.*--yes"):
        call_command("hitl", "purge", "--days=30", stdout=io.StringIO())
    assert len(kept()) == 1


def test_purge_command_with_negative_days_raises_command_error() -> None:
    with pytest.raises(CommandError, match="number of days from 0"):
        call_command("hitl", "purge", "--days=-1")


# Erasure.


def everything(thread: Thread) -> str:
    found = [str(Thread.objects.filter(pk=thread.pk).values())]
    for model in (Checkpoint, ChannelBlob, PendingWrite, Run, Interrupt, AuditEntry):
        found += map(str, model.objects.filter(thread=thread).values_list())
    found += map(str, Decision.objects.filter(interrupt__thread=thread).values_list())
    return "\n".join(found)


@pytest.mark.promise("P20")
def test_erase_thread_removes_contents_and_preserves_verifiable_audit_log(
    advance: Callable[[], int],
) -> None:
    thread = ended(advance, text=SECRET)
    Thread.objects.filter(pk=thread.pk).update(metadata={"about": SECRET}, subject_id=SECRET)
    Decision.objects.update(refusal=SECRET, patch=[{"op": "add", "path": "", "value": SECRET}])
    Interrupt.objects.update(
        why=SECRET,
        proposal={"answer": SECRET},
        editable=[SECRET],
        expiry={"seconds": 60, "then": "answer", "answer": SECRET},
    )
    assert SECRET in everything(thread)
    trail = list(AuditEntry.objects.filter(thread=thread).order_by("seq").values())
    digests = Decision.objects.values_list("request_digest", "payload_digest").get()

    services.erase_thread(thread.thread_id)

    assert SECRET not in everything(thread)
    assert not Checkpoint.objects.filter(thread=thread).exists()
    after = list(AuditEntry.objects.filter(thread=thread).order_by("seq").values())
    assert (after[-1]["verb"], SECRET in str(after)) == ("erase", False)
    for entry in trail + after:
        entry["detail"].pop("reason", None)
    assert after[:-1] == trail
    assert Decision.objects.values_list("request_digest", "payload_digest").get() == digests
    thread.refresh_from_db()
    assert audit.find_first_fault(thread) is None


def test_interrupt_of_erased_thread_has_empty_texts_and_readable_options(
    advance: Callable[[], int],
) -> None:
    call = {"question": "Right?", "tool_call": {"name": "f", "args": {"x": SECRET}}}
    services.start("plain", {"payload": call})
    advance()
    interrupt = Interrupt.objects.get()
    services.decide(interrupt.pk, "edit", {"x": 1})
    advance()
    services.erase_thread(interrupt.thread.thread_id)
    interrupt.refresh_from_db()
    assert (interrupt.title, interrupt.why, interrupt.payload) == ("", "", None)
    assert answers.read_options(interrupt).original is None


@pytest.mark.promise("P20")
def test_changed_reason_in_audit_entry_of_erased_thread_is_reported_as_fault(
    advance: Callable[[], int],
) -> None:
    thread = ended(advance, text=SECRET)
    services.erase_thread(thread.thread_id)
    thread.refresh_from_db()
    entry = AuditEntry.objects.get(thread=thread, verb="decide")
    entry.detail["reason"] = "other words"
    entry.save()
    assert audit.find_first_fault(thread) == entry.seq
    entry.detail["reason"] = SECRET
    entry.save()
    assert audit.find_first_fault(thread) is None


def test_erase_thread_with_pending_interrupt_raises_run_state_error(
    advance: Callable[[], int],
) -> None:
    interrupt = asked("approval", {"text": SECRET}, advance)
    with pytest.raises(RunStateError):
        services.erase_thread(interrupt.thread.thread_id)
    assert SECRET in everything(interrupt.thread)
    services.decide(interrupt.pk, "approve")


def test_retry_of_run_in_erased_thread_raises_run_state_error(advance: Callable[[], int]) -> None:
    thread = ended(advance)
    run = thread.runs.get()
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED)
    services.erase_thread(thread.thread_id)
    with pytest.raises(RunStateError):
        services.retry(run.pk)


@pytest.mark.promise("P18")
def test_erase_thread_without_permission_raises_not_found_or_not_allowed_error(
    advance: Callable[[], int], user: Callable[..., Any]
) -> None:
    thread = ended(advance, text=SECRET)
    with pytest.raises(ThreadNotFound):
        services.erase_thread(thread.thread_id, by=user("stranger"))
    with pytest.raises(NotAllowedError):
        services.erase_thread(thread.thread_id, by=user("looker", "view_run"))
    assert SECRET in everything(thread)
    services.erase_thread(thread.thread_id, by=user("olga", "view_run", "operate_run"))
    assert SECRET not in everything(thread)
    with pytest.raises(ThreadNotFound):
        services.erase_thread("nobody")


class TestStructures:
    @pytest.fixture(autouse=True)
    def _due(self, advance: Callable[[], int]) -> None:
        self.advance = advance
        compatibility.clear_structures()

    def age(self, days: float = 2) -> None:
        GraphShape.objects.update(created_at=timezone.now() - timedelta(days=days))

    def swept(self) -> int:
        compatibility.clear_structures()
        sweep()
        return GraphShape.objects.count()

    def test_graph_structure_is_deleted_only_after_its_last_thread(self) -> None:
        thread = ended(self.advance)
        GraphShape.objects.create(fingerprint="old", graph="approval", shape={})
        self.age()
        assert self.swept() == 1
        retention.delete_ended(30, 10)
        assert not Thread.objects.filter(pk=thread.pk).exists()
        assert self.swept() == 0

    def test_unused_graph_structures_are_deleted_in_batches(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compatibility, "BATCH", 2)
        for number in range(3):
            GraphShape.objects.create(fingerprint=f"{number}", graph="approval", shape={})
        self.age()
        assert [self.swept(), self.swept()] == [1, 0]

    def test_recently_stored_graph_structure_is_not_deleted(self) -> None:
        # Another process may know the id, and start a run with this id immediately afterwards.
        GraphShape.objects.create(fingerprint="new", graph="approval", shape={})
        assert self.swept() == 1

    def test_process_updates_its_graph_structure_before_structure_is_due_for_deletion(
        self, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
    ) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            services.start("approval", {"text": "x"})
        self.age()
        services.start("approval", {"text": "x"})
        assert GraphShape.objects.filter(created_at__lt=timezone.now() - timedelta(days=1)).exists()
        later = compatibility.monotonic() + compatibility.AGAIN
        monkeypatch.setattr(compatibility, "monotonic", lambda: later)
        services.start("approval", {"text": "x"})
        Run.objects.all().delete()
        assert self.swept() == 1

    def test_remove_unused_structures_called_again_within_its_interval_takes_no_query(
        self, django_assert_num_queries: Any
    ) -> None:
        compatibility.remove_unused_structures()
        with django_assert_num_queries(0):
            compatibility.remove_unused_structures()
