"""Who gets which answer at every address by every method; a new address needs its rows here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from rest_framework.permissions import AllowAny

from hitl_django import services
from hitl_django.api import resource
from hitl_django.api.urls import urlpatterns
from hitl_django.models import Checkpoint, Run
from hitl_django.policy import ModelPermissionPolicy

from .conftest import ROLES

#: What changes something comes last.
METHODS = ["PUT", "PATCH", "TRACE", "OPTIONS", "HEAD", "GET", "POST", "DELETE"]
SIGNED_IN = [*ROLES, "superuser"]
#: May do everything under ByGroup, which lets one of them see what the graph is about.
GROUPED = ["insider", "outsider"]
NOBODY = ["anonymous", "inactive"]


class ByGroup(ModelPermissionPolicy):
    """A host's policy: of a graph one sees something if one is in the group of its name."""

    def visible_threads(self, user: Any, threads: Any) -> Any:
        return super().visible_threads(user, threads).filter(graph__in=self.graphs(user))

    def visible_runs(self, user: Any, runs: Any) -> Any:
        return super().visible_runs(user, runs).filter(graph__in=self.graphs(user))

    def visible_interrupts(self, user: Any, interrupts: Any) -> Any:
        return super().visible_interrupts(user, interrupts).filter(graph__in=self.graphs(user))

    def may_start(self, user: Any, graph: str) -> bool:
        return super().may_start(user, graph) and graph in self.graphs(user)

    def graphs(self, user: Any) -> list[str]:
        return list(user.groups.values_list("name", flat=True))


def row(others: int, **roles: int) -> dict[str, int]:
    return dict.fromkeys(SIGNED_IN, others) | roles


see = {"nobody": 404, "starter": 404, "integrator": 404}
MATRIX: dict[tuple[str, str], dict[str, int]] = {
    ("graphs", "GET"): row(200),
    ("graph", "GET"): row(200, nobody=404, integrator=404),
    ("graph-diagram", "GET"): row(200, nobody=404, integrator=404),
    ("runs", "GET"): row(200),
    ("runs", "POST"): row(403, starter=202, superuser=202),
    ("run", "GET"): row(200, **see),
    ("run-cancel", "POST"): row(403, operator=200, superuser=200, **see),
    ("run-events", "GET"): row(200, **see),
    ("run-retry", "POST"): row(403, operator=202, superuser=202, **see),
    ("threads", "GET"): row(200),
    ("thread", "GET"): row(200, **see),
    ("thread", "DELETE"): row(403, operator=204, superuser=204, **see),
    ("thread-state", "GET"): row(403, auditor=200, superuser=200, **see),
    ("thread-history", "GET"): row(200, **see),
    ("thread-fork", "POST"): row(403, operator=202, superuser=202, **see),
    ("interrupts", "GET"): row(200),
    ("next", "POST"): row(204, reviewer=200, lead=200, superuser=200),
    ("interrupt", "GET"): row(200, **see),
    ("decisions", "GET"): row(200, **see),
    ("decisions", "POST"): row(403, reviewer=202, lead=202, superuser=202, **see),
    ("decisions-bulk", "POST"): row(200),
    ("schema", "GET"): row(200),
    ("links", "GET"): row(403, superuser=200, **see),
    ("links", "POST"): row(403, superuser=201, **see),
    ("link-detail", "DELETE"): row(403, superuser=204, **see),
    ("webhooks", "GET"): row(200),
    ("webhooks", "POST"): row(403, integrator=201, superuser=201),
    ("webhook", "GET"): row(404, integrator=200, superuser=200),
    ("webhook", "POST"): row(404, integrator=200, superuser=200),
    ("webhook", "DELETE"): row(404, integrator=204, superuser=204),
    ("webhook-secret", "POST"): row(404, integrator=200, superuser=200),
    ("webhook-test", "POST"): row(404, integrator=202, superuser=202),
    ("deliveries", "GET"): row(404, integrator=200, superuser=200),
    ("delivery", "GET"): row(404, integrator=200, superuser=200),
    ("redeliver", "POST"): row(404, integrator=202, superuser=202),
    ("worker-health", "GET"): row(403, operator=200, superuser=200),
    ("decision-validate", "POST"): row(403, reviewer=200, lead=200, superuser=200, **see),
    ("claim", "POST"): row(403, reviewer=200, lead=200, superuser=200, **see),
    ("release", "POST"): row(204, **see),
    ("assign", "POST"): row(403, lead=200, superuser=200, **see),
    ("snooze", "POST"): row(403, reviewer=200, lead=200, superuser=200, **see),
    ("comments", "GET"): row(200, **see),
    ("comments", "POST"): row(403, reviewer=201, lead=201, superuser=201, **see),
    ("stats", "GET"): row(200),
}
NOBODYS = "11111111-2222-4333-8444-555555555555"
BODIES: dict[str, dict[str, Any]] = {
    "runs": {"graph": "invoice", "input": {"amount": 12}},
    "decisions": {"type": "approve"},
    "decision-validate": {"type": "approve"},
    "decisions-bulk": {"decisions": [{"interrupt": NOBODYS, "type": "approve"}]},
    "links": {"name": "Dana K."},
    "snooze": {"until": "2999-01-01T00:00:00Z"},
    "comments": {"text": "Half of it?"},
    "webhooks": {"url": "https://crm.example/"},
    "webhook": {"description": "The other one"},
}


