"""A live server with interrupting graphs and workers, and LangGraph's own clients."""

from __future__ import annotations

import base64
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.cache import cache
from langgraph_sdk import get_client, get_sync_client

from hitl_django import END, START, StateGraph, interrupt
from hitl_django.graph_registry import registry

PASSWORD = "open sesame"
INLINE = {"DISPATCH": "hitl_django.task_queue.dispatcher.InlineDispatcher"}
SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}},
    "required": ["approved"],
    "additionalProperties": False,
}


class Chat(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    answer: Any


def greet(state: Chat) -> Chat:
    return {"log": ["greeted"]}


def ask(state: Chat) -> Chat:
    return {"answer": interrupt({"title": "Continue?"}, response_schema=SCHEMA)}


def close(state: Chat) -> Chat:
    return {"log": ["closed"]}


def build_chat() -> Any:
    graph = StateGraph(Chat)
    for node in (greet, ask, close):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "greet").add_edge("greet", "ask")
    return graph.add_edge("ask", "close").add_edge("close", END)


def build_sides() -> Any:
    """Return a graph with two concurrent interrupts."""
    graph = StateGraph(Chat)
    for name in ("left", "right"):
        graph.add_node(name, lambda state, name=name: {"log": [f"{name} {interrupt(name)}"]})
        graph.add_edge(START, name).add_edge(name, END)
    return graph


def build_outer() -> Any:
    """Return a graph whose subgraph interrupts."""
    inner = StateGraph(Chat).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
    graph = StateGraph(Chat).add_node("inner", inner.compile())
    return graph.add_edge(START, "inner").add_edge("inner", END)


def fail(state: Chat) -> Chat:
    raise RuntimeError("a secret of the graph's")


def build_failing() -> Any:
    return StateGraph(Chat).add_node("fail", fail).add_edge(START, "fail").add_edge("fail", END)


def build_plain() -> Any:
    graph = StateGraph(Chat).add_node("greet", greet).add_node("close", close)
    return graph.add_edge(START, "greet").add_edge("greet", "close").add_edge("close", END)


def build_stopping() -> Any:
    return build_plain().compile(interrupt_before=["close"])


GRAPHS = {
    "chat": build_chat,
    "sides": build_sides,
    "outer": build_outer,
    "failing": build_failing,
    "plain": build_plain,
    "stopping": build_stopping,
}


@pytest.fixture(autouse=True)
def _nobody_is_throttled() -> None:
    cache.clear()


@pytest.fixture(autouse=True)
def _no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let httpx read no certificates, which takes most of the time of creating a client.

    The server of the tests doesn't use TLS.
    """
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(Path(__file__).parent))


@pytest.fixture
def graphs(db: None) -> Iterator[None]:
    with registry.hide_graphs():
        for name, build in GRAPHS.items():
            registry.register(name, title=name.title())(build)
        yield


@pytest.fixture
def make_user(db: None) -> Callable[..., Any]:
    def make(name: str, *permissions: str, **options: Any) -> Any:
        user = get_user_model().objects.create_user(name, password=PASSWORD, **options)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        return user

    return make


@pytest.fixture
def address(live_server: Any, graphs: None, settings: Any) -> str:
    """Return the URL of the server.

    Runs are executed before the response to their start.
    """
    settings.HITL = INLINE
    return f"{live_server.url}/agent"


def sign_in(user: Any) -> dict[str, str]:
    token = base64.b64encode(f"{user.username}:{PASSWORD}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


@pytest.fixture
def client_of(address: str) -> Iterator[Callable[[Any], Any]]:
    """Yield a function that returns LangGraph's client for a user."""
    made = []

    def make(user: Any) -> Any:
        made.append(get_sync_client(url=address, api_key=None, headers=sign_in(user)))
        return made[-1]

    yield make
    for client in made:
        client.http.client.close()


@pytest.fixture
def admin(make_user: Callable[..., Any]) -> Any:
    return make_user("dana", is_superuser=True)


@pytest.fixture
def client(client_of: Callable[[Any], Any], admin: Any) -> Any:
    """LangGraph's client for a user with all permissions."""
    return client_of(admin)


@pytest.fixture
def async_client(address: str, admin: Any) -> Any:
    return get_client(url=address, api_key=None, headers=sign_in(admin))
