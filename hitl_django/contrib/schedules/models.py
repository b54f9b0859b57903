"""The model of schedules."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.ids import new_id
from hitl_django.extensions import require_app
from hitl_django.json_text.sanitize import escape_invisible
from hitl_django.models.fields import EncryptedJSONField, EncryptedTextField, JSONTextField
from hitl_django.models.functions import Now

require_app("hitl_django.contrib.schedules")


class Schedule(models.Model):
    """A cron expression that starts runs of a graph, with the times of its last and next run.

    The sweep, a periodic job, starts a run and changes ``next_at`` in one transaction. Each due
    time therefore either has one run or is counted as skipped.
    """

    class Overlap(models.TextChoices):
        """The rule for a due time at which the schedule's last run is still active."""

        SKIP = "skip", _("skip the scheduled run")
        ALLOW = "allow", _("start another run")

    #: The id of the schedule.
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: The name of the graph.
    graph = models.CharField(_("graph"), max_length=200)
    #: A text that describes the schedule for people.
    description = models.CharField(_("description"), max_length=255, blank=True)
    #: The cron expression, with five fields.
    expression = models.CharField(_("cron expression"), max_length=100)
    #: The time zone of the expression, such as ``Europe/Berlin``.
    timezone = models.CharField(_("time zone"), max_length=64)
    #: The input of each run.
    input = EncryptedJSONField(_("input"))
    #: The context of each run.
    context = EncryptedJSONField(null=True, blank=True, editable=False)
    #: The ``configurable`` of each run.
    configurable = EncryptedJSONField(null=True, blank=True, editable=False)
    #: The id of the thread that each run continues. NULL if each run has a new thread.
    thread_id = models.CharField(_("thread"), max_length=255, null=True, blank=True, editable=False)
    #: Metadata of each run and of new threads: a JSON object.
    metadata = JSONTextField(_("metadata"), default=dict, blank=True, editable=False)
    #: The rule for a due time at which the last run, or any run of the thread, has not ended.
    overlap = models.CharField(
        _("overlap"), max_length=10, choices=Overlap.choices, default=Overlap.SKIP
    )
    #: Whether ``schedule()`` defines the schedule in code. The sweep then updates the row from the
    #: code.
    is_registered = models.BooleanField(_("defined in code"), default=False, editable=False)
    #: Whether the schedule starts runs. False while it is paused.
    is_active = models.BooleanField(_("active"), default=True)
    #: The next due time. NULL if the expression has none until the end of the schedule.
    next_at = models.DateTimeField(_("next run"), null=True, blank=True, editable=False)

    #: The time after which no runs are started, or NULL.
    ends_at = models.DateTimeField(_("end"), null=True, blank=True, editable=False)

    #: The number of started runs.
    started = models.PositiveIntegerField(_("runs started"), default=0, editable=False)
    #: The due time of the last started run.
    last_due_at = models.DateTimeField(_("last due time"), null=True, blank=True, editable=False)
    #: The id of this run. Not a foreign key, because deleting a run would search for schedules.
    last_run_id = models.UUIDField(_("last run"), null=True, blank=True, editable=False)
    #: The number of due times without a run. A due time was missed because no sweep ran, was
    #: skipped because the last run was active, or failed with ``last_error``. The next run clears
    #: the error.
    skipped = models.PositiveIntegerField(_("skipped runs"), default=0, editable=False)
    #: The newest due time without a run.
    last_skipped_at = models.DateTimeField(
        _("last skipped at"), null=True, blank=True, editable=False
    )
    #: The error of the last failed start. The next run clears the error.
    last_error = EncryptedTextField(_("error"), blank=True, editable=False)

    #: The user who starts the runs. An empty label means that code starts them.
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("owner"),
        editable=False,
    )
    #: The name of the user who starts the runs. Empty if code starts the runs.
    owner_label = models.CharField(_("owner"), max_length=255, blank=True, editable=False)
    #: The time at which the schedule was created.
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    #: The time at which the schedule was last changed, paused or resumed.
    updated_at = models.DateTimeField(_("changed"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        ordering: ClassVar = ["-created_at", "-id"]
        permissions: ClassVar = [
            ("manage_schedules", _("Can create, edit, pause and resume schedules"))
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["graph"],
                condition=models.Q(is_registered=True),
                name="hitl_registered_schedule",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["next_at"], condition=models.Q(is_active=True), name="hitl_schedule_due"
            ),
        ]

    def __str__(self) -> str:
        return escape_invisible(self.description or f"{self.graph} {self.expression}")
