"""Permission policy for the admin, the API and the services.

A row that a user may not see is treated as not existing. ``select_visible`` restricts a queryset to
the visible rows, and ``find_row`` looks up a row among the visible rows. To use a custom policy,
subclass ``ModelPermissionPolicy`` and name the class in ``HITL["POLICY"]``. Code that acts without
a user (``by=None``) is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import Exists, Model, Q, QuerySet
from django.utils.module_loading import import_string

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.errors import NotAllowedError
from hitl_django.extensions import find_table
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.ask_graph import ASK_GRAPH
from hitl_django.models import (
    Decision,
    Interrupt,
    Run,
    Thread,
)

M = TypeVar("M", bound=Model)
Subject = TypeVar("Subject", Interrupt, Run)

#: The policy method that restricts a queryset of each model.
_NARROWED_BY: dict[type[Model] | None, str] = {
    Thread: "visible_threads",
    Run: "visible_runs",
    Interrupt: "visible_interrupts",
}


class ModelPermissionPolicy:
    """Django's model permissions, which apply to all rows of a model.

    There are two exceptions. A graph whose ``ReviewPolicy`` names groups can be reviewed only by
    members of these groups. A graph that is ``startable_by`` groups can be started only by members
    of these groups. Inactive and anonymous users have no permissions.
    """

    def visible_threads(self, user: Any, threads: QuerySet[Thread]) -> QuerySet[Thread]:
        """Restrict a queryset to the threads that the user may see."""
        return self._visible(user, "view_thread", threads)

    def visible_runs(self, user: Any, runs: QuerySet[Run]) -> QuerySet[Run]:
        """Restrict a queryset to the runs that the user may see.

        Users with the permission ``view_run`` see all runs. Other users see the runs that they
        started, and the runs that the project's code started for them (``by=user``).
        """
        seen = self._visible(user, "view_run", runs)
        if seen is runs or not user.is_active:
            return seen
        return runs.filter(started_by=user.pk)

    def visible_interrupts(self, user: Any, interrupts: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
        """Restrict a queryset to the interrupts that the user may see.

        Interrupts of a graph that is reserved for groups are visible to the members of those groups
        and to superusers. Interrupts of other graphs are visible to users with the permission
        ``view_interrupt``. Users with the permission to call ``ask()`` also see the interrupts that
        they created with ``ask()``.
        """
        reserved = registry.list_reviewer_groups()
        sees_others = self._has(user, "view_interrupt")
        if not user.is_active or user.is_superuser or (sees_others and not reserved):
            return interrupts if sees_others else interrupts.none()
        asks = not sees_others and self.may_ask(user)
        if not reserved and not asks:
            return interrupts.none()
        open_to = ~Q(graph__in=list(reserved)) if sees_others else Q(pk__in=[])
        if asks:
            open_to = Q(graph=ASK_GRAPH, run__started_by=user.pk)
        return interrupts.filter(open_to | _match_reserved_rows(user))

    def visible_rows(self, user: Any, rows: QuerySet[M]) -> QuerySet[M]:
        """Restrict a queryset of an optional app's model to the rows that the user may see.

        The user needs the model's view permission. If the model's table names a column for the
        graph (``hitl_django.extensions.Table``), rows of a graph that is reserved for groups are
        visible only to members of these groups.
        """
        model: type[Model] = rows.model._meta.concrete_model or rows.model
        of, table = model._meta, find_table(model)
        if not self.has_permission(user, f"{of.app_label}.view_{of.model_name}"):
            return rows.none()
        reserved = registry.list_reviewer_groups()
        if table is None or not table.graph or not reserved or user.is_superuser:
            return rows
        unreserved = ~Q(**{f"{table.graph}__in": list(reserved)})
        return rows.filter(unreserved | _match_reserved_rows(user, table.graph))

    def has_permission(self, user: Any, permission: str) -> bool:
        """Return whether the user has a permission of an optional app, such as "app.codename"."""
        check_user(user)
        return bool(user.is_active and user.has_perm(permission))

    def visible_subjects(self, user: Any, subjects: QuerySet[M]) -> QuerySet[M]:
        """Restrict a queryset of your project's objects to those that the user may relate to a run.

        The method is called if a run is started with the key of a related object, for example over
        the API. If code passes the object itself, the object is not checked.
        """
        of = subjects.model._meta
        names = [f"{of.app_label}.{verb}_{of.model_name}" for verb in ("view", "change")]
        sees = user.is_active and any(map(user.has_perm, names))
        return subjects if sees else subjects.none()

    def may_start(self, user: Any, graph: str) -> bool:
        """Return whether the user may start a run of the graph."""
        if graph == ASK_GRAPH:
            return self.may_ask(user)
        groups = registry.get_starter_groups(graph)
        if not groups or not user.is_active or user.is_superuser:
            return self._has(user, "start_run")
        return bool(_find_own_groups(user, groups))

    def may_ask(self, user: Any) -> bool:
        """Return whether the user may ask a person with ``ask()`` or ``POST interrupts/``."""
        return self._has(user, "add_interrupt")

    def may_withdraw(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may withdraw the interrupt.

        Withdrawing the interrupt cancels its run. By default, the user who created an interrupt
        with ``ask()`` may withdraw it, and so may users who may operate the run.
        """
        run = interrupt.run
        is_own = interrupt.graph == ASK_GRAPH and run.started_by_id == user.pk
        return (is_own and self.may_ask(user)) or self.may_operate(user, run)

    def may_decide(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may decide the interrupt.

        The method is called in the transaction that stores the decision.
        """
        groups = frozenset(registry.get_review_policy(interrupt.graph).groups)
        if not groups or not user.is_active or user.is_superuser:
            return self._has(user, "decide_interrupt")
        return bool(_find_own_groups(user, groups))

    def may_undo(self, user: Any, decision: Decision) -> bool:
        """Return whether the user may undo the decision.

        By default, superusers and the person who made the decision may undo it, if they may decide
        the interrupt.
        """
        if not self.may_decide(user, decision.interrupt):
            return False
        return bool(user.is_superuser) or decision.by_id == user.pk

    def may_take_over(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may take over or end another user's claim on the interrupt."""
        return self._has(user, "take_over_interrupt")

    def may_assign(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may assign the interrupt to users and groups."""
        return self._has(user, "assign_interrupt")

    def may_comment(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may comment on the interrupt."""
        return self.may_decide(user, interrupt) or self._has(user, "add_comment")

    def may_view_comments(self, user: Any, interrupt: Interrupt) -> bool:
        """Return whether the user may view the comments on an interrupt that they can see.

        Users who see the interrupt only because they created it with ``ask()`` may not view the
        reviewers' comments.
        """
        return self._has(user, "view_interrupt") or self.may_comment(user, interrupt)

    def may_operate(self, user: Any, run: Run) -> bool:
        """Return whether the user may cancel, retry and fork the run, and view its errors.

        If a new run discards this run's pending interrupts, this run is cancelled. Starting such a
        new run therefore also requires this permission.
        """
        return self._has(user, "operate_run")

    def may_view_workers(self, user: Any) -> bool:
        """Return whether the user may view the state of the workers."""
        return self._has(user, "operate_run")

    def may_view_reviewer_insights(self, user: Any) -> bool:
        """Return whether the user may view statistics of each reviewer.

        Statistics have a separate permission, because statistics about a person's work may require
        the person's consent.
        """
        return self._has(user, "view_reviewer_insights")

    def may_export(self, user: Any) -> bool:
        """Return whether the user may export decisions and the audit log of visible threads."""
        return self._has(user, "export_decisions")

    def may_share_filters(self, user: Any) -> bool:
        """Return whether the user may share review queue filters and remove shared filters."""
        return self._has(user, "share_savedfilter")

    def may_send_payload(self, channel: str, interrupt: Interrupt) -> bool:
        """Return whether messages over a channel contain the payload in addition to the title.

        ``channel`` is "email" or "slack". The default is False for all interrupts.
        """
        return False

    def may_view_state(self, user: Any, thread: Thread) -> bool:
        """Return whether the user may view the values in the thread's channels."""
        return self._has(user, "view_thread_state")

    def may_view_result(self, user: Any, run: Run) -> bool:
        """Return whether the user may view the final state of a run that they can see.

        A user who started all runs of the thread needs the permission ``view_run`` or the
        permission to start the graph. All other users need the permission to view states, because
        the state contains input and results of other users, or values that the project's code added
        for its own use.
        """
        if self.may_view_state(user, run.thread):
            return True
        if not user.is_active or run.started_by_id != user.pk:
            return False
        if not (self._has(user, "view_run") or self.may_start(user, run.graph)):
            return False
        runs = Run.objects.using(write_alias()).filter(thread=run.thread_id)
        return not runs.exclude(started_by=user.pk).exists()

    def may_use_store(self, user: Any, namespace: tuple[str, ...], *, writes: bool) -> bool:
        """Return whether the user may use the store in a namespace and its sub-namespaces.

        If ``writes`` is true, the user wants to write items, otherwise to read items. The default
        is False for all namespaces, because the contents of the store depend on your graphs.
        """
        return False

    def _has(self, user: Any, codename: str) -> bool:
        return self.has_permission(user, f"hitl_django.{codename}")

    def _visible(self, user: Any, codename: str, rows: QuerySet[M]) -> QuerySet[M]:
        return rows if self._has(user, codename) else rows.none()


def _match_reserved_rows(user: Any, column: str = "graph") -> Q:
    found = Q(pk__in=[])
    for name, groups in registry.list_reviewer_groups().items():
        # A subquery is used, because a list view calls this method several times for one page.
        found |= Q(Exists(user.groups.order_by().filter(name__in=groups)), **{column: name})
    return found


def _find_own_groups(user: Any, names: frozenset[str]) -> frozenset[str]:
    groups = user.groups.using(router.db_for_write(Interrupt)).order_by()
    return frozenset(groups.filter(name__in=names).values_list("name", flat=True))


def check_user(user: Any) -> None:
    """Raise TypeError unless the argument is a user, for example if it is a username."""
    if not hasattr(user, "is_active"):
        raise TypeError(
            f"The user must be an instance of {settings.AUTH_USER_MODEL}, not {user!r}."
        )


def may_start(user: Any, graph: str, via: str) -> bool:
    """Return whether the user may start a run of the graph via "api", "admin" or "code"."""
    if via == "api" and not registry.is_startable_over_api(graph):
        return False
    return get_policy().may_start(user, graph)


def find_startable_graphs(user: Any) -> Iterator[str]:
    """Yield the names of the graphs that the user may start in the admin or over the API.

    Graphs that only your project's code may start are omitted.
    """
    return (name for name in registry.list_names() if may_start(user, name, "api"))


def select_visible(rows: QuerySet[M], by: Any) -> QuerySet[M]:
    """Restrict a queryset to the rows that ``by`` may see. Without a user, all rows remain."""
    if by is None:
        return rows
    check_user(by)
    name = _NARROWED_BY.get(rows.model._meta.concrete_model, "visible_rows")
    narrow = getattr(get_policy(), name)
    narrowed: QuerySet[M] = narrow(by, rows)
    return narrowed


def select_visible_through(rows: QuerySet[M], name: str, by: Any) -> QuerySet[M]:
    """Restrict a queryset to the rows with a related row that is visible to ``by``.

    ``name`` is the name of the foreign key to the related row.
    """
    related: Any = rows.model._meta.get_field(name).related_model
    every = related.objects.using(rows._db)  # type: ignore[attr-defined]
    seen = select_visible(every, by)
    # If all related rows are visible, or none are, a subquery would only make the query slower.
    if seen is every:
        return rows
    return rows.none() if seen.query.is_empty() else rows.filter(**{f"{name}__in": seen})


def find_row(rows: QuerySet[M], absent: Exception | type[Exception], **key: Any) -> M:
    """Return the row with this key.

    Raises:
        Exception: the exception ``absent``, if no row has the key or the key has an invalid
            format.
        TypeError: a row or an info, such as RunInfo, is given instead of its id.
    """
    for name in {"pk", "thread_id"}.intersection(key):
        check_id(rows.model._meta.model_name or name, key[name])
    try:
        found = rows.filter(**key)
    except (TypeError, ValueError, ValidationError):  # For example, a UUID is invalid.
        raise absent from None
    row = found.first()
    if row is None:
        raise absent
    return row


def check_ids(name: str, given: Iterable[Any]) -> Iterable[Any]:
    """Return the argument, or raise TypeError if it is a single id instead of a list of ids."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a list of ids, not {given!r}.")
    return given


def check_id(name: str, given: Any) -> None:
    """Raise TypeError if the argument is an object of this name instead of the object's id."""
    if hasattr(given, "id") or hasattr(given, "thread_id"):
        raise TypeError(f"Pass the id of the {name}, not the {type(given).__name__} itself.")


def refuse_unless_may(
    by: Any, may: Callable[[Any, Subject], bool], row: Subject, message: str
) -> None:
    """Raise NotAllowedError unless ``by`` may act on an interrupt or a run.

    ``may`` is a method of the policy, and ``message`` is the error message. The error names the row
    and the row's thread. The denial is stored in the thread's audit log. Without a user, nothing is
    checked.
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
