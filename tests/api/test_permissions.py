"""Authentication and permissions of the API, in addition to tests/permissions."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from rest_framework.permissions import AllowAny

from hitl_django.api.urls import urlpatterns
from hitl_django.api.views import base
from hitl_django.models import Run


@pytest.mark.parametrize("role", ["nobody", "starter"])
@pytest.mark.parametrize("name", ["runs", "interrupts"])
def test_run_and_interrupt_lists_without_view_permission_are_empty(
    name: str, role: str, as_role: Any, make_interrupt: Any
) -> None:
    make_interrupt()
    assert as_role(role).get(name).json() == {"next": None, "previous": None, "results": []}


def test_request_of_deactivated_user_returns_403(
    make_user: Any, as_role: Any, make_interrupt: Any
) -> None:
    user = make_user(is_superuser=True)
    api = as_role("superuser")
    api.client.force_login(user)
    interrupt = make_interrupt()
    assert api.get("interrupt", interrupt.pk).status_code == 200
    user.is_active = False
    user.save()
    assert api.get("interrupt", interrupt.pk).status_code == 403


def test_run_error_text_is_returned_only_with_operate_permission(
    as_role: Any, make_run: Any
) -> None:
    run = make_run(state=Run.State.FAILED, error="ValueError: no such account", traceback="T")
    shown = as_role("operator").get("run", run.pk).json()
    assert shown["error"] == "ValueError: no such account"
    assert "error" not in as_role("viewer").get("run", run.pk).json()
    assert "traceback" not in shown


@pytest.mark.parametrize("pattern", urlpatterns, ids=lambda pattern: pattern.name)
def test_every_api_view_requires_sign_in_and_uses_package_error_handler(pattern: Any) -> None:
    view = pattern.callback.cls()
    assert view.permission_classes == (base.IsSignedIn,)
    assert AllowAny not in view.permission_classes
    assert view.get_authenticators()
    assert view.get_exception_handler() is base.handle_exception


def test_api_uses_authentication_and_ignores_permission_classes_of_rest_framework_settings(
    as_role: Any, make_interrupt: Any, settings: Any
) -> None:
    settings.REST_FRAMEWORK = {
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"],
        "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.BasicAuthentication"],
        "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
        "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
        "EXCEPTION_HANDLER": "tests.api.test_permissions.host_handler",
        "DATETIME_FORMAT": "%d.%m.%Y",
        "UNAUTHENTICATED_USER": None,
        "UNICODE_JSON": False,
        "PAGE_SIZE": 1,
    }
    interrupt = make_interrupt(title="Grüße?")
    make_interrupt()
    page = as_role("viewer").get("interrupts").json()
    assert len(page["results"]) == 2
    created = interrupt.created_at.isoformat().replace("+00:00", "Z")
    assert page["results"][0]["created_at"] == created
    assert "Grüße".encode() in as_role("viewer").get("interrupt", interrupt.pk).content
    # A scheme that the host has is offered to who comes without one, and the session still works.
    response = as_role("anonymous").get("interrupts")
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Basic")
    assert response.json()["code"] == "not_authenticated"


def host_handler(error: Exception, context: Any) -> None:
    raise PermissionDenied("the host's handler was called")
