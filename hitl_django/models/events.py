"""Model for the events of runs, and the kinds of events that a run stores."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import ClassVar, get_args

from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.arguments import check_names
from hitl_django.engine.types import StreamMode

from .fields import EncryptedJSONField
from .functions import Now
from .threads import Run

#: Queueing, interruption and end of a run. The kind of each of these events is the run's state.
STATES = "states"
#: Stream modes whose chunks can be stored.
MODES = tuple(mode for mode in get_args(StreamMode) if mode not in ("tools", "debug"))
#: Chunks of subgraphs. Writes of nodes in subgraphs are stored in any case.
SUBGRAPHS = "subgraphs"
KINDS = (STATES, *MODES, SUBGRAPHS)


def encode_kinds(names: Iterable[str]) -> str:
    """Return the kinds of events in the form stored in ``Run.events``.

    If ``names`` contains a kind, the kind "states" is added. Without kinds, no events are stored.

    Raises:
        ValueError: if a kind is unknown.
        TypeError: if ``names`` is neither a list of names nor a single name.
    """
    wanted = {names} if isinstance(names, str) else {*check_names("events", names)}
    unknown = wanted.difference(KINDS)
    if unknown:
        raise ValueError(
            f"Unknown event kinds: {', '.join(sorted(map(repr, unknown)))}. Valid kinds: "
            f"{', '.join(KINDS)}."
        )
    return ",".join(kind for kind in KINDS if kind in wanted or (kind == STATES and wanted))


@cache
def decode_modes(choice: str) -> frozenset[str]:
    """Return the stream modes in ``choice``, a value of ``Run.events``."""
    return frozenset(choice.split(",")).intersection(MODES)


def includes_subgraphs(choice: str) -> bool:
    """Return whether ``choice``, a value of ``Run.events``, includes the chunks of subgraphs."""
    return choice.endswith(SUBGRAPHS)


class RunEvent(models.Model):
    """An event of a run. Events are numbered from 1 without gaps.

    An event is stored in the transaction of the change that it describes. The output of a language
    model is stored while the model generates it, before the node ends. ``kind`` is a state of the
    run or a stream mode. ``ns`` is the namespace of the subgraph, or empty for the run's own graph.
    ``data`` is shortened for display. If a part of the data was omitted, ``truncated`` is true.
    """

    # The unique constraint below begins with the run. A separate index would cost one page write in
    # every super-step with stored events.
    #: The run of the event.
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="+", db_index=False, verbose_name=_("run")
    )
    #: The number of the event, from 1 without gaps.
    seq = models.PositiveIntegerField(_("number"))
    #: A state of the run, or a stream mode.
    kind = models.CharField(_("type"), max_length=20)
    #: The namespace of the graph. Empty for the run's own graph.
    ns = models.TextField(_("namespace"), blank=True, default="")
    #: The content of the event, shortened for display.
    data = EncryptedJSONField(_("data"))
    #: Whether a part of the content was omitted.
    truncated = models.BooleanField(_("truncated"), default=False)
    #: The time at which the event was stored.
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "seq"], name="hitl_event_seq"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"
