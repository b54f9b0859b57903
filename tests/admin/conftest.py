"""Users, interrupts and clients for the tests of the admin."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from hitl_django import services, testing
from hitl_django.answers import AnswerOptions
from hitl_django.dialects import recognise_dialect
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.models.search import build_grams, build_search_text
from tests.reading import name_app

VIEW = ("view_interrupt", "view_run", "view_thread")
#: The roles, each with its permissions. Users of all roles except "public" are staff.
ROLES: dict[str, tuple[str, ...]] = {
    "nobody": (),
    "reader": VIEW,
    "asker": ("view_interrupt",),
    "reviewer": (*VIEW, "decide_interrupt"),
    "blind": ("decide_interrupt",),
    "operator": (*VIEW, "operate_run"),
    "integrator": ("view_webhookendpoint", "manage_webhooks"),
    "engineer": (
        *VIEW,
        "operate_run",
        "view_thread_state",
        "view_checkpoint",
        "view_channelblob",
        "view_pendingwrite",
    ),
    "public": (*VIEW, "decide_interrupt", "operate_run"),
}

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def advance(db: None) -> Iterator[Callable[[], int]]:
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture
def person(db: None) -> Callable[[str], Any]:
    """Return a function that creates the user of a role once."""

    def make(role: str) -> Any:
        users = get_user_model().objects
        user, new = users.get_or_create(
            username=role, defaults={"is_staff": role != "public", "is_active": True}
        )
        if new:
            user.user_permissions.set(
                Permission.objects.filter(
                    content_type__app_label__startswith="hitl_", codename__in=ROLES[role]
                )
            )
        return user

    return make


@pytest.fixture
def browse(person: Callable[[str], Any]) -> Callable[[str], Client]:
    """Return a function that logs in the user of a role."""

    def log_in(role: str) -> Client:
        client = Client()
        client.force_login(person(role))
        return client

    return log_in


@pytest.fixture
def reviewer(browse: Callable[[str], Client]) -> Client:
    return browse("reviewer")


@pytest.fixture
def asked(advance: Callable[[], int]) -> Callable[..., Interrupt]:
    """Return a function that runs a graph of tests.graphs to its interrupt."""

    def ask(graph: str = "typed", **state: Any) -> Interrupt:
        first = {"typed": {"amount": 12.5, "customer": "Dana"}, "approval": {"text": "the news"}}
        run = services.start(graph, {**first.get(graph, {}), **state})
        advance()
        return Interrupt.objects.filter(run_id=run.id).order_by("created_at").first()

    return ask


def make_interrupt(payload: Any, schema: Any = None, **fields: Any) -> Interrupt:
    """Store an interrupt that no graph raised. The row is sufficient for displaying it."""
    number = next(_numbers)
    graph = fields.setdefault("graph", "made")
    thread = Thread.objects.create(thread_id=f"made-{number}", graph=graph)
    run = Run.objects.create(thread=thread, graph=graph, state=Run.State.INTERRUPTED)
    values: dict[str, Any] = {
        "title": f"Question {number}?",
        "node": "ask",
        "checkpoint_id": "1",
        "task_id": "1",
        "interrupt_id": f"{number:032}",
        "payload_digest": f"{number:032}",
        "dialect": recognise_dialect(payload, schema, fields.get("kind", "interrupt")),
    }
    asked = AnswerOptions(
        payload=payload,
        schema=schema,
        kind=fields.get("kind", "interrupt"),
        dialect=fields.get("dialect", values["dialect"]),
    )
    values["allowed_decisions"] = list(asked.possible)
    values |= fields
    text = build_search_text(values["title"], values["node"], payload)
    return Interrupt.objects.create(
        thread=thread,
        run=run,
        payload=payload,
        response_schema=schema,
        search_text=text,
        search_grams=build_grams(text),
        **values,
    )


def page_of(item: Any, model: str = "reviewitem") -> str:
    return reverse(f"admin:{name_app(model)}_{model}_change", args=[getattr(item, "pk", item)])


def list_of(model: str = "reviewitem") -> str:
    return reverse(f"admin:{name_app(model)}_{model}_changelist")
