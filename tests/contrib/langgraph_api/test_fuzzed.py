"""Generated requests to the LangGraph-compatible API: no server errors, and bounded costs.

Requests combine valid and hostile members, sent by a user with all permissions and by a user
without permissions. ``--soak`` generates many more requests.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, reset_queries
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hitl_django import services, testing
from hitl_django.contrib.store import DjangoStore
from hitl_django.models import Run
from hitl_django.permissions import ModelPermissionPolicy

pytestmark = pytest.mark.django_db

SECONDS, QUERIES = 0.5, 100
_CRON = (
    "assistant_id", "schedule", "timezone", "end_time", "input", "metadata", "config", "context",
    "enabled",
)  # fmt: skip
#: Methods and paths, with the possible members of the body or query.
OPERATIONS: dict[tuple[str, str], tuple[str, ...]] = {
    ("POST", "threads"): ("thread_id", "metadata", "if_exists"),
    ("POST", "threads/search"): (
        "metadata", "status", "ids", "limit", "offset", "sort_by", "sort_order", "select",
    ),
    ("POST", "threads/count"): ("metadata", "status"),
    ("GET", "threads/{thread}"): (),
    ("PATCH", "threads/{thread}"): ("metadata",),
    ("POST", "threads/{thread}/copy"): (),
    ("GET", "threads/{thread}/state"): ("subgraphs", "select"),
    ("POST", "threads/{thread}/state"): ("values", "as_node", "checkpoint", "checkpoint_id"),
    ("POST", "threads/{thread}/state/checkpoint"): ("checkpoint", "subgraphs", "select"),
    ("GET", "threads/{thread}/history"): ("limit", "before", "select"),
    ("POST", "threads/{thread}/history"): (
        "limit", "before", "metadata", "checkpoint", "select",
    ),
    ("GET", "threads/{thread}/runs"): ("limit", "offset", "status", "select"),
    ("POST", "threads/{thread}/runs"): (
        "assistant_id", "input", "command", "metadata", "stream_mode", "interrupt_before",
        "checkpoint_id", "multitask_strategy",
    ),
    ("POST", "runs"): (
        "assistant_id", "input", "metadata", "stream_mode", "interrupt_after", "config",
    ),
    ("POST", "runs/crons"): _CRON,
    ("POST", "threads/{thread}/runs/crons"): (*_CRON, "multitask_strategy"),
    ("POST", "runs/crons/search"): (
        "assistant_id", "thread_id", "metadata", "enabled", "limit", "offset", "sort_by",
        "sort_order", "select",
    ),
    ("POST", "runs/crons/count"): ("assistant_id", "thread_id", "metadata"),
    ("GET", "threads/{thread}/runs/{run}"): (),
    ("GET", "threads/{thread}/runs/{run}/join"): (),
    ("GET", "threads/{thread}/runs/{run}/stream"): ("stream_mode",),
    ("POST", "assistants/search"): (
        "metadata", "graph_id", "name", "limit", "offset", "sort_by", "sort_order", "select",
    ),
    ("POST", "assistants"): (
        "graph_id", "if_exists", "config", "context", "metadata", "name", "description",
    ),
    ("POST", "assistants/{graph}/versions"): ("metadata", "limit", "offset"),
    ("PATCH", "assistants/{graph}"): ("graph_id", "config", "context", "metadata", "name"),
    ("POST", "assistants/count"): ("metadata", "graph_id", "name"),
    ("GET", "assistants/{graph}/graph"): ("xray",),
    ("GET", "assistants/{graph}/schemas"): (),
    ("GET", "assistants/{graph}/subgraphs"): ("recurse",),
    ("PUT", "store/items"): ("namespace", "key", "value", "index", "ttl"),
    ("GET", "store/items"): ("namespace", "key"),
    ("POST", "store/items/search"): ("namespace_prefix", "filter", "limit", "offset"),
    ("POST", "store/namespaces"): ("prefix", "suffix", "max_depth", "limit", "offset"),
}  # fmt: skip
#: Valid values of members.
VALID: dict[str, tuple[Any, ...]] = {
    "metadata": ({}, {"n": 1}, {"n": 1, "tags": ["a"]}, {"graph_id": "chat"}),
    "filter": ({"n": 1}, {"n": {"$gte": 2}}, {"text": "x" * 50}),
    "status": ("idle", "busy", "interrupted", "error"),
    "limit": (1, 10, 200),
    "offset": (0, 5, 2**31 - 1),
    "sort_by": ("created_at", "thread_id", "status", "updated_at", "state_updated_at", "name"),
    "sort_order": ("asc", "desc"),
    "select": (["thread_id"], ["values"], ["values.log", "interrupts"], ["status"]),
    "ids": ([], ["nonsense"] * 200),
    "assistant_id": ("chat", "outer", "plain"),
    "graph_id": ("chat", "outer", "plain"),
    "config": ({}, {"configurable": {"a": 1}, "tags": ["b"], "recursion_limit": 9}),
    "context": ({}, {"a": 1}),
    "input": ({"log": ["hello"]},),
    "values": ({"log": ["more"]},),
    "as_node": ("ask", "greet"),
    "checkpoint": ({}, {"checkpoint_ns": "", "checkpoint_id": "nonsense"}),
    "checkpoint_id": ("1f1e9fa2-dcbd-66a3-81cd-fe16fd914ee8",),
    "command": ({"resume": {"approved": True}}, {"update": {"log": ["x"]}}, {"goto": "close"}),
    "stream_mode": ("values", ["updates", "tasks", "checkpoints", "messages-tuple"]),
    "interrupt_before": ("*", ["ask"]),
    "interrupt_after": ("*", ["greet"]),
    "multitask_strategy": ("enqueue", "reject"),
    "subgraphs": (True, False),
    "recurse": (True, False),
    "xray": (True, 9, 10**17),
    "namespace": (["shelf"], ["shelf", "a"]),
    "namespace_prefix": ([], ["shelf"]),
    "prefix": ([], ["shelf"]),
    "suffix": (["a"],),
    "max_depth": (1, 100),
    "key": ("k1",),
    "value": ({"text": "x"},),
    "schedule": ("0 9 * * *", "0 0 30 2 *", "*/7 1-5 L * MON#2", "1 2 3"),
    "timezone": ("Europe/Berlin", "../../etc", "posixrules"),
    "end_time": ("2035-01-01T00:00:00Z", "0002-01-01T00:00:00-23:59", None),
    "enabled": (True, False),
    "thread_id": ("nonsense",),
    "if_exists": ("raise", "do_nothing"),
}


class OpenStore(ModelPermissionPolicy):
    """Policy that lets all users use the store."""

    def may_use_store(self, user: Any, namespace: tuple[str, ...], *, writes: bool) -> bool:
        return True


def nest(depth: int, kind: type = dict) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = {"a": found} if kind is dict else [found]
    return found


#: Invalid values of members, except members that accept any value.
HOSTILE: tuple[Callable[[random.Random], Any], ...] = (
    lambda chance: {f"k{n}": n for n in range(chance.choice((60, 1_100, 20_000)))},
    lambda chance: {f"k{n}": {"$gt": n} for n in range(chance.choice((49, 5_000)))},
    lambda chance: [f"k{n}" for n in range(chance.choice((201, 20_000)))],
    lambda chance: nest(chance.choice((6, 40, 60))),
    lambda chance: nest(chance.choice((6, 40, 60)), list),
    lambda chance: {"tags": [{"a": n % 7} for n in range(45)]},
    lambda chance: "x" * chance.choice((300, 200_000)),
    lambda chance: chance.choice((-1, 0, 2**31, 2**63, 10**99, 1e308, 0.1, True, None)),
    lambda chance: chance.choice(("", "\ud800", "\x00", "%", "_", "' OR 1=1 --", "🙂" * 50)),
    lambda chance: {"$regex": "(a+)+$", 'ke"y\\': "$.a", "": None},
    lambda chance: {"n": 1e308, "m": 10**99, "o": -0.0, "p": "\u2028"},
)


@pytest.fixture
def world(settings: Any, graphs: None, admin: Any) -> None:
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.OpenStore"} | dict.fromkeys(
        ("THROTTLE_READ", "THROTTLE_START", "THROTTLE_WRITE")
    )
    with testing.inline() as advance:
        for number in range(20):
            graph = ("chat", "outer", "plain", "failing", "sides")[number % 5]
            services.start(
                graph, {"log": ["hello"] * 40}, metadata={"n": number}, by=admin,
                events=["values", "updates", "tasks", "checkpoints", "subgraphs"],
            )  # fmt: skip
        advance()
        thread = Run.objects.filter(graph="plain")[0].thread.thread_id
        for _ in range(8):
            services.start("plain", {"log": ["again"]}, thread_id=thread, by=admin)
            advance()
    for number in range(100):
        DjangoStore().put(("shelf", str(number % 7)), f"k{number}", {"n": number, "text": "x" * 50})


def make_request(chance: random.Random, runs: list[tuple[str, str]]) -> tuple[str, str, Any]:
    """Generate a method, a path, and a body or a query."""
    (method, path), names = chance.choice([*OPERATIONS.items()])
    thread, run = chance.choice(runs)
    path = path.format(thread=thread, run=run, graph=chance.choice(("chat", "outer", "nonsense")))
    told: dict[str, Any] = {}
    for name in names:
        if chance.random() < 0.6:
            is_valid = chance.random() < 0.75 and name in VALID
            told[name] = chance.choice(VALID[name]) if is_valid else chance.choice(HOSTILE)(chance)
    return method, path, told


def send(client: Client, method: str, path: str, told: Any) -> Any:
    if method != "GET":
        body = json.dumps(told)
        return client.generic(method, f"/agent/{path}", body, content_type="application/json")
    texts = {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else
        json.dumps(value)[:5_000]
        for name, value in told.items()
    }  # fmt: skip
    return client.get(f"/agent/{path}", texts)


def judge(client: Client, method: str, path: str, told: Any) -> Iterator[str]:
    """Send a request, and yield the faults of the response and its costs."""
    spent, queries = 0.0, 0
    for _ in range(2):  # a costly request is costly again, unlike a request on a busy machine
        reset_queries()  # Django stores only 9,000 queries
        with CaptureQueriesContext(connection) as captured:
            began = time.process_time()
            response = send(client, method, path, told)
            answer = response.getvalue()
            spent, queries = time.process_time() - began, len(captured)
        if response.status_code >= 500 and response.status_code != 501:
            yield f"{response.status_code}: {answer[:300]!r}"
            return
        if spent <= SECONDS and queries <= QUERIES:
            return
    yield f"{spent:.2f} s, {queries} queries"


@pytest.mark.usefixtures("world")
@pytest.mark.slow
def test_langgraph_compatible_api_returns_no_server_error_for_fuzzed_requests(
    admin: Any, make_user: Callable[..., Any], amount: Callable[[int, int], int], seed: int
) -> None:
    chance, clients = random.Random(amount(1, seed)), []
    for user in (admin, admin, make_user("nina")):
        clients.append(Client(raise_request_exception=False))
        clients[-1].force_login(user)
    rows = Run.objects.order_by("pk").values_list("thread__thread_id", "pk")
    runs = [(thread, str(run)) for thread, run in rows]
    faults = []
    for _ in range(amount(120, 20_000)):
        client, wanted = chance.choice(clients), make_request(chance, runs)
        found = judge(client, *wanted)
        faults += [f"{wanted[0]} {wanted[1]} {str(wanted[2])[:300]}: {fault}" for fault in found]
    assert not faults, "\n".join(faults[:20])
