"""The keys of HITL that this app has, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hitl_django.conf.kinds import days_by_graph, setting


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """The settings of the archive."""

    ARCHIVE_DAYS: float | Mapping[str, float | None] | None = setting(
        None,
        "Days after its last run ended that the sweep archives a thread, or days by graph, where "
        "'*' is all others; None: never.",
        days_by_graph,
    )
