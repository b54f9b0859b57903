"""Models for interrupts, decisions and the audit log.

Foreign keys at the beginning of a unique constraint have no separate index.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import F
from django.db.models.lookups import IsNull
from django.utils.translation import gettext_lazy as _

from hitl_django.decision_types import DECISION_TYPES, EXPIRE, EXPIRE_LABEL
from hitl_django.engine.ids import new_id
from hitl_django.json_text.sanitize import escape_invisible

from .fields import EncryptedJSONField, EncryptedTextField, JSONTextField
from .functions import Now
from .search import GramIndex
from .threads import Run, Thread


def queue_order() -> tuple[Any, ...]:
    """Return the order of the review queue: overdue, priority, due time, age.

    One index contains all of these columns, so reading a page takes the same time for queues of any
    length. ``overdue`` is a column, because an index can't contain the current time. A separate
    expression sorts interrupts without a due time last, because databases sort NULL differently.
    """
    undated: Any = IsNull(F("due_at"), True)
    return (F("overdue").desc(), F("priority").desc(), undated, F("due_at"), F("created_at"), "id")


def get_cleared_claim() -> dict[str, Any]:
    """Return the column values that remove a claim from an interrupt."""
    return {"claimed_by": None, "claimed_by_label": "", "claimed_until": None}


def get_closed_columns() -> dict[str, Any]:
    """Return the column values that closing an interrupt sets, except the status."""
    return {
        "closed_at": Now(),
        "version": F("version") + 1,
        "search_grams": None,
        **get_cleared_claim(),
    }


class Interrupt(models.Model):
    """An interrupt of a run. The review queue consists of the pending interrupts.

    An interrupt is stored in the transaction that pauses the run. ``interrupt_id`` is the id of the
    interrupt in the engine. ``checkpoint_ns``, ``checkpoint_id``, ``task_id`` and ``index`` or
    ``key`` identify the call of ``interrupt()`` that receives the resume value. If a decision
    contains ``payload_digest`` or ``version``, and this value of the interrupt has changed, the
    decision fails.
    """

    class Status(models.TextChoices):
        """The status of an interrupt: pending, or the way in which it was closed."""

        PENDING = "pending", _("pending")
        DECIDED = "decided", _("decided")
        EXPIRED = "expired", _("expired")
        SUPERSEDED = "superseded", _("superseded")
        CANCELLED = "cancelled", _("cancelled")

    class Kind(models.TextChoices):
        """The origin of an interrupt: a call in a node, or a breakpoint."""

        INTERRUPT = "interrupt", _("request")
        BREAKPOINT = "breakpoint", _("breakpoint")

    #: The id of the interrupt in the API, in links and in decisions.
    id: models.UUIDField[UUID, UUID] = models.UUIDField(
        primary_key=True, default=new_id, editable=False
    )
    #: The thread of the run.
    thread: models.ForeignKey[Thread, Thread] = models.ForeignKey(
        Thread, on_delete=models.CASCADE, related_name="interrupts", db_index=False
    )
    thread_id: int
    #: The run that is paused.
    run: models.ForeignKey[Run, Run] = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="interrupts", verbose_name=_("run")
    )
    run_id: UUID
    #: The id of the interrupt in the graph engine.
    interrupt_id: models.CharField[str, str] = models.CharField(max_length=32)
    #: The origin of the interrupt.
    kind: models.CharField[str, str] = models.CharField(
        max_length=20, choices=Kind.choices, default=Kind.INTERRUPT
    )
    #: The name of the graph.
    graph: models.CharField[str, str] = models.CharField(_("graph"), max_length=200)
    #: The name of the node when the interrupt was created.
    node: models.CharField[str, str] = models.CharField(_("node"), max_length=255)
    #: The namespace of the graph with the node. Empty for the run's own graph.
    checkpoint_ns: models.TextField[str, str] = models.TextField(blank=True)
    #: The checkpoint of the super-step of the node.
    checkpoint_id: models.CharField[str, str] = models.CharField(max_length=36)
    #: The task that called ``interrupt()``.
    task_id: models.CharField[str, str] = models.CharField(max_length=36)
    #: The position of the task among the tasks of the super-step.
    task_path: models.TextField[str, str] = models.TextField(blank=True)
    #: The number of the ``interrupt()`` call in its task, from 0.
    index: models.PositiveIntegerField[int, int] = models.PositiveIntegerField(default=0)
    #: The key that the node passed to ``interrupt()``. Without a key, ``index`` identifies the
    #: call.
    key: models.TextField[str | None, str | None] = models.TextField(null=True, blank=True)

    #: The title in lists and messages.
    title: models.CharField[str, str] = models.CharField(_("request"), max_length=300)
    #: The reason for the request, shown with it.
    why = EncryptedTextField(_("reason"), blank=True)
    #: The content for the reviewer.
    payload = EncryptedJSONField(_("payload"))
    #: The digest of the payload. A decision can name this digest.
    payload_digest: models.CharField[str, str] = models.CharField(max_length=32)
    #: The formats of values in the payload that were Decimals, UUIDs, dates or times, by JSON
    #: pointer. NULL if there are no such values.
    payload_formats = EncryptedJSONField(null=True, blank=True, editable=False)
    #: The text in which a search looks for words (models.search).
    search_text: models.TextField[str | None, str | None] = models.TextField(
        null=True, blank=True, editable=False
    )
    #: The grams of this text for an index, while the interrupt is pending on PostgreSQL.
    search_grams: models.TextField[str | None, str | None] = models.TextField(
        null=True, blank=True, editable=False
    )
    #: The JSON Schema of the response.
    response_schema = EncryptedJSONField(_("response schema"), null=True, blank=True)
    #: The name of the payload format (dialects).
    dialect: models.CharField[str, str] = models.CharField(max_length=20, default="raw")
    #: Allowed decision types in the order of display. They are stored so that lists don't have to
    #: read the payload.
    allowed_decisions = JSONTextField(_("decisions"), default=list)
    #: Keys and JSON pointers of the payload that an edit may change. NULL means that an edit may
    #: change everything.
    editable = JSONTextField(null=True, blank=True)
    #: The number of approvals needed for this version.
    quorum: models.PositiveSmallIntegerField[int, int] = models.PositiveSmallIntegerField(
        _("approvals needed"), default=1
    )
    #: The number of approvals given for this version.
    approvals: models.PositiveSmallIntegerField[int, int] = models.PositiveSmallIntegerField(
        _("approvals"), db_default=0
    )
    #: A version proposed by a reviewer that needs approvals: ``edited`` and ``answer``.
    proposal = EncryptedJSONField(_("proposed version"), null=True, blank=True, db_default=None)
    #: Whether the user who started the run is excluded from approving.
    no_self_approval: models.BooleanField[bool, bool] = models.BooleanField(
        _("no approval by the person who started the run"), default=False
    )
    #: Whether only the user with the claim can decide.
    claim_required: models.BooleanField[bool, bool] = models.BooleanField(
        _("claim required"), default=False
    )
    #: The status of the interrupt.
    status: models.CharField[str, str] = models.CharField(
        _("status"), max_length=20, choices=Status.choices, default=Status.PENDING
    )
    #: A number that increases with each decision, undo or edit. A decision can name this number.
    version: models.PositiveIntegerField[int, int] = models.PositiveIntegerField(default=1)
    #: The time at which the interrupt was created.
    created_at: models.DateTimeField[datetime, datetime] = models.DateTimeField(
        _("created"), db_default=Now(), editable=False
    )
    #: The time at which the interrupt was closed. NULL while it is pending.
    closed_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        _("closed"), null=True, blank=True
    )
    #: The time of expiry, on the database's clock.
    expires_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        _("expires"), null=True, blank=True
    )
    #: The expiry options (run_leases.interrupts.encode_expiry).
    expiry = EncryptedJSONField(null=True, blank=True)
    #: The time at which interrupt_expiring is sent. NULL if the signal was sent or isn't needed.
    warn_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        db_default=None, null=True, editable=False
    )
    #: The time of the next attempt, if processing the expiry failed.
    retry_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        db_default=None, null=True, editable=False
    )
    #: The time of an expiry after which the interrupt stayed pending, because of its expiry
    #: options.
    escalated_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        _("escalated"), db_default=None, null=True, editable=False
    )
    #: The version with a response that the graph rejected. Set while the interrupt is pending again
    #: with the same payload.
    refused_version: models.PositiveIntegerField[int | None, int | None] = (
        models.PositiveIntegerField(db_default=None, null=True, editable=False)
    )
    #: The time at which the node ran again after the decision and raised a different interrupt.
    changed_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        _("changed after decision"), null=True, blank=True
    )

    #: The user to whom the interrupt is assigned.
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("assigned to"),
        db_index=False,
    )
    #: The name of this user, also after the user was deleted.
    assignee_label: models.CharField[str, str] = models.CharField(
        _("assigned to"), max_length=255, blank=True, default=""
    )
    #: The group to which the interrupt is assigned.
    group: models.ForeignKey[Group | None, Group | None] = models.ForeignKey(
        Group,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("group"),
        db_index=False,
    )
    group_id: int | None
    #: The name of this group, also after the group was deleted.
    group_label: models.CharField[str, str] = models.CharField(
        _("group"), max_length=150, blank=True, default=""
    )
    #: The user with the claim. An expired claim is ignored and needs no cleanup.
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("claimed by"),
        db_default=None,
        db_index=False,
    )
    #: The name of this user, also after the user was deleted.
    claimed_by_label: models.CharField[str, str] = models.CharField(
        _("claimed by"), max_length=255, blank=True, db_default=""
    )
    #: The end of the claim, on the database's clock. Closing the interrupt clears the claim.
    claimed_until: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        _("claimed until"), null=True, blank=True, db_default=None
    )
    #: The digest of the user and the idempotency key of the claim_next call that returned this.
    claim_key: models.CharField[str | None, str | None] = models.CharField(
        max_length=32, db_default=None, null=True, editable=False
    )
    #: The digest of the filters of this call.
    claim_filters: models.CharField[str, str] = models.CharField(
        max_length=32, db_default="", blank=True, editable=False
    )
    #: The time until which the interrupt is hidden from the queue.
    snoozed_until: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        _("snoozed until"), null=True, blank=True, db_default=None
    )
    #: Interrupts with a higher priority come first.
    priority: models.SmallIntegerField[int, int] = models.SmallIntegerField(
        _("priority"), default=0
    )
    #: The time at which the interrupt becomes overdue.
    due_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        _("due"), null=True, blank=True
    )
    #: Set by the sweep after ``due_at``, so that the queue can be sorted by an index.
    overdue: models.BooleanField[bool, bool] = models.BooleanField(
        _("overdue"), db_default=False, editable=False
    )

    class Meta:
        verbose_name = _("request")
        verbose_name_plural = _("all requests")
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["thread", "interrupt_id"], name="hitl_interrupt_id"),
            models.UniqueConstraint(
                fields=["claim_key"],
                condition=models.Q(claim_key__isnull=False),
                name="hitl_interrupt_taken",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    status__in=["pending", "decided", "expired", "superseded", "cancelled"]
                ),
                name="hitl_interrupt_status",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["created_at", "id"],
                condition=models.Q(status="pending"),
                name="hitl_interrupt_pending",
            ),
            models.Index(
                fields=["graph", "created_at", "id"],
                condition=models.Q(status="pending"),
                name="hitl_interrupt_graph_pending",
            ),
            models.Index(
                fields=["expires_at"],
                condition=models.Q(status="pending", expires_at__isnull=False),
                name="hitl_interrupt_expires",
            ),
            models.Index(
                fields=["warn_at"],
                condition=models.Q(status="pending", warn_at__isnull=False),
                name="hitl_interrupt_warn",
            ),
            models.Index(
                *queue_order(),
                condition=models.Q(status="pending"),
                name="hitl_interrupt_queue",
            ),
            GramIndex(
                grams="search_grams",
                condition=models.Q(status="pending"),
                name="hitl_interrupt_grams",
            ),
            models.Index(
                fields=["due_at"],
                condition=models.Q(status="pending", overdue=False, due_at__isnull=False),
                name="hitl_interrupt_due",
            ),
            models.Index(
                fields=["snoozed_until"],
                condition=models.Q(status="pending", snoozed_until__isnull=False),
                name="hitl_interrupt_snoozed",
            ),
            models.Index(
                fields=["claimed_until"],
                condition=models.Q(status="pending", claimed_until__isnull=False),
                name="hitl_interrupt_claimed",
            ),
            # For pending and closed interrupts created in a period, of one graph or of all graphs.
            models.Index(fields=["graph", "created_at"], name="hitl_interrupt_asked"),
            # For filtered lists and unassigned interrupts, in the order of the queue. Reading a
            # page takes the same time for any number of other pending interrupts.
            models.Index(
                "graph",
                *queue_order(),
                condition=models.Q(status="pending"),
                name="hitl_interrupt_graph",
            ),
            models.Index(
                "group",
                *queue_order(),
                condition=models.Q(status="pending", group__isnull=False),
                name="hitl_interrupt_group",
            ),
            models.Index(
                *queue_order(),
                condition=models.Q(status="pending", assignee__isnull=True, group__isnull=True),
                name="hitl_interrupt_unassigned",
            ),
            # Each of these indexes has few rows. Deleting a user also reads these indexes.
            models.Index(
                fields=["claimed_by"],
                condition=models.Q(claimed_by__isnull=False),
                name="hitl_interrupt_holder",
            ),
            models.Index(
                fields=["assignee", "status"],
                condition=models.Q(assignee__isnull=False),
                name="hitl_interrupt_assignee",
            ),
        ]
        permissions: ClassVar = [
            ("decide_interrupt", _("Can decide requests")),
            ("assign_interrupt", _("Can assign requests to users and groups")),
            ("take_over_interrupt", _("Can take over requests claimed by others")),
        ]

    def __str__(self) -> str:
        return escape_invisible(self.title)

    def closing(self) -> Decision | None:
        """Return the decision that closed the interrupt, or None.

        An interrupt that is pending, or was closed without a decision, has none.
        """
        return self._effective(self.version - 1)

    def refused(self) -> Decision | None:
        """Return the decision with the value that the graph rejected, or None.

        The result is None unless the interrupt is pending again because of this rejection.
        """
        if self.status != self.Status.PENDING or self.refused_version is None:
            return None
        found = self._effective(self.refused_version)
        return found if found is not None and found.refusal else None

    @property
    def then(self) -> str:
        """The action that the expiry of the interrupt triggers."""
        return str((self.expiry or {}).get("then", ""))

    @property
    def resumes_at(self) -> datetime | None:
        """The time at which the run resumes with the decision, or None.

        Until then, the decision can be undone.
        """
        return self.run.resumes_at if self.status == self.Status.DECIDED else None

    @property
    def is_settled(self) -> bool:
        """Whether the interrupt is closed, and its decision can't be undone."""
        return self.status != self.Status.PENDING and self.resumes_at is None

    @property
    def is_answered(self) -> bool:
        """Whether the interrupt has a response for the graph, from a decision or its expiry."""
        expired = self.status == self.Status.EXPIRED and self.then == "answer"
        return expired or self.status == self.Status.DECIDED

    def _effective(self, version: int) -> Decision | None:
        if version < 1:
            return None
        return self.decisions.filter(version=version, effective=True).first()


