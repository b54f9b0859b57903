"""The Insights page and its CSV downloads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from itertools import pairwise
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.formats import date_format, localize
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from hitl_django import services
from hitl_django.admin.base import ReadOnlyAdmin, View, name_graph
from hitl_django.admin.display.list_filters import ReviewerFilter
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.forms.local_time import to_local
from hitl_django.models import Decision, Interrupt, ReviewItem
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import get_policy
from hitl_django.services.reviews.periods import MAX_DAYS, Period, start_of_day

from ..exports import ExportedDecision, export_decisions
from ..models import SpotCheck
from ..reports import AGES, AgeBucket, DecisionCounts, ReviewReport, review_report
from . import plots
from .csv_download import stream_csv

logger = logging.getLogger("hitl_django")

#: Default number of days.
USUAL = 30
MINUTE, HOUR, DAY = 60, 3600, 86400
#: Distances between grid lines of a plot of times.
TIME_STEPS = (
    *(MINUTE * n for n in (1, 5, 15, 30)),
    *(HOUR * n for n in (1, 2, 4, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14, 30, 90, 365)),
)

#: Each form copies its fields, so forms can share this one.
_DAY = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")


class ReportFilterForm(forms.Form):
    """Form for the period and the graph."""

    first = forms.DateField(label=gettext_lazy("From"), widget=_DAY)
    last = forms.DateField(label=gettext_lazy("To"), widget=_DAY)
    graph = forms.ChoiceField(label=gettext_lazy("Graph"), required=False)

    def __init__(self, data: Mapping[str, Any], graphs: Sequence[str]) -> None:
        today = to_local(timezone.now()).date()
        usual = {"first": today - timedelta(USUAL - 1), "last": today, "graph": ""}
        given = {name: data.get(name) or value for name, value in usual.items()}
        super().__init__(given, auto_id="figures-%s", use_required_attribute=False)
        choice: Any = self.fields["graph"]
        choice.choices = [("", _("All")), *((name, name_graph(name)) for name in graphs)]

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        if "first" in cleaned and "last" in cleaned:
            try:
                cleaned["period"] = Period.build(cleaned["first"], cleaned["last"])
            except InvalidInputError:
                words = _(
                    "The end date must not be before the start date or more than "
                    "%(n)d days after it."
                )
                self.add_error("last", words % {"n": MAX_DAYS - 1})
        return cleaned


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its label, and the URL of the rows that it counts."""

    label: Any
    text: str
    url: str = ""
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot with its legend and a table of its numbers."""

    ident: str
    title: Any
    svg: str
    legend: Sequence[Any]
    head: Sequence[Any]
    rows: Sequence[tuple[Figure, Sequence[Figure]]]


@dataclass(frozen=True, slots=True)
class ShareRow:
    """Decisions by type and the agreement in spot checks, for a graph or a reviewer."""

    label: Figure
    bar: str
    figures: Sequence[Figure]
    agreement: Figure


@dataclass(frozen=True, slots=True)
class _Rows:
    """Builder of the URLs of counted rows."""

    request: HttpRequest
    period: Period
    graph: str | None

    def decisions(self, day: date | None = None, **narrowed: Any) -> str:
        query = {"type__in": ",".join(DECISION_TYPES), "effective__exact": 1, **self._graph()}
        return self._list(Decision, {**query, **self._days(day), **narrowed})

    def interrupts(self, day: date | None = None, **narrowed: Any) -> str:
        return self._list(Interrupt, {**self._graph(), **self._days(day), **narrowed})

    def still_waiting(self) -> str:
        return self._list(Interrupt, {"status__exact": "pending", **self._graph()})

    def waiting(self, band: AgeBucket) -> str:
        bounds = {"created_at__gte": band.since, "created_at__lt": band.until}
        times = {name: at.isoformat() for name, at in bounds.items() if at is not None}
        return self._list(Interrupt, {"status__exact": "pending", **self._graph(), **times})

    def overdue(self) -> str:
        return self._list(ReviewItem, {"show": "overdue", **self._graph()})

    def spot_checks(self, **narrowed: Any) -> str:
        query = {"result": "given", **self._graph(), **self._days(None)}
        return self._list(SpotCheck, {**query, **narrowed})

    def download(self, url: str) -> str:
        days = {"first": self.period.first.isoformat(), "last": self.period.last.isoformat()}
        return f"{url}?{urlencode({**days, **self._graph()})}"

    def _graph(self) -> dict[str, str]:
        return {"graph": self.graph} if self.graph else {}

    def _days(self, day: date | None) -> dict[str, str]:
        first, last = (day, day) if day is not None else (self.period.first, self.period.last)
        return {
            "created_at__gte": start_of_day(first).isoformat(),
            "created_at__lt": start_of_day(last + timedelta(1)).isoformat(),
        }

    def _list(self, model: Any, query: Mapping[str, Any]) -> str:
        url = find_admin_page(model, "changelist", request=self.request)
        return f"{url}?{urlencode(query)}" if url else ""


class ReportPages(ReadOnlyAdmin):
    """Mixin with the Insights page and its downloads."""

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {
            **super().own_pages(),
            "reports": ("reports/", self.reports_view),
            "csv": ("reports/decisions.csv", self.decisions_csv_view),
            "record": ("reports/record.csv", self.audit_csv_view),
        }

    def reports_view(self, request: HttpRequest) -> HttpResponse:
        """Show the statistics of a period."""
        form = self._read_form(request)
        context: dict[str, Any] = {"form": form, "title": _("Insights")}
        if form.is_valid():
            period, graph = form.cleaned_data["period"], form.cleaned_data["graph"] or None
            figures = review_report(request.user, period, graph=graph)
            rows = _Rows(request, period, graph)
            context |= _lay_out(figures, rows)
            if get_policy().may_export(request.user):
                context["csv_url"] = rows.download(self.url("csv", request))
                if services.may_view_reviewer_reports(request.user):
                    context["record_url"] = rows.download(self.url("record", request))
        status = 200 if form.is_valid() else 400
        return self.page(request, _("Insights"), "reports.html", status=status, **context)

    def decisions_csv_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return the decisions of a period as CSV."""
        columns = [*(each.name for each in fields(ExportedDecision)), "seconds"]
        return self._download(request, "decisions", columns, export_decisions)

    def audit_csv_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return the audit log of the threads with decisions in a period as CSV."""
        columns = [each.name for each in fields(services.ExportedEntry)]
        return self._download(request, "record", columns, services.export_audit_log)

    def _download(
        self,
        request: HttpRequest,
        name: str,
        columns: Sequence[str],
        export: Callable[..., Any],
    ) -> HttpResponseBase:
        form = self._read_form(request)
        if not form.is_valid():
            return HttpResponseRedirect(self.url("reports", request))
        period, graph = form.cleaned_data["period"], form.cleaned_data["graph"] or None
        try:
            found = export(request.user, period, graph=graph)
        except NotAllowedError as error:
            raise PermissionDenied(str(error)) from None
        logger.info(
            "User %s downloads %s of %s to %s.", request.user.pk, name, period.first, period.last
        )
        file = f"{name}-{period.first}-{period.last}.csv"
        return stream_csv(request, file, columns, map(attrgetter(*columns), found))

    def _read_form(self, request: HttpRequest) -> ReportFilterForm:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return ReportFilterForm(request.GET, services.list_graphs_with_interrupts(request.user))


def describe_seconds(seconds: float | None) -> str:
    """Return a duration as text in one unit."""
    if seconds is None:
        return "–"
    for unit, words in (
        (DAY, _("%(n)s d")),
        (HOUR, _("%(n)s h")),
        (MINUTE, _("%(n)s min")),
    ):
        if seconds >= unit:
            found = round(seconds / unit, 1)
            return words % {"n": localize(int(found) if found == int(found) else found)}
    return _("%(n)s s") % {"n": localize(round(seconds))}


def _lay_out(figures: ReviewReport, rows: _Rows) -> dict[str, Any]:
    waiting = sum(band.count for band in figures.waiting)
    timed = rows.decisions() if figures.median is not None else ""
    return {
        "tiles": [
            Figure(_("Requests"), localize(figures.asked), rows.interrupts()),
            Figure(_("Decided"), localize(figures.decided), rows.decisions()),
            Figure(_("Median time to decision"), describe_seconds(figures.median), timed),
            Figure(_("90th percentile"), describe_seconds(figures.p90), timed),
            Figure(_("Pending now"), localize(waiting), rows.still_waiting()),
            Figure(
                _("Overdue now"), localize(figures.overdue), rows.overdue(), figures.overdue > 0
            ),
        ],
        "sample": figures.sample,
        "plots": [_plot_counts(figures, rows), _plot_times(figures, rows)],
        "ages": _list_ages(figures.waiting, rows),
        "types": [(one.name, one.participle) for one in DECISION_TYPES.values()],
        "graphs": [
            _lay_out_shares(f"graph-{n}", one, name_graph(one.key), rows, {"graph": one.key})
            for n, one in enumerate(figures.graphs)
        ],
        "reviewers": None
        if figures.reviewers is None
        else [
            _lay_out_shares(
                f"reviewer-{n}",
                one,
                escape_hidden(one.label) or _("(without an account)"),
                rows,
                {"by": ReviewerFilter.NOBODY if one.key is None else one.key},
            )
            for n, one in enumerate(figures.reviewers)
        ],
    }


def _plot_counts(figures: ReviewReport, rows: _Rows) -> Plot:
    names = _("Requests"), _("Decided")
    description = _("%(asked)s requested, %(decided)s decided in total.") % {
        "asked": localize(figures.asked),
        "decided": localize(figures.decided),
    }
    values = [day.asked for day in figures.days], [day.decided for day in figures.days]
    title = _("Requests and decisions per day")
    return Plot(
        "counts",
        title,
        _draw("counts", title, description, figures, names, values, describe_level=_describe_count),
        names,
        (_("Day"), *names),
        [
            (
                Figure("", date_format(day.day, "SHORT_DATE_FORMAT")),
                (
                    Figure(names[0], localize(day.asked), rows.interrupts(day.day)),
                    Figure(names[1], localize(day.decided), rows.decisions(day.day)),
                ),
            )
            for day in figures.days
        ],
    )


def _plot_times(figures: ReviewReport, rows: _Rows) -> Plot:
    names = _("Median"), _("90th percentile")
    times = {"median": describe_seconds(figures.median), "p90": describe_seconds(figures.p90)}
    description = _("Of all: median %(median)s, 90th percentile %(p90)s.") % times
    values = [day.median for day in figures.days], [day.p90 for day in figures.days]
    title = _("Time to decision")
    return Plot(
        "times",
        title,
        _draw(
            "times",
            title,
            description,
            figures,
            names,
            values,
            describe_level=describe_seconds,
            steps=TIME_STEPS,
        ),
        names,
        (_("Day"), *names),
        [
            (
                Figure("", date_format(day.day, "SHORT_DATE_FORMAT")),
                [
                    Figure(
                        name,
                        describe_seconds(time),
                        rows.decisions(day.day) if time is not None else "",
                    )
                    for name, time in zip(names, (day.median, day.p90), strict=True)
                ],
            )
            for day in figures.days
        ],
    )


def _draw(
    ident: str,
    title: Any,
    description: Any,
    figures: ReviewReport,
    names: Sequence[Any],
    values: Sequence[Sequence[float | None]],
    **options: Any,
) -> str:
    days = [date_format(day.day, "SHORT_DATE_FORMAT") for day in figures.days]
    series = [plots.Series(*one) for one in zip(names, values, strict=True)]
    return plots.draw_lines(ident, title, description, days, series, **options)


def _describe_count(value: float) -> str:
    return localize(round(value))


def _list_ages(bands: Sequence[AgeBucket], rows: _Rows) -> list[tuple[Figure, str]]:
    """Return the age buckets, each with the width of its bar relative to the largest."""
    most = max((band.count for band in bands), default=0)
    ages = [describe_seconds(age.total_seconds()) for age in AGES]
    labels = [
        _("less than %(age)s") % {"age": ages[0]},
        *(_("%(from)s to %(to)s") % {"from": one, "to": next_} for one, next_ in pairwise(ages)),
        _("more than %(age)s") % {"age": ages[-1]},
    ]
    found = []
    for n, (band, label) in enumerate(zip(bands, labels, strict=True)):
        figure = Figure(label, localize(band.count), rows.waiting(band))
        bar = plots.draw_shares(
            f"age-{n}",
            f"{label}: {figure.text}",
            [("waiting", band.count), ("", most - band.count)],
        )
        found.append((figure, bar))
    return found


def _lay_out_shares(
    ident: str, shares: DecisionCounts, label: str, rows: _Rows, narrowed: dict[str, Any]
) -> ShareRow:
    words = [
        f"{DECISION_TYPES[name].participle}: {localize(count)}"
        for name, count in shares.counts.items()
        if count
    ]
    agreement = Figure("", "–")
    if shares.checked:
        share = round(100 * shares.agreed / shares.checked)
        texts = {"n": shares.agreed, "of": shares.checked, "share": share}
        text = _("%(n)d of %(of)d (%(share)d %%)") % texts
        agreement = Figure(_("Approvals"), text, rows.spot_checks(**narrowed))
    return ShareRow(
        Figure("", label, rows.decisions(**narrowed)),
        plots.draw_shares(ident, ", ".join(words), list(shares.counts.items())),
        [
            Figure(
                DECISION_TYPES[name].participle,
                localize(count),
                rows.decisions(**narrowed, type__in=name) if count else "",
            )
            for name, count in shares.counts.items()
        ],
        agreement,
    )
