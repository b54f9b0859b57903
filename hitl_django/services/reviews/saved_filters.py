"""Saved filters of the review queue, private or shared."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Case, Q, When

from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import SavedFilter
from hitl_django.permissions import check_user, get_policy

from .periods import list_graphs_with_interrupts

#: Query parameters that a filter stores, and the maximum length of each value.
PARAMETERS = ("show", "graph", "group", "priority", "assignee", "due", "q")
LONGEST = 200
#: Maximum number of filters per user, and maximum number of filters in a list.
MAX_OWN, MAX_LISTED = 20, 60
NAME_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFilterInfo:
    """A saved filter, and whether the current user may delete it."""

    id: int
    name: str
    query: Mapping[str, str]
    shared: bool
    is_removable: bool


def clean_query(query: Any) -> dict[str, str]:
    """Return the valid parameters of a query.

    A valid parameter has a name in PARAMETERS, and a string of 1 to LONGEST characters as value.
    """
    if not isinstance(query, Mapping):
        return {}
    return {
        name: query[name]
        for name in PARAMETERS
        if isinstance(query.get(name), str) and 0 < len(query[name]) <= LONGEST
    }


def list_saved_filters(user: Any) -> list[SavedFilterInfo]:
    """Return the user's own filters, followed by shared filters of other users.

    Both groups are sorted by name. A shared filter that names a graph is omitted if the user can't
    see interrupts of that graph, because the filter would reveal the graph's name.
    """
    may_remove = get_policy().may_share_filters(user)
    rows = SavedFilter.objects.using(write_alias()).filter(Q(owner=user.pk) | Q(shared=True))
    own_first = Case(When(owner=user.pk, then=0), default=1)
    rows = rows.order_by(own_first, "name", "pk")[:MAX_LISTED]
    listed = [(row, clean_query(row.query)) for row in rows]
    seen: Collection[str] | None = None
    found = []
    for row, query in listed:
        is_own = row.owner_id == user.pk
        if not is_own and "graph" in query:
            seen = list_graphs_with_interrupts(user) if seen is None else seen
            if query["graph"] not in seen:
                continue
        info = SavedFilterInfo(
            id=row.pk,
            name=row.name,
            query=query,
            shared=row.shared,
            is_removable=is_own or may_remove,
        )
        found.append(info)
    return found


@retry_on_conflict
def save_filter(name: str, query: Mapping[str, Any], *, shared: bool = False, by: Any) -> int:
    """Save a filter under a name, and return its id.

    A filter of the user with the same name is replaced.

    Raises:
        NotAllowedError: if the user may not share filters.
        InvalidInputError: if the name is empty or too long, the query has no known parameter, or
            the user has too many filters.
    """
    check_user(by)
    if shared and not get_policy().may_share_filters(by):
        raise NotAllowedError("You don't have permission to share filters.")
    name, kept = escape_unstorable(name).strip(), clean_query(query)
    if not 0 < len(name) <= NAME_LENGTH:
        reason = f"must be 1 to {NAME_LENGTH} characters"
        raise InvalidInputError(f"The name {reason}.", [("name", reason)])
    if not kept:
        raise InvalidInputError("The filter is empty.", [("query", "is empty")])
    rows = SavedFilter.objects.using(write_alias())
    with transaction.atomic(using=write_alias()):
        # Lock the user, because concurrent calls could otherwise exceed the maximum number of
        # filters.
        users = get_user_model()._base_manager.using(write_alias())
        users.select_for_update().get(pk=by.pk)
        own = rows.filter(owner=by.pk)
        if not own.filter(name=name).exists() and own.count() >= MAX_OWN:
            reason = f"at most {MAX_OWN} filters are allowed"
            raise InvalidInputError(f"Saved filters: {reason}.", [("name", reason)])
        saved, _new = rows.update_or_create(
            owner=by, name=name, defaults={"query": kept, "shared": shared}
        )
    return saved.pk


def remove_filter(filter_id: int, *, by: Any) -> bool:
    """Delete a filter that the user owns or may manage, and return whether it existed."""
    may_remove_shared = get_policy().may_share_filters(by)
    removable = Q(owner=by.pk) | Q(shared=True) if may_remove_shared else Q(owner=by.pk)
    rows = SavedFilter.objects.using(write_alias()).filter(removable, pk=filter_id)
    return bool(rows.delete()[0])
