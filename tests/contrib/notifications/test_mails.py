"""Email notifications: recipients, no duplicates, and permissions."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models.functions import Now
from django.utils import timezone

from hitl_django import services
from hitl_django.contrib.notifications import mail_channel
from hitl_django.contrib.notifications.apps import make_mail_endpoint
from hitl_django.contrib.notifications.models import NotificationPreferences
from hitl_django.contrib.notifications.preferences import save_preferences
from hitl_django.contrib.webhooks import messages, outbox
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Interrupt
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.worker.sweeper import sweep

from .conftest import SITE, use_server
from .mail_server import MailServer

Ask = Callable[..., Interrupt]
Person = Callable[..., Any]
Send = Callable[[], None]


def recipients(mails: MailServer) -> list[str]:
    return sorted(mail["To"] for mail in mails.all())


def due_now() -> None:
    Delivery.objects.filter(state="pending").update(due_at=Now() - timedelta(seconds=1))
    WebhookEndpoint.objects.update(paused_until=None, lease_until=None)


def faults() -> list[str]:
    return [row.fault for row in Delivery.objects.filter(state="dead").order_by("created_at")]


def test_email_for_request_assigned_to_group_is_sent_to_group_members_only(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    for name, group in (("rita", "Night"), ("ravi", "Night"), ("olga", "Day"), ("vik", "")):
        person(name, group)
    ask(group="Night")
    send()
    assert recipients(mails) == ["ravi@shop.example", "rita@shop.example"]


def test_email_for_request_with_assignee_is_sent_to_assignee_only(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    person("ravi", "Night")
    ask(group="Night", assignee="ravi")
    send()
    assert recipients(mails) == ["ravi@shop.example"]


def test_email_is_sent_to_address_in_email_field_of_user_model(
    mails: MailServer, person: Person, ask: Ask, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get_user_model(), "EMAIL_FIELD", "last_name")
    person("rita", "Night", email="", last_name="office@shop.example")
    person("ravi", "Night")
    ask(group="Night")
    send()
    assert recipients(mails) == ["office@shop.example"]


def test_request_event_without_group_and_assignee_creates_no_email_delivery(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    ask()
    assert not Delivery.objects.exists()


@pytest.mark.slow
def test_request_event_for_group_of_30_members_is_one_delivery_until_its_first_attempt(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    for number in range(30):
        person(f"member{number}", "Night")
    ask(group="Night")
    assert Delivery.objects.count() == 1
    send()
    assert Delivery.objects.filter(state="delivered").count() == 31
    assert len(set(recipients(mails))) == 30


def test_request_email_contains_title_link_and_due_time_without_payload(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    item = ask(group="Night", due=timedelta(hours=3))
    send()
    mail = mails.next()
    assert mail["Subject"] == "Review requested: Refund 120 EUR?"
    assert mail["From"] == "queue@shop.example"
    assert mail["Auto-Submitted"] == "auto-generated"
    text, html = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
    for part in (text, html):
        assert f"{SITE}/admin/hitl_django/reviewitem/{item.pk}/change/" in part
        assert f"{SITE}/hitl/notifications/unsubscribe/" in part
        assert "Refund 120 EUR?" in part
        zone = timezone.localtime(item.due_at).tzname()
        assert re.search(f"Due: .* {zone}", part)
        assert "amount" not in part
    assert "<script" not in html


def find_page(user: Any, interrupt: Interrupt) -> str:
    return f"/{user.username}/requests/{interrupt.pk}/"


def test_request_email_links_to_page_of_recipient_if_request_url_is_set(
    mails: MailServer, person: Person, ask: Ask, send: Send, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "REQUEST_URL": f"{__name__}.find_page"}
    person("rita", "Night", is_staff=False)
    item = ask(group="Night")
    send()
    mail = mails.next()
    text, html = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
    for part in (text, html):
        assert f"{SITE}/rita/requests/{item.pk}/" in part
        assert "/reviewitem/" not in part


def test_request_email_contains_the_graph_title(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    Interrupt.objects.filter(pk=ask(group="Night").pk).update(graph="essay")
    send()
    (mail,) = mails.all()
    bodies = [part.get_content() for part in mail.walk() if not part.is_multipart()]
    assert all("Essay ▸ ask" in body for body in bodies)


def bodies(mail: Any) -> tuple[str, str]:
    text, html = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
    return text.replace("\r\n", "\n"), html


class Open(ModelPermissionPolicy):
    """A policy that allows the payload in email."""

    def may_send_payload(self, channel: str, interrupt: Interrupt) -> bool:
        return channel == "email"


def test_request_email_contains_the_payload_if_policy_allows(
    mails: MailServer, person: Person, ask: Ask, send: Send, settings: Any
) -> None:
    person("rita", "Night")
    ask(group="Night")
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.Open"}
    send()
    mail = mails.next()
    text, html = bodies(mail)
    assert "\nAmount: 120\n" in text
    assert re.search(r"<td[^>]*><span[^>]*>Amount</span><strong[^>]*>120</strong></td>", html)


LETTER = "Dear Dana,\n\nyour parcel left our warehouse two days late."
FACTS = {
    "title": "Refund 120 EUR?",
    "customer": "Dana <b>K.</b>",
    "letter": LETTER,
    "lines": [{"sku": "A-1", "count": 2}, {"sku": "B-7", "count": 1}],
    "tags": ["new", "abroad"],
    "address": {"city": "Graz", "password": "s3cret"},
    "cents": 12000,
    "note": "",
}


def test_request_email_shows_facts_of_policy_first_in_text_and_html(
    mails: MailServer, person: Person, ask: Ask, send: Send, settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    policy = ReviewPolicy(
        facts=["cents", "/address/city", "why", "/lines/0/sku", "absent"],
        display={"cents": "money EUR"},
    )
    monkeypatch.setattr(registry, "get_review_policy", lambda name: policy)
    person("rita", "Night")
    item = ask(group="Night")
    Interrupt.objects.filter(pk=item.pk).update(payload=FACTS, why="She called twice.")
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.Open"}
    send()
    mail = mails.next()
    text, html = bodies(mail)
    assert text.index("She called twice.") < text.index("Cents: ")
    assert "Cents: 120.00\N{NO-BREAK SPACE}EUR\n" in text
    assert text.index("Cents: ") < text.index("City: Graz") < text.index("Customer: ")
    assert f"Letter:\n{LETTER}\n" in text
    assert "Sku | Count\nA-1 | 2\nB-7 | 1" in text
    assert "Tags: new, abroad" in text
    assert "Title:" not in text
    for part in (text, html):
        assert "s3cret" not in part
        assert part.count("Graz") == 1
    assert "Dana &lt;b&gt;K.&lt;/b&gt;" in html
    assert html.index(">Customer<") < html.index(">Letter<"), "long texts have their own rows"


def test_request_email_with_shortened_tool_call_contains_its_payload(
    mails: MailServer, person: Person, ask: Ask, send: Send, settings: Any
) -> None:
    person("rita", "Night")
    call = {"name": "pay", "args": {"order": "A-7", "notes": ["word " * 50] * 50}}
    config = {"action_name": "pay", "allowed_decisions": ["approve", "reject"]}
    payload = {"action_requests": [call], "review_configs": [config]}
    item = ask(group="Night")
    Interrupt.objects.filter(pk=item.pk).update(payload=payload, dialect="hitl_request")
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.Open"}
    send()
    assert "A-7" in mails.next().get_body(("plain",)).get_content()


HOSTILE = "Pay\r\nBcc: all@shop.example\r\n\r\n<b onclick=x>now</b> \u202egnp"


def test_email_for_hostile_title_has_no_added_headers_or_markup(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    item = ask(group="Night", title=HOSTILE)
    Interrupt.objects.filter(pk=item.pk).update(title=HOSTILE, node="a\nb", graph="x\r\ny")
    send()
    mail = mails.next()
    assert mail["Bcc"] is None
    assert "Bcc: all@shop.example <b onclick=x>now</b> \\u202egnp" in mail["Subject"]
    html = mail.get_body(("html",)).get_content()
    assert "<b onclick" not in html
    assert "&lt;b onclick=x&gt;" in html


def test_email_subject_is_in_the_language_of_the_recipient(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    save_preferences(person("rita", "Night"), {"language": "de"})
    ask(group="Night")
    send()
    assert mails.next()["Subject"].startswith("Prüfung angefordert:")


def test_email_has_one_click_unsubscribe_header_that_turns_off_the_topic_of_the_email(
    mails: MailServer, person: Person, ask: Ask, send: Send, client: Any
) -> None:
    rita = person("rita", "Night")
    ask(group="Night")
    send()
    mail = mails.next()
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    url = "".join(mail["List-Unsubscribe"].split()).strip("<>")
    assert url.startswith(SITE)
    path = url.removeprefix(SITE)
    # A program that follows all links in an email changes nothing.
    assert client.get(path).status_code == 200
    assert not NotificationPreferences.objects.exists()
    sent = client.post(path, "List-Unsubscribe=One-Click", "application/x-www-form-urlencoded")
    assert sent.status_code == 200
    wanted = NotificationPreferences.objects.get(user=rita)
    assert (wanted.requested, wanted.assigned) == ("off", "")
    ask(group="Night")
    send()
    assert mails.all() == []
    assert faults() == ["No recipients with immediate notifications."]


def test_email_is_not_sent_to_inactive_user_or_user_without_permission_or_address(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night", sees=False)
    person("ravi", "Night", is_active=False)
    person("olga", "Night", email="")
    ask(group="Night")
    send()
    assert mails.all() == []
    assert faults() == ["The request doesn't exist, or the user can't view it."]


def test_request_email_is_not_sent_after_the_decision(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    rita = person("rita", "Night")
    services.decide(ask(group="Night").pk, "approve", by=rita)
    send()
    assert mails.all() == []


@pytest.mark.parametrize("verb", ["assign", "comment"])
def test_email_for_assignment_or_mention_is_not_sent_to_the_acting_user(
    mails: MailServer, person: Person, ask: Ask, send: Send, verb: str
) -> None:
    rita, ravi = person("rita"), person("ravi")
    item = ask()
    for to in (rita, ravi):
        if verb == "assign":
            services.assign(item.pk, to=to, by=rita)
            send()
        else:
            services.comment(item.pk, f"@{to.username}, look.", by=rita)
    send()
    [mail] = mails.all()
    assert mail["To"] == "ravi@shop.example"
    words = {"assign": "rita assigned a request to you", "comment": "rita mentioned you"}
    assert mail["Subject"] == f"{words[verb]}: Refund 120 EUR?"


def test_assignment_email_is_not_sent_to_an_assignee_already_replaced(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    rita, ravi, vik = person("rita"), person("ravi"), person("vik")
    item = ask()
    services.assign(item.pk, to=ravi, by=rita)
    services.assign(item.pk, to=vik, by=rita)
    send()
    assert recipients(mails) == ["vik@shop.example"]


def test_group_assignment_email_is_sent_to_members_except_the_acting_user(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    rita, _ = person("rita", "Night"), person("ravi", "Night")
    services.assign(ask().pk, group=Group.objects.get(name="Night"), by=rita)
    send()
    [mail] = mails.all()
    assert (mail["To"], mail["Subject"]) == (
        "ravi@shop.example",
        "Review requested: Refund 120 EUR?",
    )


def test_overdue_email_is_sent_once_to_members_except_those_who_turned_the_topic_off(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    save_preferences(person("ravi", "Night"), {"overdue": "off"})
    item = ask(group="Night", due=timedelta(hours=1))
    send()
    mails.all()
    Interrupt.objects.filter(pk=item.pk).update(due_at=Now() - timedelta(minutes=1))
    for _ in range(2):
        sweep()
        send()
    [mail] = mails.all()
    assert mail["Subject"] == "Overdue: Refund 120 EUR?"


def test_escalation_email_is_sent_once_to_the_new_group(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    person("olga", "Leads")
    item = ask(group="Night")
    send()
    mails.all()
    Interrupt.objects.filter(pk=item.pk).update(
        expires_at=Now() - timedelta(minutes=1),
        expiry={"seconds": 1, "then": "escalate", "answer": None, "group": "Leads"},
    )
    for _ in range(2):
        sweep()
        send()
    [mail] = mails.all()
    assert (mail["To"], mail["Subject"]) == ("olga@shop.example", "Escalated: Refund 120 EUR?")


def test_repeated_processing_and_redelivery_of_an_event_send_one_email_per_recipient(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    person("ravi", "Night")
    ask(group="Night")
    event = Delivery.objects.get()
    endpoint = WebhookEndpoint.objects.get(pk=mail_channel.ENDPOINT)
    # Simulates a worker that was killed after it wrote the messages, before it stored this.
    mail_channel.send(event, endpoint, 0)
    send()
    webhook_services.redeliver(event.pk)
    send()
    assert recipients(mails) == ["ravi@shop.example", "rita@shop.example"]


def test_redelivered_email_has_the_message_id_of_the_first_email(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    ask(group="Night")
    send()
    [told] = [row for row in Delivery.objects.all() if "user" in row.data]
    webhook_services.redeliver(told.pk)
    send()
    first, second = mails.all()
    assert first["Message-ID"] == second["Message-ID"] == f"<{told.pk}@shop.example>"


def test_email_rejected_with_550_becomes_dead_and_next_recipient_gets_email(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    person("ravi", "Night")
    mails.behaviour.recipients = ["550 5.1.1 no such\r mailbox", "250 OK"]
    ask(group="Night")
    send()
    assert len(mails.all()) == 1
    assert Delivery.objects.filter(state="dead", status=550).count() == 1
    [fault] = faults()
    assert fault.startswith("The mail server rejected the recipient (5.1.1 no such")


@pytest.mark.parametrize("address", ["rita@shop.example\nBcc: all@shop.example", "rita@", "@"])
def test_email_to_invalid_address_becomes_dead_and_next_recipient_gets_email(
    mails: MailServer, person: Person, ask: Ask, send: Send, address: str
) -> None:
    person("rita", "Night", email=address)
    person("ravi", "Night")
    ask(group="Night")
    send()
    assert recipients(mails) == ["ravi@shop.example"]
    assert len(faults()) == 1


def test_email_rejected_with_451_is_pending_and_sent_later(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    mails.behaviour.mails = ["451 try later", "250 OK"]
    ask(group="Night")
    send()
    assert mails.all() == []
    waiting = Delivery.objects.get(state="pending")
    assert waiting.status == 451
    due_now()
    send()
    assert len(mails.all()) == 1


def test_unavailable_mail_server_pauses_email_endpoint_and_emails_are_sent_after_recovery(
    mails: MailServer, person: Person, ask: Ask, send: Send, settings: Any
) -> None:
    person("rita", "Night")
    person("ravi", "Night")
    use_server(settings, 1)
    ask(group="Night")
    send()
    endpoint = WebhookEndpoint.objects.get(pk=mail_channel.ENDPOINT)
    assert endpoint.failures == 1
    assert endpoint.paused_until is not None
    use_server(settings, mails.port)
    due_now()
    send()
    assert len(mails.all()) == 2
    endpoint.refresh_from_db()
    assert endpoint.failures == 0


def test_failed_mail_server_login_leaves_the_email_pending(
    mails: MailServer, person: Person, ask: Ask, send: Send, settings: Any
) -> None:
    person("rita", "Night")
    use_server(settings, mails.port, username="queue", password="wrong")
    ask(group="Night")
    send()
    waiting = Delivery.objects.get(state="pending")
    assert "mail server" in waiting.fault
    assert mails.all() == []


@pytest.mark.usefixtures("db")
def test_event_without_notification_endpoints_stores_no_delivery(person: Person, ask: Ask) -> None:
    rita, ravi = person("rita", "Night"), person("ravi", "Night")
    item = ask(group="Night", due=timedelta(hours=1))
    services.assign(item.pk, to=ravi, by=rita)
    services.comment(item.pk, "@ravi, look.", by=rita)
    sweep()
    assert not Delivery.objects.exists()


def test_endpoint_with_unregistered_channel_gets_no_deliveries(
    mails: MailServer, person: Person, ask: Ask
) -> None:
    person("rita", "Night")
    WebhookEndpoint.objects.update(channel="carrier pigeon")
    outbox.clear_listeners()
    ask(group="Night")
    assert not Delivery.objects.exists()


def test_webhooks_get_no_assignment_or_mention_events(
    mails: MailServer, person: Person, ask: Ask
) -> None:
    rita, ravi = person("rita", "Night"), person("ravi", "Night")
    made = webhook_services.create_webhook("https://hooks.example/")
    item = ask(group="Night")
    services.assign(item.pk, to=ravi, by=rita)
    services.comment(item.pk, "@ravi, look.", by=rita)
    events = Delivery.objects.filter(endpoint=made.id).values_list("event", flat=True)
    assert list(events) == ["interrupt.created"]
    assert messages.EVENTS.isdisjoint({"interrupt.assigned", "interrupt.mentioned"})


@pytest.mark.django_db
def test_email_endpoint_is_created_again_after_database_flush() -> None:
    # ``manage.py flush`` sends post_migrate without the state of the apps.
    make_mail_endpoint(using="default")
    assert WebhookEndpoint.objects.filter(pk=mail_channel.ENDPOINT, channel="email").exists()
