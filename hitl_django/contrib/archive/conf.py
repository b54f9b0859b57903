"""Settings of the archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hitl_django.conf.kinds import days_by_graph, setting


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """The settings of the archive."""

    ARCHIVE_DAYS: float | Mapping[str, float | None] | None = setting(
        None,
        "Archive threads this many days after their last run ended. A dict sets days per "
        "graph, with '*' for all others. None: never.",
        days_by_graph,
    )
