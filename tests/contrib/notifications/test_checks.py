"""A user model without e-mail addresses is reported before the first mail."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.core import checks

from hitl_django.contrib.notifications.checks import check_email_field


def test_users_with_addresses_are_in_order() -> None:
    assert check_email_field(None) == []


def test_users_without_addresses_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_user_model(), "EMAIL_FIELD", "mailbox")
    [found] = check_email_field(None)
    assert (found.id, found.level) == ("hitl_django.E035", checks.ERROR)
    assert "mailbox" in found.msg
