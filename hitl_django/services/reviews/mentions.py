"""Users that a comment mentions as ``@username``."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q

from hitl_django.db.alias import write_alias
from hitl_django.models import Comment, Decision, Interrupt
from hitl_django.models.functions import Now
from hitl_django.permissions import get_policy, select_visible

#: Maximum number of mentions per comment. A policy checks each of them.
MOST = 20
#: The characters that Django allows in usernames. An email address is not a mention.
_NAMED = re.compile(r"(?<![\w.@+-])@([\w.@+-]+)")
#: Characters that are often punctuation after a username rather than part of the username.
_STOPS = ".-+@"


def find_mentioned(text: str, interrupt: Interrupt, by: Any) -> list[Any]:
    """Return the mentioned users who may see the interrupt.

    A user who may not assign the interrupt must not be able to find out which usernames exist. For
    such a user, only users named on the interrupt's page are returned.
    """
    names = [
        name
        for found in list(_NAMED.finditer(text))[:MOST]
        for name in _strip_punctuation(found[1])
    ]
    if not names:
        return []
    users = get_user_model()
    named = {f"{users.USERNAME_FIELD}__in": names, "is_active": True}
    rows = users._default_manager.using(write_alias()).filter(**named)
    if by is not None and not get_policy().may_assign(by, interrupt):
        rows = rows.filter(match_users_on_page(interrupt))
    row = Interrupt.objects.using(write_alias()).filter(pk=interrupt.pk)
    return [user for user in rows.order_by("pk") if select_visible(row, user).exists()]


def find_unmentioned(text: str, names: Collection[str]) -> list[str]:
    """Return the names after an "@" that are not among the mentioned ``names``, in order."""
    found = (_strip_punctuation(found[1]) for found in _NAMED.finditer(text))
    return list(dict.fromkeys(one[-1] for one in found if one and not {*names}.intersection(one)))


def split_at_mentions(text: str, names: Collection[str]) -> list[tuple[str, bool]]:
    """Split a text at mentions of these names.

    Returns pairs of a part of the text and whether the part is a mention.
    """
    parts: list[tuple[str, bool]] = []
    at = 0
    for found in _NAMED.finditer(text) if names else ():
        name = next((name for name in _strip_punctuation(found[1]) if name in names), None)
        if name is not None:
            end = found.start() + 1 + len(name)
            parts += [(text[at : found.start()], False), (text[found.start() : end], True)]
            at = end
    return [*parts, (text[at:], False)]


def _strip_punctuation(word: str) -> list[str]:
    return list(dict.fromkeys(name for name in (word, word.rstrip(_STOPS)) if name))


def match_users_on_page(interrupt: Interrupt) -> Q:
    """Return a condition on users: the user is named on the page of the interrupt."""
    rows = Interrupt.objects.using(write_alias()).filter(pk=interrupt.pk)
    holder = rows.filter(claimed_until__gt=Now())
    about = {"interrupt": interrupt.pk, "by__isnull": False}
    return (
        Q(pk__in=rows.filter(assignee__isnull=False).values("assignee"))
        | Q(pk__in=holder.filter(claimed_by__isnull=False).values("claimed_by"))
        | Q(pk__in=Decision.objects.using(write_alias()).filter(**about).values("by"))
        | Q(pk__in=Comment.objects.using(write_alias()).filter(**about).values("by"))
    )
