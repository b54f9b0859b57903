"""Models for threads and runs."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.ids import new_id
from hitl_django.json_text.sanitize import escape_invisible

from .fields import EncryptedJSONField, EncryptedTextField, JSONTextField
from .functions import Now
from .relations import RoutedForeignKey

if TYPE_CHECKING:
    from django.db.models.fields.related_descriptors import RelatedManager


class Thread(models.Model):
    """A thread: a graph's state over several runs, with an optional related object.

    A lease is a worker's exclusive right to execute the thread. ``epoch`` is incremented with each
    lease. A worker can write only in the epoch of its own lease, so a worker that was suspended and
    replaced can no longer write. ``lease_until`` is the end of the lease, on the database's clock.
    After this time, another process may take the lease.
    """

    #: The name of the thread, given by the caller or generated.
    thread_id: models.CharField[str, str] = models.CharField(
        _("thread id"), max_length=255, unique=True
    )
    #: The name of the graph when the thread was created.
    graph: models.CharField[str, str] = models.CharField(_("graph"), max_length=200, blank=True)
    #: The model of the related object.
    subject_type: models.ForeignKey[ContentType | None, ContentType | None] = models.ForeignKey(
        ContentType,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    subject_type_id: int | None
    #: The primary key of the related object, as text.
    subject_id: models.CharField[str, str] = models.CharField(max_length=255, blank=True)
    subject = RoutedForeignKey("subject_type", "subject_id")
    #: JSON of your own, for example for filters of the API.
    metadata = JSONTextField(_("metadata"), default=dict, blank=True)

    #: The number of the newest lease.
    epoch: models.BigIntegerField[int, int] = models.BigIntegerField(default=0)
    #: The process with the lease. Empty without a lease.
    lease_owner: models.CharField[str, str] = models.CharField(max_length=255, blank=True)
    #: The end of the lease, on the database's clock.
    lease_until: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        null=True, blank=True
    )
    #: The number of claims since the last progress of the current run.
    attempts: models.PositiveIntegerField[int, int] = models.PositiveIntegerField(default=0)
    #: Whether the thread has ever had an interrupt. If not, interrupts needn't be looked up.
    has_interrupts: models.BooleanField[bool, bool] = models.BooleanField(default=False)
    #: The time at which the thread's last run ended. NULL while a run is active. Retention uses
    #: this time.
    ended_at: models.DateTimeField[Any, datetime | None] = models.DateTimeField(
        db_default=None, null=True, editable=False
    )
    #: Whether any runs wait for earlier runs of the thread (Run.State.WAITING).
    has_waiting: models.BooleanField[bool, bool] = models.BooleanField(
        db_default=False, editable=False
    )
    #: The time at which the thread was restored from an archive. For a while, the thread isn't
    #: archived again.
    restored_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        db_default=None, null=True, editable=False
    )

    #: The number of the newest entry in the audit log.
    audit_seq: models.PositiveIntegerField[int, int] = models.PositiveIntegerField(default=0)
    #: The hash of the newest entry in the audit log.
    audit_hash: models.CharField[str, str] = models.CharField(max_length=64, blank=True)

    #: The time at which the thread was created.
    created_at: models.DateTimeField[datetime, datetime] = models.DateTimeField(
        _("created"), db_default=Now(), editable=False
    )

    #: The database's time, set by leases.lock_thread when it reads the thread.
    now: datetime

    runs: RelatedManager[Run]

    class Meta:
        verbose_name = _("thread")
        verbose_name_plural = _("threads")
        indexes: ClassVar = [
            models.Index(
                fields=["subject_type", "subject_id"],
                condition=models.Q(subject_type__isnull=False),
                name="hitl_thread_about",
            ),
            models.Index(
                fields=["ended_at", "id"],
                condition=models.Q(ended_at__isnull=False),
                name="hitl_thread_ended",
            ),
            models.Index(
                fields=["graph", "ended_at", "id"],
                condition=models.Q(ended_at__isnull=False),
                name="hitl_thread_graph_ended",
            ),
            models.Index(
                fields=["ended_at"],
                condition=models.Q(has_waiting=True, ended_at__isnull=False),
                name="hitl_thread_next",
            ),
        ]
        permissions: ClassVar = [("view_thread_state", _("Can view a thread's state"))]

    def __str__(self) -> str:
        return escape_invisible(self.thread_id)


class Run(models.Model):
    """A run is one execution of a thread's graph.

    A run starts from an input or from a checkpoint. The rows of the queued runs are the work queue
    of the workers.
    """

    class State(models.TextChoices):
        """The state of a run.

        TRANSITIONS lists the possible next states.
        """

        WAITING = "waiting", _("waiting for earlier runs")
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        INTERRUPTED = "interrupted", _("waiting for review")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        PARKED = "parked", _("parked")
        CANCELLED = "cancelled", _("cancelled")

    #: The possible next states by state.
    TRANSITIONS: ClassVar[dict[str, frozenset[str]]] = {
        State.WAITING: frozenset({State.QUEUED, State.FAILED, State.CANCELLED}),
        State.QUEUED: frozenset({State.RUNNING, State.PARKED, State.CANCELLED}),
        State.RUNNING: frozenset(
            {
                State.QUEUED,
                State.RUNNING,
                State.INTERRUPTED,
                State.SUCCEEDED,
                State.FAILED,
                State.PARKED,
                State.CANCELLED,
            }
        ),
        State.INTERRUPTED: frozenset({State.QUEUED, State.PARKED, State.CANCELLED}),
        State.FAILED: frozenset({State.QUEUED, State.WAITING, State.CANCELLED}),
        State.PARKED: frozenset({State.QUEUED, State.CANCELLED}),
        State.SUCCEEDED: frozenset(),
        State.CANCELLED: frozenset(),
    }

    #: States of active runs. A thread has at most one active run.
    ACTIVE: ClassVar[tuple[str, ...]] = (
        State.QUEUED,
        State.RUNNING,
        State.INTERRUPTED,
        State.PARKED,
    )

    #: The states of runs that have not ended, and the states of runs that have ended.
    NOT_ENDED: ClassVar[tuple[str, ...]] = (*ACTIVE, State.WAITING)
    ENDED: ClassVar[tuple[str, ...]] = (State.CANCELLED, State.FAILED, State.SUCCEEDED)

    #: The states in which a run makes no progress unless a person acts.
    AT_REST: ClassVar[tuple[str, ...]] = (*ENDED, State.INTERRUPTED, State.PARKED)

    #: Columns with long values. Lists don't read these columns.
    LARGE_COLUMNS: ClassVar[tuple[str, ...]] = ("input", "error", "traceback")

    #: States in which a run will receive the responses to its interrupts.
    ANSWERABLE: ClassVar[tuple[str, ...]] = (State.INTERRUPTED, State.QUEUED, State.RUNNING)

    #: The id of the run.
    id: models.UUIDField[UUID, UUID] = models.UUIDField(
        primary_key=True, default=new_id, editable=False
    )
    #: The thread with the state of the run.
    thread: models.ForeignKey[Thread, Thread] = models.ForeignKey(
        Thread, on_delete=models.CASCADE, related_name="runs", verbose_name=_("thread")
    )
    thread_id: int
    #: The position of the run among the runs of its thread. The number increases even if the clock
    #: is set back.
    number: models.PositiveIntegerField[int, int] = models.PositiveIntegerField(
        default=1, db_default=1, editable=False
    )
    #: The name of the graph.
    graph: models.CharField[str, str] = models.CharField(_("graph"), max_length=200)
    #: The version of the graph with which the run started.
    graph_version: models.CharField[str, str] = models.CharField(
        _("version"), max_length=50, blank=True
    )
    #: The fingerprint of the GraphShape with which the run's checkpoints were stored.
    fingerprint: models.CharField[str, str] = models.CharField(max_length=32, blank=True)
    #: The idempotency key given to ``start()``.
    key: models.CharField[str | None, str | None] = models.CharField(
        _("idempotency key"), max_length=255, null=True, blank=True
    )
    #: The digest of the input, to detect another input with the same key.
    input_digest: models.CharField[str, str] = models.CharField(max_length=64, blank=True)
    #: The state of the run: see TRANSITIONS.
    state: models.CharField[str, str] = models.CharField(
        _("state"), max_length=20, choices=State.choices, default=State.QUEUED
    )
    #: The number of the newest super-step. -1 before the first super-step.
    step: models.IntegerField[int, int] = models.IntegerField(_("step"), default=-1)
    #: The kinds of events that the run stores (events.KINDS).
    events: models.CharField[str, str] = models.CharField(max_length=100, blank=True)
    #: The number of the last event at the last change of the run's state.
    last_event: models.PositiveIntegerField[int, int] = models.PositiveIntegerField(default=0)
    #: The number of the first event that hasn't been deleted.
    first_event: models.PositiveIntegerField[int, int] = models.PositiveIntegerField(default=1)
    #: The input of a run that waits for earlier runs, or that failed while waiting. The input is
    #: stored as text (checkpoints.pack_text), because it may not be JSON. NULL if the thread's
    #: state already contains the input.
    input = EncryptedTextField(null=True, db_default=None, editable=False)
    #: The run's options in addition to the input (services.RunOptions). NULL without options.
    options = EncryptedJSONField(null=True, blank=True, editable=False)
    #: The reason why the run failed or was parked.
    error = EncryptedTextField(_("error"), blank=True)
    #: The traceback of the error in a node.
    traceback = EncryptedTextField(_("traceback"), blank=True)
    #: The user who started the run. NULL if code started the run.
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("started by"),
        db_index=False,
    )
    #: The name of this user or of the code, also after the user was deleted.
    started_by_label: models.CharField[str, str] = models.CharField(
        _("started by"), max_length=255, blank=True
    )
    #: The original run of a fork, or of a fork of a fork. This is not a foreign key, because
    #: deleting a run would have to search for references.
    origin: models.UUIDField[UUID | None, UUID | None] = models.UUIDField(
        null=True, db_default=None, editable=False
    )
    #: The time at which the run was stored.
    created_at: models.DateTimeField[datetime, datetime] = models.DateTimeField(
        _("created"), db_default=Now(), editable=False
    )
    #: The time at which the run was last queued. After an error of a worker, the time from which
    #: workers may execute the run again.
    queued_at: models.DateTimeField[datetime, datetime] = models.DateTimeField(
        _("queued"), db_default=Now(), editable=False
    )
    #: The time of the last message to workers about the run. The sweep sends another message after
    #: a while.
    last_message_at: models.DateTimeField[datetime, datetime] = models.DateTimeField(
        db_default=Now(), editable=False
    )
    #: The time at which an interrupted run resumes with its decision. Until then, the decision can
    #: be undone.
    resumes_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        _("resumes at"), db_default=None, null=True, editable=False
    )
    #: The time at which the run ended.
    finished_at: models.DateTimeField[Any, datetime | None] = models.DateTimeField(
        _("finished"), null=True, blank=True
    )

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["graph", "key"], name="hitl_run_key"),
            models.UniqueConstraint(
                fields=["thread"],
                condition=models.Q(state__in=["queued", "running", "interrupted", "parked"]),
                name="hitl_one_live_run_per_thread",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    state__in=[
                        "waiting",
                        "queued",
                        "running",
                        "interrupted",
                        "succeeded",
                        "failed",
                        "parked",
                        "cancelled",
                    ]
                ),
                name="hitl_run_state",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["last_message_at"],
                condition=models.Q(state__in=["queued", "running"]),
                name="hitl_run_due",
            ),
            # For the due runs of each graph, oldest first.
            models.Index(
                fields=["graph", "queued_at"],
                condition=models.Q(state="queued"),
                name="hitl_run_queued",
            ),
            models.Index(
                fields=["resumes_at"],
                condition=models.Q(resumes_at__isnull=False),
                name="hitl_run_resumes",
            ),
            models.Index(fields=["-created_at", "-id"], name="hitl_run_newest"),
            # For failed and parked runs, newest first. Other runs aren't in the index.
            models.Index(
                fields=["state", "-created_at", "-id"],
                condition=models.Q(state__in=["failed", "parked"]),
                name="hitl_run_stuck",
            ),
            # For the number of runs that ended in a period.
            models.Index(
                fields=["finished_at", "state"],
                condition=models.Q(finished_at__isnull=False),
                name="hitl_run_ended",
            ),
            # For the check whether any run refers to a graph structure.
            models.Index(fields=["fingerprint"], name="hitl_run_shape"),
            models.Index(
                fields=["started_by"],
                condition=models.Q(started_by__isnull=False),
                name="hitl_run_starter",
            ),
            models.Index(
                fields=["finished_at"],
                condition=models.Q(
                    finished_at__isnull=False, first_event__lte=models.F("last_event")
                ),
                name="hitl_run_told",
            ),
        ]
        permissions: ClassVar = [
            ("start_run", _("Can start a run")),
            ("operate_run", _("Can retry and cancel runs and see their errors")),
        ]

    def __str__(self) -> str:
        return f"{escape_invisible(self.graph)} {self.id}"

    @property
    def is_at_rest(self) -> bool:
        """Whether the run can continue only if a person acts.

        A run that resumes at ``resumes_at`` after a decision is not at rest.
        """
        return self.state in self.AT_REST and self.resumes_at is None

    @classmethod
    def match_at_rest(cls, states: Collection[str] = AT_REST, path: str = "") -> models.Q:
        """Return a filter for runs that are at rest in one of these states.

        ``path`` is the lookup path to the run, for example ``"run__"``.
        """
        return models.Q(**{f"{path}state__in": states, f"{path}resumes_at": None})

    @classmethod
    def exists_active(cls) -> models.Exists:
        """Return a condition on threads: the thread has an active run."""
        live = cls.objects.filter(thread=models.OuterRef("pk"), state__in=cls.ACTIVE)
        return models.Exists(live)

    @classmethod
    def select_newest(
        cls, runs: models.QuerySet[Run], *, besides: Run | None = None
    ) -> models.QuerySet[Run]:
        """Return the runs that have started, newest first.

        The run ``besides`` is included even if it is still waiting to start.
        """
        begun = models.Q(input__isnull=True)
        if besides is not None:
            begun |= models.Q(pk=besides.pk)
        return runs.filter(begun).order_by("-number", "-pk")

    @classmethod
    def find_next_number(cls, using: str, thread: int) -> int:
        """Return the number for the next run of a thread.

        The caller has locked the thread.
        """
        runs = cls.objects.using(using).filter(thread=thread)
        newest: int | None = runs.aggregate(newest=models.Max("number"))["newest"]
        return (newest or 0) + 1
