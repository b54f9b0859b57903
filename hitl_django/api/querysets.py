"""Querysets of the rows that a user may see, by the policy.

What isn't among them is answered as if it didn't exist: a view that is about one row finds it by
``Resource.find``.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Case, OuterRef, Q, QuerySet, Subquery, When

from hitl_django.db.alias import write_alias
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.permissions import may_start, select_visible
from hitl_django.services.reviews import queue_filters

# All read from where writes go: a replica that lags would show a question as open that the
# same client has just answered.


def list_visible_graphs(user: Any) -> list[str]:
    """Return the names of the graphs that ``user`` may start, or sees runs or questions of."""
    return [name for name in registry.list_names() if can_see_graph(user, name)]


def can_see_graph(user: Any, name: str) -> bool:
    """Return whether a registered graph is one of them."""
    return name in registry.list_names() and (
        may_start(user, name, "api")
        or visible_runs(user).filter(graph=name).exists()
        or visible_interrupts(user).filter(graph=name).exists()
    )


def reload_user(user: Any) -> Any:
    """Return the user as they are now, none of whose rights are known yet; None: they are gone."""
    users = get_user_model()._base_manager.using(write_alias())
    found = users.filter(pk=user.pk).first()
    return found if found is not None and found.is_active else None


def visible_threads(user: Any) -> QuerySet[Thread]:
    """Return the threads that ``user`` may see."""
    return select_visible(Thread.objects.using(write_alias()), user)


def select_with_last_run(user: Any) -> QuerySet[Thread]:
    """Return the threads that ``user`` may see, with the last of the runs that they may see."""
    latest = Run.select_newest(visible_runs(user).filter(thread=OuterRef("pk")))
    return visible_threads(user).annotate(
        last_run=Subquery(latest.values("pk")[:1]), last_state=Subquery(latest.values("state")[:1])
    )


def visible_runs(user: Any) -> QuerySet[Run]:
    """Return the runs that ``user`` may see."""
    return select_visible(Run.objects.using(write_alias()).select_related("thread"), user)


def visible_interrupts(user: Any) -> QuerySet[Interrupt]:
    """Return the questions that ``user`` may see, annotated by the database's clock.

    ``is_claimed``, ``is_snoozed`` and ``is_overdue`` are true of open questions only.
    """
    rows = Interrupt.objects.using(write_alias()).select_related("thread")
    return select_visible(rows, user).annotate(
        is_claimed=_holds_while_open(queue_filters.CLAIMED),
        is_snoozed=_holds_while_open(queue_filters.SNOOZED),
        is_overdue=_holds_while_open(queue_filters.OVERDUE),
    )


def _holds_while_open(condition: Q) -> Case:
    return Case(When(queue_filters.PENDING & condition, then=True), default=False)
