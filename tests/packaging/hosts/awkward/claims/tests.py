"""The office's own tests, in the style of its developers."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from accounts.models import Person
from django.contrib.auth.models import Group, Permission

import hitl_django
from hitl_django.models import AuditEntry, Decision, Interrupt, Thread

from .models import Claim
from .pages import ask_holder

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

API = "/api/review/api/v1/"
SITES = ["staff", "reviews"]


@pytest.fixture
def claim():
    return Claim.objects.create(holder="Eva Ö.", damage=Decimal("1234.50"))


@pytest.fixture
def make_person():
    reviewers = Group.objects.create(name="Reviewers")
    ours = Permission.objects.filter(content_type__app_label="hitl_django")
    reviewers.permissions.set(
        ours.filter(codename__in=["view_interrupt", "decide_interrupt", "view_run", "start_run"])
    )
    reviewers.permissions.add(Permission.objects.get(codename="view_claim"))

    def make(name):
        person = Person.people.create_user(
            f"{name}@office.example", "secret", called=name.title(), is_staff=True, api_key=name * 3
        )
        person.groups.add(reviewers)
        return person

    return make


@pytest.fixture
def ask(claim, client, make_person, hitl):
    """Report a claim over the office's own API, which results in an interrupt."""

    def report():
        if not Person.people.filter(email="clerk@office.example").exists():
            make_person("clerk")
        response = client.post(f"/api/claims/{claim.pk}", headers=key("clerk"))
        assert response.status_code == 202, response.content
        hitl.advance()
        run = response.json()["data"]["run"]
        hitl.assert_asks(run, "Settle Eva Ö.?")
        return run

    return report


def key(name):
    return {"Authorization": f"Key {name * 3}"}


def test_insurance_claim_is_settled_after_two_approvals(ask, claim, client, make_person, hitl):
    for name in ("rita", "ravi"):
        make_person(name)
    run = ask()
    interrupt = hitl.interrupt("Settle Eva Ö.?")
    for name, status in (("rita", 200), ("ravi", 202)):
        claim.refresh_from_db()
        assert claim.state == "open"
        response = client.post(
            f"{API}interrupts/{interrupt.pk}/decisions/",
            {"type": "approve"},
            content_type="application/json",
            headers=key(name),
        )
        assert response.status_code == status, response.content
        hitl.advance()
    hitl.assert_finished(run, settled=True)
    claim.refresh_from_db()
    assert claim.state == "settled"
    deciders = set(Decision.objects.values_list("by_label", flat=True))
    assert deciders == {"rita@office.example", "ravi@office.example"}


def test_insurance_claim_reported_twice_starts_one_run(ask):
    assert ask() == ask()


def test_insurance_claim_in_second_database_is_the_subject_of_its_thread(ask, claim):
    ask()
    assert Thread.objects.get().subject == claim


def test_project_and_package_api_responses_have_their_own_error_formats(
    ask, client, claim, make_person
):
    ask()
    make_person("rita")
    theirs = client.get(f"{API}interrupts/", headers=key("rita"))
    assert theirs.status_code == 200
    assert theirs.json()["results"][0]["title"] == "Settle Eva Ö.?"
    assert theirs.json()["results"][0]["created_at"].endswith("Z")
    assert client.get(f"{API}interrupts/", headers=key("nobody")).status_code == 401
    assert client.get(f"{API}interrupts/{claim.pk}/", headers=key("rita")).status_code == 404
    ours = client.get("/api/claims/00000000-0000-0000-0000-000000000000", headers=key("rita"))
    assert (ours.status_code, ours.json()) == (200, {"data": {"failed": "Http404"}})


