"""Starting, resuming and cancelling runs with LangGraph's client."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from langgraph_sdk.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    UnprocessableEntityError,
)

from hitl_django import services
from hitl_django.contrib.langgraph_api import runs as agent_runs
from hitl_django.models import AuditEntry, Decision, Interrupt, Run
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.services.runs import fork
from hitl_django.worker import runner

pytestmark = pytest.mark.django_db(transaction=True)

GO_ON = {"resume": {"approved": True}}


def start(client: Any, graph: str = "chat", **options: Any) -> tuple[str, Any]:
    thread = client.threads.create()["thread_id"]
    return thread, client.runs.create(thread, graph, input={"log": ["hello"]}, **options)


def test_langgraph_resume_command_stores_a_decision_of_the_user_and_ends_the_run(
    client: Any,
) -> None:
    thread, run = start(client)
    assert client.runs.get(thread, run["run_id"])["status"] == "interrupted"
    assert client.threads.get(thread)["status"] == "interrupted"

    resumed = client.runs.create(thread, "chat", command=GO_ON)
    assert resumed["run_id"] == run["run_id"]
    assert client.runs.join(thread, run["run_id"])["log"] == ["hello", "greeted", "closed"]
    decision = Decision.objects.get()
    assert (decision.by_label, decision.via) == ("dana", "api")
    assert AuditEntry.objects.get(verb="decide").actor_label == "dana"


@pytest.mark.parametrize("given", [{}, {"log": ["lost"], "tools": []}])
def test_langgraph_resume_command_ignores_input(client: Any, given: Any) -> None:
    """agent-chat-ui sends an empty input with a command, and AG-UI the messages."""
    thread, _ = start(client)
    body = {"assistant_id": "chat", "input": given, "command": GO_ON}
    answer = client.http.client.post(f"threads/{thread}/runs/wait", json=body).json()
    assert answer == {"log": ["hello", "greeted", "closed"], "answer": {"approved": True}}


@pytest.mark.parametrize("goto", ["__end__", ["__end__"]])
def test_langgraph_command_that_goes_to_end_ends_a_thread_with_a_pending_interrupt(
    client: Any, goto: Any
) -> None:
    """agent-chat-ui sends this command for "Mark as Resolved"."""
    thread, _ = start(client)
    ended = client.runs.wait(thread, "chat", input={}, command={"goto": goto})
    assert ended["log"] == ["hello", "greeted"]
    state = client.threads.get_state(thread)
    assert (state["next"], state["tasks"], state["interrupts"]) == ([], [], [])
    assert client.threads.get(thread)["status"] == "idle"
    assert Interrupt.objects.get().status == Interrupt.Status.SUPERSEDED


def test_langgraph_run_ignores_unknown_input_fields_and_validates_known_fields(client: Any) -> None:
    """AG-UI sends the tools of the page to every graph."""
    thread = client.threads.create()["thread_id"]
    for _ in range(2):
        given = {"log": ["hello"], "tools": [{"name": "show"}]}
        found = client.runs.wait(thread, "plain", input=given)
        assert "tools" not in found
    assert found["log"] == ["hello", "greeted", "closed"] * 2
    body = {"assistant_id": "plain", "input": {"log": 5, "tools": []}}
    refused = client.http.client.post(f"threads/{thread}/runs", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/input/log")


def test_langgraph_request_with_unknown_query_parameters_ignores_them(client: Any) -> None:
    """The JavaScript client sends ``checkpoint_id`` when it joins a stream."""
    thread, run = start(client)
    get, place = client.http.client.get, f"threads/{thread}/runs/{run['run_id']}"
    assert get(f"{place}/stream?checkpoint_id=&streamMode=values").status_code == 200
    assert get(f"threads/{thread}/state?a=1&a=2").json()["next"] == ["ask"]
    assert get(f"{place}/stream?stream_mode=nonsense").status_code == 400


def test_langgraph_wait_request_returns_interrupts_and_after_resume_the_result(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    asked = client.runs.wait(thread, "chat", input={"log": ["hello"]})
    assert asked["log"] == ["hello", "greeted"]
    assert [each["value"] for each in asked["__interrupt__"]] == [{"title": "Continue?"}]
    done = client.runs.wait(thread, "chat", command=GO_ON)
    assert done == {"log": ["hello", "greeted", "closed"], "answer": {"approved": True}}


def test_langgraph_run_without_thread_id_creates_a_thread(client: Any) -> None:
    assert client.runs.wait(None, "plain", input={"log": ["hello"]})["log"][-1] == "closed"
    made = client.runs.create(None, "plain", input={"log": []})
    assert client.runs.join(made["thread_id"], made["run_id"])["log"] == ["greeted", "closed"]
    assert len({made["thread_id"], *Run.objects.values_list("thread__thread_id", flat=True)}) == 2


def test_langgraph_resume_with_unknown_or_missing_ids_returns_409_for_several_interrupts(
    client: Any,
) -> None:
    thread, _ = start(client, "sides")
    left, right = Interrupt.objects.order_by("node")
    with pytest.raises(ConflictError):
        client.runs.create(thread, "sides", command={"resume": "which?"})
    with pytest.raises(ConflictError):
        client.runs.create(thread, "sides", command={"resume": {left.interrupt_id: 1, "f" * 32: 2}})
    assert not Decision.objects.exists()
    answers = {left.interrupt_id: "l", str(right.pk): "r"}
    values = client.runs.wait(thread, "sides", command={"resume": answers})
    assert set(values["log"][1:]) == {"left l", "right r"}


def test_langgraph_resume_value_violating_schema_returns_422_with_pointer(client: Any) -> None:
    thread, _ = start(client)
    with pytest.raises(UnprocessableEntityError) as refused:
        client.runs.create(thread, "chat", command={"resume": {"approved": "perhaps"}})
    problem = refused.value.response.json()
    assert problem["code"] == "invalid_answer"
    assert problem["errors"][0]["pointer"] == "/command/resume/approved"
    assert Interrupt.objects.get().status == Interrupt.Status.PENDING


def test_langgraph_resume_after_decision_in_admin_returns_409_with_the_decision(
    client: Any, admin: Any
) -> None:
    thread, run = start(client)
    interrupt = Interrupt.objects.get()
    services.decide(interrupt.pk, resume={"approved": False}, by=admin, via="admin")
    for value in ({"approved": True}, {interrupt.interrupt_id: {"approved": True}}):
        with pytest.raises(ConflictError) as refused:
            client.runs.create(thread, "chat", command={"resume": value})
        problem = refused.value.response.json()
        assert problem["code"] == "already_decided"
        assert problem["decision"]["via"] == "admin"
    assert client.runs.join(thread, run["run_id"])["answer"] == {"approved": False}
    assert Decision.objects.count() == 1


def test_langgraph_resume_sent_four_times_concurrently_stores_one_decision_and_returns_three_409(
    client: Any,
) -> None:
    thread, _ = start(client)
    together = threading.Barrier(4)

    def resume(number: int) -> str:
        together.wait(60)
        try:
            client.runs.create(thread, "chat", command=GO_ON)
        except ConflictError as error:
            return str(error.response.json()["code"])
        return "won"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(resume, range(4))) == ["already_decided"] * 3 + ["won"]
    assert Decision.objects.count() == 1


def test_langgraph_resume_without_decide_permission_returns_403(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    thread, _ = start(client)
    starter = client_of(make_user("sam", "start_run", "view_thread", "view_run", "view_interrupt"))
    with pytest.raises(PermissionDeniedError):
        starter.runs.create(thread, "chat", command=GO_ON)
    refusal = AuditEntry.objects.get(verb="refuse")
    assert (refusal.actor_label, refusal.detail["type"]) == ("sam", "decide")
    reviewer = client_of(make_user("rita", "decide_interrupt", "view_thread", "view_interrupt"))
    assert reviewer.runs.create(thread, "chat", command=GO_ON)["thread_id"] == thread
    assert Decision.objects.get().by_label == "rita"


def test_langgraph_resume_without_interrupt_and_input_during_interrupt_return_409(
    client: Any,
) -> None:
    thread = client.threads.create()["thread_id"]
    with pytest.raises(ConflictError) as refused:
        client.runs.create(thread, "chat", command=GO_ON)
    assert refused.value.response.json()["code"] == "nothing_pending"
    client.runs.create(thread, "chat", input={"log": ["hello"]})
    for options in ({"input": {"log": ["more"]}}, {"input": None}):
        with pytest.raises(ConflictError) as refused:
            client.runs.create(thread, "chat", **options)
        assert refused.value.response.json()["code"] == "thread_waiting"
    assert Interrupt.objects.get().status == Interrupt.Status.PENDING


def test_langgraph_run_on_missing_thread_returns_404_unless_if_not_exists_is_create(
    client: Any,
) -> None:
    with pytest.raises(NotFoundError):
        client.runs.create("new", "plain", input={"log": []})
    made = client.runs.create("new", "plain", input={"log": []}, if_not_exists="create")
    assert made["thread_id"] == "new"
    with pytest.raises(UnprocessableEntityError):
        client.runs.create("new", "chat", input={"log": []})
    with pytest.raises(NotFoundError):
        client.runs.create("new", "nonsense", input={"log": []})


def test_langgraph_runs_are_listed_by_status_and_cancelled_once(client: Any) -> None:
    thread, run = start(client)
    client.runs.cancel(thread, run["run_id"])
    with pytest.raises(ConflictError):
        client.runs.cancel(thread, run["run_id"])
    again = client.runs.create(thread, "chat", input={"log": ["again"]}, metadata={"turn": 2})
    listed = client.runs.list(thread)
    assert [each["run_id"] for each in listed] == [again["run_id"], run["run_id"]]
    assert listed[0]["metadata"] == {"turn": 2, "graph_id": "chat"}
    assert client.runs.list(thread, limit=1, offset=1, select=["run_id"]) == [
        {"run_id": run["run_id"]}
    ]
    assert client.runs.list(thread, status="success") == []
    elsewhere = client.threads.create()["thread_id"]
    with pytest.raises(NotFoundError):
        client.runs.get(elsewhere, run["run_id"])
    outcome = client.runs.join(thread, run["run_id"])
    assert outcome["__error__"]["error"] == "RunCancelled"


def test_langgraph_run_with_breakpoints_pauses_and_resumes_without_input(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "plain", input={"log": []}, interrupt_before=["close"])
    state = client.threads.get_state(thread)
    assert (state["next"], state["interrupts"]) == (["close"], [])
    assert client.runs.wait(thread, "plain", input=None)["log"] == ["greeted", "closed"]
    assert Decision.objects.get().by_label == "dana"

    client.runs.wait(thread, "plain", input={"log": []}, interrupt_after="*")
    assert client.threads.get_state(thread)["next"] == ["close"]
    with pytest.raises(UnprocessableEntityError):
        client.runs.create(None, "plain", input={"log": []}, interrupt_before=["nonsense"])


def test_langgraph_run_at_compiled_breakpoint_resumes_without_input(client: Any) -> None:
    thread, _ = start(client, "stopping")
    assert client.threads.get(thread)["interrupts"] == {}
    assert client.runs.wait(thread, "stopping", input=None)["log"][-1] == "closed"


def test_langgraph_run_with_durability_exit_stores_fewer_checkpoints_than_sync(client: Any) -> None:
    each, at_exit = (
        start(client, "plain", durability=durability)[0] for durability in ("sync", "exit")
    )
    assert len(client.threads.get_history(each)) > len(client.threads.get_history(at_exit))


def test_langgraph_run_from_checkpoint_repeats_later_nodes_or_accepts_new_input(
    client: Any,
) -> None:
    thread, _ = start(client, "plain")
    history = client.threads.get_history(thread)
    before_close = next(each for each in history if each["next"] == ["close"])
    values = client.runs.wait(
        thread, "plain", checkpoint_id=before_close["checkpoint"]["checkpoint_id"]
    )
    assert values["log"] == ["hello", "greeted", "closed"]
    values = client.runs.wait(
        thread, "plain", input={"log": ["more"]}, checkpoint=history[0]["checkpoint"]
    )
    assert values["log"] == ["hello", "greeted", "closed", "more", "greeted", "closed"]


def test_langgraph_run_with_reject_strategy_on_busy_thread_returns_409(
    client: Any, settings: Any
) -> None:
    thread, _ = start(client, "plain")
    earlier = client.threads.get_history(thread)[1]["checkpoint"]
    settings.HITL = {"DISPATCH": "tests.contrib.langgraph_api.test_streams.Nobody"}
    client.runs.create(thread, "plain", input={"log": ["more"]})
    known = set(Run.objects.values_list("pk", "state"))
    for given in (
        {"input": {"log": ["even more"]}},
        {"input": None},
        {"checkpoint": earlier},
        {"input": {"log": ["even more"]}, "checkpoint": earlier},
        {"command": {"goto": "close"}},
        {"command": {"update": {"log": ["told"]}}, "checkpoint": earlier},
    ):
        with pytest.raises(ConflictError) as refused:
            client.runs.create(thread, "plain", **given, multitask_strategy="reject")
        answer = refused.value.response
        assert answer.headers["Content-Type"].startswith("application/problem+json")
        assert "queued" in answer.json()["detail"]
    assert set(Run.objects.values_list("pk", "state")) == known


def test_langgraph_fork_concurrent_with_a_new_run_returns_409(
    client: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, _ = start(client, "plain")
    earlier = client.threads.get_history(thread)[1]["checkpoint"]
    settings.HITL = {"DISPATCH": "tests.contrib.langgraph_api.test_streams.Nobody"}
    plan = fork.plan_commit

    def start_another(*given: Any) -> Any:
        services.start("plain", {"log": ["first"]}, thread_id=thread)
        return plan(*given)

    monkeypatch.setattr(fork, "plan_commit", start_another)
    with pytest.raises(ConflictError):
        client.runs.create(thread, "plain", input=None, checkpoint=earlier)
    assert sorted(Run.objects.values_list("state", flat=True)) == ["queued", "succeeded"]


def told_to_nobody(client: Any, settings: Any, **options: Any) -> tuple[str, list[Any]]:
    """Start two runs on a thread without sending messages to workers."""
    settings.HITL = {
        "DISPATCH": "tests.contrib.langgraph_api.test_streams.Nobody",
        "EVENT_MAX_WAITING_THREADS": 20,
    }
    thread = client.threads.create()["thread_id"]
    runs = [
        client.runs.create(thread, "plain", input={"log": [name]}, **options)
        for name in ("one", "two")
    ]
    return thread, runs


@pytest.mark.parametrize("options", [{}, {"multitask_strategy": "enqueue"}])
def test_langgraph_run_on_busy_thread_is_pending_until_the_previous_run_ends(
    options: dict[str, Any], client: Any, settings: Any
) -> None:
    thread, runs = told_to_nobody(client, settings, **options)
    assert [run["status"] for run in runs] == ["pending", "pending"]
    assert [run["multitask_strategy"] for run in runs] == ["reject", "enqueue"]
    assert client.threads.get(thread)["status"] == "busy"
    assert len(client.runs.list(thread, status="pending")) == 2
    with ThreadPoolExecutor() as joining:
        found = [joining.submit(client.runs.join, thread, run["run_id"]) for run in runs]
        parts = joining.submit(lambda: [*client.runs.join_stream(thread, runs[1]["run_id"])])
        runner.advance(runs[0]["run_id"])
        # No message was sent for the second run. Any message for its thread starts the run.
        runner.advance(runs[0]["run_id"])
        first, second = (each.result()["log"] for each in found)
    assert first == ["one", "greeted", "closed"]
    assert second == [*first, "two", "greeted", "closed"]
    assert [part.event for part in parts.result()].count("metadata") == 1
    assert client.threads.get(thread)["status"] == "idle"
    # The result of the first run is still available.
    assert client.runs.join(thread, runs[0]["run_id"])["log"] == first


def test_langgraph_join_request_for_run_that_ends_between_checks_returns_the_result(
    client: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, runs = told_to_nobody(client, settings)
    read = agent_runs.read_outcome

    def read_and_end_it(*given: Any, **options: Any) -> Any:
        outcome = read(*given, **options)
        runner.advance(runs[0]["run_id"])
        return outcome

    monkeypatch.setattr(agent_runs, "read_outcome", read_and_end_it)
    assert client.runs.join(thread, runs[0]["run_id"])["log"] == ["one", "greeted", "closed"]


def test_langgraph_pending_run_is_cancelled_without_affecting_the_active_run(
    client: Any, settings: Any
) -> None:
    thread, runs = told_to_nobody(client, settings)
    client.runs.cancel(thread, runs[1]["run_id"])
    for _ in range(2):
        runner.advance(runs[0]["run_id"])
    assert client.threads.get_state(thread)["values"]["log"] == ["one", "greeted", "closed"]
    assert {run["status"] for run in client.runs.list(thread)} == {"success", "interrupted"}


def test_langgraph_run_from_current_checkpoint_waits_for_the_active_run(
    client: Any, settings: Any
) -> None:
    thread, _ = start(client, "plain")
    shown = client.threads.get_history(thread)
    settings.HITL = {"DISPATCH": "tests.contrib.langgraph_api.test_streams.Nobody"}
    first = client.runs.create(thread, "plain", input={"log": ["one"]})
    for checkpoint in (shown[0]["checkpoint"], client.threads.get_state(thread)["checkpoint"]):
        made = client.runs.create(thread, "plain", input={"log": ["more"]}, checkpoint=checkpoint)
        assert Run.objects.get(pk=made["run_id"]).state == "waiting"
    with pytest.raises(ConflictError):  # a wait with another path is refused
        client.runs.create(
            thread, "plain", input={"log": ["more"]}, checkpoint=shown[1]["checkpoint"]
        )
    for _ in range(3):
        runner.advance(first["run_id"])
    log = client.threads.get_state(thread)["values"]["log"]
    assert (log.count("more"), log.count("closed")) == (2, 4)


def test_langgraph_run_during_interrupt_returns_409_without_enqueue_strategy(client: Any) -> None:
    thread, asked = start(client)
    with pytest.raises(ConflictError):
        client.runs.create(thread, "chat", input={"log": ["more"]})
    waiting = client.runs.create(
        thread, "chat", input={"log": ["more"]}, multitask_strategy="enqueue"
    )
    assert waiting["status"] == "pending"
    assert client.threads.get(thread)["status"] == "interrupted"
    assert [found["thread_id"] for found in client.threads.search(status="busy")] == []
    client.runs.create(thread, "chat", command=GO_ON)
    assert client.runs.get(thread, asked["run_id"])["status"] == "success"
    assert client.runs.get(thread, waiting["run_id"])["status"] == "interrupted"
    client.runs.create(thread, "chat", command=GO_ON)
    assert client.runs.join(thread, waiting["run_id"])["log"].count("closed") == 2


def test_langgraph_run_with_rollback_strategy_returns_400_with_pointer(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    with pytest.raises(BadRequestError) as refused:
        client.runs.create(thread, "plain", multitask_strategy="rollback", input={"log": []})
    (error,) = refused.value.response.json()["errors"]
    assert error["pointer"] == "/multitask_strategy"
    assert error["detail"].startswith("Must be enqueue, interrupt or reject. ")
    assert not Run.objects.exists()


def test_langgraph_run_with_interrupt_strategy_replaces_the_active_run(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    thread, first = start(client)
    new: Any = {"multitask_strategy": "interrupt", "input": {"log": ["more"]}}
    starter = client_of(make_user("sam", "start_run", "view_thread", "view_run"))
    with pytest.raises(PermissionDeniedError):
        starter.runs.create(thread, "chat", **new)
    assert client.runs.get(thread, first["run_id"])["status"] == "interrupted"
    assert Interrupt.objects.get().status == Interrupt.Status.PENDING

    second = client.runs.create(thread, "chat", **new)
    assert Run.objects.get(pk=first["run_id"]).state == Run.State.CANCELLED
    assert Interrupt.objects.get(run=first["run_id"]).status == Interrupt.Status.SUPERSEDED
    state = client.threads.get_state(thread)
    assert state["values"]["log"] == ["hello", "greeted", "more", "greeted"]
    client.runs.wait(thread, "chat", command=GO_ON)
    assert client.runs.get(thread, second["run_id"])["status"] == "success"


def test_langgraph_request_naming_the_newest_checkpoint_resumes_without_fork(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    """React's hook sends the newest checkpoint with each request if it shows the history."""
    rights = ("start_run", "decide_interrupt", "view_thread", "view_run", "view_interrupt")
    chat = client_of(make_user("cleo", *rights, "view_thread_state"))
    thread = client.threads.create()["thread_id"]
    list(client.runs.stream(thread, "chat", input={"log": ["hello"]}, stream_mode="updates"))
    for options in ({"command": GO_ON}, {"input": {"log": ["more"]}}, {"command": GO_ON}):
        head = client.threads.get_history(thread)[0]["checkpoint"]
        parts = list(
            chat.runs.stream(thread, "chat", checkpoint=head, stream_mode="updates", **options)
        )
        assert "updates" in {part.event for part in parts}, parts
    assert Decision.objects.filter(by_label="cleo").count() == 2
    assert Run.objects.count() == 2