#: What an outsider is told that isn't what a superuser is, or that there is no such thing.
OUTSIDE = {("runs", "POST"): 403, ("next", "POST"): 204}


def expected(name: str, method: str, role: str, *, is_about_a_graph: bool) -> int:
    if role in NOBODY:
        return 403
    if method == "OPTIONS":
        return 204
    known = MATRIX.get((name, "GET" if method == "HEAD" else method))
    if known is None:
        return 405
    if role == "outsider":
        return OUTSIDE.get((name, method), 404 if is_about_a_graph else known["superuser"])
    return known["superuser" if role in GROUPED else role]


def everybody() -> Iterator[Any]:
    """Yields each role; one that gets through to every row is enough for a second database."""
    for role in [*NOBODY, *SIGNED_IN, *GROUPED]:
        marks = () if role in ("superuser", "insider") else pytest.mark.any_database
        yield pytest.param(role, marks=marks)


OF_A_QUESTION = (
    "interrupt", "decisions", "decision-validate", "claim", "release", "assign", "snooze",
    "comments",
)  # fmt: skip


@pytest.fixture
def bodies(arguments: dict[str, tuple[Any, ...]]) -> dict[str, dict[str, Any]]:
    """What is posted to each address."""
    (thread_id,) = arguments["thread-fork"]
    place = Checkpoint.objects.filter(thread__thread_id=thread_id).order_by("pk").first()
    assert place is not None
    return {**BODIES, "thread-fork": {"checkpoint": place.checkpoint_id}}


@pytest.fixture
def arguments(invoice: Any, asked: Callable[..., Any], make_run: Any) -> dict[str, tuple[Any, ...]]:
    """What each address needs to lead to something."""
    question = asked()
    failed, ended = make_run(state=Run.State.FAILED), make_run(state=Run.State.SUCCEEDED)
    hook = services.create_webhook("https://hooks.example/")
    return {
        "graphs": (),
        "graph": ("invoice",),
        "graph-diagram": ("invoice",),
        "runs": (),
        "run": (question.run_id,),
        "run-cancel": (question.run_id,),
        "run-events": (question.run_id,),
        "run-retry": (failed.pk,),
        "threads": (),
        "thread": (ended.thread.thread_id,),
        "thread-state": (question.thread.thread_id,),
        "thread-history": (question.thread.thread_id,),
        "thread-fork": (question.thread.thread_id,),
        "interrupts": (),
        "next": (),
        **dict.fromkeys(OF_A_QUESTION, (question.pk,)),
        "stats": (),
        "decisions-bulk": (),
        "schema": (),
        "links": (question.pk,),
        "link-detail": (question.pk, services.make_link(question.pk, name="Dana K.").id),
        "webhooks": (),
        **dict.fromkeys(["webhook", "webhook-secret", "webhook-test", "deliveries"], (hook.id,)),
        **dict.fromkeys(["delivery", "redeliver"], (services.try_webhook(hook.id).id,)),
        "worker-health": (),
    }


