"""Overview page, the start page of operators, with counts of runs, requests and workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.formats import localize, time_format
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from hitl_django import services
from hitl_django.admin.base import ReadOnlyAdmin, View, format_pill, name_graph
from hitl_django.admin.display.refusal_messages import describe_worker_outage
from hitl_django.admin.display.short_times import format_since, format_until, mark_time
from hitl_django.extensions import OverviewRow, OverviewTable, list_extensions
from hitl_django.forms.json_input import escape_hidden
from hitl_django.forms.local_time import to_local
from hitl_django.models import Interrupt, ReviewItem, Run
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import get_policy
from hitl_django.services.runs import overview

#: Number of the newest runs of each state whose errors are grouped.
READ = 50
#: Maximum number of rows under "Needs attention".
ROWS = 8
#: Maximum length of an error text.
ERROR_LENGTH = 160
#: Size of the chart, and the part of it with the bars.
WIDTH, HEIGHT, LEFT, TOP, BASE = 720, 128, 44, 12, 102
#: Maximum of the chart's axis, in the first unit that is large enough.
SCALES = (4, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


@dataclass(frozen=True, slots=True)
class OverviewFigure:
    """A count at the top of the page, with a link to the rows that it counts."""

    label: Any
    value: Any
    detail: Any
    url: str
    is_alert: bool = False
    is_late: bool = False


@dataclass(slots=True)
class StuckGroup:
    """Failed or parked runs of one graph, all with the same error."""

    error: str
    graph: str
    state: str
    newest: Run
    runs: list[Run] = field(default_factory=list)

    @property
    def url(self) -> Any:
        return self.newest.link  # type: ignore[attr-defined]

    @property
    def pill(self) -> str:
        return format_pill(self.state)

    @property
    def age(self) -> Any:
        return _format_cell(self.newest.finished_at or self.newest.queued_at)


@dataclass(frozen=True, slots=True)
class AddedTable:
    """A table of an optional app on the Overview page, with the URLs of its rows."""

    title: Any
    url: str
    columns: Sequence[Any]
    rows: Sequence[tuple[str, Sequence[Any], OverviewRow]]


class OverviewPages(ReadOnlyAdmin):
    """Overview page, for users who may view the workers."""

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {**super().own_pages(), "overview": ("overview/", self.overview_view)}

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """Show counts, failed and parked runs, backlog, workers and the tables of optional apps."""
        may_view = get_policy().may_view_workers(request.user)
        if not may_view or not self.has_view_permission(request):
            raise PermissionDenied
        figures = overview.read_operator_stats(request.user)
        workers = overview.list_workers()
        outage = services.find_worker_outage()
        return self.page(
            request,
            _("Overview"),
            "overview.html",
            outage=None if outage is None else describe_worker_outage(outage),
            figures=list(self._list_figures(request, figures, workers)),
            stuck=self._list_stuck(request),
            runs_url=self.url("changelist", request),
            queue_url=find_admin_page(ReviewItem, "changelist", request=request),
            chart=draw_hours(figures.hours),
            backlogs=[
                (name_graph(backlog.graph), backlog, format_since(backlog.oldest_at))
                for backlog in overview.list_backlogs(request.user)
                if backlog.oldest_at is not None
            ],
            workers=[(worker, _format_cell(worker.seen_at)) for worker in workers],
            tables=list(_list_tables(request)),
        )

    def _list_figures(
        self,
        request: HttpRequest,
        figures: overview.OperatorStats,
        workers: Sequence[overview.WorkerRow],
    ) -> Iterator[OverviewFigure]:
        runs_url = self.url("changelist", request)
        last_hour = figures.hours[-1]
        by_state = {
            Run.State.FAILED: (figures.failed, _describe_failures(last_hour.failed)),
            Run.State.PARKED: (figures.parked, _("Retry or cancel") if figures.parked else ""),
            Run.State.RUNNING: (figures.running, ""),
            Run.State.QUEUED: (figures.queued, _describe_age(figures.oldest_queued_at)),
        }
        for state, (count, detail) in by_state.items():
            is_alert = count > 0 and state in (Run.State.FAILED, Run.State.PARKED)
            url = f"{runs_url}?state__exact={state}"
            yield OverviewFigure(
                Run.State(state).label, _format_count(count), detail, url, is_alert
            )
        queue_url = find_admin_page(ReviewItem, "changelist", request=request)
        late = ngettext("%(n)s overdue", "%(n)s overdue", figures.overdue)
        yield OverviewFigure(
            Run.State.INTERRUPTED.label,
            _format_count(figures.pending),
            late % {"n": _format_count(figures.overdue)} if figures.overdue else "",
            queue_url,
            is_late=True,
        )
        yield self._describe_oldest(request, queue_url)
        yield OverviewFigure(
            _("throughput"),
            _("%(n)s / h") % {"n": _format_count(last_hour.ended)},
            _("Runs in the last hour"),
            runs_url,
        )
        alive = [worker for worker in workers if worker.is_recent]
        seen = max((worker.seen_at for worker in workers), default=None)
        yield OverviewFigure(
            _("workers"),
            _format_count(len(alive)),
            _("Never seen")
            if seen is None
            else _("Seen %(time)s ago") % {"time": format_since(seen)},
            "#workers",
            is_alert=not alive,
        )

    def _describe_oldest(self, request: HttpRequest, queue_url: str) -> OverviewFigure:
        oldest: Interrupt | None = overview.find_oldest_pending(request.user)
        if oldest is None:
            return OverviewFigure(_("oldest request"), "–", "", queue_url)
        url = find_admin_page(ReviewItem, "change", oldest.pk, request=request)
        age = format_since(oldest.created_at)
        return OverviewFigure(
            _("oldest request"), age, escape_hidden(oldest.title), url or queue_url
        )

    def _list_stuck(self, request: HttpRequest) -> list[StuckGroup]:
        """Return the newest failed and parked runs, grouped by error.

        The newest error comes first.
        """
        policy, groups = get_policy(), dict[tuple[str, ...], StuckGroup]()
        for run in overview.list_stuck_runs(request.user, READ):
            if not policy.may_operate(request.user, run):
                continue
            words = run.error.strip().partition("\n")[0][:ERROR_LENGTH]
            run.link = self.url("change", request, run.pk)  # type: ignore[attr-defined]
            key = (run.state, run.graph, words)
            group = groups.setdefault(key, StuckGroup(words, run.graph, run.state, run))
            group.runs.append(run)
        found = sorted(groups.values(), key=lambda group: group.newest.created_at, reverse=True)
        return found[:ROWS]


def _list_tables(request: HttpRequest) -> Iterator[AddedTable]:
    for extension in list_extensions():
        for build in extension.overview:
            table = build(request.user)
            if table is not None:
                yield _link_table(request, table)


def _link_table(request: HttpRequest, table: OverviewTable) -> AddedTable:
    def link(row: OverviewRow) -> str:
        if row.pk is None:
            return ""
        return find_admin_page(table.model, "change", row.pk, request=request)

    return AddedTable(
        table.title,
        find_admin_page(table.model, "changelist", request=request),
        table.columns,
        [(link(row), [_format_cell(cell) for cell in row.cells], row) for row in table.rows],
    )


def _format_cell(cell: Any) -> Any:
    if not isinstance(cell, datetime):
        return localize(cell) if isinstance(cell, int) else escape_hidden(str(cell))
    if cell > timezone.now():
        return mark_time(cell, _("in %(time)s") % {"time": format_until(cell)})
    return mark_time(cell, _("%(time)s ago") % {"time": format_since(cell)})


def _format_count(count: int) -> str:
    return f"{localize(overview.MOST)}+" if count >= overview.MOST else str(localize(count))


def _describe_failures(count: int) -> str:
    if not count:
        return ""
    words = ngettext("%(n)s in the last hour", "%(n)s in the last hour", count)
    return words % {"n": _format_count(count)}


def _describe_age(moment: datetime | None) -> Any:
    return "" if moment is None else _("Oldest: %(time)s") % {"time": format_since(moment)}


def draw_hours(hours: Sequence[overview.HourCount]) -> str:
    """Return a bar chart of the runs that ended in each hour, as HTML."""
    most = max(hour.ended for hour in hours)
    scale = next((each for each in SCALES if each >= most), overview.MOST)
    step = (WIDTH - LEFT) / len(hours)
    parts = [*_draw_scale(scale)]
    for number, hour in enumerate(hours):
        x = LEFT + number * step
        parts += _draw_bar("bar", x, step, hour.ended / scale)
        parts += _draw_bar("bad", x, step, hour.failed / scale)
        if number % 6 == 0 and number < len(hours) - 1:
            at = time_format(to_local(hour.start), "TIME_FORMAT")
            parts.append(format_html('<text x="{}" y="122">{}</text>', f"{x:.1f}", at))
    texts = {
        "ended": _format_count(sum(hour.ended for hour in hours)),
        "failed": _format_count(sum(hour.failed for hour in hours)),
    }
    return format_html(
        '<svg class="hitl-plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>',
        WIDTH,
        HEIGHT,
        _("Runs per hour. Ended: %(ended)s. Failed: %(failed)s.") % texts,
        _join(parts),
    )


def _draw_scale(scale: int) -> Iterator[str]:
    for level in (scale, scale // 2, 0):
        y = BASE - (BASE - TOP) * level / scale
        yield format_html('<path class="g" d="M{} {}H{}"/>', LEFT - 8, f"{y:.1f}", WIDTH)
        yield format_html('<text x="0" y="{}">{}</text>', f"{y + 4:.1f}", localize(level))


def _draw_bar(kind: str, x: float, step: float, share: float) -> Iterator[str]:
    height = (BASE - TOP) * min(share, 1)
    if height:
        yield format_html(
            '<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="2"/>',
            kind,
            f"{x:.1f}",
            f"{BASE - height:.1f}",
            f"{step * 0.72:.1f}",
            f"{height:.1f}",
        )


def _join(parts: Iterable[str]) -> str:
    return format_html_join("", "{}", ((part,) for part in parts))
