"""The shared queue over HTTP: claim, assign, snooze and comment."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models.functions import Now

from hitl_django.models import AuditEntry, Comment, Interrupt, WorkerHeartbeat

pytestmark = pytest.mark.django_db
LATER = "2999-01-01T00:00:00Z"


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["id"] for row in response.json()["results"]]


@pytest.fixture
def people(make_user: Any) -> tuple[Any, Any]:
    """Create clients of two reviewers with usernames."""
    from .conftest import API, ROLES

    clients = []
    for _ in range(2):
        user = make_user(*ROLES["lead"])
        client = API(user)
        client.user = user  # type: ignore[attr-defined]
        clients.append(client)
    return clients[0], clients[1]


def test_claim_next_returns_interrupt_with_highest_priority_or_204_if_none_is_unclaimed(
    people: Any, make_interrupt: Any
) -> None:
    later, sooner = make_interrupt(), make_interrupt(priority=5)
    rita, ravi = people
    taken = rita.post("next")
    assert (taken.status_code, taken.json()["id"]) == (200, str(sooner.pk))
    assert taken.json()["claimed_by"] == str(rita.user)
    assert taken["ETag"] == rita.get("interrupt", sooner.pk)["ETag"]
    assert ravi.post("next", body={}).json()["id"] == str(later.pk)
    nothing = ravi.post("next")
    assert (nothing.status_code, nothing.content) == (204, b"")


@pytest.mark.promise("P2")
def test_claim_next_repeated_with_its_key_returns_the_interrupt_claimed_first(
    people: Any, make_interrupt: Any
) -> None:
    rita, _ = people
    first, second = make_interrupt(), make_interrupt()
    key = {"HTTP_IDEMPOTENCY_KEY": "take-1"}
    taken = rita.post("next", **key)
    assert (taken.json()["id"], "Idempotent-Replayed" in taken) == (str(first.pk), False)
    again = rita.post("next", body={}, **key)
    assert (again.json(), again["Idempotent-Replayed"]) == (taken.json(), "true")
    assert again["ETag"] == taken["ETag"]
    reused = rita.post("next", body={"graph": "letter"}, **key)
    assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")
    assert rita.post("next", HTTP_IDEMPOTENCY_KEY="a b").status_code == 400
    second.refresh_from_db()
    assert second.claimed_by is None


def test_claim_next_claims_only_interrupts_of_the_given_graph_or_group(
    people: Any, make_interrupt: Any, make_run: Any
) -> None:
    rita, ravi = people
    group = Group.objects.create(name="Payments")
    rita.user.groups.add(group)
    ours = make_interrupt(group=group)
    letter = make_interrupt(make_run(graph="letter", state="interrupted"))
    assert ravi.post("next", body={"group": "Payments"}).status_code == 204
    assert rita.post("next", body={"group": "No such"}).status_code == 204
    assert rita.post("next", body={"graph": "letter"}).json()["id"] == str(letter.pk)
    assert rita.post("next", body={"group": "Payments"}).json()["id"] == str(ours.pk)


@pytest.mark.promise("P1")
def test_claim_of_claimed_interrupt_returns_409_until_taken_over_or_released(
    people: Any, make_interrupt: Any
) -> None:
    interrupt, (rita, ravi) = make_interrupt(), people
    mine = rita.post("claim", interrupt.pk, body={"seconds": 600}).json()
    assert (mine["interrupt"], mine["claimed_by"]) == (str(interrupt.pk), str(rita.user))
    assert rita.post("claim", interrupt.pk).json()["until"] >= mine["until"]
    assert rita.post("claim", interrupt.pk, body={"seconds": 600.0}).status_code == 200

    refused = ravi.post("claim", interrupt.pk)
    assert (refused.status_code, refused.json()["code"]) == (409, "claimed")
    assert refused.json()["claimed_by"] == str(rita.user)
    assert refused.json()["until"].endswith("Z")
    over = ravi.post("claim", interrupt.pk, body={"take_over": True})
    assert over.json()["claimed_by"] == str(ravi.user)
    assert AuditEntry.objects.filter(thread=interrupt.thread).count() == 1

    assert ravi.post("release", interrupt.pk).status_code == 204
    assert rita.get("interrupt", interrupt.pk).json()["claimed_by"] == ""


def test_decision_on_claimed_interrupt_returns_409_if_ignore_claim_is_false_and_202_by_default(
    people: Any, make_interrupt: Any
) -> None:
    interrupt, (rita, ravi) = make_interrupt(), people
    rita.post("claim", interrupt.pk)
    asks = {"type": "approve", "ignore_claim": False}
    assert ravi.post("decision-validate", interrupt.pk, body=asks).status_code == 200
    refused = ravi.post("decisions", interrupt.pk, body=asks)
    assert (refused.status_code, refused.json()["code"]) == (409, "claimed")
    assert refused.json()["claimed_by"] == str(rita.user)
    # Without the parameter, the decision is made as before.
    made = ravi.post("decisions", interrupt.pk, body={"type": "approve"})
    assert (made.status_code, made.json()["claimed_by"]) == (202, str(rita.user))


def test_take_over_and_release_of_claim_of_another_user_without_permission_return_403(
    people: Any, as_role: Any, make_interrupt: Any
) -> None:
    interrupt = make_interrupt()
    people[0].post("claim", interrupt.pk)
    reviewer = as_role("reviewer")
    for name, body in {"claim": {"take_over": True}, "release": {}}.items():
        refused = reviewer.post(name, interrupt.pk, body=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    interrupt.refresh_from_db()
    assert interrupt.claimed_by_id == people[0].user.pk


def test_expired_claim_is_absent_from_interrupt_detail_and_a_new_claim_returns_200(
    people: Any, make_interrupt: Any
) -> None:
    interrupt, (rita, ravi) = make_interrupt(), people
    rita.post("claim", interrupt.pk)
    held = rita.get("interrupt", interrupt.pk)
    Interrupt.objects.update(claimed_until=Now() - timedelta(seconds=1))
    shown = ravi.get("interrupt", interrupt.pk)
    assert (shown.json()["claimed_by"], shown.json()["claimed_until"]) == ("", None)
    assert shown["ETag"] != held["ETag"]
    assert ravi.post("claim", interrupt.pk).status_code == 200


def test_claim_leaves_etag_valid_for_a_decision(people: Any, make_interrupt: Any) -> None:
    interrupt, (rita, _) = make_interrupt(), people
    etag = rita.get("interrupt", interrupt.pk)["ETag"]
    rita.post("claim", interrupt.pk)
    unchanged = {"If-None-Match": etag}
    assert rita.get("interrupt", interrupt.pk, headers=unchanged).status_code == 200
    seen = {"If-Match": etag}
    decided = rita.post("decisions", interrupt.pk, body={"type": "approve"}, headers=seen)
    assert decided.status_code == 202


def test_assign_sets_user_and_group_by_name_and_clears_them(
    people: Any, make_interrupt: Any
) -> None:
    interrupt, (rita, ravi) = make_interrupt(), people
    Group.objects.create(name="Payments")
    name = ravi.user.get_username()
    shown = rita.post("assign", interrupt.pk, body={"to": name, "group": "Payments"}).json()
    assert (shown["assignee"], shown["group"]) == (str(ravi.user), "Payments")
    assert ids(ravi.get("interrupts", query="assignee=me")) == [str(interrupt.pk)]
    assert ids(rita.get("interrupts", query="assignee=me")) == []
    assert rita.post("next").status_code == 204

    nobodys = rita.post("assign", interrupt.pk, body={}).json()
    assert (nobodys["assignee"], nobodys["group"]) == ("", "")
    assert ids(rita.get("interrupts", query="assignee=nobody")) == [str(interrupt.pk)]


@pytest.mark.promise("P18")
def test_assign_response_for_unpermitted_user_equals_response_for_unknown_username(
    people: Any, as_role: Any, make_user: Any, make_interrupt: Any
) -> None:
    interrupt, rita = make_interrupt(), people[0]
    without = make_user().get_username()
    answers = [
        rita.post("assign", interrupt.pk, body={"to": name}, HTTP_X_REQUEST_ID="one")
        for name in (without, "no such person")
    ]
    assert [answer.status_code for answer in answers] == [422, 422]
    assert answers[0].content == answers[1].content
    assert answers[0].json()["errors"][0]["pointer"] == "/to"
    group = rita.post("assign", interrupt.pk, body={"group": "No such"})
    assert (group.status_code, group.json()["errors"][0]["pointer"]) == (422, "/group")
    for body in ({"group": "No such"}, {"to": "no such person"}):
        assert as_role("reviewer").post("assign", interrupt.pk, body=body).status_code == 403


def test_snooze_hides_interrupt_from_claim_next_until_ended(
    people: Any, make_interrupt: Any
) -> None:
    interrupt, (rita, ravi) = make_interrupt(), people
    shown = rita.post("snooze", interrupt.pk, body={"until": LATER}).json()
    assert shown["snoozed_until"] == LATER
    assert ravi.post("next").status_code == 204
    assert ids(ravi.get("interrupts", query="snoozed=true")) == [str(interrupt.pk)]
    assert ravi.post("snooze", interrupt.pk, body={"until": None}).json()["snoozed_until"] is None
    assert ravi.post("next").status_code == 200

    past = rita.post("snooze", interrupt.pk, body={"until": "2020-01-01T00:00:00Z"})
    assert past.status_code == 409  # the other user's claim is independent of the time
    past = ravi.post("snooze", interrupt.pk, body={"until": "2020-01-01T00:00:00Z"})
    assert (past.status_code, past.json()["errors"][0]["pointer"]) == (422, "/until")


@pytest.mark.parametrize("name", ["claim", "assign", "snooze"])
def test_claim_assign_and_snooze_of_cancelled_interrupt_return_409(
    api: Any, make_interrupt: Any, name: str
) -> None:
    interrupt = make_interrupt(status=Interrupt.Status.CANCELLED)
    body = {"until": LATER} if name == "snooze" else {}
    refused = api.post(name, interrupt.pk, body=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "already_decided")


def test_comments_are_returned_in_order_of_creation_and_paginated(
    people: Any, make_interrupt: Any
) -> None:
    interrupt, (rita, ravi) = make_interrupt(), people
    first = rita.post("comments", interrupt.pk, body={"text": "  <b>Half</b> of it? "})
    assert first.status_code == 201
    assert first.json()["text"] == "<b>Half</b> of it?"
    ravi.post("comments", interrupt.pk, body={"text": "Fine."})
    listed = ravi.get("comments", interrupt.pk).json()["results"]
    assert [(row["text"], row["by"]) for row in listed] == [
        ("<b>Half</b> of it?", str(rita.user)),
        ("Fine.", str(ravi.user)),
    ]
    page = ravi.get("comments", interrupt.pk, query="page_size=1").json()
    assert ravi.client.get(page["next"]).json()["results"] == listed[1:]


@pytest.mark.promise("P21")
@pytest.mark.parametrize("text", [" ", "x" * 10_001])
def test_comment_with_blank_or_too_long_text_returns_422(
    api: Any, make_interrupt: Any, text: str
) -> None:
    refused = api.post("comments", make_interrupt().pk, body={"text": text})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/text")
    assert not Comment.objects.exists()


@pytest.mark.parametrize(
    ("name", "body", "pointer"),
    [
        ("claim", {"seconds": 0}, "/seconds"),
        ("claim", {"seconds": 86_401}, "/seconds"),
        ("claim", {"seconds": 1.5}, "/seconds"),
        ("claim", {"seconds": True}, "/seconds"),
        ("claim", {"seconds": "60"}, "/seconds"),
        ("claim", {"take_over": "yes"}, "/take_over"),
        ("claim", {"take_over": 1}, "/take_over"),
        ("claim", {"by": 1}, "/by"),
        ("release", {"by": 1}, "/by"),
        ("assign", {"to": 7}, "/to"),
        ("assign", {"to": ""}, "/to"),
        ("snooze", {}, "/until"),
        ("snooze", {"until": "tomorrow"}, "/until"),
        ("snooze", {"until": 1_900_000_000}, "/until"),
        ("snooze", {"until": "2030-01-01T00:00:00"}, "/until"),
        ("comments", {"text": ["x"]}, "/text"),
        ("comments", {}, "/text"),
    ],
)
def test_queue_action_with_invalid_field_returns_400_with_pointer(
    api: Any, make_interrupt: Any, name: str, body: dict[str, Any], pointer: str
) -> None:
    response = api.post(name, make_interrupt().pk, body=body)
    assert response.status_code == 400, response.content
    assert [fault["pointer"] for fault in response.json()["errors"]] == [pointer]


def test_interrupt_list_is_filtered_by_claim_assignment_group_and_due_state(
    people: Any, make_interrupt: Any
) -> None:
    rita, ravi = people
    group = Group.objects.create(name="Payments")
    free, held, groups, late = (make_interrupt() for _ in range(4))
    Interrupt.objects.filter(pk=groups.pk).update(group=group, dialect="hitl_request")
    Interrupt.objects.filter(pk=late.pk).update(due_at=Now() - timedelta(hours=1))
    Interrupt.objects.filter(pk=held.pk).update(priority=2)
    Interrupt.objects.filter(pk=groups.pk).update(priority=-1)
    ravi.post("claim", held.pk)
    for query, found in {
        "unclaimed=true": {free, late},
        "unclaimed=false": {held, groups},
        "claimed=true": {held},
        "claimed=false": {free, groups, late},
        "overdue=true": {late},
        "overdue=false": {free, held, groups},
        "snoozed=true": set(),
        "group=Payments": {groups},
        "group=payments": set(),
        "dialect=hitl_request": {groups},
        "unclaimed=true&overdue=false": {free},
        "assignee=nobody": {free, held, late},
        "assignee=me": set(),
        "priority=urgent": {held},
        "priority=low": {groups},
        "priority=normal": {free, late},
        "priority=high": set(),
        "due=overdue": {late},
        "due=none": {free, held, groups},
        "due=none&priority=normal": {free},
    }.items():
        listed = ids(rita.get("interrupts", query=query))
        assert set(listed) == {str(interrupt.pk) for interrupt in found}, query


@pytest.mark.parametrize(
    "query",
    ["free=1", "free=yes", "free=", "assignee=dana", "dialect=x", "priority=2", "due=tomorrow"],
)
def test_interrupt_list_with_invalid_queue_filter_returns_400_naming_the_parameter(
    api: Any, query: str
) -> None:
    response = api.get("interrupts", query=query)
    assert response.status_code == 400
    assert response.json()["errors"][0]["parameter"] == query.partition("=")[0]


def test_interrupt_list_query_count_is_constant_with_claims_and_comments(
    people: Any, make_interrupt: Any
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    rita, ravi = people
    counts = set()
    for _ in range(3):
        interrupt = make_interrupt()
        ravi.post("claim", interrupt.pk)
        ravi.post("comments", interrupt.pk, body={"text": "Mine."})
        with CaptureQueriesContext(connection) as queries:
            rita.get("interrupts")
        counts.add(len(queries))
        assert not any('"payload"' in query["sql"] for query in queries)
    assert len(counts) == 1


def test_queue_stats_contain_counts_for_the_user_and_time_of_the_last_worker_heartbeat(
    people: Any, make_interrupt: Any
) -> None:
    rita, ravi = people
    for _ in range(3):
        make_interrupt()
    ravi.post("next")
    seen = WorkerHeartbeat.objects.create(owner="host:7", host="host", pid=7)
    stats = rita.get("stats").json()
    assert (
        stats["counts"] | {"mine": 0, "unclaimed": 2, "claimed": 1, "pending": 3} == stats["counts"]
    )
    assert (stats["median_seconds"], stats["approve_rate"]) == (None, None)
    assert stats["last_heartbeat_at"] is not None
    assert ravi.get("stats").json()["counts"]["mine"] == 1
    assert rita.get("stats", query="graph=letter").json()["counts"]["pending"] == 0
    assert seen.pk


def test_thread_fork_from_a_checkpoint_starts_a_run_and_supersedes_the_interrupt(
    api: Any, asked: Any
) -> None:
    interrupt = asked()
    thread_id = interrupt.thread.thread_id
    history = api.get("thread-history", thread_id).json()["results"]
    body = {"checkpoint": history[0]["id"], "values": {"amount": 5}}
    response = api.post("thread-fork", thread_id, body=body)
    assert response.status_code == 202, response.content
    assert response["Location"] == response.json()["url"]
    assert api.get("run", interrupt.run_id).json()["state"] == "cancelled"
    assert api.get("interrupt", interrupt.pk).json()["status"] == "superseded"
    assert api.get("thread-state", thread_id).json()["values"]["amount"] == 5


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"checkpoint": "nothing"}, 404, None),
        ({"checkpoint": "x" * 37}, 400, "/checkpoint"),
        ({}, 400, "/checkpoint"),
        ({"values": {"iban": 1}}, 422, "/values/iban"),
        ({"values": {"amount": 1}, "as_node": "nobody"}, 422, None),
    ],
)
def test_thread_fork_with_invalid_body_returns_an_error_and_leaves_run_interrupted(
    api: Any, asked: Any, body: dict[str, Any], status: int, pointer: str | None
) -> None:
    interrupt = asked()
    thread_id = interrupt.thread.thread_id
    if "values" in body:
        (newest, *_) = api.get("thread-history", thread_id).json()["results"]
        body = {"checkpoint": newest["id"], **body}
    response = api.post("thread-fork", thread_id, body=body)
    assert response.status_code == status, response.content
    if pointer is not None:
        assert [fault["pointer"] for fault in response.json()["errors"]] == [pointer]
    assert api.get("run", interrupt.run_id).json()["state"] == "interrupted"
