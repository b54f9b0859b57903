"""All methods of LangGraph's clients: responses that match the methods' annotations."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import httpx
import pytest
from langgraph_sdk import get_client, get_sync_client, schema
from langgraph_sdk.errors import APIStatusError
from pydantic import Discriminator, TypeAdapter

from hitl_django import END, START, StateGraph
from hitl_django.graph_registry import registry
from tests.contrib.test_message_events import Speaker

from .conftest import Chat
from .recordings.differences import REFUSED

pytestmark = pytest.mark.django_db(transaction=True)

AREAS = ("assistants", "threads", "runs", "crons", "store")
HELLO = {"log": ["hello"]}
GO_ON = {"resume": {"approved": True}}
SHELF = ["users", "dana"]
MODES = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug"]


@dataclass(frozen=True)
class Made:
    """Existing objects: a thread waiting for review with its run, other threads by graph, a cron.

    ``start`` creates another thread, and ``add_assistant`` an assistant, for calls that change it.
    """

    thread: str
    run: str
    checkpoint: Any
    others: Mapping[str, str]
    cron: str
    start: Callable[[str], tuple[str, str]]
    add_assistant: Callable[[], str]


Call = Callable[[Any, Made], Any]

#: Each supported method, in all its forms.
OFFERED: dict[str, list[Call]] = {
    "assistants.count": [lambda to, made: to.assistants.count(graph_id="chat")],
    "assistants.create": [
        lambda to, made: to.assistants.create("chat", {"tags": ["a"]}, context={"a": 1})
    ],
    "assistants.delete": [lambda to, made: to.assistants.delete(made.add_assistant())],
    "assistants.get": [
        lambda to, made: to.assistants.get("chat"),
        lambda to, made: to.assistants.get(made.add_assistant()),
    ],
    "assistants.get_graph": [lambda to, made: to.assistants.get_graph("outer", xray=True)],
    "assistants.get_schemas": [lambda to, made: to.assistants.get_schemas("chat")],
    "assistants.get_subgraphs": [
        lambda to, made: to.assistants.get_subgraphs("outer"),
        lambda to, made: to.assistants.get_subgraphs("outer", "inner", recurse=True),
    ],
    "assistants.get_versions": [
        lambda to, made: to.assistants.get_versions("chat"),
        lambda to, made: to.assistants.get_versions(made.add_assistant()),
    ],
    "assistants.search": [
        lambda to, made: to.assistants.search(limit=2),
        lambda to, made: to.assistants.search(limit=2, response_format="object"),
    ],
    "assistants.set_latest": [lambda to, made: to.assistants.set_latest(made.add_assistant(), 1)],
    "assistants.update": [lambda to, made: to.assistants.update(made.add_assistant(), name="b")],
    "crons.create": [lambda to, made: to.crons.create("chat", schedule="0 9 * * *")],
    "crons.create_for_thread": [
        lambda to, made: to.crons.create_for_thread(made.thread, "chat", schedule="0 9 * * *")
    ],
    "crons.search": [lambda to, made: to.crons.search()],
    "crons.count": [lambda to, made: to.crons.count()],
    "crons.update": [
        lambda to, made: to.crons.update(made.cron, schedule="0 8 * * *", end_time=None)
    ],
    "crons.delete": [lambda to, made: to.crons.delete(made.cron)],
    "threads.copy": [lambda to, made: to.threads.copy(made.thread)],
    "threads.count": [lambda to, made: to.threads.count(status="interrupted")],
    "threads.create": [
        lambda to, made: to.threads.create(metadata={"a": 1}, graph_id="chat"),
        lambda to, made: to.threads.create(thread_id=made.thread, if_exists="do_nothing"),
    ],
    "threads.delete": [lambda to, made: to.threads.delete(made.start("plain")[0])],
    "threads.get": [
        lambda to, made: to.threads.get(made.thread),
        *(lambda to, made, name=name: to.threads.get(made.others[name])
          for name in ("sides", "outer", "failing", "plain")),
    ],
    "threads.get_history": [
        lambda to, made: to.threads.get_history(made.thread),
        lambda to, made: to.threads.get_history(made.thread, before=made.checkpoint),
        *(lambda to, made, name=name: to.threads.get_history(made.others[name])
          for name in ("sides", "outer", "failing", "plain")),
    ],
    "threads.get_state": [
        lambda to, made: to.threads.get_state(made.thread),
        lambda to, made: to.threads.get_state(made.thread, checkpoint=made.checkpoint),
        lambda to, made: to.threads.get_state(
            made.thread, checkpoint_id=made.checkpoint["checkpoint_id"]
        ),
        *(lambda to, made, name=name: to.threads.get_state(made.others[name], subgraphs=True)
          for name in ("sides", "outer", "failing", "plain")),
    ],
    "threads.search": [lambda to, made: to.threads.search()],
    "threads.update": [
        lambda to, made: to.threads.update(made.thread, metadata={"b": 2}),
        lambda to, made: to.threads.update(made.thread, metadata={"b": 3}, return_minimal=True),
    ],
    "threads.update_state": [
        lambda to, made: to.threads.update_state(
            made.start("chat")[0], {"log": ["more"]}, as_node="ask"
        )
    ],
    "runs.cancel": [lambda to, made: to.runs.cancel(*made.start("chat"))],
    "runs.create": [
        lambda to, made: to.runs.create(None, "chat", input=HELLO),
        lambda to, made: to.runs.create(made.start("chat")[0], "chat", command=GO_ON),
    ],
    "runs.create_batch": [
        lambda to, made: to.runs.create_batch([{"assistant_id": "chat", "input": HELLO}])
    ],
    "runs.get": [lambda to, made: to.runs.get(made.thread, made.run)],
    "runs.join": [lambda to, made: to.runs.join(made.thread, made.run)],
    "runs.join_stream": [
        lambda to, made: to.runs.join_stream(made.thread, made.run, last_event_id="-1")
    ],
    "runs.list": [lambda to, made: to.runs.list(made.thread)],
    "runs.stream": [
        lambda to, made: to.runs.stream(None, "chat", input=HELLO),
        lambda to, made: to.runs.stream(None, "chat", input=HELLO, stream_mode="events"),
        *(lambda to, made, graph=graph: to.runs.stream(
            None, graph, input=HELLO, stream_mode=MODES, stream_subgraphs=True, version="v2"
          ) for graph in ("chat", "sides", "outer", "plain", "speaking")),
    ],
    "runs.wait": [
        lambda to, made: to.runs.wait(None, "plain", input=HELLO),
        lambda to, made: to.runs.wait(made.start("chat")[0], "chat", command=GO_ON),
    ],
    "store.get_item": [lambda to, made: to.store.get_item(SHELF, "a")],
    "store.list_namespaces": [lambda to, made: to.store.list_namespaces(prefix=SHELF)],
    "store.put_item": [lambda to, made: to.store.put_item(SHELF, "b", {"text": "second"})],
    "store.search_items": [lambda to, made: to.store.search_items(SHELF)],
    "store.delete_item": [lambda to, made: to.store.delete_item(SHELF, "a")],
}  # fmt: skip

#: Responses of LangGraph's server to methods whose annotation names another type.
UNSAID = {
    "threads.copy": schema.Thread,
    "crons.create": schema.Cron,
    "crons.create_for_thread": schema.Cron,
}

#: Each unsupported method.
NOT_OFFERED: dict[str, Call] = {
    "threads.join_stream": lambda to, made: to.threads.join_stream(made.thread),
    "threads.prune": lambda to, made: to.threads.prune([made.thread]),
    "threads.stream": lambda to, made: start_in(to.threads.stream(assistant_id="chat")),
    "runs.cancel_many": lambda to, made: to.runs.cancel_many(run_ids=[made.run]),
    "runs.delete": lambda to, made: to.runs.delete(made.thread, made.run),
}


def start_in(stream: Any) -> Any:
    """Start a run in the stream of a thread. The stream doesn't start a run itself."""

    def start() -> Any:
        with stream:
            return stream.run.start(input=HELLO)

    async def astart() -> Any:
        async with stream:
            return await stream.run.start(input=HELLO)

    return astart() if hasattr(stream, "__aenter__") else start()


