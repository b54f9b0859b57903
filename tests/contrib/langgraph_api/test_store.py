"""The store with LangGraph's client, which needs permission by the project's policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph_sdk.errors import APIStatusError, BadRequestError, PermissionDeniedError

from hitl_django.contrib.store import DjangoStore
from hitl_django.contrib.store.models import StoreItem
from hitl_django.permissions import ModelPermissionPolicy
from tests.contrib.store.embedders import index_of

pytestmark = pytest.mark.django_db(transaction=True)


class OwnShelf(ModelPermissionPolicy):
    """Policy that gives each user a namespace, and read access to a shared namespace."""

    def may_use_store(self, user: Any, namespace: tuple[str, ...], *, writes: bool) -> bool:
        if namespace[:1] == ("shared",):
            return not writes
        return namespace[:2] == ("users", user.username)


@pytest.fixture
def client(address: str, settings: Any, client_of: Any, make_user: Callable[..., Any]) -> Any:
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.OwnShelf"}
    return client_of(make_user("dana"))


def test_langgraph_store_items_are_put_read_searched_and_deleted(client: Any) -> None:
    shelf = ["users", "dana", "notes"]
    client.store.put_item(shelf, "a", {"text": "first", "n": 1})
    client.store.put_item(shelf, "b", {"text": "second", "n": 2}, ttl=60)
    item = client.store.get_item(shelf, "a")
    assert (item["namespace"], item["key"], item["value"]["n"]) == (shelf, "a", 1)
    assert client.store.get_item(shelf, "nonsense") is None

    found = client.store.search_items(["users", "dana"], filter={"n": {"$gte": 2}})
    assert [each["key"] for each in found["items"]] == ["b"]
    assert len(client.store.search_items(shelf, limit=1)["items"]) == 1
    names = client.store.list_namespaces(prefix=["users", "dana"], max_depth=3)
    assert names == {"namespaces": [shelf]}

    client.store.delete_item(shelf, "a")
    assert client.store.get_item(shelf, "a") is None


def test_langgraph_store_call_outside_namespaces_allowed_by_policy_returns_403(client: Any) -> None:
    assert client.store.search_items(["shared"]) == {"items": []}
    refused: list[Callable[[], Any]] = [
        lambda: client.store.put_item(["shared"], "a", {}),
        lambda: client.store.delete_item(["shared"], "a"),
        lambda: client.store.get_item(["users", "sam"], "a"),
        lambda: client.store.search_items([]),
        lambda: client.store.search_items(["users"]),
        lambda: client.store.list_namespaces(),
    ]
    for call in refused:
        with pytest.raises(PermissionDeniedError):
            call()
    assert not StoreItem.objects.exists()


def test_langgraph_store_returns_413_for_too_long_namespace_and_400_for_invalid_filter(
    client: Any,
) -> None:
    shelf = ["users", "dana"]
    with pytest.raises(APIStatusError) as refused:
        client.store.put_item([*shelf, "x" * 1999], "a", {})
    assert refused.value.status_code == 413
    assert not StoreItem.objects.exists()
    client.store.put_item(shelf, "a", {"n": 1})
    with pytest.raises(BadRequestError):
        client.store.search_items(shelf, filter={"n": {"$nonsense": 1}})
    with pytest.raises(BadRequestError) as refused:
        client.store.search_items(shelf, query="something like it")
    assert refused.value.response.json()["errors"][0]["pointer"] == "/query"


def open_indexed_store() -> DjangoStore:
    return DjangoStore(index=index_of("text"))


def test_langgraph_store_with_index_ranks_items_by_similarity_to_query(
    client: Any, settings: Any
) -> None:
    path = f"{__name__}.open_indexed_store"
    settings.HITL = {**settings.HITL, "API_STORE_FACTORY": path}
    shelf = ["users", "dana"]
    for text in ("aaa", "bbb", "aab"):
        client.store.put_item(shelf, text, {"text": text})
    found = client.store.search_items(shelf, query="aaa", limit=2)["items"]
    assert [each["key"] for each in found] == ["aaa", "aab"]
    assert found[0]["score"] > found[1]["score"]
    with pytest.raises(PermissionDeniedError):
        client.store.search_items(["users", "sam"], query="aaa")


def test_langgraph_store_under_default_policy_returns_403_to_superuser(
    address: str, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    admin = client_of(make_user("root", is_superuser=True))
    with pytest.raises(PermissionDeniedError):
        admin.store.get_item(["a"], "b")
