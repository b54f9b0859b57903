"""A project's views that call services: errors as Django's error pages, without status 500."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from rest_framework.response import Response
from rest_framework.views import APIView

from hitl_django import errors, services
from hitl_django.contrib.links.services import resolve_link
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.engine.errors import ThreadNotFound
from hitl_django.models import Run

NOBODYS = "00000000-0000-4000-8000-000000000000"
Call = Callable[[User], Any]

FORBIDDEN: dict[str, Call] = {
    "start": lambda user: services.start("approval", {"text": "x"}, by=user),
    "workers": lambda user: services.worker_health(by=user),
    "webhooks": lambda user: webhook_services.create_webhook("https://a.example/", by=user),
}
ABSENT: dict[str, Call] = {
    "a run": lambda user: services.cancel(NOBODYS, by=user),
    "no id": lambda user: services.cancel("7", by=user),
    "a result": lambda user: services.run_result(NOBODYS, by=user),
    "events": lambda user: list(services.follow(NOBODYS, by=user)),
    "a question": lambda user: services.decide(NOBODYS, "approve", by=user),
    "a claim": lambda user: services.claim(NOBODYS, by=user),
    "a thread": lambda user: services.thread_state("nobody's", by=user),
    "a fork": lambda user: services.fork("nobody's", NOBODYS, by=user),
    "a link": lambda user: resolve_link("nobody's"),
    "a webhook": lambda user: webhook_services.delete_webhook(NOBODYS, by=user),
}
CALLS = FORBIDDEN | ABSENT


def view(request: HttpRequest, name: str) -> HttpResponse:
    CALLS[name](request.user)
    return HttpResponse("done")


class RestView(APIView):
    def post(self, request: Any, name: str) -> Response:
        CALLS[name](request.user)
        return Response("done")


@pytest.fixture
def visit(db: None, user: Callable[..., User], settings: Any) -> Callable[..., Any]:
    routes = (path("page/<name>", view), path("rest/<name>", RestView.as_view()))
    settings.ROOT_URLCONF = routes
    client = Client()
    client.force_login(user("carla"))
    return lambda kind, name: client.post(f"/{kind}/{name}")


@pytest.mark.promise("P18")
@pytest.mark.parametrize("kind", ["page", "rest"])
@pytest.mark.parametrize("name", CALLS)
def test_service_error_not_caught_by_view_of_the_project_returns_403_or_404(
    name: str, kind: str, visit: Callable[..., Any]
) -> None:
    response = visit(kind, name)
    assert response.status_code == (403 if name in FORBIDDEN else 404)
    assert not Run.objects.exists()


def test_not_allowed_and_not_found_errors_are_subclasses_of_permission_denied_and_http404() -> None:
    for kind in (errors.NotAllowedError, errors.SelfApprovalError):
        assert issubclass(kind, errors.HitlError)
        assert issubclass(kind, PermissionDenied)
    found = [name for name in vars(errors) if name.endswith("NotFound")]
    for name in set(found) - {"ThreadNotFound", "TaskNotFound"}:
        kind = getattr(errors, name)
        assert issubclass(kind, Http404)
        assert issubclass(kind, LookupError)
    assert len(found) == 5
    assert issubclass(errors.NoSuchThread, ThreadNotFound)
