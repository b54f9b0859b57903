"""People who can be assigned to an interrupt or mentioned in its comments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from hitl_django.db.alias import write_alias
from hitl_django.errors import NotAllowedError
from hitl_django.models import Decision, Interrupt
from hitl_django.permissions import get_policy, select_visible

from . import lookup
from .mentions import match_users_on_page

#: Maximum number of people returned.
MAX_PEOPLE = 8
#: Maximum number of users for whom the policy is asked.
CHECKED = 30
#: Number of the newest decisions in which recent reviewers are looked up.
NEWEST = 200
#: Maximum length of a search.
SEARCHED = 100


@dataclass(frozen=True, slots=True)
class PersonInfo:
    """A user: the username, and the full name or an empty string."""

    username: str
    name: str


def find_people(
    interrupt_id: UUID | str, words: str = "", *, by: Any = None, to_decide: bool = False
) -> list[PersonInfo]:
    """Return up to MAX_PEOPLE active users who may see the interrupt.

    Each of the ``words`` must be part of the username or name. People who decided recently come
    first. With ``to_decide``, users who may not decide the interrupt are omitted. If ``by`` may not
    assign the interrupt, only people named on the interrupt's page are returned.

    Raises:
        InterruptNotFound: if the interrupt doesn't exist or ``by`` may not see it.
        NotAllowedError: if ``by`` may neither assign nor comment on the interrupt.
    """
    interrupt, policy = lookup.find(interrupt_id, by), get_policy()
    users = get_user_model()._default_manager.using(write_alias()).filter(is_active=True)
    if by is not None and not policy.may_assign(by, interrupt):
        if not policy.may_comment(by, interrupt):
            raise NotAllowedError("You don't have permission to look people up.")
        users = users.filter(match_users_on_page(interrupt))
    row = Interrupt.objects.using(write_alias()).filter(pk=interrupt.pk)
    found = []
    for user in _list_candidates(_search(users, words)):
        if to_decide and not policy.may_decide(user, interrupt):
            continue
        if select_visible(row, user).exists():
            found.append(PersonInfo(user.get_username(), _get_full_name(user)))
            if len(found) == MAX_PEOPLE:
                break
    return found


def _search(users: QuerySet[Any], words: str) -> QuerySet[Any]:
    model = users.model
    existing = {field.name for field in model._meta.concrete_fields}
    names = [model.USERNAME_FIELD, *existing.intersection({"first_name", "last_name"})]
    for word in words[:SEARCHED].split():
        found = Q()
        for name in names:
            found |= Q(**{f"{name}__icontains": word})
        users = users.filter(found)
    return users


def _list_candidates(users: QuerySet[Any]) -> Iterator[Any]:
    """Yield at most CHECKED users, starting with the users who decided most recently."""
    newest = Decision.objects.using(write_alias()).order_by("-created_at", "-id")
    named = newest.filter(by__isnull=False).values_list("by", flat=True)[:NEWEST]
    keys = list(dict.fromkeys(named))[:CHECKED]
    recent = users.in_bulk(keys)
    yield from (recent[key] for key in keys if key in recent)
    others = users.exclude(pk__in=recent).order_by(users.model.USERNAME_FIELD)
    yield from others[: CHECKED - len(recent)]


def _get_full_name(user: Any) -> str:
    get_full_name = getattr(user, "get_full_name", None)
    return str(get_full_name()) if get_full_name is not None else ""