class _KeptMarker:
    """Marker for a column that an erasure doesn't change.

    None can't be the marker, because None is a value that an erasure may store.
    """


KEPT = _KeptMarker()


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptColumn:
    """The rules by which other packages, such as the API, handle a column of an interrupt."""

    #: API responses that contain the column: "list" for lists and details, "detail" for details
    #: only, "" for none. The API field has the column's name unless the serializer declares a
    #: field.
    api: str = ""
    #: Whether the admin's list of the queue reads the column.
    in_queue: bool = False
    #: Whether the column is too large for lists.
    large: bool = False
    #: Whether the column can change without a new version of the interrupt. The ETag must then
    #: include it.
    in_etag: bool = False
    #: Whether messages to other systems may contain the column.
    in_message: bool = False
    #: The column's value after the thread was erased.
    erased: Any = KEPT


#: All columns of an interrupt. The lists below, and the code that reads interrupts, are derived
#: from this dict.
INTERRUPT_COLUMNS = {
    "id": InterruptColumn(api="list", in_queue=True),
    "thread": InterruptColumn(in_queue=True),  # The API contains the thread's own id instead.
    "run": InterruptColumn(api="list", in_queue=True),
    "interrupt_id": InterruptColumn(),
    "kind": InterruptColumn(api="list"),
    "graph": InterruptColumn(api="list", in_queue=True),
    "node": InterruptColumn(api="list", in_queue=True),
    "checkpoint_ns": InterruptColumn(),
    "checkpoint_id": InterruptColumn(),
    "task_id": InterruptColumn(),
    "task_path": InterruptColumn(),
    "index": InterruptColumn(),
    "key": InterruptColumn(erased=None),
    "title": InterruptColumn(api="list", in_queue=True, in_message=True, erased=""),
    "why": InterruptColumn(api="detail", erased=""),
    "payload": InterruptColumn(api="detail", large=True, in_message=True, erased=None),
    "payload_digest": InterruptColumn(api="detail", in_queue=True),
    "payload_formats": InterruptColumn(api="detail", large=True, erased=None),
    "search_text": InterruptColumn(large=True, erased=None),
    "search_grams": InterruptColumn(large=True, erased=None),
    "response_schema": InterruptColumn(api="detail", large=True, in_message=True, erased=None),
    # An erased payload has the format "raw".
    "dialect": InterruptColumn(api="list", erased="raw"),
    "allowed_decisions": InterruptColumn(api="list"),
    "editable": InterruptColumn(api="detail", erased=None),
    "quorum": InterruptColumn(api="detail", in_queue=True),
    "approvals": InterruptColumn(api="detail", in_queue=True, in_etag=True),
    "proposal": InterruptColumn(api="detail", erased=None),
    "no_self_approval": InterruptColumn(api="detail"),
    "claim_required": InterruptColumn(api="detail", in_queue=True),
    # The status is a separate part of the ETag.
    "status": InterruptColumn(api="list", in_queue=True),
    "version": InterruptColumn(api="list", in_queue=True),
    "created_at": InterruptColumn(api="list", in_queue=True),
    "closed_at": InterruptColumn(api="list", in_etag=True),
    "expires_at": InterruptColumn(api="list", in_queue=True, in_etag=True),
    "expiry": InterruptColumn(erased=None),
    "warn_at": InterruptColumn(),
    "retry_at": InterruptColumn(),
    "escalated_at": InterruptColumn(in_queue=True),
    "refused_version": InterruptColumn(),
    "changed_at": InterruptColumn(api="list", in_etag=True),
    "assignee": InterruptColumn(in_queue=True),
    "assignee_label": InterruptColumn(api="list", in_queue=True, in_etag=True),
    "group": InterruptColumn(in_queue=True),
    "group_label": InterruptColumn(api="list", in_queue=True, in_etag=True),
    "claimed_by": InterruptColumn(api="list", in_queue=True),
    # The API contains these columns only while the claim is valid.
    "claimed_by_label": InterruptColumn(in_queue=True, in_etag=True),
    "claimed_until": InterruptColumn(api="list", in_queue=True, in_etag=True),
    "claim_key": InterruptColumn(),
    "claim_filters": InterruptColumn(),
    "snoozed_until": InterruptColumn(api="list", in_queue=True, in_etag=True),
    "priority": InterruptColumn(api="list", in_queue=True, in_etag=True),
    "due_at": InterruptColumn(api="list", in_queue=True, in_etag=True),
    "overdue": InterruptColumn(api="list", in_queue=True),
}

