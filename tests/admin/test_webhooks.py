"""Webhooks in the admin: creation, secrets, test deliveries and redelivery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint

from .conftest import list_of, page_of

URL = "https://crm.example/hooks"
ADD = "admin:hitl_webhooks_webhookendpoint_add"


@pytest.fixture
def integrator(browse: Callable[[str], Client]) -> Client:
    return browse("integrator")


def made(**options: Any) -> WebhookEndpoint:
    return WebhookEndpoint.objects.get(pk=webhook_services.create_webhook(URL, **options).id)


def test_webhook_secret_is_shown_at_creation_and_on_no_later_page(integrator: Client) -> None:
    assert integrator.get(reverse(ADD)).status_code == 200
    form = {"url": URL, "description": "CRM", "events": ["run.failed"], "is_active": "on"}
    response = integrator.post(reverse(ADD), form)
    hook = WebhookEndpoint.objects.get()
    assert hook.secret in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    assert (hook.url, hook.events, hook.created_by_label) == (URL, ["run.failed"], "integrator")

    for url in (list_of("webhookendpoint"), page_of(hook, "webhookendpoint")):
        page = integrator.get(url)
        assert page.status_code == 200
        assert "CRM" in page.content.decode()
        assert hook.secret not in page.content.decode()


def test_webhook_list_shows_url_of_webhook_without_description_once(integrator: Client) -> None:
    made()
    page = integrator.get(list_of("webhookendpoint")).content.decode()
    assert f">{URL}</a>" in page
    assert f"<bdi>{URL}</bdi>" not in page


def test_webhook_form_offers_graphs_by_title(integrator: Client) -> None:
    form = integrator.get(reverse(ADD)).context["adminform"].form
    assert ("approval", "Approval") in form.fields["graphs"].choices


def test_webhook_form_has_a_single_save_button(integrator: Client) -> None:
    page = integrator.get(list_of("webhookendpoint") + "add/").content.decode()
    assert 'name="_save"' in page
    assert 'name="_addanother"' not in page
    assert 'name="_continue"' not in page


def test_webhook_form_with_internal_url_shows_error_that_url_is_not_public_and_creates_no_webhook(
    integrator: Client,
) -> None:
    response = integrator.post(reverse(ADD), {"url": "https://169.254.169.254/", "is_active": "on"})
    assert response.status_code == 200
    assert "which is not public" in response.content.decode()
    assert not WebhookEndpoint.objects.exists()


def test_webhook_change_and_delete_forms_of_the_admin_update_and_delete_the_webhook(
    integrator: Client,
) -> None:
    hook = made(events=["run.failed"])
    url = page_of(hook, "webhookendpoint")
    assert integrator.post(url, {"url": URL, "events": ["run.parked"]}).status_code == 302
    hook.refresh_from_db()
    assert (hook.events, hook.is_active) == (["run.parked"], False)

    gone = reverse("admin:hitl_webhooks_webhookendpoint_delete", args=[hook.pk])
    assert integrator.get(gone).status_code == 200
    assert integrator.post(gone, {"post": "yes"}).status_code == 302
    assert not WebhookEndpoint.objects.exists()


def test_webhook_list_action_deletes_selected_webhooks_after_confirmation(
    integrator: Client,
) -> None:
    kept, gone = made(description="kept"), made(description="gone")
    action = {"action": "delete_selected", "_selected_action": [str(gone.pk)]}
    page = integrator.post(list_of("webhookendpoint"), action)
    assert page.status_code == 200
    html = page.content.decode()
    assert "Delete the selected webhooks?" in html
    assert "gone</li>" in html
    assert "kept</li>" not in html
    assert WebhookEndpoint.objects.count() == 2
    assert integrator.post(list_of("webhookendpoint"), {**action, "post": "yes"}).status_code == 302
    assert WebhookEndpoint.objects.get() == kept


def test_webhook_delete_page_shows_the_escaped_name(integrator: Client) -> None:
    hook = made(description="<b>CRM</b>")
    gone = reverse("admin:hitl_webhooks_webhookendpoint_delete", args=[hook.pk])
    page = integrator.get(gone).content.decode()
    assert "Delete “&lt;b&gt;CRM&lt;/b&gt;”?" in page
    assert "<b>CRM" not in page


def test_webhook_history_page_lists_changes_made_in_the_admin(integrator: Client) -> None:
    hook = made(description="CRM")
    url = reverse("admin:hitl_webhooks_webhookendpoint_history", args=[hook.pk])
    assert "No changes in the admin yet." in integrator.get(url).content.decode()
    form = {"url": URL, "description": "<b>CRM</b>", "is_active": "on"}
    assert integrator.post(page_of(hook, "webhookendpoint"), form).status_code == 302
    page = integrator.get(url).content.decode()
    assert "<bdi>integrator</bdi>" in page
    assert "Changed Description." in page
    assert "&lt;b&gt;CRM&lt;/b&gt;" in page
    assert "<b>CRM" not in page


@pytest.mark.parametrize(
    ("values", "pill"),
    [
        ({}, '<span class="hitl-pill is-ok">Active</span>'),
        ({"failures": 2}, '<span class="hitl-pill is-warn">2 consecutive failures</span>'),
        ({"is_active": False}, '<span class="hitl-pill">Inactive</span>'),
        (
            {"is_active": False, "stopped": "It <b>failed</b>."},
            '<span class="hitl-pill is-bad">Stopped</span>',
        ),
    ],
)
def test_webhook_list_and_page_show_the_state_as_a_pill(
    integrator: Client, values: dict[str, Any], pill: str
) -> None:
    hook = made()
    WebhookEndpoint.objects.update(**values)
    for url in (list_of("webhookendpoint"), page_of(hook, "webhookendpoint")):
        page = integrator.get(url).content.decode()
        assert pill in page
        assert ("It &lt;b&gt;failed&lt;/b&gt;." in page) == ("stopped" in values)


@pytest.mark.parametrize(
    ("state", "pill"),
    [
        ("pending", '<span class="hitl-pill">Pending</span>'),
        ("delivered", '<span class="hitl-pill is-ok">Delivered</span>'),
        ("dead", '<span class="hitl-pill is-bad">Failed</span>'),
    ],
)
def test_delivery_list_and_page_show_the_state_as_a_pill(
    integrator: Client, state: str, pill: str
) -> None:
    message = webhook_services.send_test_event(made().pk)
    Delivery.objects.update(state=state)
    for url in (list_of("delivery"), page_of(message.id, "delivery")):
        assert pill in integrator.get(url).content.decode()


def test_webhook_page_for_user_with_only_view_permission_has_no_form_fields_or_buttons(
    browse: Callable[[str], Client], person: Callable[[str], Any]
) -> None:
    looker = person("nobody")
    looker.user_permissions.add(Permission.objects.get(codename="view_webhookendpoint"))
    page = browse("nobody").get(page_of(made(description="CRM"), "webhookendpoint"))
    text = page.content.decode()
    assert URL in text
    for control in ('name="url"', 'name="_save"', "/delete/", "/secret/"):
        assert control not in text


def test_webhook_secret_is_rotated_by_post_only_and_shown_once(integrator: Client) -> None:
    hook = made()
    url = reverse("admin:hitl_webhooks_webhookendpoint_secret", args=[hook.pk])
    assert hook.secret not in integrator.get(url).content.decode()
    assert WebhookEndpoint.objects.get().secret == hook.secret
    shown = integrator.post(url).content.decode()
    rotated = WebhookEndpoint.objects.get()
    assert rotated.secret in shown
    assert rotated.old_secret == hook.secret
    assert hook.secret not in shown


def test_webhook_list_action_queues_test_event_and_delivery_list_action_redelivers(
    integrator: Client,
) -> None:
    hook = made()
    action = {"action": "try_them", "_selected_action": [str(hook.pk)]}
    integrator.post(list_of("webhookendpoint"), action)
    message = Delivery.objects.get()
    assert (message.event, message.state) == ("webhook.test", "pending")

    Delivery.objects.update(state="dead", attempts=12, fault="The receiver returned <b>500</b>.")
    for url in (list_of("delivery"), page_of(message, "delivery")):
        page = integrator.get(url).content.decode()
        assert "The receiver returned &lt;b&gt;500&lt;/b&gt;." in page
    other = made()
    query = "?endpoint__id__exact="
    for pk, count in ((hook.pk, 1), (other.pk, 0)):
        listed = integrator.get(f"{list_of('delivery')}{query}{pk}")
        assert listed.context["cl"].result_count == count
    action = {"action": "send_again", "_selected_action": [str(message.pk)]}
    integrator.post(list_of("delivery"), action)
    message.refresh_from_db()
    assert (message.state, message.attempts) == ("pending", 0)


@pytest.mark.promise("P18")
def test_webhook_and_delivery_pages_without_view_permission_return_403_or_404(
    browse: Callable[[str], Client],
) -> None:
    hook = made()
    message = webhook_services.send_test_event(hook.pk)
    for role in ("reviewer", "operator", "nobody"):
        client = browse(role)
        assert client.get(list_of("webhookendpoint")).status_code == 403
        assert client.get(list_of("delivery")).status_code == 403
        for url in (page_of(hook, "webhookendpoint"), page_of(message.id, "delivery")):
            assert client.get(url).status_code in (403, 404)


@pytest.mark.promise("P18")
def test_webhook_view_permission_allows_no_rotation_test_event_or_redelivery(
    browse: Callable[[str], Client], person: Callable[[str], Any]
) -> None:
    looker = person("nobody")
    looker.user_permissions.add(Permission.objects.get(codename="view_webhookendpoint"))
    client = browse("nobody")
    hook = made()
    message = webhook_services.send_test_event(hook.pk)
    Delivery.objects.update(state="dead")
    assert client.get(page_of(hook, "webhookendpoint")).status_code == 200
    assert client.post(page_of(hook, "webhookendpoint"), {"url": URL}).status_code == 403
    assert client.get(reverse(ADD)).status_code == 403
    secret = reverse("admin:hitl_webhooks_webhookendpoint_secret", args=[hook.pk])
    assert client.post(secret).status_code == 403
    for model, action, pk in (
        ("webhookendpoint", "try_them", hook.pk),
        ("delivery", "send_again", message.id),
    ):
        client.post(list_of(model), {"action": action, "_selected_action": [str(pk)]})
    assert [*Delivery.objects.values_list("pk", "state")] == [(message.id, "dead")]
    assert WebhookEndpoint.objects.get().secret == hook.secret


class TestRecipientColumn:
    @pytest.fixture
    def mails(self, person: Callable[[str], Any]) -> list[Delivery]:
        """Create two emails to users, and the webhook event for the same change."""
        mail = WebhookEndpoint.objects.create(url="mailto:", description="Mail", channel="webhook")
        people = [{"user": str(person(name).pk)} for name in ("reader", "reviewer")]
        event = "interrupt.created"
        return [
            Delivery.objects.create(endpoint=mail, event=event, data=data) for data in (*people, {})
        ]

    def test_delivery_recipient_is_a_link_only_for_user_with_view_user_permission(
        self, integrator: Client, person: Callable[[str], Any], mails: list[Delivery]
    ) -> None:
        view_user = Permission.objects.get(codename="view_user")
        person("integrator").user_permissions.add(view_user)
        page = integrator.get(list_of("delivery")).content.decode()
        url = reverse("admin:auth_user_change", args=[mails[0].data["user"]])
        assert f'<a href="{url}"><bdi>reader</bdi></a>' in page
        assert page.count("<bdi>reviewer</bdi>") == 1
        page = integrator.get(page_of(mails[0], "delivery")).content.decode()
        assert f'<dt>Recipient</dt><dd><a href="{url}"><bdi>reader</bdi></a></dd>' in page
        assert (
            "<dt>Recipient</dt>"
            not in integrator.get(page_of(mails[2], "delivery")).content.decode()
        )

    @pytest.mark.promise("P18")
    def test_delivery_recipient_is_shown_as_user_id_to_user_without_view_user_permission(
        self, integrator: Client, mails: list[Delivery]
    ) -> None:
        for url in (list_of("delivery"), page_of(mails[0], "delivery")):
            page = integrator.get(url).content.decode()
            assert f"<bdi>User {mails[0].data['user']}</bdi>" in page
            assert ">reader<" not in page

    def test_delivery_list_with_recipients_takes_at_most_seven_queries(
        self, admin_client: Client, mails: list[Delivery], django_assert_max_num_queries: Any
    ) -> None:
        admin_client.get(list_of("delivery"))
        with django_assert_max_num_queries(7):
            admin_client.get(list_of("delivery"))

    def test_delivery_list_without_user_notifications_has_no_recipient_column(
        self, integrator: Client
    ) -> None:
        hook = made()
        webhook_services.send_test_event(hook.pk)
        page = integrator.get(list_of("delivery")).content.decode()
        assert "column-created_at" in page
        assert "column-recipient" not in page
