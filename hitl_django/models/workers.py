"""Model for heartbeats of workers."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .functions import Now


class WorkerHeartbeat(models.Model):
    """The last heartbeat of a worker process.

    A process writes its row after a task, so an idle process has no recent row. ``at`` is on the
    database's clock.
    """

    owner = models.CharField(max_length=255, unique=True)
    host = models.CharField(_("host"), max_length=255)
    pid = models.PositiveBigIntegerField(_("process"))
    version = models.CharField(_("version"), max_length=50)
    at = models.DateTimeField(_("last seen"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        ordering: ClassVar = ["-at"]

    def __str__(self) -> str:
        return self.owner
