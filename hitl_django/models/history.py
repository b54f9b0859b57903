"""The engine's record: checkpoints, channel values by version, and pending writes.

Their foreign keys have no index of their own: each table's unique constraint begins with the
thread, and another index would be one more page to write in every super-step.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.json_text.sanitize import escape_invisible

from .fields import JSONTextField
from .functions import Now
from .threads import Thread


class Checkpoint(models.Model):
    """The state of a graph between two super-steps, less the larger channel values.

    ``data`` holds the ids and versions, ``ChannelBlob`` the values that the versions name; but
    numbers and short texts are ``scalars`` of every checkpoint, as long as there are few of them.
    ``writes`` are those of the tasks that ended with it, which began from its parent.
    """

    thread = models.ForeignKey(
        Thread, on_delete=models.CASCADE, related_name="checkpoints", db_index=False
    )
    ns = models.TextField(_("namespace"), blank=True)
    checkpoint_id = models.CharField(max_length=36)
    parent_id = models.CharField(max_length=36, null=True, blank=True)
    step = models.IntegerField(_("step"))
    source = models.CharField(_("source"), max_length=20)
    data = models.BinaryField()
    digest = models.CharField(max_length=32)
    metadata = models.BinaryField()
    scalars = models.BinaryField(default=bytes)
    writes = models.BinaryField(default=bytes)
    epoch = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("checkpoint")
        verbose_name_plural = _("checkpoints")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["thread", "ns", "checkpoint_id"], name="hitl_checkpoint_id"
            ),
        ]

    def __str__(self) -> str:
        return self.checkpoint_id


class ChannelBlob(models.Model):
    """A channel's value as of one version; stored once, whatever the number of checkpoints."""

    thread = models.ForeignKey(
        Thread, on_delete=models.CASCADE, related_name="blobs", db_index=False
    )
    ns = models.TextField(_("namespace"), blank=True)
    channel = models.TextField(_("channel"))
    version = models.BigIntegerField(_("version"))
    data = models.BinaryField()
    digest = models.CharField(max_length=32)

    class Meta:
        verbose_name = _("channel value")
        verbose_name_plural = _("channel values")
        constraints: ClassVar = [
            # The version stands before the channel: a checkpoint is loaded by its versions, and
            # the index then leads straight to them however long the thread's history is.
            models.UniqueConstraint(
                fields=["thread", "ns", "version", "channel"], name="hitl_channel_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{escape_invisible(self.channel)}@{self.version}"


class GraphShape(models.Model):
    """The shape that a graph had in one version of the code, as engine.fingerprint describes it."""

    fingerprint = models.CharField(primary_key=True, max_length=32)
    graph = models.CharField(_("graph"), max_length=200)
    version = models.CharField(_("version"), max_length=50, blank=True)
    shape = JSONTextField()
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("graph structure")
        verbose_name_plural = _("graph structures")

    def __str__(self) -> str:
        return f"{escape_invisible(self.graph)} {self.fingerprint}"


class PendingWrite(models.Model):
    """What one task wrote on top of a checkpoint, where no checkpoint that followed holds it.

    The task ended before its siblings, asked, failed or waits, or wrote much. Slot 0 holds all its
    channel writes as one unit and is kept as first written; a control write has a slot of its own
    (constants.CONTROL_SLOTS) and replaces the earlier one.
    """

    thread = models.ForeignKey(
        Thread, on_delete=models.CASCADE, related_name="writes", db_index=False
    )
    ns = models.TextField(_("namespace"), blank=True)
    checkpoint_id = models.CharField(max_length=36)
    task_id = models.CharField(max_length=36)
    task_path = models.TextField(blank=True)
    slot = models.SmallIntegerField()
    data = models.BinaryField()
    digest = models.CharField(max_length=32)
    epoch = models.BigIntegerField(default=0)

    class Meta:
        verbose_name = _("pending write")
        verbose_name_plural = _("pending writes")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["thread", "ns", "checkpoint_id", "task_id", "slot"],
                name="hitl_write_slot",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}#{self.slot}"
