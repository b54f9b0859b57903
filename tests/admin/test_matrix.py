"""Who may open and send what: every address of the admin and the link's, for everybody there is.

The addresses come from the URL resolver, so a new one without a line here fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.urls.resolvers import URLResolver

from hitl_django import START, StateGraph, registry, services
from hitl_django.models import (
    AuditEntry,
    ChannelBlob,
    Checkpoint,
    Decision,
    Delivery,
    Interrupt,
    PendingWrite,
    WebhookEndpoint,
)
from hitl_django.registry import ReviewPolicy

from .conftest import make_question, page_of

VIEW = ("view_interrupt", "view_run", "view_thread")
EVERYTHING = "every permission"
#: Who there is: staff unless the name says otherwise, with these permissions.
PEOPLE: dict[str, tuple[str, ...]] = {
    "anonymous": (),
    "not staff": (EVERYTHING,),
    "nobody": (),
    "blind decider": ("decide_interrupt",),
    "blind operator": ("operate_run",),
    "asker": ("view_interrupt",),
    "viewer": VIEW,
    "decider": (*VIEW, "decide_interrupt"),
    "assigner": (*VIEW, "assign_interrupt"),
    "linker": (*VIEW, "decide_interrupt", "link_interrupt"),
    "operator": (*VIEW, "operate_run"),
    "engineer": (
        *VIEW, "operate_run", "view_thread_state", "view_checkpoint", "view_channelblob",
        "view_pendingwrite",
    ),
    "reader of webhooks": ("view_webhookendpoint",),
    "integrator": ("view_webhookendpoint", "manage_webhooks"),
    "everything": (EVERYTHING,),
    "superuser": (),
}  # fmt: skip
NOBODY: frozenset[str] = frozenset()
EVERYBODY = frozenset(PEOPLE) - {"anonymous", "not staff"}
ALL = frozenset({"everything", "superuser"})
LINKERS = ALL | {"linker"}
DECIDERS = LINKERS | {"decider"}
OPERATORS = ALL | {"operator", "engineer"}
SEE_RUNS = DECIDERS | OPERATORS | {"viewer", "assigner"}
SEE_QUESTIONS = SEE_RUNS | {"asker"}
ENGINEERS = ALL | {"engineer"}
MANAGERS = ALL | {"integrator"}
SEE_HOOKS = MANAGERS | {"reader of webhooks"}

OK, MOVED, FORBIDDEN, ABSENT = 200, 302, 403, 404


@dataclass(frozen=True)
class Line:
    """What an address does: who gets ``answer``, who is ``refused``, and who is told nothing.

    Whoever is in neither gets ``else_``. A POST of ``changed`` may change something, and no other.
    """

    shown: frozenset[str]
    answer: int = OK
    refused: frozenset[str] = NOBODY
    else_: int = ABSENT
    changed: frozenset[str] = NOBODY

    def to(self, who: str) -> int:
        if who in self.shown:
            return self.answer
        return FORBIDDEN if who in self.refused else self.else_


#: Who sees the rows of a model.
SEEN = {
    "reviewitem": SEE_QUESTIONS,
    "interrupt": SEE_QUESTIONS,
    "decision": SEE_QUESTIONS,
    "run": SEE_RUNS,
    "thread": SEE_RUNS,
    "checkpoint": ENGINEERS,
    "channelblob": ENGINEERS,
    "pendingwrite": ENGINEERS,
    "reviewlink": LINKERS,
    "webhookendpoint": SEE_HOOKS,
    "delivery": SEE_HOOKS,
}


def usual(model: str, seers: frozenset[str]) -> dict[str, Line]:
    """The pages that Django's admin has for each model, of rows that can only be looked at."""
    return {
        f"{model}_changelist": Line(seers, else_=FORBIDDEN),
        f"{model}_add": Line(NOBODY, else_=FORBIDDEN),
        f"{model}_row": Line(EVERYBODY, MOVED),  # to the page, which asks
        f"{model}_change": Line(seers),
        f"{model}_history": Line(seers),
        f"{model}_delete": Line(NOBODY, refused=seers),
    }


