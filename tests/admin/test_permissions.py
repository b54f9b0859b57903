"""Contents of admin pages by permission, in addition to tests/permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

import pytest
from django.test import Client, override_settings

from hitl_django import services
from hitl_django.models import Decision, Interrupt, Run
from hitl_django.permissions import ModelPermissionPolicy

from .conftest import list_of, make_interrupt, page_of


@pytest.mark.parametrize("model", ["reviewitem", "interrupt", "decision", "run", "thread"])
@pytest.mark.parametrize("page", ["add/", "{}/delete/"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_add_and_delete_pages_of_engine_models_return_403_to_superuser(
    model: str, page: str, method: str, admin_client: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    services.decide(item.pk, "approve")
    rows = {
        "decision": Decision.objects.get().pk,
        "run": item.run_id,
        "thread": item.thread_id,
    }
    url = f"/admin/hitl_django/{model}/{page.format(rows.get(model, item.pk))}"
    assert getattr(admin_client, method)(url).status_code == 403
    assert Decision.objects.count() == Run.objects.count() == 1


@pytest.mark.parametrize("role", ["nobody", "blind", "public"])
def test_decision_on_request_hidden_from_user_saves_no_decision(
    role: str, browse: Callable[[str], Client], asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    assert browse(role).post(page_of(item), {"decision": "approve"}).status_code in (302, 404)
    assert not Decision.objects.exists()


@pytest.mark.parametrize("role", ["reader", "asker", "operator"])
def test_request_page_without_decide_permission_has_no_form_and_post_returns_403(
    role: str, browse: Callable[[str], Client], asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    client = browse(role)
    page = client.get(page_of(item)).content.decode()
    assert "data-hitl-sheet" not in page
    assert "You can view this request, but you don’t have permission to decide it" in page
    assert ("<dt>Run</dt>" in page) is (role != "asker")
    posted = {"decision": "approve", "answer/amount": "1", "digest": item.payload_digest}
    assert client.post(page_of(item), {**posted, "version": item.version}).status_code == 403
    assert not Decision.objects.exists()


def test_decision_without_csrf_token_returns_403(
    person: Callable[[str], Any], asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("reviewer"))
    assert client.post(page_of(item), {"decision": "approve"}).status_code == 403
    assert not Decision.objects.exists()


class OnlyMine(ModelPermissionPolicy):
    """Policy that shows every user the interrupts of one graph."""

    def visible_interrupts(self, user: Any, interrupts: Any) -> Any:
        return interrupts.filter(graph="mine")


@override_settings(HITL={"POLICY": "tests.admin.test_permissions.OnlyMine"})
def test_admin_pages_of_requests_hidden_by_policy_return_404(
    browse: Callable[[str], Client],
) -> None:
    mine, other = make_interrupt({}, graph="mine"), make_interrupt({}, graph="other")
    client = browse("nobody")
    page = client.get(list_of()).content.decode()
    assert mine.title in page
    assert other.title not in page
    assert client.get(page_of(mine)).status_code == 200
    assert client.get(page_of(other)).status_code == 404
    assert client.get(f"/admin/hitl_django/reviewitem/{other.pk}/payload/").status_code == 404
    assert client.get(f"/admin/hitl_django/reviewitem/{other.pk}/history/").status_code == 404


@pytest.mark.parametrize("pk", ["1", "nonsense", "00000000-0000-0000-0000-000000000000", "%00"])
def test_admin_change_page_of_unknown_or_invalid_id_returns_404(
    admin_client: Client, pk: str
) -> None:
    for model in ("reviewitem", "interrupt", "decision", "run", "thread", "checkpoint"):
        assert admin_client.get(f"/admin/hitl_django/{model}/{pk}/change/").status_code == 404


@pytest.mark.parametrize("model", ["checkpoint", "channelblob", "pendingwrite"])
def test_admin_index_lists_engine_models_only_with_setting_enabled(
    model: str, browse: Callable[[str], Client], asked: Callable[..., Interrupt]
) -> None:
    asked()
    client = browse("engineer")
    for index in ("/admin/", "/admin/hitl_django/"):
        assert list_of("thread") in client.get(index).content.decode()
        assert list_of(model) not in client.get(index).content.decode()
        with override_settings(HITL={"ADMIN_SHOW_ENGINE_MODELS": True}):
            assert list_of(model) in client.get(index).content.decode()


@pytest.mark.promise("P22")
@pytest.mark.parametrize(
    "lookup",
    [
        "run/?traceback__contains=x", "run/?error__startswith=x", "interrupt/?payload__contains=x",
        "interrupt/?title__regex=(x%2B)%2B", "decision/?value__contains=x",
        "decision/?reason__contains=x", "thread/?metadata__contains=x",
        "../hitl_webhooks/webhookendpoint/?secret__startswith=x",
        "../hitl_links/reviewlink/?secret_digest__startswith=x",
    ],
)  # fmt: skip
def test_admin_list_lookup_on_hidden_columns_returns_400(lookup: str, admin_client: Client) -> None:
    address = urljoin(list_of("run").removesuffix("run/"), lookup)
    assert admin_client.get(address).status_code == 400
