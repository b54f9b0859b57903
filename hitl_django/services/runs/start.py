"""Starting runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import IntegrityError, transaction
from django.db.models import Model

from hitl_django import audit, leases
from hitl_django.checkpoints import ThreadKey, digest_value, pack_text
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import read_clock
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import EmptyInputError, InvalidInputError, PendingInterruptsError
from hitl_django.engine.ids import new_id
from hitl_django.errors import (
    IdempotencyKeyReusedError,
    NoSuchThread,
    NotAllowedError,
    RunStateError,
)
from hitl_django.graph_registry import compatibility, registry
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.leases import thread_rows
from hitl_django.leases.queries import THREAD
from hitl_django.models import AuditEntry, Interrupt, Run, Thread
from hitl_django.models.events import encode_kinds
from hitl_django.permissions import get_policy, may_start, refuse_unless_may, select_visible
from hitl_django.run_events import EventLog
from hitl_django.task_queue import dispatcher

from .. import denied_log, queries
from ..results import RunInfo
from .archives import is_archived, restore_archived
from .cancel import cancel_run
from .input_submission import submit_input
from .options import KEPT, RunOptions
from .state import digest_masked, refuse_unless_visible
from .subjects import SubjectRef, read_subject
from .threads import check_metadata, check_names
from .waiting import refuse_if_crowded, refuse_if_waited_for

#: Values of ``on_pending`` with which a new run replaces an interrupted run.
REPLACING = ("discard", "cancel")
ON_PENDING = ("refuse", "discard", "cancel", "wait")


@retry_on_conflict
def start(
    graph: str,
    input: Any,  # noqa: A002  (the engine's word)
    *,
    by: Any = None,
    via: str = "code",
    key: str | None = None,
    subject: Model | SubjectRef | None = None,
    thread_id: str | None = None,
    metadata: dict[str, Any] | None = None,
    on_pending: str = "refuse",
    events: Iterable[str] | None = None,
    options: RunOptions | None = None,
    context: Any = None,
    configurable: dict[str, Any] | None = None,
    skip_permission_checks: bool = False,
) -> RunInfo:
    """Store a run of the graph with this input, and queue it.

    The run, its first checkpoint and the message to a worker are stored in one transaction.

    Args:
        key: idempotency key, unique within the graph. A call with the same key and request returns
            the existing run, with ``created`` set to False. Input, context and configurable are
            compared. Subject and thread are compared only if they are given.
        subject: the related object of the thread, or a reference to an object that ``by`` may see.
        thread_id: the thread to continue, or the id of a new thread.
        metadata: metadata of a new thread, a JSON object. The metadata of an existing thread
            doesn't change.
        on_pending: what to do if the thread has an active run. "refuse" raises an error. "discard"
            cancels an interrupted run and its pending interrupts, and requires the permission to
            operate that run. "cancel" does the same with a run in any active state. "wait" starts
            the new run after all earlier runs of the thread have ended.
        events: the kinds of events to store, instead of those of the graph.
        options: other options of this run. ``context`` and ``configurable`` set the options of
            these names.
        skip_permission_checks: whether to skip the checks of permissions. Set it only in views that
            have checked the permission and the input. The run belongs to ``by``.

    Raises:
        NotAllowedError: if ``by`` may not start the graph, cancel the interrupted run, or see the
            thread of a run that ``by`` may see.
        NoSuchThread: if ``by`` may see neither the thread nor any of its runs.
        UnknownGraphError: if the graph isn't registered.
        EmptyInputError: if the input is None.
        GraphChangedError: if the thread doesn't fit the graph's current structure.
        InvalidInputError: if an argument is not valid, or the thread has another graph or related
            object.
        IdempotencyKeyReusedError: if the key was used with another input, context, configurable,
            subject or thread, or for a run that ``by`` may not see.
        PendingInterruptsError: if the thread has pending interrupts, with "refuse".
        RunStateError: if the thread has another active run, or too many runs wait for it.
    """
    checked_user = None if skip_permission_checks else by
    with denied_log.record_denial("start", by=by, via=via):
        if checked_user is not None and not may_start(checked_user, graph, via):
            raise NotAllowedError(
                f"You don't have permission to start runs of graph {graph!r}.",
                thread_id=thread_id or "",
            )
    registered = registry.get_graph(graph)
    if input is None:
        raise EmptyInputError
    check_names(key=key, thread_id=thread_id)
    if on_pending not in ON_PENDING:
        raise ValueError(f"on_pending must be one of {', '.join(ON_PENDING)}, not {on_pending!r}.")
    check_metadata(metadata)
    registered.graph.validate_input(input)
    subject = read_subject(subject, checked_user)
    if options is not None and not isinstance(options, RunOptions):
        raise TypeError(f"options must be RunOptions, not {options!r}.")
    chosen = options or RunOptions()
    if context is not None:
        chosen = replace(chosen, context=context)
    if configurable is not None:
        chosen = replace(chosen, configurable=configurable)
    request = _Start(
        registered, input, digest_value(input), by, checked_user, via, key, subject, thread_id,
        metadata, on_pending, registered.events if events is None else encode_kinds(events),
        chosen.encode(registered),
    )  # fmt: skip

    try:
        if thread_id is None:
            return request.found() or request.start_thread()
        verb = "discard" if on_pending in REPLACING else "start"
        refusal = denied_log.record_denial(verb, by=by, via=via)
        with refusal, transaction.atomic(using=write_alias()):
            return request.found() or request.continue_thread()
    except IntegrityError:
        # A concurrent call with the same key committed first. The unique constraint allows one run,
        # which exists by now.
        found = request.found()
        if found is None:
            raise
        return found


@dataclass
class _Start:
    """A call of ``start`` with checked arguments."""

    registered: RegisteredGraph
    input: Any
    digest: str
    by: Any
    #: The user whose permissions are checked, or None if the caller has checked them.
    checked_user: Any
    via: str
    key: str | None
    subject: Model | None
    thread_id: str | None
    metadata: dict[str, Any] | None
    on_pending: str
    events: str
    options: dict[str, Any] | None

    def found(self) -> RunInfo | None:
        """Return the run started by an earlier call with the same idempotency key, or None."""
        if self.key is None:
            return None
        using, used = write_alias(), {"graph": self.registered.name, "key": self.key}
        # Usually the key is new, which the prepared query finds out in less time than the ORM.
        if not queries.KEYED_RUN.run(using, **used) and restore_archived(**used) is None:
            return None
        run = Run.objects.using(using).select_related("thread").filter(**used).first()
        if run is None:
            return None
        # Use the same message in both cases, because it must not reveal whether the request
        # matches.
        if not self._may_be_shown(run) or not self._is_same(run):
            raise IdempotencyKeyReusedError(
                f"Idempotency key {self.key!r} was already used for a different run of "
                f"graph {run.graph!r}."
            )
        return RunInfo.from_row(run)

    def _is_same(self, run: Run) -> bool:
        if run.input_digest != self.digest:
            return False
        if self.thread_id not in (None, run.thread.thread_id):
            return False
        mine, stored = self.options or {}, run.options or {}
        has_same_options = all(mine.get(name) == stored.get(name) for name in KEPT)
        # Erasing a thread removes its subject and the options of its runs.
        return (has_same_options and self._has_subject_of(run.thread)) or is_erased(run.thread)

    def _has_subject_of(self, thread: Thread) -> bool:
        """Return whether the thread has the given subject.

        Without a given subject, the result is true.
        """
        return self.subject is None or self._find_subject_key() == (
            thread.subject_type_id,
            thread.subject_id,
        )

    def _find_subject_key(self) -> tuple[int, str]:
        assert self.subject is not None
        kind = ContentType.objects.get_for_model(self.subject)
        return kind.pk, str(self.subject.pk)

    def _may_be_shown(self, run: Run) -> bool:
        """Return whether the user may see an existing run and its input.

        A successful call of ``start`` confirms that its input equals the input of the existing run.
        A user who didn't start the run therefore needs the permission to view the state.
        """
        if self.by is None or run.started_by_id == self.by.pk:
            return True
        rows = Run.objects.using(write_alias()).filter(pk=run.pk)
        may_view_state = get_policy().may_view_state
        return select_visible(rows, self.by).exists() and may_view_state(self.by, run.thread)

    def start_thread(self) -> RunInfo:
        """Start a run on a new thread.

        No other transaction can see the new thread before the commit.
        """
        using = write_alias()
        # A UUID that sorts by time, so that new rows are at the end of the index.
        thread = THREAD.new(thread_id=str(new_id()), **self._about())
        thread.now = read_clock(using)
        batch = WriteBatch(using)
        thread_rows.add_thread(thread, batch)
        run = self._write(thread, batch, has_row=False)
        batch.commit()
        run.thread = thread
        return RunInfo.from_row(run, created=True)

    def continue_thread(self) -> RunInfo:
        """Start a run on the given thread, in the caller's transaction."""
        assert self.thread_id is not None
        thread, is_new = self._lock_or_create(self.thread_id)
        if not is_new:
            # A concurrent call that locked the thread earlier may have started the same run.
            started = self.found()
            if started is not None:
                return started
            self._refuse_unless_fitting(thread)
            self._settle_subject(thread)
            if self._must_wait(thread):
                return self._add_waiting_run(thread)
        batch = WriteBatch(write_alias())
        discard = not is_new and self._prepare_thread(thread)
        run = self._write(thread, batch, is_new=is_new, discard=discard)
        batch.run()
        run.thread = thread
        return RunInfo.from_row(run, created=True)

    def _must_wait(self, thread: Thread) -> bool:
        if self.on_pending != "wait":
            return False
        live = Run.objects.using(write_alias()).filter(thread=thread, state__in=Run.ACTIVE)
        return thread.has_waiting or live.exists()

    def _add_waiting_run(self, thread: Thread) -> RunInfo:
        """Add a run that waits for earlier runs of the thread.

        The run's row contains the input until the run starts.
        """
        refuse_if_crowded(thread)
        batch = WriteBatch(write_alias())
        run = self._new_run(
            thread,
            state=Run.State.WAITING,
            number=Run.find_next_number(write_alias(), thread.pk),
            input=pack_text(self.input),
        )
        run.last_event = EventLog.for_run(run).append_state(batch, Run.State.WAITING)
        batch.insert(queries.NEW_WAITING_RUN, [queries.NEW_WAITING_RUN.values_of(run)])
        self._record(thread, run, batch)
        Thread.objects.using(write_alias()).filter(pk=thread.pk).update(has_waiting=True)
        batch.run()
        run.thread = thread
        return RunInfo.from_row(run, created=True)

    def _write(
        self,
        thread: Thread,
        batch: WriteBatch,
        *,
        is_new: bool = True,
        has_row: bool = True,
        discard: bool = False,
    ) -> Run:
        """Add to the batch a run with its input, an audit log entry and the message to a worker.

        ``is_new`` is true if the thread is new. ``has_row`` is false if the thread's row isn't
        stored yet. ``discard`` is the argument of ``submit_input``.
        """
        number = 1 if is_new else Run.find_next_number(write_alias(), thread.pk)
        run = self._new_run(thread, number=number)
        log = EventLog.for_run(run)
        log.append_state(batch, Run.State.QUEUED, reason="started")
        submit_input(
            self.registered, thread, run, self.input, log,
            discard=discard, batch=batch if is_new else None,
        )  # fmt: skip
        run.last_event = log.last
        batch.insert(queries.NEW_RUN, [queries.NEW_RUN.values_of(run)])
        self._record(thread, run, batch, has_row=has_row)
        dispatcher.enqueue(run.pk, batch)
        return run

    def _new_run(self, thread: Thread, **values: Any) -> Run:
        compatibility.store_structure(self.registered)
        return queries.RUN.new(
            thread_id=thread.pk,
            graph=self.registered.name,
            graph_version=self.registered.version,
            fingerprint=self.registered.fingerprint,
            key=self.key,
            input_digest=self.digest,
            started_by_id=None if self.by is None else self.by.pk,
            started_by_label=audit.label_user(self.by),
            events=self.events,
            options=registry.note_pin(self.registered, self.options),
            **values,
        )

    def _record(self, thread: Thread, run: Run, batch: WriteBatch, *, has_row: bool = True) -> None:
        audit.append(
            batch,
            thread,
            "start",
            by=self.by,
            via=self.via,
            subject=str(run.pk),
            detail={
                "graph": run.graph,
                "version": run.graph_version,
                "input": digest_masked(self.registered, self.input, self.digest),
            },
            is_new=not has_row,
        )

    def _lock_or_create(self, thread_id: str) -> tuple[Thread, bool]:
        while True:
            rows = Thread.objects.using(write_alias())
            thread, created = rows.get_or_create(thread_id=thread_id, defaults=self._about())
            if created:
                thread, created = self._restore_instead(thread)
            try:
                return leases.lock_thread(pk=thread.pk), created
            except NoSuchThread:
                # The retention job deleted the thread while this call waited for the lock.
                continue

    def _restore_instead(self, made: Thread) -> tuple[Thread, bool]:
        """Replace the new thread ``made`` by the archived thread with the same id, if it exists.

        Return the thread to use, and whether this thread is ``made``. Until the row of ``made`` is
        deleted, no other transaction can archive a thread with this id.
        """
        if not is_archived(made.thread_id):
            return made, True
        made.delete(using=write_alias())
        restored = restore_archived(thread_id=made.thread_id)
        assert restored is not None
        return restored, False

    def _about(self) -> dict[str, Any]:
        about: dict[str, Any] = {"graph": self.registered.name, "metadata": self.metadata or {}}
        if self.subject is not None:
            about["subject_type_id"], about["subject_id"] = self._find_subject_key()
        return about

    def _refuse_unless_fitting(self, thread: Thread) -> None:
        """Raise an error if the thread is hidden from the user or belongs to another graph."""
        if self.checked_user is not None:
            refuse_unless_visible(thread, self.checked_user)
        if thread.graph not in ("", self.registered.name):
            raise InvalidInputError(
                f"Thread {thread.thread_id!r} belongs to graph {thread.graph!r}.",
                [("thread_id", f"belongs to graph {thread.graph!r}")],
            )

    def _prepare_thread(self, thread: Thread) -> bool:
        """Cancel the thread's active run if ``on_pending`` allows it, and set the thread's graph.

        Returns whether the thread's pending tasks must be discarded. Raises an error if the new run
        can't be started on the thread.
        """
        runs = Run.objects.using(write_alias()).filter(thread=thread)
        live = runs.filter(state__in=Run.ACTIVE).first()
        if live is not None:
            self._replace(live, thread)
        else:
            refuse_if_waited_for(thread)
        Thread.objects.using(write_alias()).filter(pk=thread.pk).update(
            ended_at=None, graph=self.registered.name
        )
        latest = Run.select_newest(runs).first()
        if latest is None:
            return self.on_pending in REPLACING
        # The interrupts of a cancelled or failed run were withdrawn, but the thread's newest
        # checkpoint still waits for them.
        key = ThreadKey(thread.pk, thread.thread_id, thread.epoch)
        compatibility.refuse_if_changed(key, latest.fingerprint, self.registered, new_input=True)
        return True

    def _settle_subject(self, thread: Thread) -> None:
        """Set the related object, or raise an error if a different object is already set."""
        if self.subject is None:
            return
        if thread.subject_type_id is None:
            thread.subject_type_id, thread.subject_id = self._find_subject_key()
            thread.save(using=write_alias(), update_fields=["subject_type", "subject_id"])
        elif not self._has_subject_of(thread):
            raise InvalidInputError(
                f"Thread {thread.thread_id!r} has a different subject.",
                [("subject", "doesn't match the thread's subject")],
            )

    def _replace(self, live: Run, thread: Thread) -> None:
        if live.state != Run.State.INTERRUPTED and self.on_pending != "cancel":
            raise RunStateError(
                f"Thread {thread.thread_id!r} has a {live.state} run.",
                state=live.state,
                allowed=[Run.State.INTERRUPTED, Run.State.SUCCEEDED, Run.State.FAILED],
            )
        if self.on_pending not in REPLACING:
            interrupts = Interrupt.objects.using(write_alias())
            waiting = interrupts.filter(run=live, status=Interrupt.Status.PENDING)
            waiting = select_visible(waiting, self.by)
            raise PendingInterruptsError(
                f"Thread {thread.thread_id!r} has pending interrupts that a new run would discard.",
                [str(pk) for pk in waiting.values_list("pk", flat=True)],
            )
        refuse_if_waited_for(thread)
        message = "You don't have permission to cancel the active run."
        refuse_unless_may(self.checked_user, get_policy().may_operate, live, message)
        batch = WriteBatch(write_alias())
        closed = cancel_run(batch, live, thread, interrupts=Interrupt.Status.SUPERSEDED)
        audit.append(
            batch,
            thread,
            "discard",
            by=self.by,
            via=self.via,
            subject=str(live.pk),
            detail={"interrupts": closed},
        )
        batch.run()
        thread.refresh_from_db(write_alias(), fields=["epoch"])  # Changed if the run was running.


def is_erased(thread: Thread) -> bool:
    """Return whether the contents of the thread were erased."""
    return AuditEntry.objects.using(write_alias()).filter(thread=thread, verb="erase").exists()
