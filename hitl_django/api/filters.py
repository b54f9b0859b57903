"""The query parameters of the lists: the ones named here, once each, and no other."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.request import Request

from ..models import Interrupt, Run
from .errors import InvalidRequest
from .faults import Fault

ANY = "any"


class Ordering(filters.ChoiceFilter):
    """One of the named fields, ascending, or with a minus before it descending."""

    def __init__(self, *names: str) -> None:
        choices = [(term, term) for name in names for term in (name, f"-{name}")]
        super().__init__(choices=choices)

    def filter(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.order_by(value) if value else queryset


class RunFilter(filters.FilterSet):
    """Runs by state and graph, newest first."""

    state = filters.ChoiceFilter(choices=Run.State.choices)
    graph = filters.CharFilter(max_length=200, strip=False)
    ordering = Ordering("created_at")


class InterruptFilter(filters.FilterSet):
    """Questions by what became of them and where they came from; those that wait, oldest first."""

    status = filters.ChoiceFilter(
        choices=[*Interrupt.Status.choices, (ANY, ANY)], method="by_status"
    )
    graph = filters.CharFilter(max_length=200, strip=False)
    node = filters.CharFilter(max_length=255, strip=False)
    run = filters.UUIDFilter(field_name="run_id")
    search = filters.CharFilter(field_name="title", lookup_expr="icontains", max_length=200)
    ordering = Ordering("created_at")

    def by_status(self, queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset if value == ANY else queryset.filter(status=value)

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.form.cleaned_data.get("status"):
            self.form.cleaned_data["status"] = Interrupt.Status.PENDING
        return super().filter_queryset(queryset)


class FilterBackend(DjangoFilterBackend):
    """Applies a view's ``filterset_class``; a value that doesn't fit is a fault by name."""

    raise_exception = False

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        filterset = self.get_filterset(request, queryset, view)
        if not filterset.is_valid():
            raise InvalidRequest(*_faults(filterset))
        return filterset.qs


def _faults(filterset: filters.FilterSet) -> list[Fault]:
    errors = filterset.form.errors.as_data()
    return [
        Fault(error.code or "invalid", " ".join(map(str, error.messages)), parameter=name)
        for name, found in errors.items()
        for error in found
    ]