@pytest.mark.parametrize("site", SITES)
def test_two_admin_sites_show_the_queue_and_the_request_page(ask, client, make_person, site, hitl):
    ask()
    rita = make_person("rita")
    assert client.login(email="rita@office.example", password="secret")
    interrupt = hitl.interrupt("Settle Eva Ö.?")
    listed = client.get(f"/{site}/hitl_django/reviewitem/")
    assert listed.status_code == 200
    assert "Settle Eva Ö.?" in listed.text
    assert f"/{site}/hitl_django/reviewitem/{interrupt.pk}/change/" in listed.text
    page = client.get(f"/{site}/hitl_django/reviewitem/{interrupt.pk}/change/")
    assert page.status_code == 200
    assert "1234.50" in page.text
    hitl_django.decide(interrupt.pk, "approve", by=rita)
    assert client.get(f"/{site}/hitl_django/run/").status_code == 200


def test_insurance_claim_admin_page_shows_the_pending_request(ask, claim, client, make_person):
    ask()
    make_person("rita")
    client.login(email="rita@office.example", password="secret")
    page = client.get(f"/staff/claims/claim/{claim.pk}/change/")
    assert page.status_code == 200
    assert "Settle Eva Ö.?" in page.text


def test_policyholder_without_staff_rights_responds_on_the_page_of_the_insurance_office(
    claim, client, hitl, make_person
):
    holder = Person.people.create_user(
        "eva@mail.example", "secret", called="Eva", api_key="eva" * 3
    )
    holder.user_permissions.add(Permission.objects.get(codename="add_interrupt"))
    asked = ask_holder(claim, holder)
    assert (ask_holder(claim, holder).id, Thread.objects.get().subject) == (asked.id, claim)
    listed = client.get(f"{API}interrupts/{asked.id}/", headers=key("eva")).json()
    page = f"/fragen/{asked.id}"
    assert listed["review_url"] == f"http://testserver{page}"
    assert client.get(page)["Location"] == f"/staff/login/?next={page}"

    client.force_login(make_person("rita"))
    assert client.get(page).status_code == 404
    client.force_login(holder)
    shown = client.get(page)
    assert "<title>Versicherung: Wo wird Eva Ö. repariert?</title>" in shown.text
    assert "1234.50" in shown.text
    assert "offen" in shown.text
    form = shown.context["form"]
    values = {name: form[name].value() for name in ("digest", "version", "key")}
    graz = re.search(r'value="([^"]*)"[^>]*>\s*Graz', shown.text)[1]
    answer = {"answer/workshop": graz, "answer/days": "31"}
    wrong = client.post(page, {**values, **answer})
    assert "Muss zwischen 1 und 30 liegen." in wrong.text
    sent = client.post(page, {**values, **answer, "answer/days": "3"})
    assert (sent.status_code, sent["Location"]) == (302, page)
    hitl.advance()
    assert asked.result().days == 3
    assert AuditEntry.objects.get(verb="decide").actor == holder
    assert "Sie" in client.get(page).text


def test_deactivated_reviewer_gets_401_and_is_named_on_past_decisions(
    ask, make_person, hitl, client
):
    rita, ravi = make_person("rita"), make_person("ravi")
    ask()
    interrupt = hitl.interrupt("Settle Eva Ö.?")
    hitl_django.decide(interrupt.pk, "approve", by=rita)
    rita.has_left = True
    rita.save()
    response = client.get(f"{API}interrupts/", headers=key("rita"))
    assert response.status_code == 401
    client.force_login(ravi)
    page = client.get(f"/staff/hitl_django/reviewitem/{interrupt.pk}/change/")
    assert page.status_code == 200
    assert "rita@office.example" in page.text


def test_run_started_in_a_rolled_back_request_is_not_stored(
    client, claim, make_person, monkeypatch
):
    make_person("clerk")
    import claims.views

    def fail(*args, **kwargs):
        raise RuntimeError("after the start")

    monkeypatch.setattr(claims.views, "Response", fail)
    response = client.post(f"/api/claims/{claim.pk}", headers=key("clerk"))
    assert response.json() == {"data": {"failed": "RuntimeError"}}
    assert not Interrupt.objects.exists()
    assert not Thread.objects.exists()
