"""Users, rows and a client for the tests of the API."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, TypedDict

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from hitl_django import END, START, StateGraph, interrupt, services
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.search import build_grams, build_search_text
from hitl_django.worker import runner

from . import document

VIEW = ["view_interrupt", "view_run", "view_thread"]
ROLES: dict[str, list[str]] = {
    "nobody": [],
    "viewer": VIEW,
    "reviewer": [*VIEW, "decide_interrupt"],
    "lead": [*VIEW, "decide_interrupt", "assign_interrupt", "take_over_interrupt"],
    "starter": ["start_run"],
    "asker": ["add_interrupt"],
    "operator": [*VIEW, "operate_run"],
    "integrator": ["view_webhookendpoint", "manage_webhooks"],
    "auditor": [*VIEW, "view_thread_state"],
    "keeper": [*VIEW, "export_decisions", "view_reviewer_insights"],
}

_numbers = itertools.count(1)

ANSWER = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "amount": {"type": "integer", "minimum": 1},
    },
    "required": ["approved", "amount"],
    "additionalProperties": False,
}


class Invoice(TypedDict, total=False):
    amount: int
    free: bool
    silent: bool
    answer: Any


def ask(state: Invoice) -> Invoice:
    if state.get("silent"):
        return {}
    payload = {"title": f"Pay {state['amount']} EUR?", "amount": state["amount"]}
    schema = None if state.get("free") else ANSWER
    return {"answer": interrupt(payload, response_schema=schema)}


@pytest.fixture(autouse=True)
def _nobody_is_throttled() -> None:
    cache.clear()


@pytest.fixture
def invoice() -> Iterator[str]:
    """A registered graph with one interrupt.

    With ``free``, the response is any value. With ``silent``, there is no interrupt.
    """

    @registry.register("invoice", version="3", title="Pay an invoice")
    def build() -> Any:
        graph = StateGraph(Invoice)
        graph.add_node("ask", ask)
        graph.add_edge(START, "ask")
        graph.add_edge("ask", END)
        return graph

    yield "invoice"
    registry.unregister("invoice")


@pytest.fixture
def asked(db: None, invoice: str) -> Callable[..., Interrupt]:
    """Return a function that starts a real run and lets a worker execute it to its interrupt."""

    def ask_now(**state: Any) -> Interrupt:
        run = services.start(invoice, {"amount": 12, **state})
        runner.advance(str(run.id))
        return Interrupt.objects.get(run_id=run.id)

    return ask_now


def in_chunks(body: bytes | str, content_type: str = "application/json") -> dict[str, Any]:
    """Return the WSGI environment for a body without a Content-Length."""
    raw = body if isinstance(body, bytes) else body.encode()
    return {
        "wsgi.input": io.BytesIO(raw),
        "wsgi.input_terminated": True,
        "CONTENT_TYPE": content_type,
        "CONTENT_LENGTH": "",
        "HTTP_TRANSFER_ENCODING": "chunked",
    }


class API:
    """A client of the API with JSON requests and responses, and URLs by view name.

    Each response must match the OpenAPI document.
    """

    def __init__(self, user: Any = None, **options: Any) -> None:
        self.client = Client(**options)
        if user is not None:
            self.client.force_login(user)

    def call(self, method: str, name: str, *args: Any, **options: Any) -> Any:
        path = reverse(f"hitl_django:{name}", args=args)
        body = options.pop("body", None)
        if body is not None:
            options["data"] = body if isinstance(body, bytes) else json.dumps(body)
            options.setdefault("content_type", "application/json")
        if query := options.pop("query", None):
            path += f"?{query}"
        if options.pop("in_chunks", False):
            options |= in_chunks(options.pop("data", b""), options.get("content_type", ""))
        response = self.client.generic(method, path, **options)
        document.check(name, method, response)
        return response

    def get(self, name: str, *args: Any, **options: Any) -> Any:
        return self.call("GET", name, *args, **options)

    def patch(self, name: str, *args: Any, body: Any = None, **options: Any) -> Any:
        return self.call("PATCH", name, *args, body=body, **options)

    def post(self, name: str, *args: Any, body: Any = None, **options: Any) -> Any:
        return self.call("POST", name, *args, body=body, **options)


@pytest.fixture
def make_user(db: None) -> Callable[..., Any]:
    def make(*permissions: str, **options: Any) -> Any:
        user = get_user_model().objects.create_user(f"user{next(_numbers)}", **options)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        return user

    return make


@pytest.fixture
def as_role(make_user: Callable[..., Any]) -> Callable[..., API]:
    """Return a function that signs in a user with the permissions of a role.

    The roles "insider" and "outsider" have all permissions that the policy allows.
    """

    def sign_in(role: str, **options: Any) -> API:
        if role == "anonymous":
            return API(**options)
        if role in ("superuser", "insider", "outsider"):
            user = make_user(is_superuser=True)
            if role == "insider":
                user.groups.add(Group.objects.get_or_create(name="invoice")[0])
            return API(user, **options)
        if role == "inactive":  # The user was deactivated after signing in.
            user = make_user(is_superuser=True)
            client = API(user, **options)
            get_user_model().objects.filter(pk=user.pk).update(is_active=False)
            return client
        return API(make_user(*ROLES[role]), **options)

    return sign_in


@pytest.fixture
def api(as_role: Callable[..., API]) -> API:
    return as_role("superuser")


@pytest.fixture
def make_run(db: None) -> Callable[..., Run]:
    """Return a function that stores the row of a run, in any state."""

    def make(**fields: Any) -> Run:
        graph = fields.setdefault("graph", "invoice")
        thread = Thread.objects.create(thread_id=f"thread-{next(_numbers)}", graph=graph)
        run = Run.objects.create(thread=thread, **fields)
        run.refresh_from_db()
        return run

    return make


@pytest.fixture
def make_interrupt(make_run: Callable[..., Run]) -> Callable[..., Interrupt]:
    """Return a function that stores the row of an interrupt, with any status."""

    def make(run: Run | None = None, **fields: Any) -> Interrupt:
        run = run or make_run(state=Run.State.INTERRUPTED)
        fields.setdefault("title", "Pay the invoice?")
        fields.setdefault("payload", {"amount": 12})
        text = build_search_text(fields["title"], fields["payload"])
        fields = {"search_text": text, "search_grams": build_grams(text), **fields}
        number = next(_numbers)
        payload = Interrupt.objects.create(
            thread=run.thread,
            run=run,
            interrupt_id=f"{number:032x}",
            graph=run.graph,
            node=fields.pop("node", "ask"),
            checkpoint_id="c" * 36,
            task_id="t" * 36,
            payload_digest="d" * 32,
            **fields,
        )
        payload.refresh_from_db()
        return payload

    return make
