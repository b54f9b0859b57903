"""start: a thread, its first checkpoint and a queued run, or nothing."""

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
from hitl_django.models import Interrupt, Run, Thread
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
from .state import digest_masked
from .subjects import SubjectRef, find_subject
from .threads import check_metadata, check_names
from .waiting import refuse_if_crowded, refuse_if_waited_for

ON_PENDING = ("refuse", "discard", "wait")


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
    """Store a run of the graph on this input, for a worker to advance.

    The same ``key`` and input give the run that is there already (``created`` is False); the same
    key with another input, or where somebody else's run is not for ``by`` to see, is an
    IdempotencyKeyReusedError. ``thread_id`` continues a thread, or names a new one. ``on_pending``
    says what becomes of a thread with a run that hasn't ended: it is refused, with
    PendingInterruptsError where its questions are open and RunStateError else; with "discard" it
    loses those questions, which needs the permission to cancel its run; with "wait" the new run
    waits for its turn, begins when those before it have ended, however they do, and loses no
    question. ``subject`` is the object that the thread is about, or its key, for whoever may see
    it. ``events`` names which events the run records, where those aren't its graph's, and
    ``options`` has what else is otherwise for this run.

    ``context`` and ``configurable`` are those of ``options``: what nodes get as
    ``runtime.context`` and find in their config, as long as the run lasts.

    With ``skip_permission_checks`` the run is the user's, who needs no permission of ours: for a
    view of the product's own that has made sure that they may, and of what they give.
    """
    asked = None if skip_permission_checks else by
    with denied_log.record_denial("start", by=by, via=via):
        if asked is not None and not may_start(asked, graph, via):
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
    if isinstance(subject, SubjectRef):
        subject = find_subject(subject, asked)
    chosen = options or RunOptions()
    if context is not None:
        chosen = replace(chosen, context=context)
    if configurable is not None:
        chosen = replace(chosen, configurable=configurable)
    request = _Start(
        registered, input, digest_value(input), by, asked, via, key, subject, thread_id, metadata,
        on_pending, registered.events if events is None else encode_kinds(events),
        chosen.encode(registered),
    )  # fmt: skip

    try:
        if thread_id is None:
            return request.found() or request.begin()
        refusal = denied_log.record_denial("discard", by=by, via=via)
        with refusal, transaction.atomic(using=write_alias()):
            return request.found() or request.go_on()
    except IntegrityError:
        # Somebody with the same key came first, between our look and our INSERT: the unique
        # constraint let exactly one through, and by now that one is there to be found.
        found = request.found()
        if found is None:
            raise
        return found


