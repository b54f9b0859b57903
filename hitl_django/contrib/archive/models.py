"""The model of archived threads."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.extensions import require_app
from hitl_django.json_text.sanitize import escape_invisible
from hitl_django.models import Run
from hitl_django.models.functions import Now

require_app("hitl_django.contrib.archive")


class ArchivedThread(models.Model):
    """An archived thread: columns for finding it, and one document with all its rows.

    A thread is either in this table or in its original tables. On PostgreSQL, the table is
    partitioned by the month of ``ended_at`` (partitions.py), so that an operator can detach or drop
    a month. The primary key is then (id, ended_at).
    """

    id = models.BigIntegerField(primary_key=True, editable=False)
    thread_id = models.CharField(_("thread id"), max_length=255)
    graph = models.CharField(_("graph"), max_length=200, blank=True)
    #: Idempotency key of the thread's first run.
    key = models.CharField(_("idempotency key"), max_length=255, null=True, blank=True)
    subject_type = models.ForeignKey(
        ContentType,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    subject_id = models.CharField(max_length=255, blank=True)
    #: State of the thread's last run.
    state = models.CharField(_("state"), max_length=20, choices=Run.State.choices)
    runs = models.PositiveIntegerField(_("runs"))
    interrupts = models.PositiveIntegerField(_("requests"))
    started_at = models.DateTimeField(_("created"))
    ended_at = models.DateTimeField(_("ended"))
    archived_at = models.DateTimeField(_("archived"), db_default=Now(), editable=False)
    document = models.BinaryField()
    digest = models.CharField(max_length=32)

    class Meta:
        verbose_name = _("archived thread")
        verbose_name_plural = _("archived threads")
        ordering: ClassVar = ["-ended_at", "-id"]
        indexes: ClassVar = [
            models.Index(fields=["thread_id"], name="hitl_archived_thread"),
            models.Index(
                fields=["graph", "key"],
                condition=models.Q(key__isnull=False),
                name="hitl_archived_key",
            ),
            models.Index(
                fields=["subject_type", "subject_id"],
                condition=models.Q(subject_type__isnull=False),
                name="hitl_archived_subject",
            ),
            models.Index(fields=["ended_at", "id"], name="hitl_archived_ended"),
            models.Index(fields=["graph", "ended_at", "id"], name="hitl_archived_graph_ended"),
        ]

    def __str__(self) -> str:
        return escape_invisible(self.thread_id)