def list_methods(client: Any) -> set[str]:
    return {
        f"{area}.{name}"
        for area in AREAS
        for name in dir(getattr(client, area))
        if not name.startswith("_") and callable(getattr(getattr(client, area), name))
    }


def find_type(client: Any, method: str) -> Any:
    """Return the annotated return type of a method, or the type of the parts of a stream."""
    if method in UNSAID:
        return UNSAID[method]
    area, _, name = method.partition(".")
    function = getattr(type(getattr(client, area)), name)
    known = {**vars(sys.modules[function.__module__]), "StreamPartV2": schema.StreamPartV2}
    said = eval(inspect.signature(function).return_annotation, known)
    return get_args(said)[0] if get_origin(said) in (Iterator, AsyncIterator) else said


def finish(answer: Any, run: Callable[[Any], Any]) -> list[Any]:
    """Return the result of a call of either client: one value, or the parts of a stream."""
    if inspect.isawaitable(answer):
        answer = run(answer)
    if isinstance(answer, AsyncIterator):

        async def read() -> list[Any]:
            return [part async for part in answer]

        return list(run(read()))
    return list(answer) if isinstance(answer, Iterator) else [answer]


def check_answer(value: Any, said: Any) -> None:
    """Validate a response by its type, as strictly as JSON allows."""
    if isinstance(value, schema.StreamPart):
        if value.event == "end":
            # LangGraph's server ends a stream like this, in contrast to the type.
            assert value.data is None
            return
        said = schema.StreamPart
    elif said == schema.StreamPart | schema.StreamPartV2:
        said = Annotated[schema.StreamPartV2, Discriminator("type")]
    TypeAdapter(said).validate_json(json.dumps(value), strict=True)


