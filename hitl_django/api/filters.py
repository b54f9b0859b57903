"""Filter sets of the lists, with all query parameters that the lists accept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

import django_filters as filters
from django import forms
from django.contrib.contenttypes.models import ContentType
from django.db.models import Case, QuerySet, Value, When
from django.db.models.lookups import Exact
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.request import Request

from hitl_django.db.json_member import JSONMember
from hitl_django.dialects import DIALECTS
from hitl_django.models import Interrupt, Run
from hitl_django.services.reviews import queue_filters

from .invalid_params import InvalidParam
from .problems import InvalidRequest
from .serializers.fields import OffsetDateTimeField, parse_time

#: Pattern of a metadata parameter's name, and maximum number of metadata parameters.
METADATA = re.compile(r"metadata\.[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,63}")
MAX_METADATA = 5
#: Maximum number of matches that are looked up by primary key.
INDEXED_MATCHES = 100

ANY = "any"
SUBJECT_PATTERN = r"^[a-z_][a-z0-9_]{0,99}\.[a-z_][a-z0-9_]{0,99}:[^\x00-\x1f]{1,255}$"

#: Conditions on pending interrupts by parameter. ``unclaimed`` is not included, because it
#: depends on the user.
CONDITIONS = {
    "claimed": queue_filters.CLAIMED,
    "overdue": queue_filters.OVERDUE,
    "snoozed": queue_filters.SNOOZED,
}


def _choices(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, name) for name in names]


class OrderFilter(filters.ChoiceFilter):
    """Sort order by one of the named fields. A leading minus means descending.

    A field in a positional argument is sorted by the column with the same name. With a keyword
    argument such as ``created_at="pk"``, the field ``created_at`` is sorted by the column ``pk``,
    which has the same order.
    """

    def __init__(self, *names: str, **columns: str) -> None:
        self.columns = {**{name: name for name in names}, **columns}
        choices = [(term, term) for name in self.columns for term in (name, f"-{name}")]
        super().__init__(
            choices=choices,
            label="Sort order. Prefix the field with a minus sign for descending order.",
        )

    def filter(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return queryset
        sign = "-" if value.startswith("-") else ""
        return queryset.order_by(sign + self.columns[value.removeprefix("-")])


class TextFilter(filters.CharFilter):
    """Filter by exact text, including leading and trailing spaces."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, strip=False, **kwargs)


class OffsetDateTimeFormField(forms.Field):
    """Form field for an ISO 8601 time with a UTC offset."""

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        return parse_time(value)


class DateTimeBoundFilter(filters.Filter):
    """Filter for rows before or after a time."""

    field_class = OffsetDateTimeFormField

    def json_schema(self) -> dict[str, Any]:
        return OffsetDateTimeField().json_schema()


class SubjectFilter(TextFilter):
    """Filter by the related object of a thread, given as ``app_label.model:id``."""

    field_class = forms.RegexField

    def __init__(self, field_name: str) -> None:
        super().__init__(
            field_name,
            regex=SUBJECT_PATTERN,
            max_length=400,
            label="The related object, as app_label.model:id.",
        )

    def filter(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return queryset
        kind, _, key = value.partition(":")
        try:
            found = ContentType.objects.get_by_natural_key(*kind.split("."))
        except ContentType.DoesNotExist:
            return queryset.none()
        prefix = self.field_name
        return queryset.filter(**{f"{prefix}subject_type": found, f"{prefix}subject_id": key})

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": SUBJECT_PATTERN, "maxLength": 400}


class FilterSet(filters.FilterSet):
    """Filter set that builds only those filters whose parameters are in the request.

    Building all filters takes longer than the query of a list.
    """

    #: Names of filters that apply without a parameter.
    defaults: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, data: Any = None, *args: Any, **kwargs: Any) -> None:
        kind: Any = type(self)
        used = self.defaults.union(data or ())
        self.base_filters = {name: each for name, each in kind.base_filters.items() if name in used}
        super().__init__(data, *args, **kwargs)


class MetadataFilterSet(FilterSet):
    """Filter set with ``metadata.KEY=value`` parameters, limited in number."""

    #: Lookup path to the column with the metadata.
    metadata_field = "metadata"

    @staticmethod
    def is_metadata(name: str) -> bool:
        """Return whether the query parameter ``name`` filters by metadata."""
        return METADATA.fullmatch(name) is not None

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        found = super().filter_queryset(queryset)
        wanted = {name: value for name, value in self.data.items() if self.is_metadata(name)}
        if len(wanted) > MAX_METADATA:
            detail = f"At most {MAX_METADATA} metadata keys can be filtered at once."
            raise InvalidRequest(InvalidParam("too_many", detail, parameter=[*wanted][-1]))
        for name, value in wanted.items():
            member = JSONMember(self.metadata_field, name.partition(".")[2])
            found = found.filter(Exact(member, Value(_refuse_nul(name, value))))
        return found


def _refuse_nul(name: str, value: str) -> str:
    if "\0" in value:  # Databases can't search for NUL.
        raise InvalidRequest(
            InvalidParam("invalid", "Must not contain NUL characters.", parameter=name)
        )
    return value


class StrictBooleanFilter(filters.ChoiceFilter):
    """Filter that accepts only ``true`` and ``false``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=[("true", "true"), ("false", "false")], **kwargs)


class ThreadFilterSet(MetadataFilterSet):
    """Filters of the list of threads, which is ordered newest first."""

    graph = TextFilter(max_length=200, label="Graph name.")
    subject = SubjectFilter("")
    created_after = DateTimeBoundFilter("created_at", "gte", label="Created at or after this time.")
    created_before = DateTimeBoundFilter("created_at", "lt", label="Created before this time.")
    ordering = OrderFilter(created_at="pk")


class CheckpointFilterSet(FilterSet):
    """Filter set without filters, for a thread's checkpoints. The newest checkpoint comes first."""


