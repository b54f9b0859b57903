"""Responses for all users, URLs and methods of the URL configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import transaction
from django.test import Client

from hitl_django.contrib.links.services import create_review_link
from tests.admin.browsing import text_of
from tests.api import document

from .conftest import World, everything_of_ours
from .people import PEOPLE, SHUT_GRAPH, Crowd, Person
from .table import (
    ABSENT,
    ADMIN,
    AGENT,
    API,
    EMPTY,
    FORBIDDEN,
    FRAME,
    METHODS,
    OK,
    UNSUPPORTED,
    Page,
    Row,
    path_of,
)
from .world import Things

#: Requests of every user to every URL take long, and the results don't depend on the database.
pytestmark = [pytest.mark.long, pytest.mark.any_database]

#: Users for requests with methods that no URL supports.
STRANGERS = ("anonymous", "inactive", "nobody", "everything", "superuser")
#: Users whose view of the admin equals that of other users, but not their view of the API.
LIKE_OTHERS = (
    "viewer",
    "assignee",
    "claim holder",
    "lead",
    "engineer",
    "everything",
    "blindfolded superuser",
)
#: Kinds that are hidden for restricted graphs, and kinds whose threads can be hidden.
RESERVED, SHUT = ("interrupt", "link", "graph", "archived"), (
    "interrupt", "link", "run", "thread", "operated", "archived",
)  # fmt: skip


def places(world: World, person: Person, row: Row) -> Iterator[Things]:
    yield world.areas["open"]
    if row.kind in RESERVED:
        yield world.areas["vault"]
    if row.kind in SHUT and person.name.startswith("blindfolded"):
        yield world.areas["shut"]


def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    if body is None:
        return client.generic(method, path)
    return client.generic(method, path, json.dumps(body), "application/json")


@pytest.mark.promise("P18")
@pytest.mark.parametrize("rows", [API, AGENT], ids=["ours", "langgraph's"])
def test_api_response_status_of_every_user_is_that_of_the_permission_matrix(
    rows: dict[tuple[str, str], Row], world: World, people: list[Person]
) -> None:
    faults = []
    for person in people:
        client, before = world.client(person), everything_of_ours()
        for (name, method), row in rows.items():
            for things in places(world, person, row):
                path, body = path_of(name, row.at(things, world.hooks)), row.body(things)
                expected = row.answer_to(person, things.area) if person.gets_in else FORBIDDEN
                allowed = row.changes and expected == row.answer
                with transaction.atomic():
                    response = send(client, method, path, body)
                    if allowed and everything_of_ours() == before:
                        faults.append(f"{person.name}: {method} {name} changes nothing")
                    transaction.set_rollback(method != "GET" and response.status_code < 400)
                if response.status_code != expected:
                    faults.append(
                        f"{person.name}: {method} {name}, {things.area}: "
                        f"{response.status_code} instead of {expected}"
                    )
                if rows is API:
                    document.check(name.partition(":")[2], method, response)
                if method == "GET" and person.name in STRANGERS:
                    assert client.head(path).status_code == response.status_code, name
        if everything_of_ours() != before:
            faults.append(f"{person.name} changes what they may not, or by GET")
    assert not faults, "\n".join(faults)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("who", STRANGERS)
def test_api_unsupported_method_returns_405_or_403_for_every_kind_of_user(
    who: str, world: World
) -> None:
    client, before = world.client(PEOPLE[who]), everything_of_ours()
    things = world.areas["open"]
    for (name, _), row in API.items():
        path = path_of(name, row.at(things, world.hooks))
        for method in METHODS:
            if (name, method) in API or (method == "HEAD" and (name, "GET") in API):
                continue
            response = client.generic(method, path)
            expected = EMPTY if method == "OPTIONS" else UNSUPPORTED
            if not PEOPLE[who].gets_in:
                expected = FORBIDDEN
            assert response.status_code == expected, (method, name)
            if expected != EMPTY and method != "HEAD":
                assert response["Content-Type"] == "application/problem+json"
                assert response.json()["status"] == expected
    assert client.get("/hitl/api/v1/nothing/").status_code == (
        ABSENT if PEOPLE[who].gets_in else FORBIDDEN
    )
    assert everything_of_ours() == before


def form_of(page: Page, name: str, things: Things, row: Any) -> dict[str, Any]:
    """Return form data that would change something if the user had permission."""
    item = things.free
    return {
        "_selected_action": str(row),
        "decision": "reject",
        "digest": item.payload_digest,
        "version": item.version,
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
        "item": f"{item.pk}.{item.version}.{item.payload_digest}",
        "confirmed": "1",
        **page.extra(things),
    }


def row_of(name: str, page: Page, world: World, things: Things) -> Any:
    if name.startswith("admin:hitl_schedules_schedule"):
        return world.hooks.schedule.pk
    if "webhookendpoint" in name:
        return world.hooks.webhook.pk
    return world.hooks.delivery.pk if "delivery" in name else things.free.pk


@pytest.mark.any_database
@pytest.mark.promise("P18")
def test_admin_get_status_of_every_user_is_that_of_the_permission_matrix(
    world: World, people: list[Person]
) -> None:
    faults = []

    def expect(who: Person, what: str, response: Any, expected: int) -> None:
        if not who.gets_into_the_admin:
            login = response.headers.get("Location", "").startswith("/admin/login/")
            if not login:
                faults.append(f"{who.name}: {what} doesn't lead to the login")
        elif response.status_code != expected:
            faults.append(f"{who.name}: {what}: {response.status_code} instead of {expected}")

    for person in browsing(people):
        client, before = world.client(person), everything_of_ours()
        for name, page in ADMIN.items():
            for things in places(world, person, page):
                path = path_of(name, page.at(things, world.hooks)) + page.query(things)
                expected = page.answer_to(person, things.area)
                response = client.get(path)
                if name.endswith("_prefetch") and response.status_code == EMPTY:
                    expected = EMPTY if expected == OK else expected  # No request follows.
                expect(person, f"GET {name}, {things.area}", response, expected)
        for name, status in FRAME.items():
            expect(person, f"GET {name}", client.get(frame(name)), status)
        if everything_of_ours() != before:
            faults.append(f"{person.name} changes something by GET")
    assert not faults, "\n".join(faults)


def browsing(people: list[Person]) -> list[Person]:
    return [person for person in people if person.name not in LIKE_OTHERS]


def frame(name: str) -> str:
    if name.startswith("admin/"):
        return "/admin/nothing/"
    arguments = {"admin:app_list": ("hitl_django",), "admin:view_on_site": ("1", "1")}
    return path_of(name, arguments.get(name, ()))


@pytest.mark.any_database
@pytest.mark.promise("P18")
def test_admin_post_status_of_every_user_is_that_of_the_permission_matrix(
    world: World, people: list[Person]
) -> None:
    faults = []
    for person in browsing(people):
        client, before = world.client(person), everything_of_ours()
        for name, page in ADMIN.items():
            for things in places(world, person, page):
                path = path_of(name, page.at(things, world.hooks)) + page.query(things)
                form = form_of(page, name, things, row_of(name, page, world, things))
                allowed = page.changes_for(person, things.area) and person.gets_into_the_admin
                with transaction.atomic():
                    response: Any = client.post(path, form)
                    if allowed and everything_of_ours() == before:
                        faults.append(f"{person.name}: POST {name} changes nothing")
                    transaction.set_rollback(allowed or name.endswith("bulk"))
                seen = page.answer_to(person, things.area)
                fits = response.status_code < 500
                if not person.gets_into_the_admin:
                    # A page with the submitted text links to the login.
                    target = response.headers.get("Location", "") or text_of(response)
                    fits = response.status_code in (302, 403) and "/admin/login/" in target
                elif seen in (FORBIDDEN, ABSENT):
                    fits = response.status_code == seen
                if not fits:
                    faults.append(
                        f"{person.name}: POST {name}, {things.area}: {response.status_code}"
                    )
        if everything_of_ours() != before:
            faults.append(f"{person.name} changes what they may not")
    assert not faults, "\n".join(faults)


@pytest.mark.promise("P18")
def test_graph_hidden_by_policy_is_unlisted_and_returns_404(world: World) -> None:
    client = world.client(PEOPLE["blindfolded superuser"])
    body = {"graph": SHUT_GRAPH, "input": {"area": "open"}}
    assert send(client, "POST", path_of("hitl_django:runs", ()), body).status_code == FORBIDDEN
    for page in ("graph", "graph-diagram"):
        assert client.get(path_of(f"hitl_django:{page}", (SHUT_GRAPH,))).status_code == ABSENT
    assert SHUT_GRAPH not in client.get(path_of("hitl_django:graphs", ())).content.decode()


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize("who", ["nobody", "only operate_run", "only decide_interrupt"])
def test_admin_interrupt_lists_return_403_without_view_permission_or_a_graph_reserved_for_the_user(
    who: str,
) -> None:
    client = Crowd().client(PEOPLE[who])
    for model in ("reviewitem", "interrupt", "decision"):
        path = path_of(f"admin:hitl_django_{model}_changelist", ())
        assert client.get(path).status_code == client.post(path).status_code == FORBIDDEN


@pytest.mark.promise("P18")
def test_review_link_page_is_open_to_every_user_with_its_secret(
    world: World, people: list[Person]
) -> None:
    maker = world.crowd.user(PEOPLE["superuser"])
    made = create_review_link(world.areas["open"].free.pk, name="Max", by=maker)
    nowhere = path_of("hitl_django:link", ("nonsense",))
    before = everything_of_ours()
    for person in people:
        client = world.client(person)
        assert client.get(nowhere).status_code == client.post(nowhere).status_code == ABSENT
        assert client.get(urlsplit(made.url).path).status_code == OK
    assert everything_of_ours() == before