def test_langgraph_run_from_checkpoint_streams_only_updates_of_repeated_nodes(client: Any) -> None:
    thread, _ = start(client, "plain")
    history = client.threads.get_history(thread)
    earlier = next(each["checkpoint"] for each in history if each["next"] == ["close"])
    parts = list(client.runs.stream(thread, "plain", checkpoint=earlier, stream_mode="updates"))
    assert [part.data for part in parts if part.event == "updates"] == [
        {"close": {"log": ["closed"]}}
    ]


def test_langgraph_command_updates_state_and_runs_the_goto_node(client: Any) -> None:
    thread, _ = start(client, "plain")
    values = client.runs.wait(
        thread, "plain", command={"update": {"log": ["told"]}, "goto": "close"}
    )
    assert values["log"] == ["hello", "greeted", "closed", "told", "closed"]
    sent = {"node": "close", "input": {"log": ["of its own"]}}
    assert client.runs.wait(thread, "plain", command={"goto": [sent]})["log"][-1] == "closed"
    for command in ({"goto": "nonsense"}, {"update": {"nonsense": 1}}):
        with pytest.raises(UnprocessableEntityError):
            client.runs.create(thread, "plain", command=command)


def test_langgraph_run_without_input_on_failed_thread_retries_the_failed_run(client: Any) -> None:
    thread, run = start(client, "failing")
    assert client.threads.get(thread)["status"] == "error"
    assert client.runs.create(thread, "failing", input=None)["run_id"] == run["run_id"]
    with pytest.raises(Exception, match="RunFailed"):
        client.runs.wait(thread, "failing", input=None)