QUEUE_COLUMNS = tuple(name for name, column in INTERRUPT_COLUMNS.items() if column.in_queue)
LARGE_COLUMNS = tuple(name for name, column in INTERRUPT_COLUMNS.items() if column.large)
ETAG_COLUMNS = tuple(name for name, column in INTERRUPT_COLUMNS.items() if column.in_etag)
MESSAGE_COLUMNS = tuple(name for name, column in INTERRUPT_COLUMNS.items() if column.in_message)
ERASED_COLUMNS = {
    name: column.erased for name, column in INTERRUPT_COLUMNS.items() if column.erased is not KEPT
}


class PendingInterrupts(models.Manager["Interrupt"]):
    """Manager that returns only pending interrupts."""

    def get_queryset(self) -> models.QuerySet[Interrupt]:
        return super().get_queryset().filter(status=Interrupt.Status.PENDING)


class ReviewItem(Interrupt):
    """A pending interrupt in the review queue (proxy model)."""

    pending: ClassVar[PendingInterrupts] = PendingInterrupts()
    objects: ClassVar[models.Manager[ReviewItem]] = models.Manager()

    class Meta:
        proxy = True
        verbose_name = _("review request")
        verbose_name_plural = _("review queue")
        ordering: ClassVar = queue_order()


class Decision(models.Model):
    """A person's decision on one ``version`` of an interrupt.

    Each version of an interrupt has at most one ``effective`` decision. The effective decision
    closed the interrupt, and the graph received its value. If several approvals are needed, all
    approvals before the last approval are decisions that are not effective. ``refusal`` is the
    reason for which the graph rejected the value of the decision. After the graph has rejected a
    value, the interrupt is pending again with a later version, and the decision remains unchanged.
    An undone decision has ``undone_at`` and no effect.
    """

    #: The decision types, and the type of the response that an expiry gives.
    Type: type[models.TextChoices] = models.TextChoices(  # type: ignore[call-overload]
        "Type",
        [
            *((row.name.upper(), (row.name, row.label)) for row in DECISION_TYPES.values()),
            (EXPIRE.upper(), (EXPIRE, EXPIRE_LABEL)),
        ],
        module=__name__,
        qualname="Decision.Type",
    )

    #: The id of the decision.
    id: models.UUIDField[UUID, UUID] = models.UUIDField(
        primary_key=True, default=new_id, editable=False
    )
    #: The interrupt that was decided.
    interrupt: models.ForeignKey[Interrupt, Interrupt] = models.ForeignKey(
        Interrupt,
        on_delete=models.CASCADE,
        related_name="decisions",
        verbose_name=_("request"),
        db_index=False,
    )
    interrupt_id: UUID
    #: The version of the interrupt that was decided.
    version: models.PositiveIntegerField[int, int] = models.PositiveIntegerField()
    #: True or NULL. NULL marks an undone decision, or an approval before the last one. A unique
    #: index then allows one effective decision per version and any number of others.
    effective: models.BooleanField[bool | None, bool | None] = models.BooleanField(
        default=True, null=True
    )
    #: The decision type.
    type: models.CharField[str, str] = models.CharField(
        _("decision"), max_length=20, choices=Type.choices
    )
    #: The resume value that the node receives.
    value = EncryptedJSONField(_("response"))
    #: The reason why the graph rejected the value.
    refusal = EncryptedTextField(_("rejection by the graph"), blank=True)
    #: The reason that the person gave.
    reason = EncryptedTextField(_("reason"), blank=True)
    #: The user who decided. NULL if nobody logged in, for example with a review link.
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("by"),
        db_index=False,
    )
    #: The name of the person, also after the user was deleted.
    by_label: models.CharField[str, str] = models.CharField(_("by"), max_length=255)
    #: The interface: admin, api, link, code or another.
    via: models.CharField[str, str] = models.CharField(_("via"), max_length=20)
    #: The name of another user who had claimed the interrupt at the time of the decision.
    claimed_by_label: models.CharField[str, str] = models.CharField(
        _("claimed by"), max_length=255, blank=True, default="", db_default=""
    )
    #: The idempotency key of the request.
    key: models.CharField[str, str] = models.CharField(
        _("idempotency key"), max_length=255, blank=True
    )
    #: The digest of the request, to detect another request with the same key.
    request_digest: models.CharField[str, str] = models.CharField(max_length=32)
    #: The digest of the payload that the person saw.
    payload_digest: models.CharField[str, str] = models.CharField(max_length=32)
    #: The changes to the payload as a JSON Patch. NULL if the payload wasn't changed.
    patch = EncryptedJSONField(_("changes"), null=True, blank=True)
    #: The number of this approval.
    approvals: models.PositiveSmallIntegerField[int, int] = models.PositiveSmallIntegerField(
        _("approvals"), default=1
    )
    #: The number of approvals needed for this version.
    quorum: models.PositiveSmallIntegerField[int, int] = models.PositiveSmallIntegerField(
        _("approvals needed"), default=1
    )
    #: The time of the decision.
    created_at: models.DateTimeField[datetime, datetime] = models.DateTimeField(
        _("decided"), db_default=Now(), editable=False
    )
    #: The thread's epoch at the time of the decision, if the run waits for a possible undo. An
    #: unchanged epoch shows that no worker has resumed the run.
    undo_epoch: models.BigIntegerField[int | None, int | None] = models.BigIntegerField(
        default=None, db_default=None, null=True, editable=False
    )
    #: The time at which the decision was undone.
    undone_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        _("undone"), default=None, db_default=None, null=True, editable=False
    )

    class Meta:
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["interrupt", "version", "effective"], name="hitl_one_decision"
            ),
            models.UniqueConstraint(
                fields=["interrupt", "version", "by"],
                condition=models.Q(effective=None),
                name="hitl_one_approval",
            ),
            models.CheckConstraint(
                condition=models.Q(effective=True) | models.Q(effective=None),
                name="hitl_decision_or_approval",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["-created_at", "-id"], name="hitl_decision_newest"),
            models.Index(
                fields=["by"], condition=models.Q(by__isnull=False), name="hitl_decision_decider"
            ),
        ]
        permissions: ClassVar = [
            ("view_reviewer_insights", _("Can view insights by reviewer")),
            ("export_decisions", _("Can export decisions and the audit log")),
        ]

    def __str__(self) -> str:
        return f"{self.type} by {escape_invisible(self.by_label)}"


