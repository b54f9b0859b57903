"""Leaks of hidden objects by lists, counts, searches, orders and errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse

from .conftest import World
from .crawl import admin_lists, api_lists, asked_for, pages_of, plain, wide_lists
from .people import AREAS, PEOPLE, SHUT, Person
from .world import canary, hook

#: Requests of every user to every URL take a long time.
pytestmark = pytest.mark.long

CANARY = re.compile("zq(open|vault|shut|hook)([a-z]+?)qz")

#: The kind of object that a text belongs to. Users who see the object may read the text.
INTERRUPT = {"title", "payload", "why", "value", "reason", "remark", "decider", "undoer",
            "commenter", "assignee", "assigner", "holder", "group"}  # fmt: skip
STARTED = ("interrupt", "free", "decided", "undoable", "erased", "failed")
THREAD = {f"thread{what}" for what in STARTED}
RUN = {*(f"key{what}" for what in STARTED), "starter"}

#: Users from whom some objects are hidden.
WATCHED = (
    "only start_run",
    "only view_interrupt",
    "only view_run",
    "only view_thread",
    "only manage_webhooks",
    "keeper",
    "engineer",
    "minter",
    "blindfolded",
    "superuser",
)


def may_read(person: Person, area: str, kind: str) -> bool:
    """Return whether a user may read a text of this kind from this area."""
    if area == "schedule":
        return person.sees("schedule")
    if kind in ("url", "description", "fault"):
        return person.sees("webhook")
    asked, run = person.sees("interrupt", area), person.sees("run", area)
    thread = person.sees("thread", area)
    state = thread and person.may("view_thread_state")
    if kind == "value":  # the node has copied the text into the state
        return asked or state
    if kind == "group":  # users who assign interrupts see all groups
        return asked or person.may("assign_interrupt")
    if kind in INTERRUPT:
        return asked
    if kind in THREAD:
        return asked or run or thread
    if kind in RUN:
        return run or asked or thread
    if kind == "error":
        return run and person.may("operate_run")
    if kind == "state":
        return state
    if kind == "metadata":
        return thread or run
    if kind in ("guest", "email"):
        return person.sees("link", area)
    assert kind == "decisionkey"
    return False


@pytest.mark.promise("P18")
def test_responses_to_every_user_contain_no_values_hidden_from_the_user(
    world: World, people: list[Person]
) -> None:
    faults: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    secrets = {
        secret
        for things in (*world.areas.values(), world.hooks)
        for secret in things.secrets  # type: ignore[union-attr]
    }
    paths = [*dict.fromkeys(wide_lists())]
    for things in world.areas.values():
        paths += pages_of(things, world)
    for person in people:
        if person.name not in WATCHED:
            continue
        who, client = person.name, world.client(person)
        for path in dict.fromkeys(paths):
            text = plain(client.get(path), path)
            for area, kind in set(CANARY.findall(text)):
                if not may_read(person, area, kind):
                    faults.setdefault(f"{who}: {area} {kind}", path)
                seen.add((area, kind))
            for secret in secrets:
                if secret in text:
                    faults.setdefault(f"{who}: a secret", path)
    assert not faults, "\n".join(f"{what}, at {path}" for what, path in faults.items())
    # A canary that no user sees would test nothing.
    expected = {(area, kind) for area in AREAS for kind in INTERRUPT | THREAD | RUN | {"error"}}
    assert not {one for one in expected if one not in seen and one[1] != "assigner"}


@pytest.mark.promise("P18")
def test_rows_hidden_from_a_user_change_no_list_count_search_or_order(empty_world: World) -> None:
    world = empty_world
    world.fill("open")
    world.hooks = hook()
    asked = asked_for(world.areas["open"]) | {
        "graph": "vault",
        "group": canary("vault", "group"),
        "search": canary("vault", "title"),
        "key": canary("vault", "keyinterrupt"),
        "thread": SHUT + canary("shut", "threadinterrupt"),
    }
    paths = [
        path
        for wanted in (asked_for(world.areas["open"]), asked)
        for path in (*api_lists(wanted), *admin_lists(wanted))
    ]
    paths = [*dict.fromkeys(paths)]
    # Users who don't see the new objects. Of restricted graphs, only interrupts are hidden.
    who = {
        "nobody": "vault",
        "lead of interrupts": "vault",
        "blindfolded": "shut",
    }
    people = {**PEOPLE, "lead of interrupts": INTERRUPTS_ONLY}
    clients = {name: world.client(people[name]) for name in who}

    def look(area: str) -> dict[tuple[str, str], Any]:
        return {
            (name, path): plain(clients[name].get(path), path)
            for name in who
            if who[name] == area
            for path in paths
        }

    before = look("vault")
    world.fill("vault")
    differing = [key for key, text in look("vault").items() if text != before[key]]
    before = look("shut")
    world.fill("shut")
    differing += [key for key, text in look("shut").items() if text != before[key]]
    # Users who see a webhook see its deliveries, which contain ids but no texts.
    sent = reverse("admin:hitl_webhooks_delivery_changelist")
    differing = [(who, path) for who, path in differing if not path.startswith(sent)]
    assert not differing, "\n".join(map(str, differing))


INTERRUPTS_ONLY = Person(
    "lead of interrupts",
    frozenset({"view_interrupt", "decide_interrupt", "assign_interrupt", "take_over_interrupt",
               "add_comment", "link_interrupt"}),
)  # fmt: skip
