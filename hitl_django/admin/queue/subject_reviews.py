"""Reviews of a related object, shown on the admin page of that object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse

from hitl_django.admin.base import can_view_runs, format_pill
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.permissions import select_visible

#: Maximum number of runs, and of pending requests, shown on an object's page.
SHOWN = 20


class SubjectReviews:
    """Mixin that shows "Runs and open reviews" on the admin page of a related object.

    Add the mixin to a ModelAdmin::

        class OrderAdmin(SubjectReviews, admin.ModelAdmin): ...

    The mixin sets the template of the page. If the ModelAdmin has its own template, that template
    must either extend ``hitl_django/admin/subject.html``, or include
    ``hitl_django/admin/reviews.html`` and the style sheet ``hitl_django/review.css``.
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
    """The runs and pending interrupts of an object.

    ``runs`` or ``interrupts`` is None if the user may not view them.
    """

    #: Runs with their states as HTML.
    runs: list[tuple[Run, str]] | None
    interrupts: list[Interrupt] | None
    #: The object, as a URL parameter of the page that starts a run.
    name: str


def list_reviews(request: HttpRequest, subject: Any) -> Reviews:
    """Return the visible runs and pending interrupts of an object, at most SHOWN of each."""
    threads = Thread.objects.filter(
        subject_type=ContentType.objects.get_for_model(subject), subject_id=str(subject.pk)
    )
    runs = select_visible(Run.objects.filter(thread__in=threads), request.user)
    asked = Interrupt.objects.filter(thread__in=threads, status=Interrupt.Status.PENDING)
    pending = select_visible(asked, request.user)
    shown: Any = None
    if not runs.query.is_empty():
        newest = runs.defer(*Run.LARGE_COLUMNS).order_by("-created_at", "-pk")[:SHOWN]
        shown = [(run, format_pill(run.state)) for run in newest]
        if not shown and not can_view_runs(request):
            shown = None
    interrupts: Any = None
    if not pending.query.is_empty():
        rows = pending.defer(*LARGE_COLUMNS).order_by("created_at", "id")
        interrupts = list(rows[:SHOWN])
    return Reviews(shown, interrupts, f"{subject._meta.label_lower}/{subject.pk}")
