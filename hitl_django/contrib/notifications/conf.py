"""Settings of notifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hitl_django.conf.kinds import one_of, positive, positive_or_none, setting, text


def hour(value: Any) -> None:
    """Check that the value is an hour of the day."""
    if type(value) is not int or value not in range(24):
        raise ValueError("must be an integer from 0 to 23.")


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """The settings of notifications."""

    NOTIFICATION_DEFAULT: str = setting(
        "now",
        "When users who have not changed their notification settings get emails: 'now', 'daily' "
        "or 'off'.",
        one_of("now", "daily", "off"),
    )
    DIGEST_HOUR: int = setting(
        8, "Hour of the day, in TIME_ZONE, when the daily digest is sent.", hour
    )
    DUE_REMINDER_SECONDS: float = setting(
        3600, "How long before the due time of an interrupt its reviewers are notified.", positive
    )
    EMAIL_DECISION_SECONDS: float | None = setting(
        None,
        "How long the buttons Approve and Reject in an email work without login. None: emails "
        "don't have these buttons.",
        positive_or_none,
    )
    SLACK_BOT_TOKEN: str = setting(
        "",
        "Bot token of your Slack app, for Slack channels with the buttons Approve and Reject.",
        text,
    )
    SLACK_SIGNING_SECRET: str = setting(
        "", "Signing secret of your Slack app, which verifies that a click comes from Slack.", text
    )
