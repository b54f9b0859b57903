"""Notification settings, and unsubscribe links that need no login.

A link contains a signed user and topic. It does not expire, because old emails are opened late.
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
#: Topics of links: the daily digest, and all topics.
DIGEST, ALL = "digest", "all"


def read_preferences(user: Any) -> NotificationPreferences:
    """Return the settings of a user, unsaved if there are none."""
    found = NotificationPreferences.objects.using(write_alias()).filter(user=user.pk).first()
    return NotificationPreferences(user=user) if found is None else found


def save_preferences(user: Any, values: Mapping[str, str]) -> None:
    """Save settings of a user; omitted topics are unchanged."""
    rows = NotificationPreferences.objects.using(write_alias())
    rows.update_or_create(user_id=user.pk, defaults=dict(values))


def make_stop_url(user: Any, what: str) -> str | None:
    """Return the unsubscribe URL of a topic, or None without the page."""
    token = signing.dumps([str(user.pk), what], salt=SALT)
    return find_url("hitl_django:unsubscribe", token)


def read_stop_token(token: str) -> tuple[Any, str] | None:
    """Return the user and the topic of a link, or None if it is invalid or the user is gone."""
    users = get_user_model()._default_manager.using(write_alias())
    try:
        pk, what = signing.loads(token, salt=SALT)
        user = users.filter(pk=pk).first()
    except (signing.BadSignature, TypeError, ValueError):
        return None
    return None if user is None else (user, what)


def stop(user: Any, what: str) -> None:
    """Turn off one topic or all. For the digest, turn off all topics in it."""
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
