"""Threads over HTTP: search, detail, history and erasure."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError

from hitl_django import services
from hitl_django.api.paging import Cursor
from hitl_django.api.serializers.fields import parse_time
from hitl_django.models import AuditEntry, Checkpoint, Interrupt, Run, Thread
from hitl_django.worker import runner

pytestmark = pytest.mark.django_db


@pytest.fixture
def finished(asked: Any) -> Thread:
    interrupt = asked()
    services.decide(interrupt.pk, "approve", {"amount": 7})
    runner.advance(str(interrupt.run_id))
    thread: Thread = interrupt.thread
    return thread


def test_thread_list_row_contains_last_run_and_state_without_metadata(
    api: Any, make_run: Any, django_assert_max_num_queries: Any
) -> None:
    make_run()
    run = make_run(state=Run.State.FAILED)
    Thread.objects.filter(pk=run.thread_id).update(metadata={"from": "mail"})
    newer = Run.objects.create(thread=run.thread, graph="invoice", state=Run.State.RUNNING)
    with django_assert_max_num_queries(3) as queries:
        listed = api.get("threads").json()["results"]
    assert not any('"metadata"' in query["sql"] for query in queries.captured_queries)
    assert len(listed) == 2
    row = listed[0]
    assert row.pop("created_at").startswith("20")
    assert row == {
        "thread_id": run.thread.thread_id,
        "url": f"http://testserver/hitl/api/v1/threads/{run.thread.thread_id}/",
        "graph": "invoice",
        "subject": None,
        "run": str(newer.pk),
        "state": "running",
    }
    assert api.get("thread", run.thread.thread_id).json()["metadata"] == {"from": "mail"}


def test_thread_list_is_paginated_in_both_orders(api: Any, make_run: Any) -> None:
    made = [make_run().thread.thread_id for _ in range(5)]
    newest_first = [row["thread_id"] for row in api.get("threads").json()["results"]]
    assert newest_first == made[::-1]
    page = api.get("threads", query="ordering=created_at&page_size=2").json()
    found = page["results"]
    while page["next"]:
        page = api.client.get(page["next"]).json()
        found += page["results"]
    assert [row["thread_id"] for row in found] == made
    assert api.client.get(page["previous"]).json()["results"] == found[2:4]


@pytest.mark.parametrize("row", ["x", "-1", "9" * 30, "1.5", ""])
def test_thread_list_with_invalid_cursor_returns_400(api: Any, make_run: Any, row: str) -> None:
    make_run()
    response = api.get("threads", query=f"cursor={Cursor(row, True).encode()}")
    assert response.status_code == 400
    assert response.json()["errors"][0]["parameter"] == "cursor"


def test_thread_list_with_cursor_of_non_ascii_digits_returns_400(api: Any, make_run: Any) -> None:
    key = str(make_run().thread.pk).translate(
        {ord("0") + digit: 0x660 + digit for digit in range(10)}
    )
    response = api.get("threads", query=f"cursor={Cursor(key, True).encode()}")
    assert response.status_code == 400


def test_thread_detail_without_run_permission_has_null_run_and_state(
    make_user: Any, make_run: Any
) -> None:
    from .conftest import API

    run = make_run(state=Run.State.FAILED)
    shown = API(make_user("view_thread")).get("thread", run.thread.thread_id).json()
    assert (shown["run"], shown["state"]) == (None, None)


def test_thread_run_and_interrupt_lists_are_filtered_by_subject(
    api: Any, make_run: Any, make_interrupt: Any
) -> None:
    user = get_user_model().objects.create_user("subject")
    kind = ContentType.objects.get_for_model(user)
    interrupt = make_interrupt()
    other = make_run()
    Thread.objects.filter(pk=interrupt.thread_id).update(subject_type=kind, subject_id=str(user.pk))
    subject = f"subject={kind.app_label}.{kind.model}:{user.pk}"
    (thread,) = api.get("threads", query=subject).json()["results"]
    assert thread["subject"] == {"type": "auth.user", "id": str(user.pk)}
    (run,) = api.get("runs", query=subject).json()["results"]
    (asked,) = api.get("interrupts", query=subject).json()["results"]
    assert (run["id"], asked["id"]) == (str(interrupt.run_id), str(interrupt.pk))
    for nothing in ("subject=auth.user:0", "subject=no.such:1"):
        assert api.get("threads", query=nothing).json()["results"] == []
    assert len(api.get("runs", query=f"thread={other.thread.thread_id}").json()["results"]) == 1


@pytest.mark.parametrize("name", ["runs", "threads", "interrupts"])
@pytest.mark.parametrize(
    "query",
    [
        "subject=user:1",
        "subject=auth.user",
        "subject=auth.user:%00",
        "subject=auth.User__password:1",
        "created_after=yesterday",
        "created_after=2030-01-01",
        "created_after=2030-01-01T00:00:00",
        "created_before=2030-13-01T00:00:00Z",
    ],
)
def test_list_with_invalid_subject_or_time_returns_400_naming_the_parameter(
    api: Any, name: str, query: str
) -> None:
    response = api.get(name, query=query)
    assert response.status_code == 400, response.content
    assert response.json()["errors"][0]["parameter"] == query.partition("=")[0]


def test_parse_time_raises_a_new_error_for_each_invalid_text() -> None:
    """A shared exception would keep the frames of every request that raised it."""
    errors = []
    for _ in range(2):
        with pytest.raises(ValidationError) as caught:
            parse_time("yesterday")
        errors.append(caught.value)
    assert errors[0] is not errors[1]


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59Z"])
def test_list_with_time_outside_of_supported_years_returns_400_with_range(
    api: Any, time: str
) -> None:
    response = api.get("runs", query=f"created_before={time}")
    assert response.status_code == 400, response.content
    [fault] = response.json()["errors"]
    assert (fault["parameter"], fault["code"]) == ("created_before", "out_of_range")
    assert "years 2 and 9998" in fault["detail"]


@pytest.mark.parametrize("name", ["runs", "threads", "interrupts"])
def test_lists_are_filtered_by_creation_time(api: Any, make_interrupt: Any, name: str) -> None:
    interrupt = make_interrupt()
    for query, count in {
        "created_after=2020-01-01T00:00:00Z": 1,
        "created_after=2020-01-01T00:00:00%2B05:30": 1,
        "created_before=2020-01-01T00:00:00Z": 0,
        "created_after=2020-01-01t00:00:00.5z&created_before=2999-01-01T00:00:00Z": 1,
        "created_after=2999-01-01T00:00:00Z": 0,
    }.items():
        assert len(api.get(name, query=query).json()["results"]) == count, query
    assert interrupt.pk


def test_thread_state_and_history_contain_values_at_each_checkpoint(
    api: Any, finished: Thread, django_assert_max_num_queries: Any
) -> None:
    now = api.get("thread-state", finished.thread_id).json()
    assert now["created_at"].endswith("Z")  # like every displayed time
    assert now["values"] == {"amount": 12, "answer": {"amount": 7, "approved": True}}
    assert now["next"] == []

    with django_assert_max_num_queries(5) as queries:
        history = api.get("thread-history", finished.thread_id).json()["results"]
    assert not any('"data"' in query["sql"] for query in queries.captured_queries)
    assert history[0]["id"] == now["checkpoint"]
    assert [each["step"] for each in history] == sorted(
        (each["step"] for each in history), reverse=True
    )
    assert [each["parent"] for each in history] == [*(each["id"] for each in history[1:]), None]
    asked = history[1]
    then = api.get("thread-state", finished.thread_id, query=f"checkpoint={asked['id']}").json()
    assert (then["next"], then["values"]) == (["ask"], {"amount": 12})

    page = api.get("thread-history", finished.thread_id, query="page_size=1").json()
    assert page["results"] == history[:1]
    assert api.client.get(page["next"]).json()["results"] == history[1:2]


def test_thread_state_returns_404_for_unknown_checkpoint_and_400_for_invalid_parameter(
    api: Any, finished: Thread, asked: Any
) -> None:
    other = Checkpoint.objects.filter(thread=asked().thread).first()
    assert other is not None
    for name in ("nothing", other.checkpoint_id):
        response = api.get("thread-state", finished.thread_id, query=f"checkpoint={name}")
        assert response.status_code == 404
    assert api.get("thread-state", finished.thread_id, query="checkpoint=").status_code == 400
    assert api.get("thread-state", finished.thread_id, query="checkpoint=%00").status_code == 400


def test_thread_state_of_unregistered_graph_returns_404_with_code_unknown_graph(
    api: Any, make_run: Any
) -> None:
    run = make_run(graph="long gone")
    response = api.get("thread-state", run.thread.thread_id)
    assert (response.status_code, response.json()["code"]) == (404, "unknown_graph")
    assert api.get("thread-history", run.thread.thread_id).json()["results"] == []


def test_thread_erase_returns_409_with_active_run_and_erases_ended_thread(
    api: Any, finished: Thread, asked: Any
) -> None:
    copy = services.copy_thread(finished.thread_id).thread_id
    erased = api.call("DELETE", "thread", finished.thread_id)
    assert (erased.status_code, erased.json()) == (200, {"erased": [finished.thread_id, copy]})
    assert api.get("thread-state", finished.thread_id).json()["values"] == {}
    assert api.get("thread", finished.thread_id).json()["state"] == "succeeded"
    assert AuditEntry.objects.filter(thread=finished, verb="erase").exists()

    waiting = asked().thread
    refused = api.call("DELETE", "thread", waiting.thread_id)
    assert (refused.status_code, refused.json()["code"]) == (409, "run_state")
    assert Interrupt.objects.get(thread=waiting).payload


@pytest.mark.parametrize(
    "thread_id",
    [
        "order-7",
        "a/b",
        "a%2Fb",
        "100%",
        "%",
        "..",
        ".",
        "a b?c#d&e=f",
        "Ødegård",
        "日本",
        "~:@!$'()*,;",
    ],
)
def test_thread_url_with_any_special_characters_in_thread_id_returns_the_thread(
    api: Any, invoice: str, thread_id: str
) -> None:
    run = services.start(invoice, {"amount": 1}, thread_id=thread_id)
    (row,) = api.get("threads").json()["results"]
    shown = api.client.get(row["url"])
    assert shown.status_code == 200, row["url"]
    assert shown.json()["thread_id"] == thread_id
    assert api.client.get(f"{row['url']}state/").json()["thread_id"] == thread_id
    assert api.get("run", run.id).json()["thread_id"] == thread_id


@pytest.mark.parametrize("segment", ["%2500", "%25FF", "%00"])
def test_thread_url_with_undecodable_thread_id_returns_404(api: Any, segment: str) -> None:
    assert api.client.get(f"/hitl/api/v1/threads/{segment}/").status_code == 404


def test_thread_metadata_patch_merges_top_level_keys_and_rejects_invalid_bodies_with_400(
    api: Any, invoice: str
) -> None:
    body = {"graph": invoice, "input": {"amount": 12}, "thread_id": "t", "metadata": {"a": 1}}
    api.post("runs", body=body)
    changed = api.patch("thread", "t", body={"metadata": {"b": {"c": None}}})
    assert changed.status_code == 200, changed.content
    assert changed.json()["metadata"] == {"a": 1, "b": {"c": None}}
    assert api.patch("thread", "t", body={"metadata": []}).status_code == 400
    assert api.patch("thread", "t", body={}).status_code == 400
    assert api.get("thread", "t").json() == changed.json()


@pytest.mark.promise("P18")
def test_thread_metadata_patch_without_permission_returns_403_or_404(
    as_role: Any, make_run: Any
) -> None:
    run = make_run()
    body = {"metadata": {"a": 1}}
    assert as_role("viewer").patch("thread", run.thread.thread_id, body=body).status_code == 403
    assert as_role("starter").patch("thread", run.thread.thread_id, body=body).status_code == 404
    run.thread.refresh_from_db()
    assert run.thread.metadata == {}


def test_audit_log_response_entries_verify_against_their_hashes(api: Any, asked: Any) -> None:
    interrupt = asked()
    thread_id = interrupt.thread.thread_id
    api.post("comments", interrupt.pk, body={"text": "Half?"})
    api.post("decisions", interrupt.pk, body={"type": "reject", "reason": "No."})
    page = api.get("thread-audit", thread_id).json()
    assert [each["verb"] for each in page["results"]] == ["start", "comment", "decide"]
    previous = ""
    for number, entry in enumerate(page["results"], 1):
        assert (entry["seq"], entry["prev_hash"]) == (number, previous)
        previous = sha256((previous + entry["hashed"]).encode()).hexdigest()
        assert entry["hash"] == previous
    assert page["next"] is None
    told = entry["names"]["actor"]
    digest = sha256((told["salt"] + told["name"]).encode()).hexdigest()
    assert told["name"] == entry["actor"]
    assert json.loads(entry["hashed"])["actor"] == {"name": digest}
    pseudonym = services.pseudonymize_user(get_user_model().objects.get(username=told["name"]))
    (*_, entry, last) = api.get("thread-audit", thread_id).json()["results"]
    assert entry["names"]["actor"] == {"name": pseudonym.pseudonym}
    assert (entry["actor"], last["verb"]) == (pseudonym.pseudonym, "pseudonymize_user")


def test_audit_log_response_is_paginated_by_limit(api: Any, asked: Any) -> None:
    interrupt = asked()
    for text in ("One.", "Two."):
        api.post("comments", interrupt.pk, body={"text": text})
    first = api.get("thread-audit", interrupt.thread.thread_id, query="limit=2").json()
    assert [each["seq"] for each in first["results"]] == [1, 2]
    rest = api.client.get(first["next"]).json()
    assert [each["seq"] for each in rest["results"]] == [3]
    assert rest["next"] is None
    whole = api.get("thread-audit", interrupt.thread.thread_id, query="limit=3").json()
    assert whole == {"next": None, "previous": None, "results": first["results"] + rest["results"]}
    assert api.get("thread-audit", "nobodys").status_code == 404


@pytest.mark.promise("P18")
def test_audit_log_requires_export_and_insights_permission(as_role: Any, asked: Any) -> None:
    thread_id = asked().thread.thread_id
    assert as_role("keeper").get("thread-audit", thread_id).status_code == 200
    assert as_role("auditor").get("thread-audit", thread_id).status_code == 403
    assert as_role("starter").get("thread-audit", thread_id).status_code == 404


@pytest.mark.promise("P18")
def test_audit_log_of_thread_with_a_hidden_interrupt_returns_403(
    as_role: Any, make_run: Any, make_interrupt: Any, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "POLICY": "tests.contrib.insights.test_reports.OnlyOpen"}
    keeper, run = as_role("keeper"), make_run(graph="open")
    make_interrupt(run)
    assert keeper.get("thread-audit", run.thread.thread_id).status_code == 200
    Interrupt.objects.filter(pk=make_interrupt(run).pk).update(graph="shut")
    assert keeper.get("thread-audit", run.thread.thread_id).status_code == 403


METADATA = {"channel": "mail", "n": 7, "vip": True, "deep": {"a": 1}, "a.b:c": "x", "none": None}


@pytest.mark.parametrize("kind", ["runs", "threads"])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("metadata.channel=mail", True),
        ("metadata.channel=Mail", False),
        ("metadata.n=7", True),
        ("metadata.n=8", False),
        ("metadata.vip=true", True),
        ("metadata.vip=1", False),
        ("metadata.a.b:c=x", True),
        ("metadata.none=null", False),
        ("metadata.channel=mail&metadata.n=7", True),
        ("metadata.channel=mail&metadata.n=8", False),
        ("metadata.other=mail", False),
        ("metadata.deep=1", False),
        ("metadata.deep=%7B%22a%22%3A1%7D", False),
        ("metadata.channel=mail&graph=invoice&page_size=1", True),
    ],
)
def test_run_and_thread_lists_are_filtered_by_metadata(
    api: Any, invoice: str, kind: str, query: str, found: bool
) -> None:
    for metadata in (METADATA, {"channel": "phone"}, None):
        body: dict[str, Any] = {"graph": invoice, "input": {"amount": 12}}
        api.post("runs", body=body | ({"metadata": metadata} if metadata else {}))
    rows = api.get(kind, query=query).json()["results"]
    assert [each["graph"] for each in rows] == ["invoice"] * found
    if kind == "runs":
        assert [each["metadata"] for each in rows] == [METADATA] * found


@pytest.mark.parametrize("kind", ["runs", "threads"])
@pytest.mark.parametrize(
    "query",
    [
        "metadata.=x",
        "metadata=x",
        "metadata.a%22b=x",
        "metadata.a__b=x&metadata.%5C=x",
        "metadata.channel=",
        "metadata.channel=a&metadata.channel=b",
        "metadata.channel=%00",
        f"metadata.{'k' * 65}=x",
        "&".join(f"metadata.k{number}=x" for number in range(6)),
    ],
)
def test_list_with_invalid_metadata_filter_returns_400(api: Any, kind: str, query: str) -> None:
    assert api.get(kind, query=query).status_code == 400
    assert api.get("interrupts", query="metadata.channel=mail").status_code == 400
