"""The Insights page and its CSV downloads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
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
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from hitl_django import services
from hitl_django.admin.base import ReadOnlyAdmin, View, name_graph
from hitl_django.admin.display.initials import get_initials
from hitl_django.admin.display.short_times import format_since
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.forms.local_time import to_local
from hitl_django.models import Decision, Interrupt, ReviewItem
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import get_policy
from hitl_django.services.reviews.periods import MAX_DAYS, NOBODY, Period, start_of_day

from ..exports import ExportedDecision, export_decisions
from ..models import SpotCheck
from ..reports import (
    AGES,
    AgeBucket,
    DecisionCounts,
    PreviousPeriod,
    ReviewReport,
    TimeBucket,
    review_report,
)
from . import plots
from .csv_download import stream_csv

logger = logging.getLogger("hitl_django")

#: Numbers of days that the page offers, and the default.
PERIODS, USUAL = (7, 30, 90, 365), 30
MINUTE, HOUR, DAY = 60, 3600, 86400
#: Distances between grid lines of a plot of times.
TIME_STEPS = (
    *(MINUTE * n for n in (1, 5, 15, 30)),
    *(HOUR * n for n in (1, 2, 4, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14, 30, 90, 365)),
)

#: The decision types that count as approvals, as a parameter of links.
APPROVALS = ",".join(name for name, row in DECISION_TYPES.items() if row.is_approval)
#: Age buckets from this one on are highlighted.
OLD = 3

#: Each form copies its fields, so forms can share this one.
_DAY = forms.DateInput(attrs={"type": "date", "class": "hitl-input"}, format="%Y-%m-%d")


class ReportFilterForm(forms.Form):
    """Form for the period, the graph and the reviewer.

    ``days`` selects a period up to today, unless ``first`` and ``last`` are given.
    """

    first = forms.DateField(label=gettext_lazy("From"), widget=_DAY)
    last = forms.DateField(label=gettext_lazy("To"), widget=_DAY)
    graph = forms.ChoiceField(required=False)
    by = forms.CharField(required=False, max_length=100)

    def __init__(self, data: Mapping[str, Any], graphs: Sequence[str]) -> None:
        today = to_local(timezone.now()).date()
        given = {name: data[name] for name in ("first", "last", "graph", "by") if data.get(name)}
        found = [n for n in PERIODS if str(n) == data.get("days")] or [USUAL]
        #: The selected number of days, or None if the days are given.
        self.days = None if "first" in given or "last" in given else found[0]
        usual = {"first": today - timedelta(found[0] - 1), "last": today}
        super().__init__({**usual, **given}, auto_id="figures-%s", use_required_attribute=False)
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

    @property
    def narrowed(self) -> dict[str, str | None]:
        """The selected graph and reviewer, as keyword arguments of ``review_report``."""
        cleaned = self.cleaned_data
        return {"graph": cleaned["graph"] or None, "reviewer": cleaned["by"] or None}

    def link(self, **changed: Any) -> str:
        """Return the query string of the page, with some parameters changed."""
        given = self.cleaned_data if self.is_valid() else {}
        kept: dict[str, Any] = {"days": self.days} if self.days else {}
        if given and not self.days:
            kept |= {name: given[name].isoformat() for name in ("first", "last")}
        kept |= {name: given.get(name) for name in ("graph", "by")}
        if "days" in changed:
            kept |= {"first": None, "last": None}
        query = {name: value for name, value in {**kept, **changed}.items() if value}
        return f"?{urlencode(query)}"


@dataclass(frozen=True, slots=True)
class FigureChange:
    """The difference between a figure and its value in the previous period, in words.

    ``icon`` is an arrow for an increase or a decrease. ``css`` is the CSS class for an improvement
    or a deterioration. Both may be empty.
    """

    text: str
    icon: str = ""
    css: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its label, and the URL of the rows that it counts."""

    label: Any
    text: str
    url: str = ""
    detail: str = ""
    is_late: bool = False
    change: FigureChange | None = None

    @property
    def html(self) -> str:
        """The text as HTML. Units, such as "h" and "min", have a smaller font than numbers."""
        pairs = self.text.split(" ")
        return format_html_join(
            " ",
            "{}",
            (
                (format_html("<small>{}</small>", word) if number % 2 else word,)
                for number, word in enumerate(pairs)
            ),
        )


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot with its legend and a table of its numbers.

    The legend contains the CSS class and the name of each line.
    """

    ident: str
    title: Any
    svg: str
    legend: Sequence[tuple[str, Any]]
    head: Sequence[Any]
    rows: Sequence[tuple[str, Sequence[Figure]]]


@dataclass(frozen=True, slots=True)
class ShareRow:
    """A row of the page's table: decisions, times and spot checks of a graph or a reviewer."""

    label: Figure
    bar: str
    figures: Sequence[Figure]
    agreement: Figure
    initials: str = ""
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class FilterMenu:
    """A menu of links. Each link selects a value of a filter."""

    title: Any
    choices: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Rows:
    """URLs of admin lists. Each list shows the rows that a number on the page counts."""

    request: HttpRequest
    period: Period
    graph: str | None
    reviewer: str | None

    def decisions(self, bucket: TimeBucket | None = None, **narrowed: Any) -> str:
        query = {"type__in": ",".join(DECISION_TYPES), "effective__exact": 1, **self._reviewer()}
        return self._list(Decision, {**query, **self._graph(), **self._days(bucket), **narrowed})

    def interrupts(self, bucket: TimeBucket | None = None, **narrowed: Any) -> str:
        return self._list(Interrupt, {**self._graph(), **self._days(bucket), **narrowed})

    def still_waiting(self) -> str:
        return self._list(Interrupt, {"status__exact": "pending", **self._graph()})

    def waiting(self, band: AgeBucket) -> str:
        bounds = {"created_at__gte": band.since, "created_at__lt": band.until}
        times = {name: at.isoformat() for name, at in bounds.items() if at is not None}
        return self._list(Interrupt, {"status__exact": "pending", **self._graph(), **times})

    def overdue(self) -> str:
        return self._list(ReviewItem, {"show": "overdue", **self._graph()})

    def spot_checks(self, **narrowed: Any) -> str:
        query = {"result": "given", **self._graph(), **self._reviewer(), **self._days(None)}
        return self._list(SpotCheck, {**query, **narrowed})

    def download(self, url: str) -> str:
        days = {"first": self.period.first.isoformat(), "last": self.period.last.isoformat()}
        return f"{url}?{urlencode({**days, **self._graph(), **self._reviewer()})}"

    def _graph(self) -> dict[str, str]:
        return {"graph": self.graph} if self.graph else {}

    def _reviewer(self) -> dict[str, str]:
        return {"by": self.reviewer} if self.reviewer else {}

    def _days(self, bucket: TimeBucket | None) -> dict[str, str]:
        span = self.period if bucket is None else bucket
        return {
            "created_at__gte": start_of_day(span.first).isoformat(),
            "created_at__lt": start_of_day(span.last + timedelta(1)).isoformat(),
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
        context: dict[str, Any] = {"form": form, "title": _("Insights"), "periods": _offer(form)}
        if form.is_valid():
            period = form.cleaned_data["period"]
            report = review_report(request.user, period, **form.narrowed)
            rows = _Rows(request, period, **form.narrowed)
            context |= _lay_out(report, rows, request.user)
            context |= {"menus": _list_menus(form, report)}
            if get_policy().may_export(request.user):
                context["csv_url"] = rows.download(self.url("csv", request))
                # The audit log has whole threads, so it can't be limited to a reviewer.
                if services.may_view_reviewer_reports(request.user) and not rows.reviewer:
                    context["record_url"] = rows.download(self.url("record", request))
        status = 200 if form.is_valid() else 400
        return self.page(request, _("Insights"), "reports.html", status=status, **context)

    def decisions_csv_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return a CSV file with the decisions of a period."""
        columns = [*(each.name for each in fields(ExportedDecision)), "seconds"]
        return self._download(request, "decisions", columns, export_decisions)

    def audit_csv_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return a CSV file with the audit log of all threads with decisions in a period."""

        def export(user: Any, period: Period, *, graph: str | None, **_ignored: Any) -> Any:
            return services.export_audit_log(user, period, graph=graph)

        columns = [each.name for each in fields(services.ExportedEntry)]
        return self._download(request, "record", columns, export)

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
        period = form.cleaned_data["period"]
        try:
            found = export(request.user, period, **form.narrowed)
        except NotAllowedError as error:
            raise PermissionDenied(str(error)) from None
        logger.info(
            "User %s downloads %s of %s to %s.", request.user.pk, name, period.first, period.last
        )
        file = f"{name}-{period.first}-{period.last}.csv"
        return stream_csv(request, file, columns, map(attrgetter(*columns), found))

    def _read_form(self, request: HttpRequest) -> ReportFilterForm:
        user = request.user
        may_narrow = not request.GET.get("by") or services.may_view_reviewer_reports(user)
        if not self.has_view_permission(request) or not may_narrow:
            raise PermissionDenied
        return ReportFilterForm(request.GET, services.list_graphs_with_interrupts(user))


def describe_seconds(seconds: float | None) -> str:
    """Return a duration in one or two units, for example "2 d 3 h", or a dash for None."""
    if seconds is None:
        return "–"
    units = ((DAY, _("%(n)s d")), (HOUR, _("%(n)s h")), (MINUTE, _("%(n)s min")))
    if seconds < MINUTE:
        return _("%(n)s s") % {"n": localize(round(seconds))}
    step = HOUR if seconds >= DAY else MINUTE
    left, words = round(seconds / step) * step, []
    for unit, text in units:
        if unit >= step and left >= unit:
            words.append(text % {"n": localize(left // unit)})
            left %= unit
    return " ".join(words)


def describe_share(part: int, whole: int) -> str:
    """Return ``part`` of ``whole`` as a percentage, or a dash if ``whole`` is zero."""
    return _("%(n)s %%") % {"n": localize(round(100 * part / whole))} if whole else "–"


def _offer(form: ReportFilterForm) -> list[tuple[Any, str, bool]]:
    """Return the periods that the page offers: label, link, and whether the period is selected."""
    return [
        (
            _("1 year") if days == 365 else _("%(n)d days") % {"n": days},
            form.link(days=days),
            form.days == days,
        )
        for days in PERIODS
    ]


def _list_menus(form: ReportFilterForm, report: ReviewReport) -> list[FilterMenu]:
    graphs: Any = form.fields["graph"]
    menus = [_make_menu(form, "graph", _("Graph"), graphs.choices)]
    if report.reviewers is not None:
        people = [(_get_key(one), _name_reviewer(one)) for one in report.reviewers]
        chosen = form.cleaned_data["by"]
        if chosen and chosen not in dict(people):
            people.append((chosen, chosen))
        menus.append(_make_menu(form, "by", _("Reviewer"), [("", _("All")), *people]))
    return menus


def _make_menu(
    form: ReportFilterForm, name: str, title: Any, choices: Iterable[tuple[str, Any]]
) -> FilterMenu:
    chosen = form.cleaned_data[name]
    return FilterMenu(
        title,
        [
            {"selected": key == chosen, "query_string": form.link(**{name: key}), "display": label}
            for key, label in choices
        ],
    )


def _get_key(one: DecisionCounts) -> str:
    return NOBODY if one.key is None else str(one.key)


def _name_reviewer(one: DecisionCounts) -> str:
    return escape_hidden(one.label) or _("(without an account)")


def _lay_out(report: ReviewReport, rows: _Rows, user: Any) -> dict[str, Any]:
    tiles = list(_list_tiles(report, rows))
    return {
        "tiles": tiles,
        "comparison": _describe_comparison(report.previous)
        if any(tile.change for tile in tiles)
        else None,
        "sample": report.sample,
        "plots": [_plot_counts(report, rows), _plot_times(report, rows)],
        "ages": [] if rows.reviewer else _list_ages(report.pending_by_age, rows),
        "overdue": _make_open_figures(report, rows)[1],
        "types": [(_style(name), type_.participle) for name, type_ in DECISION_TYPES.items()],
        "graphs": [
            _lay_out_shares(
                f"graph-{n}",
                one,
                name_graph(one.key),
                rows,
                {"graph": one.key},
                last=[Figure(_("Late"), localize(one.late))],
            )
            for n, one in enumerate(report.graphs)
        ],
        "reviewers": None
        if report.reviewers is None
        else [
            _lay_out_shares(
                f"reviewer-{n}",
                one,
                _name_reviewer(one),
                rows,
                {"by": _get_key(one)},
                second=[
                    Figure(_("With changes"), describe_share(one.counts["edit"], one.total)),
                ],
                initials=get_initials(one.label) if one.key is not None else "–",
                is_own=one.key == user.pk,
            )
            for n, one in enumerate(report.reviewers)
        ],
    }


def _style(decision_type: str) -> str:
    """Return the CSS class for a decision type's part of a bar."""
    return f"m-{decision_type}"


class _Changes:
    """The changes of figures since the previous period.

    A figure that has no value in one of the two periods has no change.
    """

    def __init__(self, report: ReviewReport) -> None:
        self.now, self.before = report, report.previous

    def count(self, name: str) -> FigureChange | None:
        now, before = self._get(name)
        if not before:
            return None
        number = {"n": localize(abs(now - before))}
        return _describe_change(now - before, _("%(n)s more") % number, _("%(n)s fewer") % number)

    def share(
        self, name: str, whole: str, *, more: str = "", less: str = ""
    ) -> FigureChange | None:
        wholes = self._get(whole)
        if not all(wholes):
            return None
        now, before = (
            round(100 * part / all_) for part, all_ in zip(self._get(name), wholes, strict=True)
        )
        points = {"n": abs(now - before)}
        higher = ngettext("%(n)d point higher", "%(n)d points higher", points["n"])
        lower = ngettext("%(n)d point lower", "%(n)d points lower", points["n"])
        return _describe_change(now - before, higher % points, lower % points, more, less)

    def time(self, name: str) -> FigureChange | None:
        now, before = self._get(name)
        if now is None or before is None:
            return None
        is_same = describe_seconds(now) == describe_seconds(before)
        time = {"time": describe_seconds(abs(now - before))}
        more, less = _("%(time)s more") % time, _("%(time)s less") % time
        return _describe_change(0 if is_same else now - before, more, less, "is-worse", "is-better")

    def _get(self, name: str) -> tuple[Any, Any]:
        return getattr(self.now, name), getattr(self.before, name, None)


def _describe_change(
    difference: float, more: str, less: str, more_css: str = "", less_css: str = ""
) -> FigureChange:
    if not difference:
        return FigureChange(_("Unchanged"))
    if difference > 0:
        return FigureChange(more, "arrow-up", more_css)
    return FigureChange(less, "arrow-down", less_css)


def _describe_comparison(before: PreviousPeriod | None) -> dict[str, str] | None:
    """Return a phrase and a sentence about the previous period, or None without that period.

    Screen readers read the phrase with each figure.
    """
    if before is None:
        return None
    days = (before.last - before.first).days + 1
    dates = {"n": days, "dates": _describe_days(before.first, before.last)}
    if days == 1:
        phrase = _("compared with the previous day")
        sentence = _("Compared with the previous day: %(dates)s.")
    else:
        phrase = _("compared with the previous %(n)d days")
        sentence = _("Compared with the previous %(n)d days: %(dates)s.")
    return {"phrase": phrase % dates, "sentence": sentence % dates}


def _list_tiles(report: ReviewReport, rows: _Rows) -> Iterator[Figure]:
    changes = _Changes(report)
    if not rows.reviewer:
        asked = localize(report.created)
        yield Figure(_("Requests"), asked, rows.interrupts(), change=changes.count("created"))
    yield Figure(
        pgettext("number of requests", "Decided"),
        localize(report.decided),
        rows.decisions(),
        change=changes.count("decided"),
    )
    edited = describe_share(report.count_type("edit"), report.decided)
    yield Figure(
        _("Approval rate"),
        describe_share(report.approved, report.decided),
        rows.decisions(type__in=APPROVALS) if report.approved else "",
        _("%(share)s with changes") % {"share": edited} if report.approved else "",
        change=changes.share("approved", "decided"),
    )
    timed = rows.decisions() if report.median is not None else ""
    for label, name in ((_("Median time to decide"), "median"), (_("90th percentile"), "p90")):
        time = describe_seconds(getattr(report, name))
        yield Figure(label, time, timed, change=changes.time(name))
    if report.due:
        on_time = describe_share(report.on_time, report.due)
        late = _("%(n)s late") % {"n": localize(report.late)} if report.late else ""
        change = changes.share("on_time", "due", more="is-better", less="is-worse")
        yield Figure(_("Decided on time"), on_time, detail=late, change=change)
    if report.checked:
        agreed = describe_share(report.agreed, report.checked)
        words = ngettext("%(n)d spot check", "%(n)d spot checks", report.checked)
        detail = words % {"n": report.checked}
        change = changes.share("agreed", "checked", more="is-better", less="is-worse")
        yield Figure(_("Spot-check agreement"), agreed, rows.spot_checks(), detail, change=change)
    if not rows.reviewer:
        waiting, overdue = _make_open_figures(report, rows)
        detail = ""
        if report.oldest is not None:
            age = format_since(report.oldest)
            detail = _("Oldest: %(age)s") % {"age": age}
        if report.overdue:
            yield replace(waiting, detail=overdue.text, is_late=True)
        else:
            yield replace(waiting, detail=detail)


def _make_open_figures(report: ReviewReport, rows: _Rows) -> tuple[Figure, Figure]:
    count = sum(band.count for band in report.pending_by_age)
    overdue = _("%(n)s overdue") % {"n": localize(report.overdue)} if report.overdue else ""
    return (
        Figure(_("Open now"), localize(count), rows.still_waiting()),
        Figure(_("Overdue now"), overdue, rows.overdue(), is_late=True),
    )


def _describe_start(first: date, unit: str) -> str:
    # Translators: The format of a month of a year, and of a day of a month, in Django's syntax.
    return date_format(first, _("M Y") if unit == "month" else _("j M"))


def _describe_bucket(bucket: TimeBucket) -> str:
    return _describe_days(bucket.first, bucket.last)


def _describe_days(first: date, last: date) -> str:
    words = [date_format(day, "SHORT_DATE_FORMAT") for day in dict.fromkeys([first, last])]
    return " – ".join(words)


def _plot_counts(report: ReviewReport, rows: _Rows) -> Plot:
    titles = {
        "day": _("Requests and decisions per day"),
        "week": _("Requests and decisions per week"),
        "month": _("Requests and decisions per month"),
    }
    description = _("%(asked)s requested, %(decided)s decided in total.") % {
        "asked": localize(report.created),
        "decided": localize(report.decided),
    }
    decided, asked = pgettext("number of requests", "Decided"), _("Requests")
    buckets = report.buckets
    series = [
        plots.Series(decided, [bucket.decided for bucket in buckets], "a", is_filled=True),
        plots.Series(asked, [bucket.created for bucket in buckets], "b"),
    ]
    table: list[Sequence[Figure]] = [
        (
            Figure(decided, localize(bucket.decided), rows.decisions(bucket)),
            Figure(asked, localize(bucket.created), rows.interrupts(bucket)),
        )
        for bucket in buckets
    ]
    if rows.reviewer:  # Requests have no reviewer.
        titles = {
            "day": _("Decisions per day"),
            "week": _("Decisions per week"),
            "month": _("Decisions per month"),
        }
        series, table = series[:1], [row[:1] for row in table]
        words = _("%(decided)s decided in total.")
        description = words % {"decided": localize(report.decided)}
    return _plot(
        "counts", titles[report.unit], description, report, series, table,
        describe_level=lambda value: localize(round(value)),
    )  # fmt: skip


def _plot_times(report: ReviewReport, rows: _Rows) -> Plot:
    times = {"median": describe_seconds(report.median), "p90": describe_seconds(report.p90)}
    description = _("Overall: median %(median)s, 90th percentile %(p90)s.") % times
    names = _("Median"), _("90th percentile")
    buckets = report.buckets
    values = [bucket.median for bucket in buckets], [bucket.p90 for bucket in buckets]
    series = [plots.Series(*one) for one in zip(names, values, ("a", "b"), strict=True)]
    table = [
        [
            Figure(
                name,
                describe_seconds(time),
                rows.decisions(bucket) if time is not None else "",
            )
            for name, time in zip(names, (bucket.median, bucket.p90), strict=True)
        ]
        for bucket in buckets
    ]
    return _plot(
        "times", _("Time to decide"), description, report, series, table,
        describe_level=_describe_time_level, steps=TIME_STEPS,
    )  # fmt: skip


def _describe_time_level(seconds: float) -> str:
    """Return the label of a grid line for a duration, in one unit with at most one decimal."""
    if seconds < HOUR:
        return describe_seconds(seconds) if seconds else "0"
    unit, text = (DAY, _("%(n)s d")) if seconds >= DAY else (HOUR, _("%(n)s h"))
    number = seconds / unit
    return text % {"n": localize(int(number) if number.is_integer() else round(number, 1))}


def _plot(
    ident: str,
    title: Any,
    description: Any,
    report: ReviewReport,
    series: Sequence[plots.Series],
    table: Sequence[Sequence[Figure]],
    **options: Any,
) -> Plot:
    unit, buckets = report.unit, report.buckets
    places = [_describe_start(bucket.first, unit) for bucket in buckets]
    units = {"day": _("Day"), "week": _("Week"), "month": _("Month")}
    return Plot(
        ident,
        title,
        plots.draw_lines(ident, title, description, places, series, **options),
        [(one.css, one.name) for one in series],
        (units[unit], *(one.name for one in series)),
        list(zip(map(_describe_bucket, buckets), table, strict=True)),
    )


def _list_ages(bands: Sequence[AgeBucket], rows: _Rows) -> list[tuple[Figure, str]]:
    """Return the age buckets of pending interrupts, each with a bar scaled to the largest."""
    most = max((band.count for band in bands), default=0)
    ages = [describe_seconds(age.total_seconds()) for age in AGES]
    labels = [
        _("Under %(age)s") % {"age": ages[0]},
        *(_("%(from)s to %(to)s") % {"from": one, "to": next_} for one, next_ in pairwise(ages)),
        _("Over %(age)s") % {"age": ages[-1]},
    ]
    found = []
    for n, (band, label) in enumerate(zip(bands, labels, strict=True)):
        share = 100 * band.count / most if most else 0
        bar = plots.draw_bar([("m-w" if n >= OLD else "m-a", share)])
        found.append((Figure(label, localize(band.count), rows.waiting(band)), bar))
    return found


def _lay_out_shares(
    ident: str,
    shares: DecisionCounts,
    label: str,
    rows: _Rows,
    narrowed: dict[str, Any],
    *,
    second: Sequence[Figure] = (),
    last: Sequence[Figure] = (),
    **person: Any,
) -> ShareRow:
    counts = {name: count for name, count in shares.counts.items() if count}
    words = [
        f"{DECISION_TYPES[name].participle}: {localize(count)}" for name, count in counts.items()
    ]
    parts = [(_style(name), 100 * count / shares.total) for name, count in counts.items()]
    agreement = Figure("", "–")
    if shares.checked:
        share = round(100 * shares.agreed / shares.checked)
        texts = {"n": shares.agreed, "of": shares.checked, "share": share}
        text = _("%(n)d of %(of)d (%(share)d %%)") % texts
        agreement = Figure(_("Spot-check agreement"), text, rows.spot_checks(**narrowed))
    approved = rows.decisions(**narrowed, type__in=APPROVALS) if shares.approved else ""
    return ShareRow(
        Figure("", label, rows.decisions(**narrowed)),
        plots.draw_bar(parts, ident, ", ".join(words)),
        [
            Figure(
                pgettext("number of requests", "Decided"),
                localize(shares.total),
                rows.decisions(**narrowed),
            ),
            Figure(_("Approval rate"), describe_share(shares.approved, shares.total), approved),
            *second,
            Figure(_("Median"), describe_seconds(shares.median)),
            Figure(_("90th percentile"), describe_seconds(shares.p90)),
            *last,
        ],
        agreement,
        **person,
    )