class AuditEntry(models.Model):
    """An entry of a thread's audit log.

    The entry's hash includes the hash of the previous entry.
    """

    #: The thread whose log contains the entry.
    thread: models.ForeignKey[Thread, Thread] = models.ForeignKey(
        Thread, on_delete=models.CASCADE, related_name="audit", db_index=False
    )
    thread_id: int
    #: The number of the entry in this log, from 1 without gaps.
    seq: models.PositiveIntegerField[int, int] = models.PositiveIntegerField()
    #: The action, such as ``decided``.
    verb: models.CharField[str, str] = models.CharField(_("action"), max_length=50)
    #: The id of the run or the interrupt.
    subject: models.CharField[str, str] = models.CharField(
        _("related object"), max_length=255, blank=True
    )
    #: The user who acted. NULL for code and people without an account.
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    #: The name of the person, also after the user was deleted.
    actor_label: models.CharField[str, str] = models.CharField(_("actor"), max_length=255)
    #: The interface: admin, api, link, code or another.
    via: models.CharField[str, str] = models.CharField(_("via"), max_length=20)
    #: The details of the action as JSON.
    detail = EncryptedJSONField(_("details"), default=dict)
    #: The time of the action.
    at: models.DateTimeField[datetime, datetime] = models.DateTimeField(_("time"))
    #: The hash of the previous entry.
    prev_hash: models.CharField[str, str] = models.CharField(max_length=64, blank=True)
    #: The hash of this entry and of the previous hash.
    hash: models.CharField[str, str] = models.CharField(max_length=64)

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit entries")
        ordering: ClassVar = ["thread", "seq"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["thread", "seq"], name="hitl_audit_seq"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["actor"], condition=models.Q(actor__isnull=False), name="hitl_audit_actor"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.verb}"
