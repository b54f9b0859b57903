"""Archiving, reading and restoring ended threads."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, ProgrammingError, connection, models
from django.utils import timezone

from hitl_django import audit, leases, services
from hitl_django.contrib.archive import document, moves, partitions
from hitl_django.contrib.archive.compression_dictionary import DICTIONARY
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import archived_thread, restore_thread
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.engine.errors import CorruptPayloadError, ThreadNotFound
from hitl_django.engine.serde import digest
from hitl_django.errors import (
    IdempotencyKeyReusedError,
    NoSuchThread,
    NotAllowedError,
    RunNotFound,
    ThreadExistsError,
)
from hitl_django.extensions import list_models
from hitl_django.models import (
    AuditEntry,
    Comment,
    Decision,
    Interrupt,
    Run,
    RunEvent,
    Thread,
)
from hitl_django.models.thread_tables import THREAD_TABLES, list_thread_tables
from hitl_django.worker import retention
from hitl_django.worker.sweeper import sweep

from .conftest import age, rows_of

pytestmark = pytest.mark.django_db

Ended = Callable[..., Thread]
SECRET = "canary 4711"


def archived() -> list[str]:
    return list(ArchivedThread.objects.order_by("pk").values_list("thread_id", flat=True))


@pytest.mark.parametrize(
    "act",
    [
        lambda thread, run: services.erase_thread(thread),
        lambda thread, run: services.retry(run),
        lambda thread, run: services.cancel(run),
        lambda thread, run: services.fork(thread, None),
        lambda thread, run: services.update_state(thread, {"text": "y"}, as_node="ask"),
    ],
    ids=["erase", "retry", "cancel", "fork", "update_state"],
)
def test_service_call_on_thread_archived_just_before_the_lock_raises_error_for_missing_thread(
    ended: Ended, monkeypatch: pytest.MonkeyPatch, act: Callable[[str, Any], object]
) -> None:
    thread = ended()
    run = Run.objects.get(thread=thread)
    lock = leases.lock_thread

    def archive_and_lock(**which: Any) -> Thread:
        moved = Thread.objects.filter(pk=thread.pk)
        moves.create_partitions_for(moved)
        moves.archive_threads(moved)
        return lock(**which)

    monkeypatch.setattr(leases, "lock_thread", archive_and_lock)
    with pytest.raises(NoSuchThread):
        act(thread.thread_id, run.pk)


def test_archive_includes_every_model_with_a_foreign_key_to_thread_tables() -> None:
    known = set(list_thread_tables())
    leading = {
        model
        for model in list_models()
        if model is not ArchivedThread
        for field in model._meta.concrete_fields
        if field.is_relation and field.related_model in known
    }
    assert leading <= known


def test_archive_lists_each_model_after_the_models_it_references() -> None:
    before: set[Any] = set()
    for model in THREAD_TABLES:
        before.add(model)
        named = {f.related_model for f in model._meta.concrete_fields if f.is_relation}
        assert named & set(THREAD_TABLES) <= before


@pytest.mark.promise("P14")
def test_restore_of_archived_thread_recreates_its_rows_and_run_result_unchanged(
    ended: Ended,
) -> None:
    thread = ended(subject=Group.objects.create(name="about"), metadata={"a": 1}, key="k")
    before = rows_of(thread)
    assert [name for name, rows in before.items() if not rows] == []
    result = services.run_result(thread.runs.get().pk)

    assert archive_ended(30, 10) == 1
    assert [name for name, rows in rows_of(thread).items() if rows] == []
    assert archived() == [thread.thread_id]

    restore_thread(thread.thread_id)
    assert rows_of(thread) == before
    assert archived() == []
    thread.refresh_from_db()
    assert audit.find_first_fault(thread) is None
    assert services.run_result(thread.runs.get().pk) == result


def test_archived_thread_row_has_key_subject_state_and_times_of_the_thread(ended: Ended) -> None:
    about = Group.objects.create(name="about")
    thread = ended(subject=about, key="k")
    run = thread.runs.get()
    archive_ended(30, 10)
    found = ArchivedThread.objects.get()
    assert (found.pk, found.thread_id, found.graph) == (thread.pk, thread.thread_id, "approval")
    assert (found.key, found.subject_id, found.state) == ("k", str(about.pk), run.state)
    assert (found.runs, found.interrupts) == (1, 1)
    assert (found.started_at, found.ended_at) == (thread.created_at, thread.ended_at)
    assert found.subject_type == thread.subject_type


def test_archive_skips_threads_that_are_active_interrupted_or_ended_recently(
    ended: Ended, advance: Callable[[], int]
) -> None:
    recent, goes_on = ended(days=10), ended(days=90)
    Run.objects.create(thread=goes_on, graph="approval", state=Run.State.RUNNING)
    waiting = services.start("approval", {"text": "x"})
    advance()
    assert archive_ended(30, 10) == 0
    kept = set(Thread.objects.values_list("thread_id", flat=True))
    assert kept == {recent.thread_id, goes_on.thread_id, waiting.thread_id}


def test_archive_skips_thread_that_got_a_queued_run_just_before_the_lock(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = ended()
    archivable = moves.select_archivable("default", 30).filter(pk=thread.pk)
    Run.objects.create(thread=thread, graph="approval", state=Run.State.QUEUED)
    assert moves.archive_threads(archivable) == []
    assert (archived(), Thread.objects.count()) == ([], 1)


def test_archive_with_limit_moves_the_longest_ended_threads_first(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl_django.contrib.archive.retention.BATCH", 2)
    threads = [ended(days) for days in (40, 90, 50, 80, 60)]
    assert archive_ended(30, 3) == 3
    kept = set(Thread.objects.values_list("pk", flat=True))
    assert kept == {threads[0].pk, threads[2].pk}
    assert archive_ended(30, 100) == 2
    assert archive_ended(30, 100) == 0


def test_archive_with_graph_argument_moves_only_threads_of_the_graph(
    ended: Ended, advance: Callable[[], int]
) -> None:
    other = ended()
    run = services.start("plain", {"payload": "x"})
    services.cancel(run.id)
    age(run.id, 90)
    assert archive_ended(30, 10, "plain") == 1
    assert archived() == [run.thread_id]
    assert Thread.objects.get() == other


def test_archive_skips_thread_referenced_by_rows_outside_the_archive_tables(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, other = ended(), ended()
    Comment.objects.filter(interrupt__thread=other).delete()
    # Simulates that comments are not in a table of this app.
    monkeypatch.delitem(THREAD_TABLES, Comment)
    assert archive_ended(30, 10) == 1
    assert archived() == [other.thread_id]
    assert Thread.objects.get() == thread


def test_archive_rolls_back_thread_with_rows_added_during_the_move(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, other = ended(), ended()
    read = moves._read_rows

    def read_and_miss(using: str, chosen: Any) -> Any:
        rows = read(using, chosen)
        if thread.pk in rows:
            rows[thread.pk][AuditEntry].pop()
        return rows

    before = rows_of(thread)
    monkeypatch.setattr(moves, "_read_rows", read_and_miss)
    with pytest.raises(RuntimeError, match="changed"):
        archive_ended(30, 10)
    assert rows_of(thread) == before
    assert archived() == [other.thread_id]


def test_archive_failure_log_entry_names_thread_and_error_class_without_contents(
    ended: Ended, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(rows: Any) -> Any:
        raise ValueError(SECRET)

    thread = ended()
    monkeypatch.setattr(moves, "write_document", refuse)
    with caplog.at_level(logging.ERROR), pytest.raises(ValueError, match=SECRET):
        archive_ended(30, 10)
    assert f"thread {thread.pk} could not be archived: ValueError" in caplog.text
    assert SECRET not in caplog.text


def test_sweep_archives_ended_threads_only_with_archive_days_set(
    ended: Ended, settings: Any
) -> None:
    thread = ended()
    sweep()
    assert archived() == []
    settings.HITL = {**settings.HITL, "ARCHIVE_DAYS": 30}
    sweep()
    assert archived() == [thread.thread_id]


def test_archive_without_permission_to_create_partitions_moves_no_thread(
    ended: Ended, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: Any) -> None:
        raise ProgrammingError("permission denied for schema public")

    for _ in range(3):
        ended()
    monkeypatch.setattr(moves, "make_partitions", refuse)
    with pytest.raises(ProgrammingError, match="permission denied"):
        archive_ended(30, 10)
    assert "could not be archived" not in caplog.text
    assert Thread.objects.count() == 3


@pytest.mark.promise("P22")
def test_sweep_logs_archive_failure_with_retry_command_and_without_contents(
    ended: Ended, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: Any) -> Any:
        raise ValueError(SECRET)

    thread = ended()
    settings.HITL = {**settings.HITL, "ARCHIVE_DAYS": 30}
    monkeypatch.setattr(moves, "write_document", refuse)
    sweep()
    assert (
        "could not be archived (ValueError); run 'manage.py hitl archive --older-than 30d'"
        in caplog.text
    )
    assert SECRET not in caplog.text
    assert Thread.objects.get() == thread


def test_restored_thread_is_archived_again_only_after_the_full_period(ended: Ended) -> None:
    thread = ended()
    archive_ended(30, 10)
    restore_thread(thread.thread_id)
    assert archive_ended(30, 10) == 0
    Thread.objects.update(restored_at=timezone.now() - timedelta(days=31))
    assert archive_ended(30, 10) == 1


def test_purge_deletes_archived_threads_older_than_the_retention_period(ended: Ended) -> None:
    old, recent = ended(days=400), ended(days=100)
    archive_ended(30, 10)
    kept = ended(days=300)
    assert retention.count_deletable(365) == 1
    assert retention.delete_ended(365, 10) == 1
    assert archived() == [recent.thread_id]
    assert Thread.objects.get() == kept
    assert old.thread_id not in archived()


def test_purge_of_archived_threads_deletes_the_oldest_up_to_its_limit(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 1)
    threads = [ended(days) for days in (400, 420, 380)]
    archive_ended(30, 10)
    assert retention.delete_ended(365, 2) == 2
    assert archived() == [threads[2].thread_id]


class TestReading:
    def test_archived_thread_lookup_returns_runs_interrupts_decisions_and_audit_entries(
        self, ended: Ended
    ) -> None:
        thread = ended(text="read me", key="k")
        archive_ended(30, 10)
        found = archived_thread(thread.thread_id)
        assert (found.thread_id, found.graph, found.key) == (thread.thread_id, "approval", "k")
        assert found.state == "succeeded"
        (interrupt,) = found.rows["Interrupt"]
        assert interrupt["payload"] == {"title": "Publish read me?", "text": "read me"}
        (decision,) = found.rows["Decision"]
        assert decision["value"] == {"approved": True, "text": "read me"}
        assert found.rows["AuditEntry"][0]["verb"] == "start"
        assert "secret_digest" not in str(found.rows)

    @pytest.mark.promise("P18")
    def test_archived_thread_lookup_without_archive_permission_raises_thread_not_found(
        self, ended: Ended, user: Callable[..., Any]
    ) -> None:
        thread = ended()
        archive_ended(30, 10)
        seen = archived_thread(thread.thread_id, by=user("ann", "view_archivedthread"))
        assert seen.graph == "approval"
        for other in (user("bob", "view_thread", "view_run"), user("eve")):
            with pytest.raises(ThreadNotFound):
                archived_thread(thread.thread_id, by=other)
        with pytest.raises(ThreadNotFound):
            archived_thread("nobody")

    @pytest.mark.promise("P18")
    def test_archived_thread_of_graph_reserved_for_groups_is_found_by_group_members_and_superusers(
        self, ended: Ended, user: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "hitl_django.permissions.registry.list_reviewer_groups",
            lambda: {"approval": frozenset({"Board"})},
        )
        thread = ended()
        archive_ended(30, 10)
        board = Group.objects.create(name="Board")
        ann = user("ann", "view_archivedthread")
        with pytest.raises(ThreadNotFound):
            archived_thread(thread.thread_id, by=ann)
        ann.groups.add(board)
        assert archived_thread(thread.thread_id, by=ann).graph == "approval"
        boss = User.objects.get(username="boss")
        assert archived_thread(thread.thread_id, by=boss).graph == "approval"

    @pytest.mark.promise("P22")
    def test_archived_thread_traceback_is_returned_only_with_operate_permission(
        self, ended: Ended, user: Callable[..., Any]
    ) -> None:
        thread = ended()
        Run.objects.update(error=SECRET, traceback=SECRET)
        archive_ended(30, 10)
        ann = user("ann", "view_archivedthread")
        assert SECRET not in str(archived_thread(thread.thread_id, by=ann).rows)
        olga = user("olga", "view_archivedthread", "operate_run")
        assert SECRET in str(archived_thread(thread.thread_id, by=olga).rows)

    def test_corrupt_archive_document_raises_corrupt_payload_error_on_read_and_restore(
        self, ended: Ended
    ) -> None:
        thread = ended()
        archive_ended(30, 10)
        row = ArchivedThread.objects.get()
        for data in (b"", b"\0", bytes(row.document)[:-1], bytes(row.document) + b"\0"):
            ArchivedThread.objects.update(document=data)
            with pytest.raises(CorruptPayloadError):
                archived_thread(thread.thread_id)
            with pytest.raises(CorruptPayloadError):
                restore_thread(thread.thread_id)
        assert archived() == [thread.thread_id]

    def test_archive_document_with_later_format_number_raises_corrupt_payload_error(
        self, ended: Ended, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        thread = ended()
        with monkeypatch.context() as patch:
            patch.setattr(document, "FORMAT", 2)
            archive_ended(30, 10)
        with pytest.raises(CorruptPayloadError, match="format 2"):
            archived_thread(thread.thread_id)

    def test_restore_ignores_archived_columns_missing_from_the_models(
        self, ended: Ended, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        thread = ended()
        before = rows_of(thread)
        fields = document._fields

        class Gone(models.TextField):  # type: ignore[type-arg]
            def value_from_object(self, obj: Any) -> str:
                return "x"

        gone = Gone()
        gone.set_attributes_from_name("gone")
        with monkeypatch.context() as patch:
            patch.setattr(document, "_fields", lambda model: [gone, *fields(model)])
            archive_ended(30, 10)
        restore_thread(thread.thread_id)
        assert rows_of(thread) == before

    def test_archive_document_with_encryption_keys_set_is_encrypted_and_restores_rows_unchanged(
        self, ended: Ended, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Without compression, the texts would be readable in the document.
        monkeypatch.setattr("zlib.Z_DEFAULT_COMPRESSION", 0)
        plain = ended(text=SECRET)
        archive_ended(30, 10)
        settings.HITL = {**settings.HITL, "ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
        thread = ended(text=SECRET)
        before = rows_of(thread)
        archive_ended(30, 10)
        row = ArchivedThread.objects.get(thread_id=thread.thread_id)
        assert bytes(row.document)[:2] == b"\xc1E"
        restore_thread(thread.thread_id)
        assert rows_of(thread) == before
        assert SECRET in str(archived_thread(plain.thread_id).rows)


@pytest.mark.promise("P16")
def test_compression_dictionary_of_the_archive_is_unchanged_since_its_release() -> None:
    assert digest(DICTIONARY) == "2099d21a2a9434ad449705b7acb6bd7e"


@pytest.mark.promise("P16")
def test_thread_archived_by_an_earlier_release_is_restored_with_result_and_decision() -> None:
    row = json.loads((Path(__file__).parent / "stored.json").read_text())
    row["document"] = base64.b64decode(row["document"])
    for name in ("started_at", "ended_at"):
        row[name] = datetime.fromisoformat(row[name])
    partitions.make_partitions("default", [row["ended_at"]])
    ArchivedThread.objects.create(**row)

    restore_thread("stored-thread")
    run = Run.objects.get(key="stored-1")
    answer = {"approved": True, "text": "stored"}
    assert services.run_result(run.pk) == {"text": "stored", "answer": answer}
    assert Decision.objects.get().value == answer
    assert audit.find_first_fault(run.thread) is None


class TestRestore:
    def test_restore_after_user_deletion_clears_user_reference_and_preserves_label(
        self, ended: Ended
    ) -> None:
        thread = ended()
        archive_ended(30, 10)
        User.objects.all().delete()
        Group.objects.all().delete()
        restore_thread(thread.thread_id)
        decision = Decision.objects.get()
        assert (decision.by, decision.by_label) == (None, "boss")
        thread.refresh_from_db()
        assert audit.find_first_fault(thread) is None

    @pytest.mark.promise("P18")
    def test_restore_without_operate_permission_raises_not_allowed_error(
        self, ended: Ended, user: Callable[..., Any]
    ) -> None:
        thread = ended()
        archive_ended(30, 10)
        with pytest.raises(ThreadNotFound):
            restore_thread(thread.thread_id, by=user("stranger"))
        with pytest.raises(NotAllowedError):
            restore_thread(thread.thread_id, by=user("looker", "view_run"))
        assert archived() == [thread.thread_id]
        restore_thread(thread.thread_id, by=user("olga", "view_run", "operate_run"))
        assert archived() == []

    def test_restore_of_archived_thread_whose_id_is_in_use_raises_thread_exists_error(
        self, ended: Ended
    ) -> None:
        thread = ended()
        archive_ended(30, 10)
        Thread.objects.create(thread_id=thread.thread_id)
        with pytest.raises(ThreadExistsError):
            restore_thread(thread.thread_id)
        assert archived() == [thread.thread_id]
        assert Thread.objects.count() == 1

    @pytest.mark.promise("P2")
    def test_start_with_key_of_archived_run_returns_the_archived_run(self, ended: Ended) -> None:
        thread = ended(text="x", key="k")
        run = thread.runs.get()
        archive_ended(30, 10)
        again = services.start("approval", {"text": "x"}, key="k")
        assert (again.id, again.created, again.state) == (run.pk, False, "succeeded")
        archive_ended(0, 10)
        with pytest.raises(IdempotencyKeyReusedError):
            services.start("approval", {"text": "y"}, key="k")
        assert services.start("plain", {"payload": "x"}, key="k").created

    def test_start_on_archived_thread_id_restores_the_thread_and_adds_a_run(
        self, ended: Ended, advance: Callable[[], int]
    ) -> None:
        thread = ended(thread_id="talk")
        earlier = thread.runs.get().pk
        archive_ended(30, 10)
        later = services.start("approval", {"text": "y"}, thread_id="talk")
        advance()
        assert set(Run.objects.values_list("pk", flat=True)) == {earlier, later.id}
        assert Thread.objects.get().pk == thread.pk
        assert archived() == []
        thread.refresh_from_db()
        assert audit.find_first_fault(thread) is None

    @pytest.mark.promise("P18")
    def test_start_on_archived_thread_hidden_from_user_raises_thread_not_found(
        self, ended: Ended, user: Callable[..., Any]
    ) -> None:
        ended(thread_id="talk")
        archive_ended(30, 10)
        with pytest.raises(ThreadNotFound):
            services.start("approval", {"text": "y"}, thread_id="talk", by=user("sue", "start_run"))
        assert archived() == ["talk"]
        assert Thread.objects.count() == 0

    @pytest.mark.promise("P20")
    def test_erase_of_archived_thread_removes_contents_and_logs_the_erasure(
        self, ended: Ended
    ) -> None:
        thread = ended(text=SECRET)
        archive_ended(30, 10)
        services.erase_thread(thread.thread_id)
        Thread.objects.update(restored_at=None)
        assert archive_ended(30, 10) == 1
        found = archived_thread(thread.thread_id)
        assert SECRET not in str(found.rows)
        assert found.rows["AuditEntry"][-1]["verb"] == "erase"

    @pytest.mark.promise("P18")
    def test_erase_of_archived_thread_without_operate_permission_raises_not_allowed_error(
        self, ended: Ended, user: Callable[..., Any]
    ) -> None:
        thread = ended()
        archive_ended(30, 10)
        with pytest.raises(ThreadNotFound):
            services.erase_thread(thread.thread_id, by=user("stranger"))
        with pytest.raises(NotAllowedError):
            services.erase_thread(thread.thread_id, by=user("looker", "view_run"))
        assert archived() == [thread.thread_id]

    def test_retry_of_archived_run_raises_run_not_found(self, ended: Ended) -> None:
        thread = ended()
        run = thread.runs.get().pk
        archive_ended(30, 10)
        with pytest.raises(RunNotFound):
            services.retry(run)


class TestCommands:
    def test_archive_and_restore_commands_move_threads_and_print_their_number(
        self, ended: Ended
    ) -> None:
        thread, recent = ended(), ended(days=10)
        assert self.call("archive", "--older-than", "30d") == "1 thread archived.\n"
        assert archived() == [thread.thread_id]
        assert self.call("restore", thread.thread_id) == f"{thread.thread_id} restored.\n"
        assert Thread.objects.count() == 2
        assert recent.thread_id not in archived()

    def test_archive_command_dry_run_prints_the_number_and_archives_no_thread(
        self, ended: Ended
    ) -> None:
        ended()
        ended()
        said = self.call("archive", "--older-than=30d", "--dry-run")
        assert said == "2 threads would be archived.\n"
        said = self.call("archive", "--older-than=30d", "--graph=plain", "--dry-run")
        assert said == "0 threads would be archived.\n"
        assert archived() == []

    def test_archive_command_archives_all_threads_in_batches(
        self, ended: Ended, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hitl_django.contrib.archive.verbs.archive.PORTION", 2)
        for _ in range(3):
            ended()
        assert self.call("archive", "--older-than=30") == "3 threads archived.\n"

    @pytest.mark.parametrize("text", ["", "-1", "90h", "d", "many"])
    def test_archive_command_with_invalid_number_of_days_raises_command_error(
        self, text: str
    ) -> None:
        with pytest.raises(CommandError, match="number of days"):
            self.call("archive", f"--older-than={text}")

    def test_restore_command_for_unarchived_or_reused_thread_id_raises_command_error(
        self, ended: Ended
    ) -> None:
        thread = ended()
        with pytest.raises(CommandError, match="Unknown archived thread"):
            self.call("restore", thread.thread_id)
        archive_ended(30, 10)
        Thread.objects.create(thread_id=thread.thread_id)
        with pytest.raises(CommandError, match="in use by another thread"):
            self.call("restore", thread.thread_id)

    def test_restore_command_restores_remaining_threads_after_an_unknown_id(
        self, ended: Ended
    ) -> None:
        thread = ended()
        archive_ended(30, 10)
        with pytest.raises(CommandError, match="Unknown archived thread 'unknown'"):
            self.call("restore", "unknown", thread.thread_id)
        assert archived() == []
        said = self.call("restore", thread.thread_id)
        assert said == f"{thread.thread_id} was restored before.\n"

    def call(self, *arguments: str) -> str:
        out = io.StringIO()
        call_command("hitl", *arguments, stdout=out, stderr=io.StringIO())
        return out.getvalue()


@pytest.mark.database("postgresql")
class TestPartitions:
    def test_archive_table_has_one_partition_per_month_of_run_end(self, ended: Ended) -> None:
        for month in (3, 12):
            thread = ended()
            Thread.objects.filter(pk=thread.pk).update(
                ended_at=datetime(2024, month, 31, tzinfo=UTC)
            )
        archive_ended(30, 10)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as at the end of the transaction
            cursor.execute("SELECT count(*) FROM hitl_archive_archivedthread_2024_03")
            assert cursor.fetchone() == (1,)
            cursor.execute("DROP TABLE hitl_archive_archivedthread_2024_12")
        assert ArchivedThread.objects.get().ended_at == datetime(2024, 3, 31, tzinfo=UTC)

    def test_archived_row_without_partition_for_its_month_raises_integrity_error(self) -> None:
        at = datetime(1999, 1, 1, tzinfo=UTC)
        with pytest.raises(IntegrityError, match="no partition"):
            ArchivedThread.objects.create(
                id=1, runs=1, interrupts=0, started_at=at, ended_at=at, document=b""
            )

    def test_make_partitions_of_archive_with_existing_partitions_takes_one_query(
        self, django_assert_num_queries: Any
    ) -> None:
        moments = [datetime(2024, 3, day, tzinfo=UTC) for day in (1, 31)]
        partitions.make_partitions("default", moments)
        with django_assert_num_queries(1):
            partitions.make_partitions("default", moments)


def test_archiving_a_thread_deletes_its_review_links_events_and_interrupts(ended: Ended) -> None:
    ended()
    archive_ended(30, 10)
    for model in (ReviewLink, RunEvent, Interrupt):
        assert not model.objects.exists()
