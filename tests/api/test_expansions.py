"""Related objects in ``expand``, with one query per name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django.models import Interrupt, Run, Thread

from .conftest import API

Make = Callable[..., Any]


def test_interrupt_list_with_expand_contains_runs_and_threads_of_its_rows(
    api: Any, make_run: Make, make_interrupt: Make
) -> None:
    run = make_run(state=Run.State.INTERRUPTED)
    for _ in range(2):
        make_interrupt(run)
    other = make_interrupt()

    page = api.get("interrupts", query="expand=thread,run").json()

    runs = api.get("runs").json()["results"]
    threads = api.get("threads").json()["results"]
    assert page["expanded"] == {
        "run": {row["id"]: row for row in runs},
        "thread": {row["thread_id"]: row for row in threads},
    }
    assert len(page["results"]) == 3
    for row in page["results"]:
        assert page["expanded"]["run"][row["run"]]["thread_id"] == row["thread_id"]
    assert page["expanded"]["thread"][other.thread.thread_id]["run"] == str(other.run_id)


def test_run_list_with_expand_contains_pending_interrupts_and_threads_of_its_rows(
    api: Any, make_run: Make, make_interrupt: Make
) -> None:
    asking, silent = make_run(state=Run.State.INTERRUPTED), make_run()
    first, second = make_interrupt(asking), make_interrupt(asking)
    make_interrupt(asking, status=Interrupt.Status.DECIDED)

    page = api.get("runs", query="expand=interrupts,thread").json()

    asked = {row["id"]: row for row in api.get("interrupts").json()["results"]}
    assert page["expanded"]["interrupts"] == {
        str(asking.pk): [asked[str(first.pk)], asked[str(second.pk)]]
    }
    assert {*page["expanded"]["thread"]} == {asking.thread.thread_id, silent.thread.thread_id}


def test_expansion_omits_runs_threads_and_interrupts_hidden_from_the_user(
    make_user: Make, make_interrupt: Make, make_run: Make
) -> None:
    run = make_run(state=Run.State.INTERRUPTED)
    make_interrupt(run)
    reader = API(make_user("view_interrupt"))
    page = reader.get("interrupts", query="expand=run,thread").json()
    assert len(page["results"]) == 1
    assert page["expanded"] == {"run": {}, "thread": {}}

    page = API(make_user("view_run")).get("runs", query="expand=interrupts,thread").json()
    assert page["expanded"] == {"interrupts": {}, "thread": {}}


def test_interrupt_list_without_expand_has_no_expanded_member(
    api: Any, make_interrupt: Make
) -> None:
    make_interrupt()
    assert {*api.get("interrupts").json()} == {"next", "previous", "results"}


def test_empty_interrupt_list_with_expand_contains_an_empty_expansion(api: Any) -> None:
    assert api.get("interrupts", query="expand=run").json()["expanded"] == {"run": {}}


@pytest.mark.parametrize(
    ("name", "query", "known"),
    [
        ("interrupts", "decision", "run, thread"),
        ("interrupts", "run,", "run, thread"),
        ("interrupts", "run, thread", "run, thread"),
        ("runs", "run", "interrupts, thread"),
    ],
)
def test_list_with_unknown_expansion_returns_400_naming_allowed_expansions(
    api: Any, name: str, query: str, known: str
) -> None:
    response = api.get(name, query=f"expand={query}")
    assert response.status_code == 400
    (fault,) = response.json()["errors"]
    assert fault["parameter"] == "expand"
    assert fault["detail"].endswith(f"Allowed: {known}.")


@pytest.mark.parametrize("name", ["threads", "interrupt-stream"])
def test_endpoint_without_expansions_rejects_expand_with_400(api: Any, name: str) -> None:
    response = api.get(name, query="expand=run")
    assert response.status_code == 400
    assert response.json()["errors"][0]["code"] == "unknown_parameter"


def test_each_expansion_adds_one_query_for_any_number_of_rows(
    api: Any, make_interrupt: Make
) -> None:
    def count(name: str, query: str) -> int:
        with CaptureQueriesContext(connection) as asked:
            assert api.get(name, query=query).status_code == 200
        return len(asked)

    for name, names in (("interrupts", "run,thread"), ("runs", "interrupts,thread")):
        make_interrupt()
        count(name, f"expand={names}")
        plain = count(name, "page_size=50")
        few = count(name, f"page_size=50&expand={names}")
        for _ in range(10):
            make_interrupt()
        assert count(name, f"page_size=50&expand={names}") == few
        assert few == plain + 2


def test_interrupt_list_with_wait_and_expand_contains_the_expansion(
    api: Any, make_interrupt: Make
) -> None:
    interrupt = make_interrupt()
    page = api.get("interrupts", query="wait=1&expand=run").json()
    assert [*page["expanded"]["run"]] == [str(interrupt.run_id)]
    assert Thread.objects.count() == 1
