"""Notification settings, and unsubscribe links that need no login.

A link contains the user and the topic, signed. The link doesn't expire, because people open old
emails late.
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
#: Topics of unsubscribe links: the daily digest, and all topics.
DIGEST, ALL = "digest", "all"


def read_preferences(user: Any) -> NotificationPreferences:
    """Return the settings of a user.

    Without stored settings, an unsaved instance is returned.
    """
    found = NotificationPreferences.objects.using(write_alias()).filter(user=user.pk).first()
    return NotificationPreferences(user=user) if found is None else found


def save_preferences(user: Any, values: Mapping[str, str]) -> None:
    """Save settings of a user.

    Topics that are not in ``values`` don't change.
    """
    rows = NotificationPreferences.objects.using(write_alias())
    rows.update_or_create(user_id=user.pk, defaults=dict(values))


def make_unsubscribe_url(user: Any, what: str) -> str | None:
    """Return the unsubscribe URL of the topic ``what``, or None if there is no unsubscribe page.

    There is no page if the project doesn't include the URLs of this app.
    """
    token = signing.dumps([str(user.pk), what], salt=SALT)
    return find_url("hitl_django:unsubscribe", token)


def read_unsubscribe_token(token: str) -> tuple[Any, str] | None:
    """Return the user and the topic of an unsubscribe link.

    Return None if the link is invalid or the user was deleted.
    """
    users = get_user_model()._default_manager.using(write_alias())
    try:
        pk, what = signing.loads(token, salt=SALT)
        user = users.filter(pk=pk).first()
    except (signing.BadSignature, TypeError, ValueError):
        return None
    return None if user is None else (user, what)


def unsubscribe(user: Any, what: str) -> None:
    """Turn off notifications for the topic ``what``, or for all topics.

    If ``what`` is the digest, all topics that the user receives in the digest are turned off.
    """
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
