"""System check of user models without email addresses."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.core import checks

from hitl_django.contrib.notifications.checks import check_email_field


def test_user_model_with_email_field_passes_system_check() -> None:
    assert check_email_field(None) == []


def test_user_model_without_email_field_fails_system_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_user_model(), "EMAIL_FIELD", "mailbox")
    [found] = check_email_field(None)
    assert (found.id, found.level) == ("hitl_django.E035", checks.ERROR)
    assert "mailbox" in found.msg
