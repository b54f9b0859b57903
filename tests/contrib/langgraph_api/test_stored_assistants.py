"""Assistants that clients create, with versions, and their runs, with LangGraph's client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission
from langgraph_sdk.errors import (
    APIStatusError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    UnprocessableEntityError,
)
from pydantic import Field

from hitl_django import END, START, StateGraph, interrupt
from hitl_django.contrib.langgraph_api.models import Assistant, AssistantVersion
from hitl_django.engine.task.runtime import Runtime
from hitl_django.graph_registry import registry
from hitl_django.models import Thread

from .conftest import GRAPHS

pytestmark = pytest.mark.django_db(transaction=True)


class Report(TypedDict, total=False):
    seen: Any
    again: bool


@dataclass
class Settings:
    model: str
    tone: str = "plain"
    token: Annotated[str, Field(json_schema_extra={"format": "password"})] = ""


def report(state: Report, config: Any, runtime: Runtime[Settings]) -> Any:
    configurable = config["configurable"]
    return {
        "seen": {
            "model": runtime.context.model,
            "tone": runtime.context.tone,
            "tokens": len(runtime.context.token),
            "region": configurable.get("region"),
            "assistant": configurable["assistant_id"],
            "tags": config.get("tags", []),
        }
    }


def build_reporter() -> Any:
    graph = StateGraph(Report, context_schema=Settings).add_node("report", report)
    return graph.add_edge(START, "report").add_edge("report", END)


@pytest.fixture
def client(client: Any) -> Any:
    registry.register("reporter", title="Reporter")(build_reporter)
    return client


def create(client: Any, **options: Any) -> dict[str, Any]:
    """Create an assistant of a graph whose nodes return their context and config."""
    return client.assistants.create(
        "reporter",
        {"configurable": {"region": "eu"}, "tags": ["a"]},
        **{"context": {"model": "small"}, "name": "Small", **options},
    )


def run(client: Any, assistant: str, **options: Any) -> Any:
    return client.runs.wait(None, assistant, input={"again": True}, **options)["seen"]


def test_created_assistant_is_returned_with_its_contents_and_version_1(client: Any) -> None:
    made = create(client, metadata={"team": "sales"}, description="Fast answers")
    assert client.assistants.get(made["assistant_id"]) == made
    assert made == {
        "assistant_id": made["assistant_id"],
        "graph_id": "reporter",
        "name": "Small",
        "description": "Fast answers",
        "config": {"configurable": {"region": "eu"}, "tags": ["a"]},
        "context": {"model": "small"},
        "metadata": {"team": "sales"},
        "version": 1,
        "created_at": made["created_at"],
        "updated_at": made["updated_at"],
    }
    assert client.assistants.get_graph(made["assistant_id"])["nodes"][1]["id"] == "report"


def test_assistant_without_name_is_untitled(client: Any) -> None:
    assert client.assistants.create("chat")["name"] == "Untitled"


def test_assistant_creation_with_existing_id_fails_or_returns_the_assistant_depending_on_if_exists(
    client: Any,
) -> None:
    assistant_id = str(uuid4())
    made = create(client, assistant_id=assistant_id)
    kept = create(client, assistant_id=assistant_id, if_exists="do_nothing", name="Other")
    assert kept == made
    built_in = client.assistants.get("chat")
    same = {"assistant_id": built_in["assistant_id"]}
    assert client.assistants.create("chat", if_exists="do_nothing", **same) == built_in
    for taken in (assistant_id, built_in["assistant_id"]):
        with pytest.raises(ConflictError):
            create(client, assistant_id=taken)
    assert Assistant.objects.count() == AssistantVersion.objects.count() == 1


@pytest.mark.parametrize(
    ("options", "status", "pointer"),
    [
        ({"graph_id": "nonsense"}, 404, None),
        ({"context": {"model": 7}}, 422, "/context/model"),
        ({"context": {"modle": "x"}}, 422, "/context/modle"),
        ({"context": [1]}, 400, "/context"),
        ({"config": {"recursion_limit": 10**9}}, 422, "/recursion_limit"),
        ({"config": {"run_name": "x"}}, 501, None),
        ({"config": {"unknown": 1}}, 400, "/config/unknown"),
        ({"assistant_id": "mine"}, 400, "/assistant_id"),
        ({"metadata": {"a": "x" * 20_000}}, 413, None),
    ],
)
def test_invalid_assistant_is_refused_and_not_stored(
    client: Any, options: dict[str, Any], status: int, pointer: str | None
) -> None:
    http = client.http.client
    answer = http.post("/assistants", json={"graph_id": "reporter", **options})
    assert answer.status_code == status, answer.text
    found = [each.get("pointer") for each in answer.json().get("errors", [])]
    assert found == ([] if pointer is None else [pointer])
    made = create(client)
    changed = http.patch(f"/assistants/{made['assistant_id']}", json=options)
    assert changed.status_code == (400 if "assistant_id" in options else status)
    assert client.assistants.get(made["assistant_id"]) == made
    assert Assistant.objects.count() == 1


def test_search_filters_sorts_and_pages_built_in_and_created_assistants(client: Any) -> None:
    zeta = create(client, name="zeta", metadata={"team": {"name": "sales", "size": 2}})
    alpha = create(client, name="Alpha", metadata={"team": {"name": "support"}})
    search, count = client.assistants.search, client.assistants.count
    mine = [alpha, zeta]
    assert search(graph_id="reporter") == [*mine, client.assistants.get("reporter")]
    assert count(graph_id="reporter") == 3
    assert search(name="ALPH") == [alpha]
    assert search(metadata={"team": {"name": "sales"}}) == [zeta]
    assert count(metadata={"team": {"name": "sales"}}) == count(name="zet") == 1
    by_name = search(sort_by="name", sort_order="asc", limit=200)
    names = [each["name"].casefold() for each in by_name]
    assert names == sorted(names)
    assert len(names) == len(GRAPHS) + 3 == count()
    assert search(sort_by="name", limit=200) == by_name[::-1]
    page = search(sort_by="name", sort_order="asc", limit=2, offset=1, response_format="object")
    assert (page["assistants"], page["next"]) == (by_name[1:3], "3")
    assert search(sort_by="created_at", sort_order="desc", limit=2) == mine


def test_assistant_update_adds_a_version_and_set_latest_restores_an_earlier_version(
    client: Any,
) -> None:
    made = create(client, metadata={"a": 1, "b": 1})
    pk = made["assistant_id"]
    changed = client.assistants.update(
        pk, context={"model": "large"}, metadata={"b": 2}, description="Slow"
    )
    later = {"context": {"model": "large"}, "metadata": {"a": 1, "b": 2}, "description": "Slow"}
    assert changed == {**made, **later, "version": 2, "updated_at": changed["updated_at"]}
    assert changed["updated_at"] > made["updated_at"]
    assert client.assistants.update(pk, graph_id="chat", context={}, name="C")["version"] == 3
    assert client.assistants.get_schemas(pk)["graph_id"] == "chat"

    versions = client.assistants.get_versions(pk)
    assert [each["version"] for each in versions] == [3, 2, 1]
    assert "updated_at" not in versions[0]
    assert versions[1]["context"] == {"model": "large"}
    assert client.assistants.get_versions(pk, metadata={"b": 1}) == versions[2:]
    assert client.assistants.get_versions(pk, limit=1, offset=1) == versions[1:2]

    back = client.assistants.set_latest(pk, 1)
    assert back == {**made, "updated_at": back["updated_at"]}
    assert client.assistants.get(pk) == back
    assert client.assistants.update(pk, name="D")["version"] == 4
    with pytest.raises(NotFoundError):
        client.assistants.set_latest(pk, 5)


def test_assistant_deletion_also_deletes_the_versions_of_the_assistant(client: Any) -> None:
    pk = create(client)["assistant_id"]
    with pytest.raises(APIStatusError, match="Delete each thread"):
        client.assistants.delete(pk, delete_threads=True)
    client.assistants.delete(pk)
    for call in (client.assistants.get, client.assistants.delete, client.assistants.get_versions):
        with pytest.raises(NotFoundError):
            call(pk)
    with pytest.raises(NotFoundError):
        client.runs.create(None, pk, input={"again": True})
    assert not AssistantVersion.objects.exists()


def test_built_in_assistant_has_one_version_and_cannot_be_changed_or_deleted(client: Any) -> None:
    built_in = client.assistants.get("chat")
    (only,) = client.assistants.get_versions("chat")
    assert {**only, "updated_at": built_in["updated_at"]} == built_in
    for call in (
        lambda: client.assistants.update("chat", name="Other"),
        lambda: client.assistants.delete(built_in["assistant_id"]),
        lambda: client.assistants.set_latest("chat", 1),
    ):
        with pytest.raises(ConflictError) as refused:
            call()
        assert refused.value.response.json()["code"] == "built_in_assistant"


def test_run_config_and_context_override_config_and_context_of_the_assistant(client: Any) -> None:
    pk = create(client)["assistant_id"]
    small = {
        "model": "small", "tone": "plain", "tokens": 0, "region": "eu", "assistant": pk,
        "tags": ["a"],
    }  # fmt: skip
    assert run(client, pk) == small
    own: dict[str, Any] = {"config": {"configurable": {"region": "us"}, "tags": ["b"]}}
    own["context"] = {"tone": "warm"}
    assert run(client, pk, **own) == {**small, "tone": "warm", "region": "us", "tags": ["b"]}
    client.assistants.update(pk, context={"model": "large"})
    assert run(client, pk) == {**small, "model": "large"}
    client.assistants.set_latest(pk, 1)
    assert run(client, pk) == small


def test_assistant_context_without_required_fields_is_accepted_if_the_run_adds_the_fields(
    client: Any,
) -> None:
    pk = create(client, context={"tone": "warm"})["assistant_id"]
    assert run(client, pk, context={"model": "large"})["tone"] == "warm"
    with pytest.raises(UnprocessableEntityError):
        client.runs.create(None, pk, input={"again": True})


def test_secret_in_assistant_context_reaches_the_run_and_is_redacted_in_responses(
    client: Any,
) -> None:
    made = create(client, context={"model": "small", "token": "hush"})
    pk = made["assistant_id"]
    assert made["context"] == {"model": "small", "token": "[redacted]"}
    assert client.assistants.get_versions(pk)[0]["context"] == made["context"]
    changed = client.assistants.update(pk, name="Other")
    assert changed["context"] == made["context"]
    assert run(client, pk)["tokens"] == len("hush")


def test_cron_creation_for_assistant_that_is_not_built_in_is_refused(client: Any) -> None:
    pk = create(client)["assistant_id"]
    with pytest.raises(APIStatusError, match="built-in assistants only"):
        client.crons.create(pk, schedule="0 9 * * *")


def test_ids_in_config_of_an_assistant_do_not_change_the_assistant_id_of_its_runs(
    client: Any, admin: Any
) -> None:
    config = {"configurable": {"user_id": "root", "assistant_id": "x", "thread_id": "y"}}
    made = client.assistants.create("reporter", config, context={"model": "small"})
    assert made["config"] == config
    assert run(client, made["assistant_id"])["assistant"] == made["assistant_id"]


def test_thread_and_run_responses_contain_the_id_of_their_assistant(client: Any) -> None:
    pk, built_in = create(client)["assistant_id"], client.assistants.get("reporter")["assistant_id"]
    threads = {name: client.threads.create()["thread_id"] for name in ("mine", "other")}
    made = client.threads.create(metadata={"assistant_id": pk})
    assert (made["metadata"]["assistant_id"], made["metadata"]["graph_id"]) == (pk, "reporter")

    def find(assistant_id: str) -> set[str]:
        found = client.threads.search(metadata={"assistant_id": assistant_id})
        assert {each["metadata"]["assistant_id"] for each in found} <= {assistant_id}
        return {each["thread_id"] for each in found}

    options: dict[str, Any] = {"input": {"again": True}, "context": {"model": "small"}}
    assert client.runs.create(threads["mine"], pk, **options)["assistant_id"] == pk
    assert client.runs.create(threads["other"], "reporter", **options)["assistant_id"] == built_in
    assert find(pk) == {threads["mine"], made["thread_id"]}
    assert find(built_in) == {threads["other"]}
    client.runs.create(threads["mine"], "reporter", **options)
    assert client.threads.get(threads["mine"])["metadata"] == {
        "graph_id": "reporter",
        "assistant_id": built_in,
    }
    assert [each["assistant_id"] for each in client.runs.list(threads["mine"])] == [built_in, pk]
    assert find(built_in) == {*threads.values()}
    stored = Thread.objects.get(thread_id=threads["mine"])
    assert stored.metadata == {}


def test_config_of_the_earlier_run_overrides_config_of_the_assistant_in_a_fork(client: Any) -> None:
    pk = create(client)["assistant_id"]
    thread = client.threads.create()["thread_id"]
    first = {"config": {"configurable": {"region": "us"}}, "context": {"model": "large"}}
    client.runs.wait(thread, "reporter", input={"again": True}, **first)
    start = client.threads.get_history(thread)[-1]["checkpoint"]
    forked = client.runs.wait(thread, pk, checkpoint=start)["seen"]
    assert forked == {
        "model": "large", "tone": "plain", "tokens": 0, "region": "us", "assistant": pk,
        "tags": ["a"],
    }  # fmt: skip


def test_resumed_run_uses_the_assistant_version_with_which_the_run_was_started(client: Any) -> None:
    def ask(state: Report, config: Any) -> Any:
        interrupt("Go on?")
        return {"seen": config["configurable"]["region"]}

    graph = StateGraph(Report).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
    registry.register("asking")(lambda: graph)
    pk = client.assistants.create("asking", {"configurable": {"region": "eu"}})["assistant_id"]
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, pk, input={"again": True})
    client.assistants.update(pk, config={"configurable": {"region": "us"}})
    assert client.runs.wait(thread, pk, command={"resume": True})["seen"] == "eu"


@pytest.mark.parametrize(
    ("codename", "call"),
    [
        ("add", lambda client, pk: client.assistants.create("chat")),
        ("change", lambda client, pk: client.assistants.update(pk, name="Other")),
        ("change", lambda client, pk: client.assistants.set_latest(pk, 1)),
        ("delete", lambda client, pk: client.assistants.delete(pk)),
    ],
)
def test_assistant_change_without_model_permission_returns_403(
    client: Any,
    client_of: Callable[[Any], Any],
    make_user: Callable[..., Any],
    codename: str,
    call: Callable[[Any, str], Any],
) -> None:
    pk = create(client)["assistant_id"]
    user = make_user("rita", "start_run", "view_assistant")
    other = client_of(user)
    with pytest.raises(PermissionDeniedError):
        call(other, pk)
    assert client.assistants.get(pk)["version"] == Assistant.objects.count() == 1
    user.user_permissions.add(Permission.objects.get(codename=f"{codename}_assistant"))
    call(other, pk)


def test_assistant_hidden_from_user_is_treated_as_missing(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    pk = create(client)["assistant_id"]
    every = ("add_assistant", "change_assistant", "delete_assistant")
    starter = client_of(make_user("rita", "start_run", *every))
    viewer = client_of(make_user("vera", "view_assistant", *every))
    for other in (starter, viewer):
        assert pk not in [each["assistant_id"] for each in other.assistants.search(limit=200)]
        for call in (
            lambda other=other: other.assistants.get(pk),
            lambda other=other: other.assistants.update(pk, name="Other"),
            lambda other=other: other.assistants.delete(pk),
            lambda other=other: other.assistants.get_versions(pk),
            lambda other=other: other.runs.create(None, pk, input={"again": True}),
            lambda other=other: other.threads.create(metadata={"assistant_id": pk}),
        ):
            with pytest.raises(NotFoundError):
                call()
    with pytest.raises(ConflictError):
        starter.assistants.create("chat", assistant_id=pk, if_exists="do_nothing")
    with pytest.raises(NotFoundError):
        viewer.assistants.create("chat")
    assert client.assistants.count(graph_id="reporter") == 2
