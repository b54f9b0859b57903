"""The reviews of an embedding product's object, on that object's own page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse

from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.permissions import select_visible

#: Runs, and open questions, that the page of an object shows.
SHOWN = 20


class SubjectReviews:
    """Shows "Runs and open reviews" of an object on its own page in the host's admin.

    Mixed into a ModelAdmin::

        class OrderAdmin(SubjectReviews, admin.ModelAdmin): ...

    It brings its own template for the page; a ModelAdmin that has one extends
    ``hitl_django/admin/subject.html``, or includes ``hitl_django/admin/reviews.html``.
    """

    change_form_template: Any = "hitl_django/admin/subject.html"

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        found = kwargs.get("obj")
        if found is not None:
            context["hitl_reviews"] = list_reviews(request, found)
        response: HttpResponse = super().render_change_form(  # type: ignore[misc]
            request, context, *args, **kwargs
        )
        return response


@dataclass(frozen=True, slots=True)
class Reviews:
    """What the page of an object shows; None of what the user may not see at all."""

    runs: list[Run] | None
    interrupts: list[Interrupt] | None
    #: The object, as the page that starts a run about it is told.
    name: str


def list_reviews(request: HttpRequest, subject: Any) -> Reviews:
    """Return the runs about an object and what they ask, as far as the user may see them."""
    threads = Thread.objects.filter(
        subject_type=ContentType.objects.get_for_model(subject), subject_id=str(subject.pk)
    )
    runs = select_visible(Run.objects.filter(thread__in=threads), request.user)
    asked = Interrupt.objects.filter(thread__in=threads, status=Interrupt.Status.PENDING)
    pending = select_visible(asked, request.user)
    shown: Any = None
    if not runs.query.is_empty():
        shown = list(runs.defer(*Run.LARGE_COLUMNS).order_by("-created_at", "-pk")[:SHOWN])
    interrupts: Any = None
    if not pending.query.is_empty():
        rows = pending.defer(*LARGE_COLUMNS).order_by("created_at", "id")
        interrupts = list(rows[:SHOWN])
    return Reviews(shown, interrupts, f"{subject._meta.label_lower}/{subject.pk}")
