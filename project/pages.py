"""Pages of the demo outside of the admin: the start page, the chat, and log-in with one click."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate, login
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from hitl_django.admin.display.key_facts import list_key_facts, with_payload
from hitl_django.admin.display.short_times import format_duration, format_until
from hitl_django.graph_registry import registry
from hitl_django.models import Decision, ReviewItem, Run
from hitl_django.permissions import may_start

from .graphs import HAS_SUPPORT
from .people import PASSWORD, PEOPLE, Person

#: Number of requests on the start page.
SHOWN = 5
#: The person to whom the start page offers the chat, and the graph of the chat.
CHATS_AS, CHAT_GRAPH = "olga", "support"
#: Graphs with a button that starts a run, and the person who starts it.
STARTED = (
    (
        "refund",
        "Small refunds are paid at once. Large or late ones need an amount and an approval.",
    ),
    ("payment", "Two people of the finance team approve large invoices and new bank accounts."),
    ("newsletter", "An editor changes the draft. It is sent when it is short enough."),
    ("agent", "An agent asks before it sends email, deletes files or changes records."),
)
STARTS_AS = "olga"
#: The users with a log-in button of their own.
BUTTONS = ("rita", "lena", "olga", "admin")


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A request on the start page."""

    title: str
    snippet: str
    graph: str
    level: str
    due: str
    is_overdue: bool

    @classmethod
    def build(cls, item: Any) -> ShownRequest:
        facts = list_key_facts(item)
        level = "urgent" if item.priority > 1 else "high" if item.priority > 0 else ""
        due = format_due(item.due_at)
        return cls(
            title=item.title,
            snippet=facts.snippet,
            graph=str(registry.get_title(item.graph)),
            level=level,
            due=due,
            is_overdue=due.startswith("Overdue"),
        )


def format_due(due: datetime | None) -> str:
    """Return a due time as the time left or the time since."""
    if due is None:
        return ""
    passed = timezone.now() - due
    if passed.total_seconds() > 0:
        return f"Overdue {format_duration(passed)}"
    return f"Due in {format_until(due)}"


# The texts of the page are English.
@translation.override("en")
def landing(request: HttpRequest) -> HttpResponse:
    """Show the purpose of the demo, its users, and the first requests of the queue.

    With ``DEBUG = False``, the page shows no data and no log-in buttons.
    """
    context: dict[str, Any] = {
        "has_support": HAS_SUPPORT,
        "password": PASSWORD,
        "site": request.build_absolute_uri("/").rstrip("/"),
    }
    if settings.DEBUG:
        snoozed = Q(snoozed_until__gt=timezone.now())
        waiting = ReviewItem.pending.exclude(snoozed)
        rows = with_payload(waiting)[:SHOWN]
        context |= {
            "rows": [ShownRequest.build(item) for item in rows],
            "open": waiting.count(),
            "failed": Run.objects.filter(state__in=(Run.State.FAILED, Run.State.PARKED)).count(),
            "decided": Decision.objects.filter(effective=True).count(),
            "people": [person for name in BUTTONS for person in PEOPLE if person.username == name],
            "others": [person for person in PEOPLE if person.username not in BUTTONS],
            "chats_as": CHATS_AS,
            "starts_as": STARTS_AS,
            "graphs": [
                {"name": name, "title": registry.get_title(name), "about": about}
                for name, about in STARTED
            ],
        }
    return render(request, "landing.html", context)


@require_POST
def log_in(request: HttpRequest) -> HttpResponse:
    """Log a user of the demo in without a password.

    The view exists only with ``DEBUG = True``. If the password was changed, it leads to the form.
    """
    person = find_person(request.POST.get("as", ""))
    if not settings.DEBUG or person is None:
        raise Http404
    target = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(target, {request.get_host()}):
        target = reverse("admin:hitl_django_reviewitem_changelist")
    user = authenticate(request, username=person.username, password=PASSWORD)
    if user is None:
        return redirect(f"{reverse('admin:login')}?next={target}")
    login(request, user)
    return redirect(target)


def find_person(username: str) -> Person | None:
    """Return the demo's user with a username."""
    return next((person for person in PEOPLE if person.username == username), None)


def chat(request: HttpRequest) -> HttpResponse:
    """Show the chat with the support agent, or the reason why it isn't available."""
    allowed = request.user.is_authenticated and may_start(request.user, CHAT_GRAPH, "api")
    context = {
        "has_support": HAS_SUPPORT,
        "may_chat": HAS_SUPPORT and allowed,
        "chats_as": find_person(CHATS_AS),
        "has_buttons": settings.DEBUG,
    }
    return render(request, "chat.html", context)
