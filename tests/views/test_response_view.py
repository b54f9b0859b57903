"""The page of a project on which a user without access to the admin decides an interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db.models import QuerySet
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.urls import include, path

from hitl_django import services, testing
from hitl_django.models import AuditEntry, Decision, Interrupt, Run
from hitl_django.views import ResponseView
from tests.forms.test_response_form import submit

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]

SCHEMA_TERMS = {"payload": {"title": "Which seats?", "room": "Blue"}, "terms": {"typed": True}}


class OwnRequest(ResponseView):
    """A customer's page, for the requests of the customer's own runs."""

    skip_permission_checks = True
    success_url = "/thanks/"

    def get_queryset(self) -> QuerySet[Interrupt]:
        return Interrupt.objects.filter(run__started_by=self.request.user)


urlpatterns = [
    path("own/<uuid:pk>/", OwnRequest.as_view()),
    path("policy/<uuid:pk>/", ResponseView.as_view()),
    path("hitl/", include("hitl_django.urls")),
    path("admin/", admin.site.urls),
]

Ask = Callable[..., Interrupt]


@pytest.fixture
def carla() -> User:
    return User.objects.create_user("carla")


@pytest.fixture
def ask(carla: User) -> Iterator[Ask]:
    with testing.inline() as advance:

        def start(by: User = carla, **state: Any) -> Interrupt:
            run = services.start(
                "reviewed",
                {"payload": {"title": "Ship the order?", "cents": 120}, **state},
                by=by,
                skip_permission_checks=True,
            )
            advance()
            return Interrupt.objects.get(run_id=run.id)

        yield start


def sign_in(user: User) -> Client:
    client = Client(enforce_csrf_checks=False)
    client.force_login(user)
    return client


def post(client: Client, url: str, item: Interrupt, **values: str) -> Any:
    return client.post(url, submit(item, **values).data.dict())


def test_response_page_with_custom_queryset_stores_decision_of_customer_without_permissions(
    carla: User, ask: Ask
) -> None:
    item, client = ask(), sign_in(carla)
    shown = client.get(f"/own/{item.pk}/")
    assert shown.status_code == 200
    assert b"Ship the order?" in shown.content
    assert b'name="decision"' in shown.content
    assert shown.content.decode().count("Cents") == 1
    sent = post(client, f"/own/{item.pk}/", item, decision="approve", **{"answer/cents": "90"})
    assert (sent.status_code, sent["Location"]) == (302, "/thanks/")
    decision = Decision.objects.get()
    assert (decision.type, decision.by, decision.via) == ("edit", carla, "page")
    entry = AuditEntry.objects.get(verb="decide")
    assert (entry.actor, entry.actor_label) == (carla, "carla")
    closed = client.get(f"/own/{item.pk}/")
    assert b"<form" not in closed.content
    assert Run.objects.get().state == Run.State.QUEUED


def test_response_page_requires_login_and_hides_requests_of_other_users(ask: Ask) -> None:
    item = ask()
    for url in (f"/own/{item.pk}/", f"/policy/{item.pk}/"):
        assert Client().get(url)["Location"].startswith("/accounts/login/?next=")
        stranger = sign_in(User.objects.get_or_create(username="stan")[0])
        assert stranger.get(url).status_code == 404
        assert post(stranger, url, item, decision="approve").status_code == 404
    assert not Decision.objects.exists()


def test_response_page_applies_the_permission_policy_by_default(ask: Ask) -> None:
    item, rosa = ask(), User.objects.create_user("rosa")
    rosa.user_permissions.set(Permission.objects.filter(codename="view_interrupt"))
    assert sign_in(rosa).get(f"/policy/{item.pk}/").status_code == 403
    codenames = ["view_interrupt", "decide_interrupt"]
    rosa.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    sent = post(sign_in(rosa), f"/policy/{item.pk}/", item, decision="reject")
    assert (sent.status_code, sent["Location"]) == (302, f"/policy/{item.pk}/")
    assert Decision.objects.get().by == rosa


def test_response_page_claims_a_request_that_requires_a_claim(ask: Ask) -> None:
    boss = User.objects.create_superuser("boss")
    item = ask(terms={"claim_required": True})
    assert post(sign_in(boss), f"/policy/{item.pk}/", item, decision="approve").status_code == 302


def test_response_page_with_invalid_values_shows_errors_and_keeps_the_input(
    carla: User, ask: Ask
) -> None:
    item = ask(**SCHEMA_TERMS)
    shown = post(sign_in(carla), f"/own/{item.pk}/", item, **{"answer/seats": "many"})
    assert shown.status_code == 200
    text = shown.content.decode()
    assert 'value="many"' in text
    assert "Enter a whole number" in text
    assert "Blue" in text


def test_response_page_accepts_repeated_submission_and_rejects_submission_of_another_user(
    carla: User, ask: Ask
) -> None:
    item, client = ask(), sign_in(carla)
    data = submit(item, decision="approve").data.dict()
    answers = [client.post(f"/own/{item.pk}/", data).status_code for _ in range(2)]
    assert answers == [302, 302]
    late = client.post(f"/own/{item.pk}/", {**data, "key": "another", "reason": "My reason"})
    assert late.status_code == 409
    assert b"My reason" in late.content
    assert b"Your input was not submitted" in late.content or b"not saved" in late.content
    assert Decision.objects.count() == 1


def test_response_page_of_changed_request_shows_the_new_version_with_the_typed_texts(
    carla: User, ask: Ask
) -> None:
    item, client = ask(), sign_in(carla)
    data = submit(item, decision="reject", reason="Too slow").data.dict()
    Interrupt.objects.update(version=2)
    shown = client.post(f"/own/{item.pk}/", data)
    text = shown.content.decode()
    assert shown.status_code == 409
    assert "This request has changed" in text
    assert "Too slow" in text
    assert 'name="version" value="2"' in text
    assert not Decision.objects.exists()


def test_response_page_reports_self_approval_as_forbidden(carla: User, ask: Ask) -> None:
    item = ask(terms={"no_self_approval": True})
    shown = post(sign_in(carla), f"/own/{item.pk}/", item, decision="approve")
    assert shown.status_code == 403
    assert b"someone else has to approve" in shown.content


def test_response_page_of_erased_request_shows_that_it_is_closed(carla: User, ask: Ask) -> None:
    item, client = ask(), sign_in(carla)
    data = submit(item, decision="approve").data.dict()
    services.cancel(item.run_id)
    services.erase_thread(item.thread.thread_id)
    for shown in (client.get(f"/own/{item.pk}/"), client.post(f"/own/{item.pk}/", data)):
        assert shown.status_code in (200, 409)
        assert b"This request was withdrawn" in shown.content
        assert b"Ship the order" not in shown.content


def test_template_tags_show_payload_key_facts_and_status_of_an_interrupt(
    carla: User, ask: Ask
) -> None:
    item = ask()
    tags = "{% load hitl %}{% hitl_payload i %}|{% hitl_facts i %}|{% hitl_status i %}"
    request = RequestFactory().get("/")
    request.user = carla

    def render() -> list[str]:
        return Template(tags).render(Context({"i": item, "request": request})).split("|")

    payload, facts, status = render()
    assert "120" in payload
    assert "Cents" in facts
    assert "120" in facts
    assert status == "pending"
    services.decide(item.pk, "approve", by=carla, skip_permission_checks=True)
    item.refresh_from_db()
    assert render()[2] == "You approved this"
