"""Who may see, decide and operate: asked by the admin, the API and the services alike.

What a user may not see looks as if it didn't exist: ``select_visible`` narrows a queryset to what
somebody may see, and ``find_row`` looks a row up in that. A policy of your own subclasses
``ModelPermissionPolicy`` and is named by ``HITL["POLICY"]``. Code that acts for nobody
(``by=None``) is never asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import Exists, Model, Q, QuerySet
from django.utils.module_loading import import_string

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.errors import NotAllowedError
from hitl_django.extensions import find_table
from hitl_django.graph_registry import registry
from hitl_django.models import (
    Decision,
    Interrupt,
    Run,
    Thread,
)

M = TypeVar("M", bound=Model)
Subject = TypeVar("Subject", Interrupt, Run)

#: The method of the policy that says which rows of a model a user may see.
_NARROWED_BY: dict[type[Model] | None, str] = {
    Thread: "visible_threads",
    Run: "visible_runs",
    Interrupt: "visible_interrupts",
}


class ModelPermissionPolicy:
    """Django's model permissions, for every row alike.

    But a graph whose ``ReviewPolicy`` names groups is reviewed by their members alone, and one that
    is ``startable_by`` groups is started by those.
    Inactive and anonymous users have none of them, so they see nothing and may nothing.
    """

    def visible_threads(self, user: Any, threads: QuerySet[Thread]) -> QuerySet[Thread]:
        """Narrow a queryset to the threads that the user may see."""
        return self._visible(user, "view_thread", threads)

    def visible_runs(self, user: Any, runs: QuerySet[Run]) -> QuerySet[Run]:
        """Narrow a queryset to the runs that the user may see.

        Who may start a graph sees the runs of it that they started; ``view_run`` is about all.
        """
        seen = self._visible(user, "view_run", runs)
        if seen is runs or not user.is_active:
            return seen
        graphs = [name for name in registry.list_names() if self.may_start(user, name)]
        return runs.filter(started_by=user.pk, graph__in=graphs) if graphs else seen

    def visible_interrupts(self, user: Any, interrupts: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
        """Narrow a queryset to the questions that the user may see.

        Those of a graph that is reserved for groups are for their members and superusers; the
        model permission is about all others.
        """
        reserved = registry.list_reviewer_groups()
        ordinary = self._visible(user, "view_interrupt", interrupts)
        if not reserved or not user.is_active or user.is_superuser:
            return ordinary
        others = ~Q(graph__in=list(reserved))
        open_to = others if self._has(user, "view_interrupt") else Q(pk__in=[])
        return interrupts.filter(open_to | _reserved_for(user))

    def visible_rows(self, user: Any, rows: QuerySet[M]) -> QuerySet[M]:
        """Narrow a queryset of an optional app's model to the rows that the user may see.

        It takes the model's view permission. If its table names a column for the graph
        (``hitl_django.extensions.Table``), rows of a graph that is reserved for groups are visible
        to members alone.
        """
        model: type[Model] = rows.model._meta.concrete_model or rows.model
        of, table = model._meta, find_table(model)
        if not self.has_permission(user, f"{of.app_label}.view_{of.model_name}"):
            return rows.none()
        reserved = registry.list_reviewer_groups()
        if table is None or not table.graph or not reserved or user.is_superuser:
            return rows
        unreserved = ~Q(**{f"{table.graph}__in": list(reserved)})
        return rows.filter(unreserved | _reserved_for(user, table.graph))

    def has_permission(self, user: Any, permission: str) -> bool:
        """Return whether the user has a permission of an optional app: "app.codename"."""
        return bool(user.is_active and user.has_perm(permission))

    def visible_subjects(self, user: Any, subjects: QuerySet[M]) -> QuerySet[M]:
        """Narrow a queryset of the product's own objects to those that the user may name.

        Asked where a run is started about an object by its key, as over the API; code that hands
        over the object itself has decided that already.
        """
        of = subjects.model._meta
        names = [f"{of.app_label}.{verb}_{of.model_name}" for verb in ("view", "change")]
        sees = user.is_active and any(map(user.has_perm, names))
        return subjects if sees else subjects.none()

    def may_start(self, user: Any, graph: str) -> bool:
        """Return whether the user may start a run of the graph."""
        groups = registry.get_starter_groups(graph)
        if not groups or not user.is_active or user.is_superuser:
            return self._has(user, "start_run")
        return bool(_groups_of(user, groups))

    def may_decide(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may decide the interrupt; called in the deciding transaction."""
        groups = frozenset(registry.get_review_policy(interrupt.graph).groups)
        if not groups or not user.is_active or user.is_superuser:
            return self._has(user, "decide_interrupt")
        return bool(_groups_of(user, groups))

    def may_undo(self, user: Any, decision: Decision) -> bool:
        """Return whether the user may undo the decision: who made it, and superusers.

        As long as they may decide its question.
        """
        if not self.may_decide(user, decision.interrupt):
            return False
        return bool(user.is_superuser) or decision.by_id == user.pk

    def may_take_over(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may take a question over from who holds it, and end the claim."""
        return self._has(user, "take_over_interrupt")

    def may_assign(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may assign the question to people and groups."""
        return self._has(user, "assign_interrupt")

    def may_comment(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may comment on the question."""
        return self.may_decide(user, interrupt) or self._has(user, "add_comment")

    def may_operate(self, user: Any, run: Run) -> bool:
        """Return whether the user may cancel, retry and fork the run, and see its errors.

        To start another on its thread that discards what it asks is to cancel it.
        """
        return self._has(user, "operate_run")

    def may_view_workers(self, user: Any) -> bool:
        """Return whether the user may see how the workers are."""
        return self._has(user, "operate_run")

    def may_view_reviewer_insights(self, user: Any) -> bool:
        """Return whether the user may see how much and how each reviewer decides.

        What is seen of somebody's work may be theirs to agree to, so nobody may by another right.
        """
        return self._has(user, "view_reviewer_insights")

    def may_export(self, user: Any) -> bool:
        """Return whether the user may export decisions and the audit log of visible threads."""
        return self._has(user, "export_decisions")

    def may_share_filters(self, user: Any) -> bool:
        """Return whether the user may share filters of the queue, and remove those that are."""
        return self._has(user, "share_savedfilter")

    def may_send_payload(self, channel: str, interrupt: Interrupt) -> bool:
        """Return whether what is asked goes out over a channel, "email" or "slack", with the title.

        It never does unless a policy of your own says so.
        """
        return False

    def may_view_state(self, user: Any, thread: Thread) -> bool:
        """Return whether the user may see the values in the thread's channels."""
        return self._has(user, "view_thread_state")

    def may_view_result(self, user: Any, run: Run) -> bool:
        """Return whether the user may see the state that a run they see ended with.

        Who started it may, where nobody else started another on its thread: what those were given
        and computed is in that state, too.
        """
        if self.may_view_state(user, run.thread):
            return True
        if not user.is_active or run.started_by_id != user.pk:
            return False
        runs = Run.objects.using(write_alias()).filter(thread=run.thread_id)
        return not runs.exclude(started_by=user.pk).exists()

    def may_use_store(self, user: Any, namespace: tuple[str, ...], *, writes: bool) -> bool:
        """Return whether the user may read, or write, what threads share in a namespace and below.

        Nobody may unless a policy of your own says so: what is in the store is your graphs' affair.
        """
        return False

    def _has(self, user: Any, codename: str) -> bool:
        return self.has_permission(user, f"hitl_django.{codename}")

    def _visible(self, user: Any, codename: str, rows: QuerySet[M]) -> QuerySet[M]:
        return rows if self._has(user, codename) else rows.none()


def _reserved_for(user: Any, column: str = "graph") -> Q:
    """Select rows of the graphs that are reserved for a group of the user's."""
    found = Q(pk__in=[])
    for name, groups in registry.list_reviewer_groups().items():
        # Looked up by the query itself: a list asks what is visible for each of its parts.
        found |= Q(Exists(user.groups.order_by().filter(name__in=groups)), **{column: name})
    return found


def _groups_of(user: Any, names: frozenset[str]) -> frozenset[str]:
    """Return those of the groups that the user is in, at this moment and not as it was read."""
    groups = user.groups.using(router.db_for_write(Interrupt)).order_by()
    return frozenset(groups.filter(name__in=names).values_list("name", flat=True))


def may_start(user: Any, graph: str, via: str) -> bool:
    """Return whether the user may start a run of the graph from there ("api", "admin", "code")."""
    if via == "api" and not registry.is_startable_over_api(graph):
        return False
    return get_policy().may_start(user, graph)


def find_startable_graphs(user: Any) -> Iterator[str]:
    """Yield the names of the graphs that the user may start with an input of their own.

    In the admin as over the API: what only the product's own code knows isn't asked for.
    """
    return (name for name in registry.list_names() if may_start(user, name, "api"))


def select_visible(rows: QuerySet[M], by: Any) -> QuerySet[M]:
    """Narrow a queryset to the rows that ``by`` may see; None is the program, which sees all."""
    if by is None:
        return rows
    name = _NARROWED_BY.get(rows.model._meta.concrete_model, "visible_rows")
    narrow = getattr(get_policy(), name)
    narrowed: QuerySet[M] = narrow(by, rows)
    return narrowed


def select_visible_through(rows: QuerySet[M], name: str, by: Any) -> QuerySet[M]:
    """Narrow a queryset to the rows whose related row ``by`` may see.

    ``name`` is the field that leads there.
    """
    related: Any = rows.model._meta.get_field(name).related_model
    every = related.objects.using(rows._db)  # type: ignore[attr-defined]
    seen = select_visible(every, by)
    # Where all or nothing can be seen, no subquery says so at less cost.
    if seen is every:
        return rows
    return rows.none() if seen.query.is_empty() else rows.filter(**{f"{name}__in": seen})


def find_row(rows: QuerySet[M], absent: Exception | type[Exception], **key: Any) -> M:
    """Return the row with this key; raises ``absent`` where there is none, or can't be any."""
    try:
        found = rows.filter(**key)
    except (TypeError, ValueError, ValidationError):  # such as an id that is no UUID
        raise absent from None
    row = found.first()
    if row is None:
        raise absent
    return row


def refuse_unless_may(
    by: Any, may: Callable[[Any, Subject], bool], row: Subject, message: str
) -> None:
    """Raise NotAllowedError unless ``by`` may do that with a question or a run.

    The error names the row and its thread, on whose record it is.
    """
    if by is not None and not may(by, row):
        raise NotAllowedError(message, thread_id=row.thread.thread_id, subject=str(row.pk))


def get_policy() -> ModelPermissionPolicy:
    """Return the policy that ``HITL["POLICY"]`` names."""
    return _policy(hitl.POLICY)


@cache
def _policy(path: str) -> ModelPermissionPolicy:
    chosen: ModelPermissionPolicy = import_string(path)()
    return chosen
