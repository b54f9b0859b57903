"""Settings of alerts that mean nothing are reported before the first mail."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core import checks

from hitl_django.contrib.notifications.checks import check_notifications


@pytest.mark.parametrize(
    "given", [{"NOTIFICATION_DEFAULT": "hourly"}, {"DIGEST_HOUR": 24}, {"DIGEST_HOUR": True}]
)
def test_a_value_that_means_nothing_is_an_error(settings: Any, given: dict[str, Any]) -> None:
    settings.HITL = given
    [found] = check_notifications(None)
    assert (found.id, found.level) == ("hitl_django.E003", checks.ERROR)
    assert next(iter(given)) in found.msg


def test_the_defaults_are_in_order(settings: Any) -> None:
    settings.HITL = {}
    assert check_notifications(None) == []


def test_users_without_addresses_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_user_model(), "EMAIL_FIELD", "mailbox")
    [found] = check_notifications(None)
    assert (found.id, found.level) == ("hitl_django.E035", checks.ERROR)
    assert "mailbox" in found.msg
