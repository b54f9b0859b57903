"""Built-in assistants with LangGraph's client: one per visible graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from langgraph_sdk.errors import NotFoundError

from hitl_django.contrib.langgraph_api.documents import build_assistant_id

pytestmark = pytest.mark.django_db(transaction=True)


def test_assistant_search_lists_each_registered_graph_with_its_title(client: Any) -> None:
    found = client.assistants.search(graph_id="chat")
    (chat,) = found
    assert (chat["graph_id"], chat["name"], chat["version"]) == ("chat", "Chat", 1)
    assert UUID(chat["assistant_id"])
    assert client.assistants.count(graph_id="chat") == 1
    assert client.assistants.count() > 1


def test_assistant_is_returned_by_id_and_by_graph_name(client: Any) -> None:
    by_name = client.assistants.get("chat")
    assert client.assistants.get(by_name["assistant_id"]) == by_name
    with pytest.raises(NotFoundError):
        client.assistants.get("nonsense")


def test_assistant_id_is_the_uuid_langgraph_derives_from_the_graph_name() -> None:
    assert build_assistant_id("agent") == "fe096781-5601-53d2-b2f6-0d3403f7e9ca"


def test_assistant_search_applies_limit_offset_and_select(client: Any) -> None:
    order: dict[str, Any] = {"sort_by": "graph_id", "sort_order": "asc"}
    page = client.assistants.search(limit=2, **order, response_format="object")
    assert (len(page["assistants"]), page["next"]) == (2, "2")
    (next_one,) = client.assistants.search(limit=1, offset=2, **order, select=["graph_id"])
    names = [each["graph_id"] for each in page["assistants"]]
    assert list(next_one) == ["graph_id"]
    assert names == sorted(names)
    assert next_one["graph_id"] > names[-1]


def test_assistant_graph_schemas_and_nested_subgraphs_are_returned(client: Any) -> None:
    drawn = client.assistants.get_graph("outer")
    assert [node["id"] for node in drawn["nodes"]] == ["__start__", "inner", "__end__"]
    assert [node.get("type") for node in drawn["nodes"]] == ["runnable", "runnable", None]
    deep = client.assistants.get_graph("outer", xray=True)
    assert len(deep["nodes"]) > 2
    assert "inner:ask" in str(deep)

    schemas = client.assistants.get_schemas("chat")
    assert schemas["graph_id"] == "chat"
    assert "log" in schemas["input_schema"]["properties"]

    assert list(client.assistants.get_subgraphs("outer")) == ["inner"]
    assert list(client.assistants.get_subgraphs("outer", namespace="inner")) == ["inner"]
    with pytest.raises(NotFoundError):
        client.assistants.get_subgraphs("outer", namespace="nothing")


def test_assistant_of_graph_hidden_from_user_returns_404(
    client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    client = client_of(make_user("nobody"))
    assert client.assistants.search() == []
    assert client.assistants.count() == 0
    for call in (client.assistants.get, client.assistants.get_graph, client.assistants.get_schemas):
        with pytest.raises(NotFoundError):
            call("chat")
