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
        "Number of days from the end of a thread's last run until the thread is archived. A dict "
        "sets the days by graph, with '*' for all other graphs. None: threads are not archived.",
        days_by_graph,
    )
