"""Events of runs, and the choice of a graph or of a start which events are recorded."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import EncryptedJSONField
from .functions import Now
from .threads import Run

#: That a run was queued, asks, or came to an end: each is an event of its own kind, its state.
STATES = "states"
#: The stream modes whose chunks can be stored.
MODES = ("values", "updates", "messages", "custom", "tasks", "checkpoints")
#: That the chunks of subgraphs are stored, too; what their nodes write is stored in any case.
SUBGRAPHS = "subgraphs"
KINDS = (STATES, *MODES, SUBGRAPHS)


def encode_kinds(names: Iterable[str]) -> str:
    """Return a choice of kinds of events as it is stored; ValueError where there is no such kind.

    Who chooses any kind gets the states as well. An empty choice records no events.
    """
    if isinstance(names, str):
        names = (names,)
    wanted = set(names)
    unknown = wanted.difference(KINDS)
    if unknown:
        raise ValueError(
            f"Unknown event kinds: {', '.join(sorted(map(repr, unknown)))}. Valid kinds: "
            f"{', '.join(KINDS)}."
        )
    return ",".join(kind for kind in KINDS if kind in wanted or (kind == STATES and wanted))


@cache
def decode_modes(choice: str) -> frozenset[str]:
    """Return the stream modes in a stored choice."""
    return frozenset(choice.split(",")).intersection(MODES)


def includes_subgraphs(choice: str) -> bool:
    """Return whether a stored choice includes the chunks of subgraphs."""
    return choice.endswith(SUBGRAPHS)


class RunEvent(models.Model):
    """One thing that became of a run, numbered from 1 and without gaps.

    It is written in the transaction of the change that it describes, so it is there exactly if that
    was stored; but for what models say, which is written while they say it. ``kind`` is a state of
    the run or a stream mode of the engine, and ``ns`` the namespace of the graph that it is about,
    empty for the run's own; ``data`` is made for people, and ``truncated`` where it was cut off.
    """

    # The unique constraint below begins with the run: another index would be one more page to
    # write in every super-step that is recorded.
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="+", db_index=False, verbose_name=_("run")
    )
    seq = models.PositiveIntegerField(_("number"))
    kind = models.CharField(_("type"), max_length=20)
    ns = models.TextField(_("namespace"), blank=True, default="")
    data = EncryptedJSONField(_("data"))
    truncated = models.BooleanField(_("truncated"), default=False)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "seq"], name="hitl_event_seq"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"