@pytest.fixture
def made(client: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Made:
    def speak(state: Any) -> Any:
        return {"log": [Speaker(pieces=["one ", "two"]).invoke("speak").text]}

    graph = StateGraph(Chat).add_node("speak", speak).add_edge(START, "speak")
    registry.register("speaking")(graph.add_edge("speak", END).compile)
    policy = "tests.contrib.langgraph_api.test_store.OwnShelf"
    settings.HITL = {**settings.HITL, "POLICY": policy}
    # The type of a context is one of several protocols, which pydantic can't validate.
    monkeypatch.setattr(schema, "Context", dict[str, Any])

    def start(graph: str) -> tuple[str, str]:
        thread = client.threads.create()["thread_id"]
        return thread, client.runs.create(thread, graph, input=HELLO)["run_id"]

    def add_assistant() -> str:
        return str(client.assistants.create("chat")["assistant_id"])

    client.store.put_item(SHELF, "a", {"text": "first"})
    thread, run = start("chat")
    checkpoint = client.threads.get_state(thread)["checkpoint"]
    others = {graph: start(graph)[0] for graph in ("sides", "outer", "failing", "plain")}
    cron: Any = client.crons.create("chat", schedule="0 9 * * *")
    return Made(thread, run, checkpoint, others, cron["cron_id"], start, add_assistant)


@pytest.fixture(params=["client", "async_client"])
def caller(request: Any) -> Iterator[tuple[Any, Callable[[Any], Any]]]:
    """Return each of the two clients, with a function that waits for its results."""
    client = request.getfixturevalue(request.param)
    with asyncio.Runner() as runner:
        yield client, runner.run
        if request.param == "async_client":
            runner.run(client.http.client.aclose())


def test_every_langgraph_client_method_that_is_not_offered_has_a_listed_alternative() -> None:
    assert sorted(REFUSED) == sorted(NOT_OFFERED)


@pytest.mark.parametrize("build", [get_sync_client, get_client])
def test_every_method_of_langgraph_clients_is_listed_as_offered_or_not_offered(
    build: Callable[..., Any],
) -> None:
    assert list_methods(build(url="http://nowhere", api_key=None)) == {*OFFERED, *NOT_OFFERED}


def test_langgraph_client_response_of_every_offered_method_matches_its_annotation(
    caller: Any, made: Made
) -> None:
    client, run = caller
    for method, calls in OFFERED.items():
        said = find_type(client, method)
        for call in calls:
            for value in finish(call(client, made), run):
                check_answer(value, said)


def test_langgraph_client_method_not_offered_returns_501_problem(caller: Any, made: Made) -> None:
    client, run = caller
    for method, call in NOT_OFFERED.items():
        with pytest.raises((APIStatusError, httpx.HTTPStatusError)) as refused:
            finish(call(client, made), run)
        answer = refused.value.response
        assert answer.status_code == 501, method
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert json.loads(answer.text)["code"] == "not_supported"
