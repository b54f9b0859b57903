"""Prepared statements that choose the next interrupt for a user who may see all interrupts.

The conditions are those of ``queue_filters``. The statements are prepared, because compiling them
with the ORM takes several times longer than the rest of a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import models

from hitl_django.db.alias import write_alias
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.db.row_mapper import RowMapper
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.review import LARGE_COLUMNS

from . import queue_filters

_INTERRUPT = RowMapper(Interrupt, deferred=LARGE_COLUMNS)
_RUN, _THREAD = RowMapper(Run), RowMapper(Thread)


@dataclass(frozen=True, slots=True)
class UnclaimedInterrupts:
    """The pending interrupts that a user could claim.

    ``groups`` are the keys of the user's groups. ``graph`` and ``group`` (the key of a group)
    narrow the interrupts. If ``group`` is given, ``groups`` contains only this key, or is empty if
    the user isn't a member of the group.
    """

    by: Any
    groups: Sequence[Any]
    graph: str | None
    group: Any

    @classmethod
    def build(cls, by: Any, groups: Sequence[Any], graph: str | None, group: Any) -> Self:
        key = getattr(group, "pk", group)
        return cls(by, [each for each in groups if key in (None, each)], graph, key)

    def read_first(self, most: int) -> list[Interrupt]:
        """Return at most ``most`` interrupts in the order of the queue, with runs and threads."""
        using = write_alias()
        rows = _prepare_candidates(*self._shape, most).run(using, **self._values)
        return [_build_interrupt(using, row) for row in rows]

    def lock_first(self, candidates: Sequence[UUID]) -> UUID | None:
        """Lock the first candidate that the user can still claim and that nobody else has locked.

        Return the id of the candidate, or None if there is no such candidate.
        """
        query = _prepare_lock(*self._shape)
        found = query.run(write_alias(), candidates=candidates, **self._values)
        return UUID(str(found[0][0])) if found else None

    @property
    def _shape(self) -> tuple[bool, bool, int]:
        return self.graph is not None, self.group is not None, len(self.groups)

    @property
    def _values(self) -> dict[str, Any]:
        keys = {_name(number): key for number, key in enumerate(self.groups)}
        return {"user": self.by.pk, "graph": self.graph, "group": self.group, **keys}


@lru_cache(maxsize=50)
def _prepare_candidates(by_graph: bool, by_group: bool, groups: int, most: int) -> PreparedSelect:
    def select() -> models.QuerySet[Any, Any]:
        rows, user, keys, group = _build(by_graph, by_group, groups)
        parts = queue_filters.split_unclaimed(user, keys, group)
        found = queue_filters.read_first(rows, parts, most)[:most]
        return found.values_list(*_INTERRUPT.names, *_RUN.under("run"), *_THREAD.under("thread"))

    return PreparedSelect(select)


@lru_cache(maxsize=50)
def _prepare_lock(by_graph: bool, by_group: bool, groups: int) -> PreparedSelect:
    def select() -> models.QuerySet[Any, Any]:
        rows, user, keys, _ = _build(by_graph, by_group, groups)
        candidates = [_parameter(Interrupt, "candidates", many=True)]
        free = rows.filter(queue_filters.match_unclaimed(user, keys), pk__in=candidates)
        return queue_filters.skip_locked(free).values_list("pk")[:1]

    return PreparedSelect(select)


def _build(by_graph: bool, by_group: bool, groups: int) -> tuple[Any, Any, list[Any], Any]:
    """Return a queryset of pending interrupts, and the query parameters for further conditions.

    ``by_graph`` and ``by_group`` add conditions on the graph and on the group. ``groups`` is the
    number of the user's groups. The query parameters are:

    - the user: an object whose ``pk`` is the parameter for the user's key
    - the user's groups: a list of parameters for the keys of the groups
    - the group in the condition on the group: a parameter for its key, or None without ``by_group``
    """
    graph = Parameter("graph", models.CharField()) if by_graph else None
    keys = [_parameter(Group, _name(number)) for number in range(groups)]
    group = _parameter(Group, "group") if by_group else None
    if by_group and keys:
        group = keys[0]
    user = SimpleNamespace(pk=_parameter(get_user_model(), "user"))
    return queue_filters.list_pending(None, graph=graph, group=group), user, keys, group


def _parameter(model: Any, name: str, *, many: bool = False) -> Any:
    return Parameter(name, model._meta.pk, many=many)


def _name(number: int) -> str:
    return f"group_{number}"


def _build_interrupt(using: str, row: Sequence[Any]) -> Interrupt:
    interrupt = _INTERRUPT.read(using, row)
    row = row[len(_INTERRUPT.names) :]
    interrupt.run = _RUN.read(using, row)
    interrupt.thread = interrupt.run.thread = _THREAD.read(using, row[len(_RUN.names) :])
    return interrupt
