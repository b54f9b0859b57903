"""Visible parts of a run for the user who started it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hitl_django import services, testing
from hitl_django.models import Interrupt, Run

from .conftest import World
from .people import AREAS, PEOPLE, SHUT, Person
from .table import ABSENT, API, FORBIDDEN, OK, path_of
from .world import GRAPHS, canary

pytestmark = [pytest.mark.long, pytest.mark.promise("P18")]


def sees_own(person: Person, area: str) -> bool:
    return not (area == "shut" and person.name.startswith("blindfolded"))


def sees_result(person: Person, area: str) -> bool:
    return person.sees("run", area) or person.may("start_run") or person.may("view_thread_state")


def own_run(area: str, by: Any, *, through: bool) -> Run:
    """Start a run of a user, and execute it until its interrupt or its end."""
    with testing.inline() as advance:
        made = services.start(
            GRAPHS[area],
            {"area": area, "secret": canary(area, "state")},
            thread_id=f"{SHUT if area == 'shut' else ''}own-{area}-{by.pk}-{through}",
            by=by,
            skip_permission_checks=True,
        )
        advance()
        if through:
            services.decide(Interrupt.objects.get(run_id=made.id).pk, "approve")
            advance()
    return Run.objects.select_related("thread").get(pk=made.id)


def expectations(person: Person, area: str, run: Run) -> Iterator[tuple[str, str, Any, int]]:
    """Yield URLs with the kind of their content and the expected response."""
    seen = OK if sees_own(person, area) else ABSENT
    refused = seen if seen == ABSENT or person.may("operate_run") else FORBIDDEN
    thread = OK if person.sees("thread", area) else ABSENT
    yield "run", "GET", run.pk, seen
    yield "run-events", "GET", run.pk, seen
    yield "run-cancel", "POST", run.pk, refused
    yield "thread", "GET", run.thread.thread_id, thread
    state = thread if thread == ABSENT or person.may("view_thread_state") else FORBIDDEN
    yield "thread-state", "GET", run.thread.thread_id, state


@pytest.mark.parametrize("area", AREAS)
def test_run_is_visible_to_its_starter_without_interrupts_hidden_from_the_starter(
    area: str, empty_world: World, people: list[Person]
) -> None:
    faults = []
    for person in people:
        if not person.is_known:
            continue
        client, user = empty_world.client(person), empty_world.crowd.user(person)
        run = own_run(area, user, through=False)
        for name, method, key, expected in expectations(person, area, run):
            assert ("hitl_django:" + name, method) in API
            path = path_of(f"hitl_django:{name}", (key,))
            answer: Any = client.generic(method, path)
            if answer.status_code != (expected if person.gets_in else FORBIDDEN):
                faults.append(f"{person.name}: {method} {name}: {answer.status_code}")
            shown = answer.content.decode() if name == "run" and answer.status_code == OK else ""
            asks = canary(area, "title") in shown
            if shown and asks != person.sees("interrupt", area):
                faults.append(f"{person.name}: its questions: {asks}")
            if shown and ("error" in answer.json()) != person.may("operate_run"):
                faults.append(f"{person.name}: its error")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("area", AREAS)
def test_run_result_is_visible_to_the_user_who_started_the_run(
    area: str, empty_world: World, people: list[Person]
) -> None:
    faults = []
    for person in people:
        if not person.gets_in:
            continue
        client, user = empty_world.client(person), empty_world.crowd.user(person)
        run = own_run(area, user, through=True)
        found: Any = client.get(path_of("hitl_django:run", (run.pk,)))
        listed: Any = client.get(
            path_of("hitl_django:runs", ()) + f"?thread={run.thread.thread_id}"
        )
        sees = sees_own(person, area)
        if [str(run.pk)] * sees != [each["id"] for each in listed.json()["results"]]:
            faults.append(f"{person.name}: the list")
        if sees:
            shown = (found.json().get("result") or {}).get("secret") == canary(area, "state")
            if shown != sees_result(person, area):
                faults.append(f"{person.name}: the result: {shown}")
        if person.gets_into_the_admin:
            page: Any = client.get(path_of("admin:hitl_django_run_change", (run.pk,)))
            if page.status_code not in ({OK} if sees else {ABSENT, FORBIDDEN}):
                faults.append(f"{person.name}: the page: {page.status_code}")
    assert not faults, "\n".join(faults)


def test_run_starter_without_permissions_sees_no_other_run_of_the_thread(
    empty_world: World,
) -> None:
    starter = empty_world.crowd.user(PEOPLE["only start_run"])
    client = empty_world.client(PEOPLE["only start_run"])
    run = own_run("open", starter, through=True)
    with testing.inline() as advance:
        other = services.start(
            "ledger", {"area": "open", "secret": "of others"}, thread_id=run.thread.thread_id
        )
        advance()
        services.decide(Interrupt.objects.get(run_id=other.id).pk, "approve")
        advance()
        mine = services.start(
            "ledger", {"area": "open"}, thread_id=run.thread.thread_id, by=starter,
            skip_permission_checks=True,
        )  # fmt: skip
        advance()
        services.decide(Interrupt.objects.get(run_id=mine.id).pk, "approve")
        advance()
    found: Any = client.get(path_of("hitl_django:run", (mine.id,)))
    assert found.json()["state"] == "succeeded"
    assert "result" not in found.json()
    assert client.get(path_of("hitl_django:run", (other.id,))).status_code == ABSENT
    page: Any = client.get(path_of("admin:hitl_django_run_change", (mine.id,)))
    assert page.status_code == OK
    assert str(other.id) not in page.content.decode()
