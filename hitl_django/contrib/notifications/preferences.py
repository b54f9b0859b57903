"""What somebody wants to be told of; and links in mails that end it without a log-in.

A link names a person and a topic, signed. It has no end of its own: old mails are opened late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.core import signing

from hitl_django.db.alias import write_alias
from hitl_django.page_urls import find_url

from .models import NotificationPreferences
from .topics import NotificationTopic

SALT = "hitl_django.notifications.unsubscribe"
#: Stands for the daily digest in a link, and for all topics at once.
DIGEST, ALL = "digest", "all"


def read_preferences(user: Any) -> NotificationPreferences:
    """Return what somebody wants to be told of, chosen or not."""
    found = NotificationPreferences.objects.using(write_alias()).filter(user=user.pk).first()
    return NotificationPreferences(user=user) if found is None else found


def save_preferences(user: Any, values: Mapping[str, str]) -> None:
    """Save what somebody has chosen; what isn't named stays."""
    rows = NotificationPreferences.objects.using(write_alias())
    rows.update_or_create(user_id=user.pk, defaults=dict(values))


def make_stop_url(user: Any, what: str) -> str | None:
    """Return the address at which somebody ends a topic; None where the project has no page."""
    token = signing.dumps([str(user.pk), what], salt=SALT)
    return find_url("hitl_django:unsubscribe", token)


def read_stop_token(token: str) -> tuple[Any, str] | None:
    """Return the user and the topic of a link; None where it is none, or the user is gone."""
    users = get_user_model()._default_manager.using(write_alias())
    try:
        pk, what = signing.loads(token, salt=SALT)
        user = users.filter(pk=pk).first()
    except (signing.BadSignature, TypeError, ValueError):
        return None
    return None if user is None else (user, what)


def stop(user: Any, what: str) -> None:
    """End a topic for somebody, or all of them; the digest ends for what it was chosen for."""
    save_preferences(
        user, dict.fromkeys(_list_topics(user, what), NotificationPreferences.When.OFF)
    )


def _list_topics(user: Any, what: str) -> Iterable[str]:
    if what == ALL:
        return list(NotificationTopic.values)
    if what == DIGEST:
        wanted = read_preferences(user)
        return [
            topic
            for topic in NotificationTopic.values
            if wanted.get(topic) == NotificationPreferences.When.DAILY
        ]
    return [what] if what in NotificationTopic.values else []