def test_langgraph_run_with_unsupported_option_returns_400_naming_the_option(
    client: Any, address: str
) -> None:
    for options, error in (
        ({"on_completion": "delete"}, BadRequestError),
        ({"stream_mode": "nonsense"}, BadRequestError),
    ):
        with pytest.raises(error) as refused:
            client.runs.create(None, "plain", input={"log": []}, **options)
        assert next(iter(options)) in refused.value.response.text
    answer = client.http.client.post("runs", json={"assistant_id": "plain", "nonsense": 1})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/nonsense"
    assert not Run.objects.exists()


class Blind(ModelPermissionPolicy):
    """Policy that hides all runs, also from the users who started them."""

    def visible_runs(self, user: Any, runs: Any) -> Any:
        return runs.none()


@pytest.mark.parametrize("field", ["config", "command", "checkpoint"])
def test_langgraph_run_with_list_instead_of_object_returns_400_with_pointer(
    client: Any, field: str
) -> None:
    body = {"assistant_id": "plain", "input": {"log": []}, field: ["a"]}
    response = client.http.client.post("runs", json=body)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == f"/{field}"


def test_langgraph_wait_request_without_view_permission_returns_403_and_starts_no_run(
    client_of: Callable[[Any], Any], make_user: Callable[..., Any], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.Blind"}
    starter = client_of(make_user("sam", "start_run"))
    with pytest.raises(httpx.HTTPStatusError) as refused:
        starter.runs.wait(None, "plain", input={"log": []})
    assert refused.value.response.status_code == 403
    assert not Run.objects.exists()


def test_langgraph_wait_request_with_only_start_permission_returns_values_of_the_started_run(
    client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    starter = client_of(make_user("sam", "start_run"))
    assert starter.runs.wait(None, "plain", input={"log": []})["log"]


def test_langgraph_wait_request_without_state_permission_returns_null_after_resume(
    client: Any, client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    thread, run = start(client)
    rights = ("decide_interrupt", "view_thread", "view_run", "view_interrupt")
    reviewer = client_of(make_user("rita", *rights))
    assert reviewer.runs.wait(thread, "chat", command=GO_ON) is None
    assert client.runs.get(thread, run["run_id"])["status"] == "success"
    joined = reviewer.http.client.get(f"threads/{thread}/runs/{run['run_id']}/join").json()
    assert joined["__error__"]["error"] == "PermissionDenied"