def test_every_address_and_method_has_its_rows() -> None:
    handled = {
        (pattern.name, method.upper())
        for pattern in urlpatterns
        for method in ("get", "post", "put", "patch", "delete")
        if hasattr(pattern.callback.cls, method)
    }
    assert handled == set(MATRIX)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("role", list(everybody()))
@pytest.mark.parametrize("name", [pattern.name for pattern in urlpatterns])
def test_an_address_answers_a_role_by_each_method(
    name: str,
    role: str,
    as_role: Any,
    arguments: dict[str, tuple[Any, ...]],
    bodies: dict[str, dict[str, Any]],
    settings: Any,
) -> None:
    if role in GROUPED:
        settings.HITL = {"POLICY": f"{__name__}.ByGroup"}
    api = as_role(role)
    about = bool(arguments[name]) and "deliver" not in name and "webhook" not in name
    for method in METHODS:
        body = bodies.get(name) if method == "POST" else None
        response = api.call(method, name, *arguments[name], body=body)
        status = expected(name, method, role, is_about_a_graph=about)
        assert response.status_code == status, (method, response.content)
        if response.status_code >= 400 and method != "HEAD":
            assert response["Content-Type"] == "application/problem+json"
            assert response.json()["status"] == response.status_code


@pytest.mark.parametrize("role", ["nobody", "starter"])
@pytest.mark.parametrize("name", ["runs", "interrupts"])
def test_a_list_is_empty_for_who_may_see_nothing(
    name: str, role: str, as_role: Any, make_question: Any
) -> None:
    make_question()
    assert as_role(role).get(name).json() == {"next": None, "previous": None, "results": []}


@pytest.mark.promise("P18")
def test_what_may_not_be_seen_is_answered_as_if_it_did_not_exist(
    as_role: Any, arguments: dict[str, tuple[Any, ...]], bodies: dict[str, dict[str, Any]]
) -> None:
    api = as_role("nobody")
    for name, args in arguments.items():
        if not args:
            continue
        other = ("nothing",) if isinstance(args[0], str) else (NOBODYS,) * len(args)
        for method in METHODS:
            body = bodies.get(name) if method == "POST" else None
            hidden = api.call(method, name, *args, body=body)
            missing = api.call(method, name, *other, body=body)
            assert hidden.status_code == missing.status_code, (name, method)
            assert hidden.content == missing.content, (name, method)
            assert dict(hidden.headers) == dict(missing.headers), (name, method)


def test_somebody_deactivated_is_nobody(make_user: Any, as_role: Any, make_question: Any) -> None:
    user = make_user(is_superuser=True)
    api = as_role("superuser")
    api.client.force_login(user)
    question = make_question()
    assert api.get("interrupt", question.pk).status_code == 200
    user.is_active = False
    user.save()
    assert api.get("interrupt", question.pk).status_code == 403


def test_only_operators_see_an_error(as_role: Any, make_run: Any) -> None:
    run = make_run(state=Run.State.FAILED, error="ValueError: no such account", traceback="T")
    shown = as_role("operator").get("run", run.pk).json()
    assert shown["error"] == "ValueError: no such account"
    assert "error" not in as_role("viewer").get("run", run.pk).json()
    assert "traceback" not in shown


@pytest.mark.parametrize("pattern", urlpatterns, ids=lambda pattern: pattern.name)
def test_every_view_states_who_gets_in(pattern: Any) -> None:
    view = pattern.callback.cls()
    assert view.permission_classes == (resource.SignedIn,)
    assert AllowAny not in view.permission_classes
    assert view.get_authenticators()
    assert view.get_exception_handler() is resource.handle


def test_the_hosts_own_settings_of_drf_change_nothing(
    as_role: Any, make_question: Any, settings: Any
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
    question = make_question(title="Grüße?")
    make_question()
    page = as_role("viewer").get("interrupts").json()
    assert len(page["results"]) == 2
    created = question.created_at.isoformat().replace("+00:00", "Z")
    assert page["results"][0]["created_at"] == created
    assert "Grüße".encode() in as_role("viewer").get("interrupt", question.pk).content
    # A scheme that the host has is offered to who comes without one, and the session still works.
    response = as_role("anonymous").get("interrupts")
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Basic")
    assert response.json()["code"] == "not_authenticated"


def host_handler(error: Exception, context: Any) -> None:
    raise PermissionDenied("the host's handler was called")