MATRIX: dict[str, Line] = {
    name: line for model, seers in SEEN.items() for name, line in usual(model, seers).items()
} | {
    "interrupt_change": Line(SEE_QUESTIONS, MOVED),
    "reviewitem_change": Line(SEE_QUESTIONS, changed=DECIDERS),
    "reviewitem_payload": Line(SEE_QUESTIONS),
    "reviewitem_status": Line(SEE_QUESTIONS),
    "reviewitem_handling": Line(SEE_QUESTIONS, MOVED, changed=DECIDERS),
    "reviewitem_next": Line(SEE_QUESTIONS, MOVED, else_=FORBIDDEN, changed=DECIDERS),
    "reviewitem_bulk": Line(SEE_QUESTIONS, MOVED, else_=FORBIDDEN, changed=DECIDERS),
    "run_retry": Line(OPERATORS, MOVED, refused=SEE_RUNS, changed=OPERATORS),
    "run_cancel": Line(OPERATORS, refused=SEE_RUNS, changed=OPERATORS),
    "run_fork": Line(OPERATORS, refused=SEE_RUNS, changed=OPERATORS),
    "reviewlink_changelist": Line(LINKERS, else_=FORBIDDEN, changed=LINKERS),
    "reviewlink_add": Line(LINKERS, changed=LINKERS),
    "webhookendpoint_changelist": Line(SEE_HOOKS, else_=FORBIDDEN, changed=MANAGERS),
    "webhookendpoint_add": Line(MANAGERS, else_=FORBIDDEN, changed=MANAGERS),
    "webhookendpoint_change": Line(SEE_HOOKS, changed=MANAGERS),
    "webhookendpoint_delete": Line(MANAGERS, refused=SEE_HOOKS, changed=MANAGERS),
    "webhookendpoint_secret": Line(MANAGERS, refused=SEE_HOOKS, changed=MANAGERS),
    "delivery_changelist": Line(SEE_HOOKS, else_=FORBIDDEN, changed=MANAGERS),
}
#: What a list lets one do with the rows that one has selected.
ACTIONS = {
    "reviewlink_changelist": "take_back",
    "webhookendpoint_changelist": "try_them",
    "delivery_changelist": "send_again",
}


