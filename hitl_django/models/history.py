"""Models for the engine's history: checkpoints, channel values by version, and pending writes.

Foreign keys of these models have no separate index, because each unique constraint already begins
with the thread. A separate index would cost a page write in every super-step.
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
    """The state of a graph between two super-steps, without larger channel values.

    ``data`` contains the id of the checkpoint and the versions of the channels. ``scalars``
    contains the small values, such as numbers and short texts. Larger values are rows of
    ``ChannelBlob``. If there are too many small values for ``scalars``, all values are rows of
    ``ChannelBlob``. ``writes`` are the writes of the tasks that led from the parent to this
    checkpoint.
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
    """The value of a channel in one version.

    Many checkpoints can share the value.
    """

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
            # The version precedes the channel in the index, because a checkpoint is loaded by its
            # versions. Loading then takes the same time for threads of any length.
            models.UniqueConstraint(
                fields=["thread", "ns", "version", "channel"], name="hitl_channel_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{escape_invisible(self.channel)}@{self.version}"


class GraphShape(models.Model):
    """The structure of a graph in one version of the code.

    ``engine.graph.fingerprint`` computes the structure (``shape``) and its hash (``fingerprint``).
    """

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
    """Writes of one task that started from a checkpoint.

    Writes are stored in this table if, for example, the task ended before other tasks of its
    super-step, was interrupted, or failed. The writes of tasks that end with their super-step are
    stored in the row of the next checkpoint if they are small.

    A task has at most one row for each ``slot``, which is the number of a kind of write. Slot 0
    contains all channel writes of the task and is never replaced. Each kind of control write has
    its own slot (constants.CONTROL_SLOTS), in which a new write replaces the earlier write.
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
