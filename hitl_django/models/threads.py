"""Threads, and the runs that advance them."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.ids import new_id
from hitl_django.json_text.sanitize import escape_invisible

from .fields import EncryptedJSONField, EncryptedTextField, JSONTextField
from .functions import Now
from .relations import RoutedForeignKey


class Thread(models.Model):
    """One execution of a graph: its coordinates, what it is about, and who drives it.

    ``epoch`` counts claims. A worker writes only where the epoch is still the one of its own
    claim, so one that was frozen and replaced can't write any more. ``lease_until`` is on the
    database's clock and only says when somebody else may claim.
    """

    thread_id = models.CharField(_("thread id"), max_length=255, unique=True)
    graph = models.CharField(_("graph"), max_length=200, blank=True)
    subject_type = models.ForeignKey(
        ContentType,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    subject_id = models.CharField(max_length=255, blank=True)
    subject = RoutedForeignKey("subject_type", "subject_id")
    metadata = JSONTextField(_("metadata"), default=dict, blank=True)

    epoch = models.BigIntegerField(default=0)
    lease_owner = models.CharField(max_length=255, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    #: Whether the thread has ever had an interrupt; without one there is none to look up.
    has_interrupts = models.BooleanField(default=False)
    #: When its last run ended; NULL while one is under way. The retention goes by it.
    ended_at = models.DateTimeField(db_default=None, null=True, editable=False)
    #: Whether runs wait until it is free (Run.State.WAITING).
    has_waiting = models.BooleanField(db_default=False, editable=False)
    #: When it came back from the archive; it isn't archived again for as long as at first.
    restored_at = models.DateTimeField(db_default=None, null=True, editable=False)

    audit_seq = models.PositiveIntegerField(default=0)
    audit_hash = models.CharField(max_length=64, blank=True)

    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)

    #: The database's clock, on a row that leases.lock_thread returned.
    now: datetime

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
    """One input of a thread, advanced until it ends; the queue of work is its QUEUED rows."""

    class State(models.TextChoices):
        """The state of a run; TRANSITIONS has the states that may follow."""

        WAITING = "waiting", _("waiting for earlier runs")
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        INTERRUPTED = "interrupted", _("waiting for review")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        PARKED = "parked", _("parked")
        CANCELLED = "cancelled", _("cancelled")

    #: From each state, the states that may follow.
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

    #: A thread has at most one run in these states.
    ACTIVE: ClassVar[tuple[str, ...]] = (
        State.QUEUED,
        State.RUNNING,
        State.INTERRUPTED,
        State.PARKED,
    )

    #: The states of a run that has not ended, and of one that has.
    NOT_ENDED: ClassVar[tuple[str, ...]] = (*ACTIVE, State.WAITING)
    ENDED: ClassVar[tuple[str, ...]] = (State.CANCELLED, State.FAILED, State.SUCCEEDED)

    #: Columns that may be long, which lists don't show.
    LARGE_COLUMNS: ClassVar[tuple[str, ...]] = ("input", "error", "traceback")

    #: A run in one of these states will come to see an answer.
    ANSWERABLE: ClassVar[tuple[str, ...]] = (State.INTERRUPTED, State.QUEUED, State.RUNNING)

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    thread = models.ForeignKey(
        Thread, on_delete=models.CASCADE, related_name="runs", verbose_name=_("thread")
    )
    #: Its place among the runs of its thread. It goes up even if the clock is set back.
    number = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    graph = models.CharField(_("graph"), max_length=200)
    graph_version = models.CharField(_("version"), max_length=50, blank=True)
    #: Names the GraphShape that what is stored was made under.
    fingerprint = models.CharField(max_length=32, blank=True)
    key = models.CharField(_("idempotency key"), max_length=255, null=True, blank=True)
    input_digest = models.CharField(max_length=64, blank=True)
    state = models.CharField(_("state"), max_length=20, choices=State.choices, default=State.QUEUED)
    step = models.IntegerField(_("step"), default=-1)
    #: Which kinds of events it records (events.KINDS), the number of the last such event as of its
    #: last change of state, and of the first that is still kept.
    events = models.CharField(max_length=100, blank=True)
    last_event = models.PositiveIntegerField(default=0)
    first_event = models.PositiveIntegerField(default=1)
    #: The input of a run that waits for its turn, and of one that came to nothing while it did: as
    #: text (checkpoints.pack_text), since it may be no JSON. NULL: it is part of the state.
    input = EncryptedTextField(null=True, db_default=None, editable=False)
    #: What it was started with besides its input (services.RunOptions); NULL is nothing.
    options = EncryptedJSONField(null=True, blank=True, editable=False)
    error = EncryptedTextField(_("error"), blank=True)
    traceback = EncryptedTextField(_("traceback"), blank=True)
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("started by"),
        db_index=False,
    )
    started_by_label = models.CharField(_("started by"), max_length=255, blank=True)
    #: Of a fork, the run that was started: of it this is a fork, or of a fork of it. No foreign
    #: key, as deleting a run would have to look for those that name it.
    origin = models.UUIDField(null=True, db_default=None, editable=False)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    queued_at = models.DateTimeField(_("queued"), db_default=Now(), editable=False)
    #: When a message for the run was last enqueued; the sweep enqueues another after a while.
    hinted_at = models.DateTimeField(db_default=Now(), editable=False)
    #: When a run that waits goes on with what was decided, which can be undone until then.
    resumes_at = models.DateTimeField(_("resumes at"), db_default=None, null=True, editable=False)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

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
                fields=["hinted_at"],
                condition=models.Q(state__in=["queued", "running"]),
                name="hitl_run_due",
            ),
            models.Index(
                fields=["resumes_at"],
                condition=models.Q(resumes_at__isnull=False),
                name="hitl_run_resumes",
            ),
            models.Index(fields=["-created_at", "-id"], name="hitl_run_newest"),
            # Whether any run names a shape is asked of all runs.
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

    @classmethod
    def exists_live(cls) -> models.Exists:
        """Return the condition, on threads, that one has a run which is under way."""
        live = cls.objects.filter(thread=models.OuterRef("pk"), state__in=cls.ACTIVE)
        return models.Exists(live)

    @classmethod
    def select_newest(
        cls, runs: models.QuerySet[Run], *, besides: Run | None = None
    ) -> models.QuerySet[Run]:
        """Return those of the runs that have begun, the newest first; this one in any case."""
        begun = models.Q(input__isnull=True)
        if besides is not None:
            begun |= models.Q(pk=besides.pk)
        return runs.filter(begun).order_by("-number", "-pk")

    @classmethod
    def find_next_number(cls, using: str, thread: int) -> int:
        """Return the number of the next run of a thread, whose row is locked."""
        runs = cls.objects.using(using).filter(thread=thread)
        newest: int | None = runs.aggregate(newest=models.Max("number"))["newest"]
        return (newest or 0) + 1
