"""Querysets of the rows that the policy allows a user to view.

All other rows are treated as if they didn't exist. Views of a single row find the row with
``Resource.find``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Case, OuterRef, Q, QuerySet, Subquery, When

from hitl_django.db.alias import write_alias
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.permissions import may_start, select_visible
from hitl_django.services.reviews import queue_filters

# All querysets read from the database for writes. A replica may lag behind, and would then show an
# interrupt as pending after the same client has decided it.


def list_visible_graphs(user: Any) -> list[str]:
    """Return the names of graphs that are visible to the user.

    The user may start these graphs, or can view runs or interrupts of them.
    """
    return [name for name in registry.list_names() if can_see_graph(user, name)]


def can_see_graph(user: Any, name: str) -> bool:
    """Return whether a user may see a registered graph, as defined by ``list_visible_graphs``."""
    return name in registry.list_names() and (
        may_start(user, name, "api")
        or visible_runs(user).filter(graph=name).exists()
        or visible_interrupts(user).filter(graph=name).exists()
    )


def reload_user(user: Any) -> Any:
    """Reload the user without cached permissions.

    Returns None if the user was deleted or deactivated.
    """
    users = get_user_model()._base_manager.using(write_alias())
    found = users.filter(pk=user.pk).first()
    return found if found is not None and found.is_active else None


def visible_threads(user: Any) -> QuerySet[Thread]:
    """Return the threads that ``user`` can view."""
    return select_visible(Thread.objects.using(write_alias()), user)


def select_with_last_run(user: Any) -> QuerySet[Thread]:
    """Return the threads visible to ``user``, each with the last run visible to ``user``."""
    latest = Run.select_newest(visible_runs(user).filter(thread=OuterRef("pk")))
    return visible_threads(user).annotate(
        last_run=Subquery(latest.values("pk")[:1]), last_state=Subquery(latest.values("state")[:1])
    )


def visible_runs(user: Any) -> QuerySet[Run]:
    """Return the runs that ``user`` can view."""
    return select_visible(Run.objects.using(write_alias()).select_related("thread"), user)


def visible_interrupts(user: Any) -> QuerySet[Interrupt]:
    """Return the interrupts that ``user`` can view, with additional annotations.

    The annotations ``is_claimed``, ``is_snoozed`` and ``is_overdue`` are computed with the
    database's clock. They are always false for closed interrupts.
    """
    every, annotated = (rows.all() for rows in _select_interrupts(write_alias()))
    seen = select_visible(every, user)
    return annotated if seen is every else _annotate(seen)


@cache
def _select_interrupts(using: str) -> tuple[QuerySet[Interrupt], QuerySet[Interrupt]]:
    """Return two cached querysets of all interrupts, without and with annotations.

    The querysets are cached, because building the annotations is slow.
    """
    every = Interrupt.objects.using(using).select_related("thread")
    return every, _annotate(every)


def _annotate(rows: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
    return rows.annotate(
        is_claimed=_is_true_while_pending(queue_filters.CLAIMED),
        is_snoozed=_is_true_while_pending(queue_filters.SNOOZED),
        is_overdue=_is_true_while_pending(queue_filters.OVERDUE),
    )


def _is_true_while_pending(condition: Q) -> Case:
    return Case(When(queue_filters.PENDING & condition, then=True), default=False)