@dataclass
class _Start:
    """One call of ``start``, its arguments checked."""

    registered: RegisteredGraph
    input: Any
    digest: str
    by: Any
    #: Whose permissions count; None where the caller has seen to that.
    asked: Any
    via: str
    key: str | None
    subject: Model | None
    thread_id: str | None
    metadata: dict[str, Any] | None
    on_pending: str
    events: str
    options: dict[str, Any] | None

    def found(self) -> RunInfo | None:
        """Return the run that the same key started before."""
        if self.key is None:
            return None
        used = {"graph": self.registered.name, "key": self.key}
        runs = Run.objects.using(write_alias()).select_related("thread").filter(**used)
        run = runs.first()
        if run is None and restore_archived(**used) is not None:
            run = runs.first()
        if run is None:
            return None
        # One text for both: whoever guesses another's key learns nothing of the input.
        if not self._may_be_shown(run) or not self._is_same(run):
            raise IdempotencyKeyReusedError(
                f"Idempotency key {self.key!r} was already used for a different run of "
                f"graph {run.graph!r}."
            )
        return RunInfo.from_row(run)

    def _is_same(self, run: Run) -> bool:
        mine, stored = self.options or {}, run.options or {}
        return run.input_digest == self.digest and all(
            mine.get(name) == stored.get(name) for name in KEPT
        )

    def _may_be_shown(self, run: Run) -> bool:
        """Return whether a run that is there already is the caller's own, or open to them.

        That a key and an input belong together reveals the input, so who didn't start the
        run has to be allowed to see that as well.
        """
        if self.by is None or run.started_by_id == self.by.pk:
            return True
        rows = Run.objects.using(write_alias()).filter(pk=run.pk)
        may_view_state = get_policy().may_view_state
        return select_visible(rows, self.by).exists() and may_view_state(self.by, run.thread)

    def begin(self) -> RunInfo:
        """Start a run on a thread of its own, which nobody else sees before all is written."""
        using = write_alias()
        # As the keys of all rows: among many threads, what is new is at the end of an index.
        thread = THREAD.new(thread_id=str(new_id()), **self._about())
        thread.now = read_clock(using)
        batch = WriteBatch(using)
        thread_rows.add_thread(thread, batch)
        run = self._write(thread, batch, has_row=False)
        batch.commit()
        run.thread = thread
        return RunInfo.from_row(run, created=True)

    def go_on(self) -> RunInfo:
        """Start a run on the thread that was named, in the caller's transaction."""
        assert self.thread_id is not None
        thread, is_new = self._found_or_made(self.thread_id)
        if not is_new:
            # Whoever held the lock before may have started the same.
            started = self.found()
            if started is not None:
                return started
            self._refuse_unless_fitting(thread)
            self._settle_subject(thread)
            if self._has_to_wait(thread):
                return self._wait(thread)
        batch = WriteBatch(write_alias())
        discard = not is_new and self._take_over(thread)
        run = self._write(thread, batch, is_new=is_new, discard=discard)
        batch.run()
        run.thread = thread
        return RunInfo.from_row(run, created=True)

    def _has_to_wait(self, thread: Thread) -> bool:
        if self.on_pending != "wait":
            return False
        live = Run.objects.using(write_alias()).filter(thread=thread, state__in=Run.ACTIVE)
        return thread.has_waiting or live.exists()

    def _wait(self, thread: Thread) -> RunInfo:
        """Add a run that waits for its turn; its input stands in its row until it begins."""
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
        """Add a run to the batch, with its input, its audit entry and a message to a worker."""
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
        compatibility.store_shape(self.registered)
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

    def _found_or_made(self, thread_id: str) -> tuple[Thread, bool]:
        while True:
            rows = Thread.objects.using(write_alias())
            thread, created = rows.get_or_create(thread_id=thread_id, defaults=self._about())
            if created:
                thread, created = self._restored(thread)
            try:
                return leases.lock_thread(pk=thread.pk), created
            except NoSuchThread:
                continue  # it had ended long ago, and was deleted while we waited for its lock

    def _restored(self, made: Thread) -> tuple[Thread, bool]:
        """Return the archived thread of the same id in the place of one just made, if any.

        The id is taken by now, so that nobody can archive a thread of it between the two.
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
            about["subject_type_id"] = ContentType.objects.get_for_model(self.subject).pk
            about["subject_id"] = str(self.subject.pk)
        return about

    def _refuse_unless_fitting(self, thread: Thread) -> None:
        """Raise for a thread that the user may not see, or that is another graph's."""
        if self.asked is not None:
            found = Thread.objects.using(write_alias()).filter(pk=thread.pk)
            if not select_visible(found, self.asked).exists():
                raise NoSuchThread
        if thread.graph not in ("", self.registered.name):
            raise InvalidInputError(
                f"Thread {thread.thread_id!r} belongs to graph {thread.graph!r}.",
                [("thread_id", f"belongs to graph {thread.graph!r}")],
            )

    def _take_over(self, thread: Thread) -> bool:
        """Make sure that the thread is free for a new run; says whether that drops a pause."""
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
            return self.on_pending == "discard"
        # What a run asked was withdrawn when it was cancelled or failed: nobody can answer it any
        # more, though the thread's newest checkpoint still waits.
        key = ThreadKey(thread.pk, thread.thread_id, thread.epoch)
        compatibility.refuse_if_changed(key, latest.fingerprint, self.registered, new_input=True)
        return True

    def _settle_subject(self, thread: Thread) -> None:
        """Make sure that the thread is about what the run is to be about."""
        if self.subject is None:
            return
        kind, key = ContentType.objects.get_for_model(self.subject), str(self.subject.pk)
        if thread.subject_type_id is None:
            thread.subject_type, thread.subject_id = kind, key
            thread.save(using=write_alias(), update_fields=["subject_type", "subject_id"])
        elif (thread.subject_type_id, thread.subject_id) != (kind.pk, key):
            raise InvalidInputError(
                f"Thread {thread.thread_id!r} has a different subject.",
                [("subject", "doesn't match the thread's subject")],
            )

    def _replace(self, live: Run, thread: Thread) -> None:
        if live.state != Run.State.INTERRUPTED:
            raise RunStateError(
                f"Thread {thread.thread_id!r} has a {live.state} run.",
                state=live.state,
                allowed=[Run.State.INTERRUPTED, Run.State.SUCCEEDED, Run.State.FAILED],
            )
        if self.on_pending != "discard":
            interrupts = Interrupt.objects.using(write_alias())
            waiting = interrupts.filter(run=live, status=Interrupt.Status.PENDING)
            waiting = select_visible(waiting, self.by)
            raise PendingInterruptsError(
                f"Thread {thread.thread_id!r} has pending interrupts that a new run would discard.",
                [str(pk) for pk in waiting.values_list("pk", flat=True)],
            )
        refuse_if_waited_for(thread)
        message = "You don't have permission to cancel the interrupted run."
        refuse_unless_may(self.asked, get_policy().may_operate, live, message)
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
