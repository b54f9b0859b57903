"""Threads and their states with LangGraph's client."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, get_args

import pytest
from langgraph_sdk.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
)
from langgraph_sdk.schema import ThreadSortBy

from hitl_django import services
from hitl_django.models import AuditEntry, Interrupt, Run, Thread

pytestmark = pytest.mark.django_db(transaction=True)

GO_ON = {"resume": {"approved": True}}


def start(client: Any, graph: str = "chat", **options: Any) -> str:
    thread: str = client.threads.create()["thread_id"]
    client.runs.create(thread, graph, input={"log": ["hello"]}, **options)
    return thread


def test_langgraph_create_of_existing_thread_returns_409_unless_if_exists_is_do_nothing(
    client: Any,
) -> None:
    made = client.threads.create(thread_id="mine", metadata={"customer": 7}, graph_id="chat")
    assert (made["thread_id"], made["status"]) == ("mine", "idle")
    assert made["metadata"]["customer"] == 7
    assert made["metadata"]["graph_id"] == "chat"
    with pytest.raises(ConflictError):
        client.threads.create(thread_id="mine")
    kept = client.threads.create(thread_id="mine", metadata={"customer": 8}, if_exists="do_nothing")
    assert kept == client.threads.get("mine") == made
    assert AuditEntry.objects.get(verb="create_thread").actor_label == "dana"


def test_langgraph_thread_search_filters_by_status_metadata_and_ids(client: Any) -> None:
    asking, done = start(client), start(client, "plain")
    client.threads.update(asking, metadata={"customer": 7, "tags": ["a", "b"]})
    client.threads.update(done, metadata={"customer": 7, "note": '"quoted" ü'})
    idle = client.threads.create()["thread_id"]

    def find(**wanted: Any) -> set[str]:
        found = {each["thread_id"] for each in client.threads.search(**wanted)}
        if "ids" not in wanted:
            assert client.threads.count(**wanted) == len(found)
        return found

    assert find(status="interrupted") == {asking}
    assert find(status="idle") == {done, idle}
    assert find(status="busy") == find(status="error") == set()
    assert find(metadata={"customer": 7}) == {asking, done}
    assert find(metadata={"customer": "7"}) == find(metadata={"customer": 70}) == set()
    assert find(metadata={"tags": ["b"]}) == {asking}
    assert find(metadata={"note": '"quoted" ü'}) == {done}
    assert find(metadata={"graph_id": "plain"}) == {done}
    assert find(metadata={"customer": 7}, status="interrupted") == {asking}
    assert find(ids=[idle, "nonsense"]) == {idle}


def test_langgraph_thread_search_applies_limit_and_offset_to_filtered_threads(client: Any) -> None:
    made = [client.threads.create(metadata={"n": n % 2})["thread_id"] for n in range(6)]
    odd = client.threads.search(metadata={"n": 1}, limit=2, offset=1)
    assert [each["thread_id"] for each in odd] == [made[3], made[1]]
    first = client.threads.search(limit=2, sort_order="asc", sort_by="created_at")
    assert [each["thread_id"] for each in first] == made[:2]
    (brief,) = client.threads.search(limit=1, select=["thread_id", "status"])
    assert brief == {"thread_id": made[-1], "status": "idle"}


def test_langgraph_thread_search_sorts_by_each_field_and_rejects_unknown_fields(
    client: Any,
) -> None:
    first, second, third, fourth = (
        client.threads.create(thread_id=name)["thread_id"] for name in ("d", "a", "c", "b")
    )
    for thread, graph in ((third, "failing"), (first, "chat"), (second, "plain")):
        client.runs.create(thread, graph, input={"log": ["hello"]})
    client.threads.update_state(third, {"log": ["by hand"]}, as_node="fail")

    def list_ids(**order: Any) -> list[str]:
        return [each["thread_id"] for each in client.threads.search(**order)]

    ascending = {
        "created_at": [first, second, third, fourth],
        "thread_id": [second, fourth, third, first],
        "status": [third, second, fourth, first],  # error, idle, idle, interrupted
        "updated_at": [fourth, third, first, second],
        "state_updated_at": [fourth, first, second, third],
    }
    assert set(ascending) == set(get_args(ThreadSortBy))
    for name, threads in ascending.items():
        assert list_ids(sort_by=name, sort_order="asc") == threads, name
        newest_first = [*reversed(threads)]
        assert list_ids(sort_by=name, sort_order="desc") == list_ids(sort_by=name) == newest_first
        assert list_ids(sort_by=name, sort_order="asc", limit=2, offset=1) == threads[1:3]
        shown = client.threads.search(sort_by=name, sort_order="asc")
        if name != "state_updated_at":
            # As text, a full second ("27Z") would sort after times with fractions ("27.062Z").
            read = datetime.fromisoformat if name.endswith("_at") else str
            values = [read(each[name]) for each in shown]
            assert values == sorted(values)
    assert list_ids(sort_order="asc") == ascending["created_at"]
    assert list_ids(sort_by="status", metadata={"graph_id": "plain"}) == [second]
    with pytest.raises(BadRequestError) as refused:
        client.threads.search(sort_by="nonsense")
    assert refused.value.response.json()["errors"][0]["pointer"] == "/sort_by"


def test_langgraph_thread_search_order_is_independent_of_runs_hidden_from_the_user(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    """Users who see no runs must not learn the results of runs from the order."""
    asking, done = start(client), start(client, "plain")
    reader = client_of(make_user("rita", "view_thread"))
    for name in ("status", "updated_at"):
        found = reader.threads.search(sort_by=name, sort_order="asc")
        assert [each["thread_id"] for each in found] == [asking, done]
        assert {each["status"] for each in found} == {"idle"}


def test_langgraph_interrupted_thread_contains_interrupts_by_task_and_values(client: Any) -> None:
    thread = start(client)
    shown = client.threads.get(thread)
    interrupt = Interrupt.objects.get()
    assert shown["interrupts"] == {
        interrupt.task_id: [{"id": interrupt.interrupt_id, "value": {"title": "Continue?"}}]
    }
    assert shown["values"] == {"log": ["hello", "greeted"]}


def test_langgraph_thread_metadata_update_merges_keys_and_is_logged(client: Any) -> None:
    thread = client.threads.create(metadata={"a": 1, "b": 1})["thread_id"]
    changed = client.threads.update(thread, metadata={"b": 2, "c": 3})
    assert changed["metadata"] == {"a": 1, "b": 2, "c": 3}
    assert client.threads.update(thread, metadata={"d": 4}, return_minimal=True) is None
    assert AuditEntry.objects.filter(verb="change_metadata").count() == 2


def test_langgraph_copied_thread_has_state_and_history_and_no_pending_interrupt(
    client: Any,
) -> None:
    thread = start(client)
    client.threads.copy(thread)
    (copy,) = Thread.objects.exclude(thread_id=thread).values_list("thread_id", flat=True)
    assert client.threads.get_state(copy)["values"] == {"log": ["hello", "greeted"]}
    assert client.threads.get_state(copy)["next"] == []
    assert client.threads.get(copy)["status"] == "idle"
    assert len(client.threads.get_history(copy)) > len(client.threads.get_history(thread))
    client.runs.create(copy, "chat", input={"log": ["again"]})
    client.runs.wait(copy, "chat", command=GO_ON)
    assert client.threads.get_state(thread)["next"] == ["ask"]


def test_langgraph_thread_delete_returns_409_while_interrupted_and_erases_an_ended_thread(
    client: Any,
) -> None:
    thread = start(client)
    with pytest.raises(ConflictError):
        client.threads.delete(thread)
    client.runs.wait(thread, "chat", command=GO_ON)
    client.threads.delete(thread)
    assert not client.threads.get(thread)["values"]
    assert AuditEntry.objects.filter(verb="decide").exists()

    empty = client.threads.create()["thread_id"]
    client.threads.delete(empty)
    with pytest.raises(NotFoundError):
        client.threads.get(empty)


def test_langgraph_thread_state_and_history_are_read_at_any_checkpoint(client: Any) -> None:
    thread = start(client)
    now = client.threads.get_state(thread)
    assert (now["values"], now["next"]) == ({"log": ["hello", "greeted"]}, ["ask"])
    assert now["interrupts"][0]["response_schema"]["required"] == ["approved"]
    assert now["tasks"][0]["interrupts"] == now["interrupts"]

    history = client.threads.get_history(thread)
    assert [each["metadata"]["step"] for each in history] == [1, 0, -1]
    before = client.threads.get_history(thread, before=now["checkpoint"])
    assert before == history[1:]
    assert client.threads.get_history(thread, limit=1) == history[:1]
    assert client.threads.get_history(thread, metadata={"step": 0}) == [history[1]]

    old = client.threads.get_state(thread, checkpoint_id=history[1]["checkpoint"]["checkpoint_id"])
    assert old == history[1]
    assert client.threads.get_state(thread, checkpoint=history[1]["checkpoint"]) == history[1]
    assert client.threads.get_state(thread, select=["values.log", "next"]) == {
        "values": {"log": ["hello", "greeted"]},
        "next": ["ask"],
    }
    with pytest.raises(NotFoundError):
        client.threads.get_state(thread, checkpoint_id="nonsense")


def test_langgraph_subgraph_state_is_read_by_checkpoint_namespace(client: Any) -> None:
    thread = start(client, "outer")
    task = client.threads.get_state(thread)["tasks"][0]
    assert task["state"] is None
    below = client.threads.get_state(thread, checkpoint=task["checkpoint"])
    assert below["next"] == ["ask"]
    assert below["checkpoint"]["checkpoint_ns"] == task["checkpoint"]["checkpoint_ns"]
    deep = client.threads.get_state(thread, subgraphs=True)["tasks"][0]["state"]
    assert deep["next"] == ["ask"]
    with pytest.raises(NotFoundError):
        client.threads.get_state(thread, checkpoint={"checkpoint_ns": "nothing:at-all"})


def test_langgraph_update_state_supersedes_interrupt_and_run_continues_from_new_state(
    client: Any,
) -> None:
    thread = start(client)
    made = client.threads.update_state(thread, {"log": ["told"]}, as_node="ask")
    state = client.threads.get_state(thread)
    assert state["checkpoint"]["checkpoint_id"] == made["checkpoint"]["checkpoint_id"]
    assert (state["next"], state["values"]["log"][-1]) == (["close"], "told")
    assert client.threads.get(thread)["status"] == "idle"
    assert Interrupt.objects.get().status == Interrupt.Status.SUPERSEDED
    assert AuditEntry.objects.get(verb="update_state").actor_label == "dana"

    values = client.runs.wait(thread, "chat", input=None)
    assert values["log"] == ["hello", "greeted", "told", "closed"]


def test_langgraph_update_state_without_values_as_end_node_ends_the_thread(client: Any) -> None:
    """Agent Inbox sends this request for "Mark as resolved"."""
    thread = start(client)
    client.threads.update_state(thread, None, as_node="__end__")
    state = client.threads.get_state(thread)
    assert (state["next"], state["tasks"], state["interrupts"]) == ([], [], [])
    assert client.threads.get(thread)["status"] == "idle"
    assert Interrupt.objects.get().status == Interrupt.Status.SUPERSEDED
    assert client.threads.search(status="interrupted") == []


def test_langgraph_update_state_with_unknown_key_or_node_returns_422_and_interrupt_is_pending(
    client: Any,
) -> None:
    from langgraph_sdk.errors import UnprocessableEntityError

    thread = start(client)
    for values, node in (
        ({"nonsense": 1}, "ask"),
        ({"log": ["x"]}, "nonsense"),
        ({"log": ["x"]}, "__end__"),
        ({"log": 1}, "ask"),
    ):
        with pytest.raises(UnprocessableEntityError):
            client.threads.update_state(thread, values, as_node=node)
    assert Interrupt.objects.get().status == Interrupt.Status.PENDING
    assert Run.objects.get().state == Run.State.INTERRUPTED


def test_langgraph_thread_values_are_returned_only_with_state_permission(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    thread = start(client)
    viewer = client_of(make_user("vera", "view_thread", "view_run", "view_interrupt"))
    assert viewer.threads.get(thread)["values"] is None
    (found,) = viewer.threads.search()
    assert found["values"] is None
    for call in (viewer.threads.get_state, viewer.threads.get_history, viewer.threads.copy):
        with pytest.raises(PermissionDeniedError):
            call(thread)
    for call, values in ((viewer.threads.update_state, {"log": []}), (viewer.threads.update, None)):
        with pytest.raises(PermissionDeniedError):
            call(thread, values) if values else call(thread, metadata={"a": 1})
    with pytest.raises(PermissionDeniedError):
        viewer.threads.delete(thread)
    with pytest.raises(PermissionDeniedError):
        viewer.threads.create()


def test_langgraph_thread_hidden_from_user_returns_404(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    thread = start(client)
    nobody = client_of(make_user("nobody", "start_run", "operate_run", "view_thread_state"))
    assert nobody.threads.search() == []
    assert nobody.threads.count() == 0
    for call in (
        nobody.threads.get,
        nobody.threads.get_state,
        nobody.threads.get_history,
        nobody.threads.copy,
        nobody.threads.delete,
        nobody.runs.list,
    ):
        with pytest.raises(NotFoundError):
            call(thread)
    with pytest.raises(NotFoundError):
        nobody.threads.create(thread_id=thread)
    with pytest.raises(NotFoundError):
        nobody.threads.create(thread_id=thread, if_exists="do_nothing")


def test_langgraph_run_error_message_is_returned_only_with_operate_permission(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    thread = start(client, "failing")
    assert "a secret" in str(client.threads.get_state(thread))
    seen = ("view_thread", "view_run", "view_thread_state")
    auditor = client_of(make_user("olaf", *seen))
    assert "a secret" not in str(auditor.threads.get_state(thread))
    assert "a secret" not in str(auditor.threads.get_history(thread))
    assert "a secret" not in str(auditor.runs.join(thread, Run.objects.get().pk))
    assert "a secret" in str(client.runs.join(thread, Run.objects.get().pk))


def test_langgraph_thread_metadata_is_changed_only_by_creator_or_operator(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    starter = client_of(make_user("sam", "start_run", "view_thread"))
    other = client_of(make_user("otto", "start_run", "view_thread"))
    operator = client_of(make_user("olga", "operate_run", "view_thread"))
    thread = start(starter)
    starter.threads.update(thread, metadata={"a": 1})
    operator.threads.update(thread, metadata={"b": 1})
    with pytest.raises(PermissionDeniedError):
        other.threads.update(thread, metadata={"c": 1})
    assert services.thread_state(thread) is not None
    assert Thread.objects.get(thread_id=thread).metadata == {"a": 1, "b": 1}


def test_langgraph_state_of_thread_without_runs_is_empty(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    state = client.threads.get_state(thread)
    assert (state["values"], state["next"], state["tasks"]) == ({}, [], [])
    assert state["checkpoint"] is None
    assert client.threads.get_history(thread) == []
    with pytest.raises(NotFoundError):
        client.threads.get_state(thread, checkpoint_id="nonsense")


def test_langgraph_thread_contains_time_of_newest_state_and_paths_of_tasks(client: Any) -> None:
    thread = start(client)
    state = client.threads.get_state(thread)
    assert client.threads.get(thread)["state_updated_at"][:19] == state["created_at"][:19]
    assert [task["path"] for task in state["tasks"]] == [["__pregel_pull", "ask"]]
