"""Secrets in responses: sent to the graph, and redacted everywhere else."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any, TypedDict

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import OperationalError, connection
from django.http import StreamingHttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils.timezone import localdate
from django.views.debug import SafeExceptionReporterFilter
from pydantic import BaseModel, SecretStr, field_validator

from hitl_django import END, START, StateGraph, interrupt, register, services
from hitl_django.admin.form_tokens import check_form_token
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import archived_thread
from hitl_django.contrib.insights import spot_check
from hitl_django.contrib.insights.exports import export_decisions
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.links.services import create_review_link
from hitl_django.contrib.notifications import sent_payload
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.errors import IdempotencyKeyReusedError
from hitl_django.graph_registry import registry
from hitl_django.json_text.secret_values import HIDDEN
from hitl_django.models import (
    AuditEntry,
    ChannelBlob,
    Checkpoint,
    Decision,
    Interrupt,
    PendingWrite,
    Run,
    RunEvent,
)
from hitl_django.models.events import KINDS
from hitl_django.permissions import ModelPermissionPolicy

from .addresses import ADDRESSES, address_of
from .browsing import sheet_of
from .conftest import page_of

OTP, WRONG, PROPOSED, PIN = "hunter2xyz", "wrong4zzz", "agreed7qqq", "pin9kkk"
BADGE = "badge5www"
SECRETS = (OTP, WRONG, PROPOSED, PIN, BADGE)
Advance = Callable[[], int]


class Opening(BaseModel):
    user: str
    pin: SecretStr
    quorum: int = 1


class Opened(TypedDict, total=False):
    user: str
    pin: SecretStr
    quorum: int
    done: bool


class Caller(BaseModel):
    tenant: str = ""
    badge: SecretStr = SecretStr("")


class Login(BaseModel):
    note: str
    otp: SecretStr

    @field_validator("otp")
    @classmethod
    def refuse_wrong(cls, otp: SecretStr) -> SecretStr:
        if otp.get_secret_value() == WRONG:
            raise ValueError(f"{WRONG} opens nothing")
        return otp


@pytest.fixture
def received(db: None) -> Iterator[list[str]]:
    """Register the graph "vault", and return a list of the secrets that its node receives."""
    found: list[str] = []

    def ask(state: Opened) -> Opened:
        with_quorum = interrupt({"open": state["user"]}, response_schema=Login)
        found.extend([with_quorum.otp.get_secret_value(), str(state["pin"])])
        return {"done": True}

    @register("vault")
    def vault() -> StateGraph:
        graph = StateGraph(Opened, input_schema=Opening, context_schema=Caller)
        return graph.add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)

    spot_check("vault", rate=1)
    yield found
    registry.unregister("vault")


def opening(advance: Advance, user: str = "Dana", by: Any = None) -> Interrupt:
    context = {"tenant": "acme", "badge": BADGE}
    run = services.start(
        "vault",
        {"user": user, "pin": PIN},
        context=context,
        configurable={"region": "north"},
        events=KINDS,
        by=by,
    )
    advance()
    return Interrupt.objects.get(run=run.id)


def assert_hidden(text: str, where: str) -> None:
    found = [secret for secret in SECRETS if secret in text]
    assert not found, f"{where} shows {found}"


def body_of(response: Any) -> str:
    if isinstance(response, StreamingHttpResponse):
        return b"".join(response).decode()
    return response.content.decode()


def test_secret_of_response_has_a_password_field_and_appears_on_no_page_before_the_run_resumes(
    received: list[str], advance: Advance, reviewer: Client
) -> None:
    item = opening(advance)
    page = reviewer.get(page_of(item)).content.decode()
    assert 'type="password" name="answer/otp"' in page
    assert '<input type="hidden" name="secret" value="answer/otp">' in page
    body = sheet_of(reviewer, item) | {"answer/otp": OTP, "answer/note": "", "decision": "respond"}

    # A page with a validation error doesn't contain the secret, and says so.
    preview = reviewer.post(page_of(item), {**body, "decision": "", "more": "-"}).content.decode()
    assert_hidden(preview, "the page that came back")
    assert "Enter this value again" in preview

    assert reviewer.post(page_of(item), {**body, "answer/note": "n"}).status_code == 302
    advance()
    assert received[0] == OTP
    assert Decision.objects.get().value == {"note": "n", "otp": HIDDEN}


def test_response_without_required_secret_shows_a_required_error_and_saves_no_decision(
    received: list[str], advance: Advance, reviewer: Client
) -> None:
    item = opening(advance)
    body = sheet_of(reviewer, item)
    page = reviewer.post(page_of(item), {**body, "answer/note": "n", "decision": "respond"})
    assert "This field is required." in page.content.decode()
    assert not Decision.objects.exists()


def test_outage_csrf_and_error_report_pages_do_not_show_the_secret_entered_in_the_form(
    received: list[str], advance: Advance, admin_user: Any
) -> None:
    item = opening(advance)
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    body = {"answer/otp": f"{OTP} {OTP}", "secret": "answer/otp", "answer/note": "some words"}
    foreign = client.post(page_of(item), body).content.decode()
    assert "some words" in foreign
    assert_hidden(foreign, "the page of a form without a token")

    def fail(execute: Any, *arguments: Any) -> Any:
        raise OperationalError("server closed the connection unexpectedly")

    client = Client()
    client.force_login(admin_user)
    with connection.execute_wrapper(fail):
        outage = client.post(page_of(item), body).content.decode()
    assert "some words" in outage
    assert_hidden(outage, "the page of an outage")

    request = RequestFactory().post("/", body)
    check_form_token(lambda request: None)(request)
    reported = SafeExceptionReporterFilter().get_post_parameters(request)
    assert_hidden(str(dict(reported)), "Django's error report")


@pytest.fixture
def planted(
    received: list[str], advance: Advance, admin_user: Any, settings: Any
) -> dict[str, Any]:
    """Store secrets in all places that accept them, and return one row of each kind."""
    settings.HITL = {**settings.HITL, "ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
    hook = webhook_services.create_webhook("https://crm.example/hooks")
    ann = get_user_model().objects.create_superuser("ann")

    # A request decided after a rejected response, and archived.
    kept = opening(advance, by=ann)
    services.decide(kept.pk, "respond", {"note": "n", "otp": WRONG}, by=ann)
    advance()
    services.decide(kept.pk, "respond", {"note": "n", "otp": OTP}, by=ann, key="k")
    advance()
    assert Run.objects.get().state == "succeeded"
    assert archive_ended(0, 1) == 1

    # A request with the same decisions that isn't archived, and a request with a proposal.
    decided = opening(advance, by=ann)
    services.decide(decided.pk, "respond", {"note": "n", "otp": WRONG}, by=ann)
    advance()
    services.decide(decided.pk, resume={"note": "n", "otp": OTP}, by=ann)
    advance()
    proposed = opening(advance)
    Interrupt.objects.filter(pk=proposed.pk).update(quorum=2)
    services.decide(proposed.pk, "respond", {"note": "n", "otp": PROPOSED}, by=ann)
    proposed.refresh_from_db()
    assert received == [OTP, PIN, OTP, PIN]
    assert proposed.proposal["answer"]["otp"] == PROPOSED

    schedule = create_schedule(
        "vault", "0 7 * * *", {"user": "Lena", "pin": PIN}, context={"badge": BADGE}
    )
    link = create_review_link(opening(advance).pk, name="Lena", by=admin_user)
    return {
        "archivedthread": ArchivedThread.objects.get(),
        "reviewitem": proposed,
        "interrupt": decided,
        "run": decided.run_id,
        "thread": decided.thread_id,
        "decision": Decision.objects.filter(interrupt=decided).latest("created_at"),
        "checkpoint": Checkpoint.objects.filter(thread=decided.thread_id).latest("checkpoint_id"),
        "channelblob": ChannelBlob.objects.first(),
        "pendingwrite": PendingWrite.objects.first(),
        "reviewlink": link.id,
        "schedule": schedule.id,
        "spotcheck": SpotCheck.objects.first(),
        "webhookendpoint": WebhookEndpoint.objects.get(pk=hook.id),
        "delivery": Delivery.objects.first(),
        "url": link.url,
    }


@pytest.fixture
def root(admin_user: Any) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.mark.promise("P22")
@pytest.mark.slow
def test_admin_and_link_pages_do_not_show_the_secret_of_a_response(
    planted: dict[str, Any], root: Client
) -> None:
    models = {
        "checkpoint": Checkpoint, "channelblob": ChannelBlob, "pendingwrite": PendingWrite,
        "decision": Decision, "delivery": Delivery, "spotcheck": SpotCheck,
        "interrupt": Interrupt, "run": Run,
    }  # fmt: skip
    seen = 0
    for name in ADDRESSES:
        kind, _, page = name.partition("_")
        if planted.get(kind) is None or page in ("delete", "next"):
            continue
        each = models[kind].objects.all() if kind in models and page == "change" else [None]
        for row in each:
            at = planted if row is None else {**planted, kind: row}
            response = root.get(address_of(name, at), follow=True)
            if response.status_code == 200:
                seen += 1
                assert_hidden(body_of(response), name)
    assert seen > 40
    link_page = Client().get(planted["url"])
    assert link_page.status_code == 200
    assert_hidden(body_of(link_page), "the link's page")
    assert 'type="password"' in body_of(link_page)


@pytest.mark.promise("P22")
def test_api_returns_no_secret_of_a_response(planted: dict[str, Any], root: Client) -> None:
    decided, proposed = planted["interrupt"], planted["reviewitem"]
    thread, schedule = decided.thread.thread_id, planted["schedule"]
    hook = planted["webhookendpoint"].pk
    places = [
        ("interrupts", []), ("interrupt", [decided.pk]), ("interrupt", [proposed.pk]),
        ("decisions", [decided.pk]), ("decisions", [proposed.pk]), ("runs", []),
        ("run", [decided.run_id]), ("run-events", [decided.run_id]), ("thread", [thread]),
        ("thread-state", [thread]), ("thread-history", [thread]), ("thread-audit", [thread]),
        ("schedules", []), ("schedule", [schedule]), ("deliveries", [hook]),
    ]  # fmt: skip
    for name, arguments in places:
        response = root.get(reverse(f"hitl_django:{name}", args=arguments))
        assert response.status_code == 200, (name, response.content)
        assert_hidden(body_of(response), name)
    state = root.get(reverse("hitl_django:thread-state", args=[thread])).json()
    assert state["values"]["pin"] == HIDDEN
    run = root.get(reverse("hitl_django:run", args=[decided.run_id])).json()
    assert run["result"]["pin"] == HIDDEN

    # The proposal to approve is as hidden as any other response.
    at = reverse("hitl_django:decision-validate", args=[proposed.pk])
    sent = root.post(at, {"type": "approve"}, content_type="application/json")
    assert sent.json()["resume"] == {"note": "n", "otp": HIDDEN}
    agent = root.get(f"/agent/threads/{thread}/state")
    assert agent.status_code == 200
    assert_hidden(body_of(agent), "the LangGraph-compatible API")


@pytest.mark.promise("P22")
def test_webhooks_events_exports_and_commands_do_not_contain_the_secret_of_a_response(
    planted: dict[str, Any], admin_user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for delivery in Delivery.objects.all():
        assert_hidden(json.dumps(delivery.data, default=str), f"webhook {delivery.event}")
    for event in RunEvent.objects.all():
        assert_hidden(json.dumps(event.data), f"event {event.kind}")
    for entry in AuditEntry.objects.all():
        assert_hidden(json.dumps(entry.detail), f"audit entry {entry.verb}")
    monkeypatch.setattr(ModelPermissionPolicy, "may_send_payload", lambda *args: True)
    assert sent_payload.read_payload("email", planted["reviewitem"]).facts
    assert_hidden(str(sent_payload.read_payload("email", planted["reviewitem"])), "a mail")
    today = localdate()
    exported = list(export_decisions(admin_user, services.Period(today, today)))
    assert exported
    assert_hidden(str(exported), "the export of decisions")
    archived = archived_thread(planted["archivedthread"].thread_id)
    assert_hidden(str(archived), "the archive")
    options = archived.rows["Run"][0]["options"]
    assert options["context"] == {"tenant": "acme", "badge": HIDDEN}
    assert options["configurable"] == {"region": "north"}
    person = get_user_model().objects.get(username="ann")
    of_person = [row for row in services.export_person(person) if row.table.endswith(".Run")]
    assert {row.is_archived for row in of_person} == {True, False}
    assert_hidden(str(of_person), "the export of a person")
    for pk in (planted["interrupt"].pk, planted["reviewitem"].pk, planted["run"]):
        out = io.StringIO()
        call_command("hitl", "show", str(pk), stdout=out)
        assert_hidden(out.getvalue(), "the command show")
    out = io.StringIO()
    call_command("hitl", "export-audit", "--since=2000-01-01", stdout=out)
    assert_hidden(out.getvalue(), "the exported audit log")


def test_archive_of_unstarted_run_and_of_unregistered_graph_contains_no_secret(
    received: list[str], advance: Advance
) -> None:
    first = opening(advance).run
    opened = {"user": "Lena", "pin": PIN}
    waiting = services.start(
        "vault",
        opened,
        thread_id=first.thread.thread_id,
        context={"badge": BADGE},
        on_pending="wait",
    )
    services.cancel(waiting.id)
    services.cancel(first.pk)
    assert archive_ended(0, 1) == 1
    assert_hidden(str(archived_thread(waiting.thread_id)), "the archive")

    registry.unregister("vault")
    shown = archived_thread(waiting.thread_id).rows["Run"]
    assert_hidden(str(shown), "the archive")
    assert {run["options"]["context"] for run in shown} == {HIDDEN}


def test_database_tables_contain_secrets_only_encrypted(planted: dict[str, Any]) -> None:
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            for row in cursor.fetchall():
                cells = (bytes(c).decode("latin1") if isinstance(c, (bytes, memoryview)) else str(c)
                         for c in row)  # fmt: skip
                assert_hidden(" ".join(cells), f"table {table}")


def test_decide_with_reused_key_and_different_secret_raises_idempotency_key_reused(
    received: list[str], advance: Advance
) -> None:
    item = opening(advance)
    given = {"note": "n", "otp": OTP}
    first = services.decide(item.pk, "respond", given, key="k")
    assert services.decide(item.pk, "respond", given, key="k").id == first.id
    with pytest.raises(IdempotencyKeyReusedError):
        services.decide(item.pk, "respond", {**given, "otp": WRONG}, key="k")


def test_schedule_with_secret_input_shows_placeholder_and_stores_the_secret(
    received: list[str], advance: Advance
) -> None:
    info = create_schedule("vault", "0 7 * * *", {"user": "Lena", "pin": PIN})
    assert info.input == {"user": "Lena", "pin": HIDDEN}
    assert Schedule.objects.get().input["pin"] == PIN
