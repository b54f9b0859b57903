"""Hidden objects, indistinguishable from missing objects for all requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from .conftest import World, everything_of_ours
from .people import PEOPLE, Person
from .table import ABSENT, ADMIN, AGENT, API, METHODS, Answer, Arguments, Page, Row, path_of
from .test_matrix import form_of, row_of, send
from .world import Things, nowhere

#: Users with many permissions who can't see an area, and users who see almost no objects.
WHO = {
    "minter": "vault",
    "blindfolded": "shut",
    "nobody": "open",
    "only decide_interrupt": "open",
    "only operate_run": "open",
    "blind operator": "open",
    "linker without decisions": "vault",
}
WRONG: tuple[tuple[Any, str], ...] = (
    (b"{", "application/json"),
    (b'{"nonsense": 1}', "application/json"),
    (b"[]", "application/json"),
    (b"\xff", "text/plain"),
    (b"{}" * 1_400_000, "application/json"),
)
CONDITIONS = (
    {"HTTP_IF_MATCH": '"1-x"'},
    {"HTTP_IF_MATCH": "nonsense"},
    {"HTTP_IF_NONE_MATCH": "*"},
    {"HTTP_IDEMPOTENCY_KEY": "k" * 300},
    {"QUERY_STRING": "nonsense=1"},
)


def hidden(person: Person, row: Row, area: str) -> bool:
    # An interrupt's page also names its thread, which may be visible without its interrupts.
    kind = "thread" if isinstance(row, Answer) else row.kind
    return bool(kind) and not person.sees(kind, area)


def absent(value: Any) -> Any:
    """Return a missing id of the same length as an existing id."""
    if isinstance(value, UUID):
        return UUID(nowhere())
    if isinstance(value, int):
        return 10**9 + value
    try:
        return nowhere() if UUID(value) else None
    except ValueError:
        return value[:-1] + ("x" if value[-1] != "x" else "y")


def read_comparable(response: Any, arguments: Arguments) -> tuple[Any, ...]:
    """Return the content of a response without the names from the request."""
    varying = ("Expires", "Content-Length", "RateLimit")
    headers = repr(sorted(item for item in response.headers.items() if item[0] not in varying))
    content = response.content.decode()
    for number, argument in enumerate(arguments):
        name = re.compile(rf"(?<![-\w]){re.escape(str(argument))}(?!\w)")
        content = name.sub(f"<{number}>", content)
        headers = name.sub(f"<{number}>", headers)
    content = re.sub('((?:csrfmiddlewaretoken|key)" value=)"[^"]+"', r"\1", content)
    return response.status_code, headers, content


def requests_of(method: str, body: Any) -> Iterator[dict[str, Any]]:
    """Yield the headers and bodies to send with a method to a URL."""
    yield {}
    if method == "POST":
        for data, kind in WRONG:
            yield {"data": data, "content_type": kind}
    if method in ("GET", "POST"):
        for conditions in CONDITIONS:
            yield conditions if body is None else {"body": body, **conditions}


@pytest.mark.promise("P18")
@pytest.mark.parametrize("who", list(WHO))
def test_api_response_for_hidden_object_equals_response_for_missing_object(
    who: str, world: World
) -> None:
    person, things = PEOPLE[who], world.areas[WHO[who]]
    client, faults, before = world.client(person), [], everything_of_ours()
    every = {**API, **AGENT}
    for name in {name: None for name, _ in every}:
        rows = {method: every[name, method] for method in METHODS if (name, method) in every}
        if not any(hidden(person, row, things.area) for row in rows.values()):
            continue
        for method in METHODS:
            row = rows.get(method, next(iter(rows.values())))
            here, body = row.at(things, world.hooks), row.body(things)
            nothing = tuple(map(absent, here))
            for more in [{"body": body}, *requests_of(method, body)]:
                there, gone = (
                    read_comparable(ask(client, method, path_of(name, arguments), more), arguments)
                    for arguments in (here, nothing)
                )
                if there != gone:
                    faults.append(f"{method} {name} {repr(more)[:100]}")
    assert not faults, "\n".join(faults)
    assert everything_of_ours() == before


def ask(client: Client, method: str, path: str, more: dict[str, Any]) -> Any:
    if more.get("body") is None:
        return client.generic(method, path, **{k: v for k, v in more.items() if k != "body"})
    conditions = dict(more)
    body = json.dumps(conditions.pop("body"))
    return client.generic(method, path, body, "application/json", **conditions)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("who", list(WHO))
def test_admin_response_for_hidden_object_equals_response_for_missing_object(
    who: str, world: World
) -> None:
    person, things = PEOPLE[who], world.areas[WHO[who]]
    client, faults, before = world.client(person), [], everything_of_ours()
    for name, page in ADMIN.items():
        if not hidden(person, page, things.area) or page.lists is not None:
            continue
        for method, data, query in variants(name, page, world, things):
            here, asked = page.at(things, world.hooks), str(things.free.pk)
            nothing, other = tuple(map(absent, here)), nowhere()
            there, gone = (
                read_comparable(
                    getattr(client, method)(path_of(name, arguments) + more, data), named
                )
                for arguments, more, named in (
                    (here, query or page.query(things), (*here, asked)),
                    (nothing, query or page.query(things).replace(asked, other), (*nothing, other)),
                )
            )
            if there != gone:
                faults.append(f"{method} {name} {query}")
    assert not faults, "\n".join(faults)
    assert everything_of_ours() == before


def variants(name: str, page: Page, world: World, things: Things) -> Iterator[Any]:
    form = form_of(page, name, things, row_of(name, page, world, things))
    for method in ("get", "head", "put", "delete", "options", "trace"):
        yield method, None, ""
    yield "post", form, ""
    yield "post", {}, ""
    for query in ("?_popup=1", "?_to_field=id", "?_changelist_filters=q%3Dx", "?steps_before=1"):
        if not page.query(things):
            yield "get", None, query


@pytest.mark.promise("P18")
def test_hidden_object_in_url_of_a_visible_object_returns_response_of_a_missing_object(
    world: World,
) -> None:
    opened, vault = world.areas["open"], world.areas["vault"]
    client = world.client(PEOPLE["minter"])
    path = path_of("hitl_django:link-detail", (opened.interrupt.pk, vault.link.pk))
    other = path_of("hitl_django:link-detail", (opened.interrupt.pk, nowhere()))
    assert read_comparable(client.delete(path), ()) == read_comparable(client.delete(other), ())
    for page in ("graph", "graph-diagram"):
        shut = world.areas["shut"].thread.thread_id
        client = world.client(PEOPLE["blindfolded"])
        path = path_of(f"hitl_django:{page}", ("ledger",))
        answers = [client.get(path, {"thread": name}) for name in (shut, absent(shut))]
        assert read_comparable(answers[0], (shut,)) == read_comparable(answers[1], (absent(shut),))


@pytest.mark.promise("P18")
def test_bulk_decision_result_for_hidden_interrupt_equals_result_for_missing_interrupt(
    world: World,
) -> None:
    client = world.client(PEOPLE["minter"])
    path, vault = path_of("hitl_django:decisions-bulk", ()), world.areas["vault"]
    seen = str(world.areas["open"].free.pk)
    results = []
    for hidden_one in (vault.free.pk, vault.decided.pk, nowhere()):
        decisions = [{"interrupt": str(one), "type": "approve"} for one in (hidden_one, seen)]
        response = send(client, "POST", path, {"decisions": decisions})
        first = response.json()["results"][0]
        assert first.pop("interrupt") == str(hidden_one)
        results.append(first)
    assert results[0]["status"] == ABSENT
    assert results == [results[0]] * 3


def test_bulk_page_for_hidden_request_equals_page_for_missing_request(world: World) -> None:
    client, vault = world.client(PEOPLE["minter"]), world.areas["vault"]
    path = path_of("admin:hitl_django_reviewitem_bulk", ())
    pages = []
    for pk in (vault.free.pk, nowhere()):
        for confirmed in ("", "1"):
            form = {"item": f"{pk}.1.{vault.free.payload_digest}", "decision": "approve"}
            form |= {"confirmed": confirmed} if confirmed else {}
            pages.append(read_comparable(client.post(path, form), (pk,)))
    assert pages[:2] == pages[2:]


def test_admin_action_on_hidden_row_equals_action_on_missing_row(world: World) -> None:
    world_before = everything_of_ours()
    client, vault = world.client(PEOPLE["minter"]), world.areas["vault"]
    path = path_of("admin:hitl_links_reviewlink_changelist", ())
    form = {"action": "revoke", "index": "0", "select_across": "0"}
    answers = [
        read_comparable(client.post(path, {**form, "_selected_action": str(pk)}), (pk,))
        for pk in (vault.link.pk, nowhere())
    ]
    assert answers[0] == answers[1]
    assert everything_of_ours() == world_before


@pytest.mark.promise("P18")
def test_assignment_without_assign_permission_returns_equal_response_for_known_and_unknown_username(
    world: World,
) -> None:
    client, item = world.client(PEOPLE["reviewer"]), world.areas["open"].free
    page = path_of("admin:hitl_django_reviewitem_handling", (item.pk,))
    api = path_of("hitl_django:assign", (item.pk,))
    answers = []
    for name in ("superuser", "nobodyever"):
        world.client(PEOPLE["superuser"])
        posted = client.post(page, {"verb": "assign", "user": name})
        asked = send(client, "POST", api, {"to": name})
        answers.append((read_comparable(posted, (name,)), read_comparable(asked, (name,))))
    assert answers[0] == answers[1]


@pytest.mark.promise("P18")
def test_start_response_does_not_reveal_a_hidden_thread_or_run_key(world: World) -> None:
    client, shut = world.client(PEOPLE["only start_run"]), world.areas["shut"]
    before = everything_of_ours()
    path = path_of("hitl_django:runs", ())
    body = {"graph": "ledger", "input": {"area": "shut", "secret": "a guess"}}
    key = shut.run.key
    given = {"area": "shut", "secret": "zqshutstateqz", "padding": "x" * 50}
    right = {**body, "input": given}
    answers = [
        read_comparable(send(client, "POST", path, {**wanted, "key": key}), ())
        for wanted in (body, right)
    ]
    assert answers[0] == answers[1]
    assert everything_of_ours() == before


@pytest.mark.promise("P18")
def test_pending_interrupts_error_lists_only_interrupts_visible_to_the_user(world: World) -> None:
    vault = world.areas["vault"]
    thread = vault.thread.thread_id
    body = {"graph": "vault", "input": {"area": "vault"}, "thread_id": thread}
    path = path_of("hitl_django:runs", ())
    answers = {
        who: send(world.client(PEOPLE[who]), "POST", path, body) for who in ("minter", "superuser")
    }
    assert {one.status_code for one in answers.values()} == {409}
    assert str(vault.interrupt.pk) in answers["superuser"].content.decode()
    assert str(vault.interrupt.pk) not in answers["minter"].content.decode()
