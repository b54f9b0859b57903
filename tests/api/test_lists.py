"""Lists over HTTP: visible rows, filters and order."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import get_user_model

from hitl_django.models import Interrupt, Run


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["id"] for row in response.json()["results"]]


def test_run_list_is_ordered_newest_first_unless_ordering_is_given(api: Any, make_run: Any) -> None:
    runs = [str(make_run().pk) for _ in range(3)]
    newest_first = ids(api.get("runs"))
    assert set(newest_first) == set(runs)
    assert ids(api.get("runs", query="ordering=created_at")) == newest_first[::-1]
    assert ids(api.get("runs", query="ordering=-created_at")) == newest_first


def test_run_list_row_contains_state_thread_key_starter_and_times(api: Any, make_run: Any) -> None:
    run = make_run(key="order-7", started_by_label="Dana", graph_version="3")
    (row,) = api.get("runs").json()["results"]
    assert row.pop("created_at").startswith("20")
    assert row.pop("queued_at").startswith("20")
    assert row == {
        "id": str(run.pk),
        "url": f"http://testserver/hitl/api/v1/runs/{run.pk}/",
        "graph": "invoice",
        "graph_version": "3",
        "thread_id": run.thread.thread_id,
        "key": "order-7",
        "metadata": {},
        "state": "queued",
        "step": -1,
        "started_by": "Dana",
        "finished_at": None,
        "resumes_at": None,
    }


def test_run_list_is_filtered_by_state_and_graph(api: Any, make_run: Any) -> None:
    failed = make_run(state=Run.State.FAILED)
    other = make_run(graph="letter")
    assert ids(api.get("runs", query="state=failed")) == [str(failed.pk)]
    assert ids(api.get("runs", query="graph=letter")) == [str(other.pk)]
    assert ids(api.get("runs", query="graph=letter&state=failed")) == []


def test_interrupt_list_contains_only_pending_interrupts_oldest_first_by_default(
    api: Any, make_interrupt: Any
) -> None:
    waiting = {str(make_interrupt().pk) for _ in range(3)}
    decided = make_interrupt(status=Interrupt.Status.DECIDED)
    listed = ids(api.get("interrupts"))
    assert set(listed) == waiting
    assert ids(api.get("interrupts", query="ordering=-created_at")) == listed[::-1]
    assert ids(api.get("interrupts", query="status=decided")) == [str(decided.pk)]
    assert set(ids(api.get("interrupts", query="status=any"))) == {*waiting, str(decided.pk)}


def test_interrupt_list_row_contains_no_payload(api: Any, make_interrupt: Any) -> None:
    interrupt = make_interrupt()
    (row,) = api.get("interrupts").json()["results"]
    assert row.pop("created_at").startswith("20")
    assert row == {
        "id": str(interrupt.pk),
        "url": f"http://testserver/hitl/api/v1/interrupts/{interrupt.pk}/",
        "review_url": "",
        "title": "Pay the invoice?",
        "status": "pending",
        "kind": "interrupt",
        "graph": "invoice",
        "node": "ask",
        "run": str(interrupt.run_id),
        "thread_id": interrupt.thread.thread_id,
        "version": 1,
        "dialect": "raw",
        "allowed_decisions": [],
        "assignee": "",
        "group": "",
        "claimed_by": "",
        "claimed_until": None,
        "snoozed_until": None,
        "priority": 0,
        "overdue": False,
        "due_at": None,
        "closed_at": None,
        "changed_at": None,
        "expires_at": None,
    }


def find_page(user: Any, interrupt: Interrupt) -> str:
    return f"/{user.username}/requests/{interrupt.pk}/"


def test_interrupt_review_url_is_the_result_of_the_request_url_function(
    api: Any, make_interrupt: Any, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "REQUEST_URL": f"{__name__}.find_page"}
    interrupt = make_interrupt()
    (row,) = api.get("interrupts").json()["results"]
    page = f"http://testserver/{get_user_model().objects.get().username}/requests/{interrupt.pk}/"
    assert row["review_url"] == page
    assert api.get("interrupt", interrupt.pk).json()["review_url"] == page


def test_interrupt_list_is_filtered_by_graph_node_run_title_and_status(
    api: Any, make_run: Any, make_interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_interrupt(make_run(graph="letter"), node="send", title="Send to Ødegård? 100%")
    make_interrupt()
    for query in (
        "graph=letter",
        "node=send",
        f"run={one.run_id}",
        "search=send+to",
        "search=100%25",
        "search=degår",
        "graph=letter&node=send&search=send",
    ):
        assert ids(api.get("interrupts", query=query)) == [str(one.pk)], query
        with monkeypatch.context() as patched:
            # As for lists with many matches.
            patched.setattr("hitl_django.api.filters.INDEXED_MATCHES", 1)
            assert ids(api.get("interrupts", query=query)) == [str(one.pk)], query
    assert ids(api.get("interrupts", query="search=senders")) == []
    Interrupt.objects.filter(pk=one.pk).update(status="decided")
    assert ids(api.get("interrupts", query="search=send&status=any")) == [str(one.pk)]
    assert ids(api.get("interrupts", query="search=send")) == []
    assert ids(api.get("interrupts", query="graph=letter&node=ask&status=any")) == []


@pytest.mark.parametrize("name", ["runs", "interrupts"])
@pytest.mark.parametrize(
    ("query", "code", "parameter"),
    [
        ("_connector=OR", "unknown_parameter", "_connector"),
        ("state__regex=.", "unknown_parameter", "state__regex"),
        ("thread__lease_owner__startswith=a", "unknown_parameter", None),
        ("format=json", "unknown_parameter", "format"),
        ("access_token=x", "unknown_parameter", "access_token"),
        ("graph=a&graph=b", "repeated", "graph"),
        ("graph=%00", "null_characters_not_allowed", "graph"),
        ("graph=" + "x" * 201, "max_length", "graph"),
        ("ordering=-thread__epoch", "invalid_choice", "ordering"),
        ("ordering=created_at,created_at__year", "invalid_choice", "ordering"),
        ("ordering=created_at,-created_at", "invalid_choice", "ordering"),
        ("ordering=" + "created_at," * 1000, "invalid_choice", "ordering"),
        ("page=1", "unknown_parameter", "page"),
        ("page_size=0", "invalid", "page_size"),
        ("page_size=-1", "invalid", "page_size"),
        ("page_size=201", "invalid", "page_size"),
        ("page_size=٣", "invalid", "page_size"),
        ("page_size=" + "9" * 5000, "invalid", "page_size"),
        ("cursor=nonsense", "invalid", "cursor"),
        ("cursor=%00", "invalid", "cursor"),
        ("cursor=", "invalid", "cursor"),
        ("cursor=" + "A" * 10_000, "invalid", "cursor"),
        ("cursor=bnVsbA", "invalid", "cursor"),
        ("cursor=WyIxIiwgdHJ1ZV0", "invalid", "cursor"),
    ],
)
def test_list_with_unknown_or_invalid_parameter_returns_400_naming_the_parameter(
    api: Any, name: str, query: str, code: str, parameter: str | None
) -> None:
    response = api.get(name, query=query)
    assert response.status_code == 400, response.content
    assert response.json()["code"] == "invalid_request"
    fault = response.json()["errors"][0]
    assert fault["code"] == code
    assert parameter in (None, fault["parameter"])


@pytest.mark.parametrize(
    ("name", "query", "parameter"),
    [
        ("runs", "state=open", "state"),
        ("interrupts", "status=open", "status"),
        ("interrupts", "run=1", "run"),
        ("interrupts", "search=%00", "search"),
        ("interrupts", "search=" + "%25" * 201, "search"),
    ],
)
def test_list_with_unknown_choice_returns_400_naming_the_parameter(
    api: Any, name: str, query: str, parameter: str
) -> None:
    response = api.get(name, query=query)
    assert response.status_code == 400, response.content
    assert response.json()["errors"][0]["parameter"] == parameter


def walk(api: Any, link: str, key: str = "next") -> list[str]:
    found: list[str] = []
    while link:
        address = urlsplit(link)
        page = api.client.get(f"{address.path}?{address.query}").json()
        rows = [row["id"] for row in page["results"]]
        found = [*found, *rows] if key == "next" else [*rows, *found]
        link = page[key]
    return found


@pytest.mark.parametrize("ordering", ["created_at", "-created_at"])
@pytest.mark.parametrize("name", ["runs", "interrupts"])
def test_list_pages_contain_each_row_once_in_both_directions_and_orders(
    api: Any, make_interrupt: Any, name: str, ordering: str
) -> None:
    interrupts = [make_interrupt() for _ in range(11)]
    # Some rows have equal times, so only the id determines their order.
    first = interrupts[0].created_at
    Interrupt.objects.filter(pk__in=[q.pk for q in interrupts[:5]]).update(created_at=first)
    Run.objects.filter(pk__in=[q.run_id for q in interrupts[:5]]).update(created_at=first)
    whole = ids(api.get(name, query=f"ordering={ordering}&page_size=200"))
    assert len(whole) == 11

    start = f"/hitl/api/v1/{name}/?ordering={ordering}&page_size=3"
    assert walk(api, start) == whole
    page = api.client.get(start).json()
    assert page["previous"] is None
    while page["next"]:
        page = api.client.get(page["next"]).json()
    assert page["next"] is None
    last = [row["id"] for row in page["results"]]
    assert [*walk(api, page["previous"], "previous"), *last] == whole


def test_interrupt_list_continues_after_rows_of_the_first_page_were_decided(
    api: Any, make_interrupt: Any
) -> None:
    for _ in range(4):
        make_interrupt()
    whole = ids(api.get("interrupts"))
    page = api.get("interrupts", query="page_size=2").json()
    Interrupt.objects.filter(pk__in=whole[:2]).update(status=Interrupt.Status.DECIDED)
    assert walk(api, page["next"]) == whole[2:]


def test_list_cursor_of_deleted_or_hidden_row_returns_400_with_code_gone(
    api: Any, as_role: Any, make_interrupt: Any
) -> None:
    for _ in range(3):
        make_interrupt()
    page = api.get("interrupts", query="page_size=1").json()
    Interrupt.objects.get(pk=page["results"][0]["id"]).delete()
    for client in (api, as_role("nobody")):
        response = client.client.get(page["next"])
        assert response.status_code == 400
        assert response.json()["errors"][0]["code"] == "gone"


def test_run_and_interrupt_lists_take_at_most_three_queries_without_payloads(
    api: Any, make_interrupt: Any, django_assert_max_num_queries: Any
) -> None:
    for _ in range(10):
        make_interrupt()
    for name in ("runs", "interrupts"):
        with django_assert_max_num_queries(3) as queries:
            assert len(ids(api.get(name))) == 10
        assert not any('"payload"' in query["sql"] for query in queries.captured_queries)


def test_list_with_2000_parameters_returns_400(api: Any) -> None:
    response = api.get("runs", query="&".join(f"p{n}" for n in range(2000)))
    assert (response.status_code, response.json()["code"]) == (400, "bad_request")