class CommentFilterSet(FilterSet):
    """Filter set without filters, for an interrupt's comments. The oldest comment comes first."""


class RunFilterSet(MetadataFilterSet):
    """Filters of the list of runs, which is ordered newest first."""

    metadata_field = "thread__metadata"

    state = filters.ChoiceFilter(choices=Run.State.choices, label="Run state.")
    graph = TextFilter(max_length=200, label="Graph name.")
    thread = TextFilter("thread__thread_id", max_length=255, label="Thread id.")
    key = TextFilter(max_length=255, label="Idempotency key the run was started with.")
    subject = SubjectFilter("thread__")
    created_after = DateTimeBoundFilter("created_at", "gte", label="Started at or after this time.")
    created_before = DateTimeBoundFilter("created_at", "lt", label="Started before this time.")
    ordering = OrderFilter("created_at")


class InterruptFilterSet(FilterSet):
    """Filters of the list of interrupts. The oldest interrupt comes first.

    By default, the list contains only pending interrupts.
    """

    defaults = frozenset({"status"})

    status = filters.ChoiceFilter(
        choices=[*Interrupt.Status.choices, (ANY, ANY)],
        method="by_status",
        label="Interrupt status. Default: pending.",
    )
    graph = TextFilter(max_length=200, label="Graph name.")
    node = TextFilter(max_length=255, label="Node name.")
    run = filters.UUIDFilter("run_id", label="Run id.")
    thread = TextFilter("thread__thread_id", max_length=255, label="Thread id.")
    subject = SubjectFilter("thread__")
    created_after = DateTimeBoundFilter("created_at", "gte", label="Created at or after this time.")
    created_before = DateTimeBoundFilter("created_at", "lt", label="Created before this time.")
    dialect = filters.ChoiceFilter(choices=_choices(DIALECTS), label="Payload format (dialect).")
    assignee = filters.ChoiceFilter(
        choices=_choices(queue_filters.ASSIGNEES),
        method="by_assignee",
        label="Whether it is assigned to you, or to nobody.",
    )
    priority = filters.ChoiceFilter(
        choices=_choices(queue_filters.PRIORITIES),
        method="by_priority",
        label="Priority: urgent (2 or more), high (1), normal (0) or low (less than 0).",
    )
    due = filters.ChoiceFilter(
        choices=_choices(queue_filters.DUE_TIMES),
        method="by_due",
        label="Due time: overdue, today, in this week (from Monday), or none. Days begin at "
        "midnight in the time zone of the server.",
    )
    group = TextFilter("group__name", max_length=150, label="Group name.")
    unclaimed = StrictBooleanFilter(method="by_condition", label="Whether you could claim it.")
    claimed = StrictBooleanFilter(method="by_condition", label="Whether it is claimed.")
    overdue = StrictBooleanFilter(method="by_condition", label="Whether it is past its due time.")
    snoozed = StrictBooleanFilter(method="by_condition", label="Whether it is snoozed.")
    search = TextFilter(
        method="by_words",
        max_length=200,
        label="Search terms: whole words, or at least three letters of a word. Searches "
        "title, payload, node, related object and key.",
    )
    ordering = OrderFilter("created_at")

    def by_status(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset if value == ANY else queryset.filter(status=value)

    def by_assignee(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(queue_filters.match_assignee(value, self.request.user))

    def by_priority(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(queue_filters.PRIORITIES[value])

    def by_due(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(queue_filters.match_due(value))

    def by_condition(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        """Select the pending interrupts that match the condition ``name``.

        If ``value`` is "false", select all other interrupts, including closed interrupts.
        """
        condition = CONDITIONS.get(name) or queue_filters.match_unclaimed(self.request.user)
        if value == "true":  # Use the condition unchanged, so that the database can use an index.
            return queryset.filter(queue_filters.PENDING & condition)
        # Treat NULL as false.
        holds = Case(When(queue_filters.PENDING & condition, then=True), default=False)
        return queryset.alias(holds=holds).filter(holds=False)

    def by_words(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        if self.form.cleaned_data["status"] != Interrupt.Status.PENDING:
            # The search index contains only pending interrupts.
            return queryset.filter(queue_filters.match_words(value, common=True))
        search = queue_filters.Search.build(queryset, value)
        return search.find(search.few.values("pk")[:INDEXED_MATCHES].count(), INDEXED_MATCHES)

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.form.cleaned_data.get("status"):
            self.form.cleaned_data["status"] = Interrupt.Status.PENDING
        return super().filter_queryset(queryset)


class StrictFilterBackend(DjangoFilterBackend):
    """Filter backend that applies a view's ``filterset_class``.

    The error about an invalid value names the query parameter.
    """

    raise_exception = False

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        filterset = self.get_filterset(request, queryset, view)
        if not filterset.is_valid():
            raise InvalidRequest(*_faults(filterset))
        return filterset.qs


def _faults(filterset: filters.FilterSet) -> list[InvalidParam]:
    errors = filterset.form.errors.as_data()
    return [
        InvalidParam(error.code or "invalid", " ".join(map(str, error.messages)), parameter=name)
        for name, found in errors.items()
        for error in found
    ]
