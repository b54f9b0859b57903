"""Rejection of invalid URL parameters of admin pages."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client

from hitl_django.models import Interrupt

from .conftest import list_of, page_of

#: A list with a query parameter whose value is used unchanged.
FILTERS = {
    "archivedthread": "graph", "decision": "thread", "delivery": "state", "interrupt": "graph",
    "reviewitem": "_changelist_filters", "run": "state", "thread": "graph",
}  # fmt: skip


def test_admin_list_filter_with_nul_character_returns_400(admin_client: Client) -> None:
    """PostgreSQL text can't contain NUL, so the database would raise its own error."""
    for model, parameter in FILTERS.items():
        for value in ("a\0b", "graph=a%00b"):
            assert admin_client.get(list_of(model), {parameter: value}).status_code == 400


def test_thread_timeline_with_extreme_before_parameter_returns_200(
    asked: Callable[..., Interrupt], admin_client: Client
) -> None:
    thread = asked().thread_id
    for moment in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "9" * 4400):
        shown = admin_client.get(page_of(thread, "thread"), {"before": moment})
        assert shown.status_code == 200


def test_decision_with_nul_character_in_key_causes_no_server_error(
    asked: Callable[..., Interrupt], admin_client: Client
) -> None:
    item = asked()
    body = {"decision": "approve", "digest": item.payload_digest, "version": 1, "key": "a\0b"}
    assert admin_client.post(page_of(item), body).status_code < 500