def patterns(found: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Gives the name and the route of each address of this app in the admin."""
    for pattern in found:
        if isinstance(pattern, URLResolver):
            yield from patterns(pattern.url_patterns, before + str(pattern.pattern))
            continue
        route = before + str(pattern.pattern)
        if "hitl_django/" in route:
            model = route.split("/")[1]
            yield (pattern.name or f"hitl_django_{model}_row").removeprefix("hitl_django_"), route


def everything_of_ours() -> dict[str, list[Any]]:
    """Reads every row of this app, but for the record: that says what was refused, too."""
    return {
        model.__name__: [
            {name: value for name, value in row.items() if not name.startswith("audit_")}
            for row in model._default_manager.order_by("pk").values()
        ]
        for model in apps.get_app_config("hitl_django").get_models()
        if model is not AuditEntry and not model._meta.proxy
    }


@pytest.fixture
def rows(asked: Callable[..., Interrupt], admin_user: Any) -> dict[str, Any]:
    """One row of each kind, by the name of its model; two questions, of which one is decided."""
    decided, item = asked("approval"), asked()
    services.decide(decided.pk, "approve")
    hook = services.create_webhook("https://crm.example/hooks")
    services.try_webhook(hook.id)
    link = services.make_link(item.pk, name="Lena", by=admin_user)
    return {
        "reviewitem": item,
        "interrupt": item,
        "run": item.run_id,
        "thread": item.thread_id,
        "decision": Decision.objects.get(),
        "checkpoint": Checkpoint.objects.filter(thread=item.thread_id).latest("checkpoint_id"),
        "channelblob": ChannelBlob.objects.all()[0],
        "pendingwrite": PendingWrite.objects.all()[0],
        "reviewlink": link.id,
        "webhookendpoint": WebhookEndpoint.objects.get(),
        "delivery": Delivery.objects.get(),
    }


def address_of(name: str, rows: dict[str, Any]) -> str:
    model, _, page = name.partition("_")
    row = rows[model]
    pk = str(getattr(row, "pk", row))
    if page in ("changelist", "next", "bulk"):
        return reverse(f"admin:hitl_django_{name}")
    if page == "add":
        return reverse(f"admin:hitl_django_{name}") + f"?interrupt={rows['reviewitem'].pk}"
    if page == "row":
        return page_of(row, model).removesuffix("change/")
    more = [rows["checkpoint"].checkpoint_id] if page == "fork" else []
    return reverse(f"admin:hitl_django_{name}", args=[pk, *more])


def client_of(who: str) -> Client:
    client = Client()
    if who == "anonymous":
        return client
    if who == "superuser":
        client.force_login(get_user_model().objects.create_superuser("root"))
        return client
    user = get_user_model().objects.create_user(who, is_staff=who != "not staff")
    ours = Permission.objects.filter(content_type__app_label="hitl_django")
    given = PEOPLE[who]
    user.user_permissions.set(ours if EVERYTHING in given else ours.filter(codename__in=given))
    client.force_login(user)
    return client


def body_of(name: str, rows: dict[str, Any]) -> dict[str, Any]:
    """What would do something, if it were let."""
    item = rows["reviewitem"]
    row = rows[name.partition("_")[0]]
    return {
        "_selected_action": str(getattr(row, "pk", row)),
        "action": ACTIONS.get(name, ""),
        "decision": "approve",
        "digest": item.payload_digest,
        "version": item.version,
        "answer/amount": "1",
        "item": f"{item.pk}.{item.version}.{item.payload_digest}",
        "confirmed": "1",
        "verb": "comment",
        "text": "a remark",
        "reason": "because",
        "post": "yes",
        "name": "Lena Roth",
        "days": "3",
        "decisions": ["approve"],
        "url": "https://crm.example/other",
        "values": "",
        "as_node": "",
    }


ADDRESSES = dict(patterns(admin.site.urls[0]))


def test_every_address_has_its_line() -> None:
    assert set(ADDRESSES) == set(MATRIX)


def everybody() -> Iterator[Any]:
    """Yields each of them; those who get the furthest are enough for a second database."""
    for who in PEOPLE:
        yield pytest.param(who, marks=() if who in ENGINEERS else pytest.mark.any_database)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("who", list(everybody()))
def test_what_is_opened_and_sent(who: str, rows: dict[str, Any]) -> None:
    client = client_of(who)
    before = everything_of_ours()
    for name, line in MATRIX.items():
        url = address_of(name, rows)
        shown: Any = client.get(url)
        assert everything_of_ours() == before, f"GET {name}"
        with transaction.atomic():
            sent: Any = client.post(url, body_of(name, rows))
            after = everything_of_ours()
            transaction.set_rollback(True)
        if who not in EVERYBODY:
            for response in (shown, sent):
                assert response.headers["Location"].startswith("/admin/login/"), name
        else:
            assert shown.status_code == line.to(who), f"GET {name}"
            assert sent.status_code < 500, f"POST {name}"
            if who not in SEEN[name.partition("_")[0]] and not name.endswith("_row"):
                assert sent.status_code in (FORBIDDEN, ABSENT), f"POST {name}"
        if who not in line.changed:
            assert after == before, f"POST {name}"
        elif name not in ("run_retry", "delivery_changelist"):  # nothing failed that could be
            assert after != before, f"POST {name}"


@pytest.fixture
def reserved() -> Iterator[None]:
    """A graph whose questions are for the members of a group."""
    graph = StateGraph(dict).add_node("ask", lambda state: state).add_edge(START, "ask")
    registry.register("money", review=ReviewPolicy(groups=["finance"]))(lambda: graph)
    yield
    registry.unregister("money")


@pytest.mark.promise("P18")
@pytest.mark.usefixtures("reserved")
@pytest.mark.parametrize("who", ["nobody", "viewer", "decider", "everything", "superuser"])
@pytest.mark.parametrize("member", [True, False], ids=["member", "not a member"])
def test_the_questions_of_a_graph_with_groups_are_there_for_their_members_alone(
    who: str, member: bool
) -> None:
    item = make_question({"title": "Pay?"}, graph="money")
    client = client_of(who)
    if member:
        user = get_user_model().objects.get(pk=client.session["_auth_user_id"])
        user.groups.add(Group.objects.create(name="finance"))
    sees = member or who == "superuser"
    before = everything_of_ours()
    of_all = {"reviewitem_next", "reviewitem_bulk"}
    for name in MATRIX.keys() - of_all:
        if name.startswith("reviewitem_") and MATRIX[name].shown == SEE_QUESTIONS:
            url = address_of(name, {"reviewitem": item})
            shown: Any = client.get(url)
            if name == "reviewitem_changelist":
                assert (item.title in shown.content.decode()) is sees
            else:
                assert (shown.status_code in (OK, MOVED)) is sees, name
                assert sees or shown.status_code == ABSENT
    with transaction.atomic():
        client.post(address_of("reviewitem_handling", {"reviewitem": item}), {"verb": "claim"})
        assert (everything_of_ours() != before) is sees
        transaction.set_rollback(True)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("who", list(everybody()))
def test_a_links_page_asks_for_its_secret_and_for_nothing_else(
    who: str, rows: dict[str, Any], admin_user: Any
) -> None:
    client = client_of(who)
    before = everything_of_ours()
    nowhere = reverse("hitl_django:link", args=["nonsense"])
    assert client.get(nowhere).status_code == client.post(nowhere).status_code == ABSENT
    link = services.make_link(rows["reviewitem"].pk, name="Max", by=admin_user)
    before = everything_of_ours()
    assert client.get(urlsplit(link.url).path).status_code == OK
    assert everything_of_ours() == before
