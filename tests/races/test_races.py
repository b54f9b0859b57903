"""Fifty processes with concurrent actions on the same row, on each database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django_q.models import OrmQ

from hitl_django import audit, services, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.links.services import create_review_link, resolve_link
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.delivery import deliver
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.errors import IdempotencyKeyReusedError
from hitl_django.graph_registry import registry
from hitl_django.models import (
    AuditEntry,
    Comment,
    Decision,
    Interrupt,
    PendingWrite,
    Run,
    Thread,
)
from tests import processes
from tests.chaos import invariants, recovery
from tests.contrib.webhooks.receiver import Receiver, answering
from tests.messages import count_due_runs

from . import contenders

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]

PROCESSES = 50


def race(act: str, rounds: Sequence[str], count: int = PROCESSES) -> dict[str, list[str]]:
    """Run all processes on each subject concurrently, and return their results by subject."""
    barrier = processes.SERVER.Barrier(count, timeout=processes.PATIENCE)
    results = processes.SERVER.Queue()
    contending = [
        processes.start(contenders.contend, act, number, rounds, barrier, results)
        for number in range(count)
    ]
    said: dict[str, list[str]] = defaultdict(list)
    for _ in range(count * len(rounds)):
        subject, _number, word = results.get(timeout=processes.PATIENCE)
        said[subject].append(word)
    for process in contending:
        process.join(processes.PATIENCE)
    assert [process.exitcode for process in contending] == [0] * count
    return said


@pytest.fixture
def rounds(amount: Callable[[int, int], int]) -> int:
    return amount(3, 20)


def pending_interrupts(count: int) -> list[str]:
    with testing.inline() as advance:
        for _ in range(count):
            services.start("approval", {"text": "x"})
        advance()
    return [str(pk) for pk in Interrupt.objects.values_list("pk", flat=True)]


def make_people(count: int) -> None:
    names = (f"person-{number}" for number in range(count))
    User.objects.bulk_create(User(username=n, is_superuser=True, is_staff=True) for n in names)


def sort(words: Sequence[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for word in words:
        kind, _, which = word.partition(":")
        found[kind].add(which)
    return found


@pytest.mark.promise("P1")
def test_concurrent_decisions_on_one_interrupt_store_only_the_first(
    rounds: int, figures: Callable[[str], None]
) -> None:
    asked = pending_interrupts(rounds)
    for interrupt, words in race("decide", asked).items():
        found = sort(words)
        assert set(found) == {"won", "late"}, found
        assert len([word for word in words if word.startswith("won")]) == 1
        assert len([word for word in words if word.startswith("late")]) == PROCESSES - 1
        assert found["won"] == found["late"]

        row = Interrupt.objects.get(pk=interrupt)
        decision = Decision.objects.get(interrupt=row)
        assert {str(decision.pk)} == found["won"]
        entry = AuditEntry.objects.get(thread=row.thread, verb="decide")
        assert entry.detail["reason"] == decision.reason
        assert PendingWrite.objects.filter(thread=row.thread, slot=-4).count() == 1
        assert row.run.state == Run.State.QUEUED
        assert audit.find_first_fault(row.thread) is None
    assert invariants.faults() == []
    # Each run was queued with its decision, and a worker needs no message.
    assert (OrmQ.objects.count(), count_due_runs()) == (0, len(asked))
    figures(f"{PROCESSES} processes × {rounds} rounds: one decision per round")


def test_concurrent_sweeps_start_one_run_per_due_schedule(
    rounds: int, figures: Callable[[str], None]
) -> None:
    for number in range(rounds):
        made = create_schedule("steps", "0 7 * * *", {"log": []}, overlap="allow")
        Schedule.objects.filter(pk=made.id).update(next_at=Now())
        [words] = race("start_due", [str(made.id)]).values()
        assert sorted(words) == ["started:0"] * (PROCESSES - 1) + ["started:1"]
        assert Run.objects.count() == number + 1
        assert Schedule.objects.get(pk=made.id).started == 1
    assert invariants.faults() == []
    figures(f"{PROCESSES} sweeps × {rounds} due times: one run per due time")


@pytest.mark.promise("P1")
def test_concurrent_admin_and_api_decisions_on_one_interrupt_store_only_the_first(
    rounds: int, amount: Callable[[int, int], int], figures: Callable[[str], None]
) -> None:
    people = amount(16, PROCESSES)
    make_people(people)
    for interrupt, words in race("review", pending_interrupts(rounds), count=people).items():
        found = sort(words)
        assert set(found) == {"won", "late"}, found
        assert len([word for word in words if word.startswith("won")]) == 1
        assert found["won"] == found["late"]
        row = Interrupt.objects.get(pk=interrupt)
        assert {str(Decision.objects.get(interrupt=row).pk)} == found["won"]
        assert AuditEntry.objects.filter(thread=row.thread, verb="decide").count() == 1
        assert audit.find_first_fault(row.thread) is None
    assert invariants.faults() == []
    half = people // 2
    figures(f"{half} users of the admin, {half} of the API × {rounds} rounds: one decision each")


@pytest.mark.promise("P1")
def test_concurrent_undo_and_claim_of_a_run_have_exactly_one_winner(
    rounds: int, settings: Any, figures: Callable[[str], None]
) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 600}
    reviewer = User.objects.create_user("rita", is_superuser=True)
    asked, ends = pending_interrupts(rounds), []
    for interrupt in asked:
        services.decide(interrupt, "approve", by=reviewer)
    for interrupt, words in race("undo", asked, count=VOTERS).items():
        found = sort(words)
        assert found.pop("refused", set()) <= {"UndoRefusedError"}
        found.pop("none", None)
        row = Interrupt.objects.get(pk=interrupt)
        decision = Decision.objects.get(interrupt=row)
        (won,) = found
        ends.append(won)
        if won == "undone":
            assert (row.status, row.run.state) == ("pending", "interrupted")
            assert (decision.effective, decision.undone_at is None) == (None, False)
        else:
            assert (row.status, row.run.state) == ("decided", "running")
            assert (decision.effective, decision.undone_at) == (True, None)
        assert len([word for word in words if word.startswith(won)]) == 1
        verbs = AuditEntry.objects.filter(thread=row.thread).values_list("verb", flat=True)
        assert list(verbs).count("undo") == (won == "undone")
        assert audit.find_first_fault(row.thread) is None
    assert invariants.faults() == []
    figures(
        f"{VOTERS} processes × {rounds} rounds: {ends.count('undone')} undone, "
        f"{ends.count('claimed')} resumed, never both"
    )


VOTERS = 20


def jointly(count: int) -> list[str]:
    make_people(VOTERS)
    asked = pending_interrupts(count)
    Interrupt.objects.update(quorum=2)
    return asked


@pytest.mark.promise("P1")
def test_concurrent_approvals_with_quorum_two_store_exactly_two_approvals(
    rounds: int, figures: Callable[[str], None]
) -> None:
    for interrupt, words in race("vote", jointly(rounds), count=VOTERS).items():
        found = sort(words)
        assert set(found) == {"voted", "closed", "late"}, found
        assert len(words) - len([word for word in words if word.startswith("late")]) == 2
        assert found["late"] == found["closed"]

        made = Decision.objects.filter(interrupt=interrupt)
        assert made.count() == 2
        assert {*made.values_list("effective", "approvals")} == {(None, 1), (True, 2)}
        assert made.values("by").distinct().count() == 2
        row = Interrupt.objects.get(pk=interrupt)
        assert (row.status, row.run.state) == ("decided", "queued")
        assert PendingWrite.objects.filter(thread=row.thread, slot=-4).count() == 1
        assert audit.find_first_fault(row.thread) is None
    assert invariants.faults() == []
    figures(f"{VOTERS} processes × {rounds} rounds: two approvals and one decision each")


@pytest.mark.promise("P1")
def test_concurrent_approvals_and_proposals_decide_one_version_with_two_approvals(
    rounds: int,
) -> None:
    for interrupt, words in race("propose", jointly(rounds), count=VOTERS).items():
        assert not [word for word in words if word.startswith("error")], words
        row = Interrupt.objects.get(pk=interrupt)
        made = row.closing()
        assert made is not None
        agreed = Decision.objects.filter(interrupt=row, version=made.version)
        assert agreed.count() == 2
        assert {str(one.value) for one in agreed} == {str(made.value)}
        assert {one.payload_digest for one in agreed} == {row.payload_digest}
        assert audit.find_first_fault(row.thread) is None
    assert invariants.faults() == []


@pytest.mark.promise("P8")
def test_concurrent_responses_to_run_waiting_for_all_responses_queue_the_run_once(
    rounds: int,
) -> None:
    with testing.inline() as advance:
        runs = [str(services.start("jury", {"log": []}).id) for _ in range(rounds)]
        advance()
    for run, words in race("last", runs, count=5).items():
        assert words == ["answered:respond"] * 5
        row = Run.objects.get(pk=run)
        assert row.state == Run.State.QUEUED
    # Each run was queued, regardless of the process that approved last.
    assert (OrmQ.objects.count(), count_due_runs()) == (0, len(runs))
    assert invariants.faults() == []


@pytest.mark.promise("P1")
def test_concurrent_decision_and_expiry_of_interrupt_have_exactly_one_winner(
    rounds: int, figures: Callable[[str], None]
) -> None:
    asked = pending_interrupts(rounds)
    terms = {"seconds": 1, "then": "answer", "answer": False}
    Interrupt.objects.update(expires_at=Now(), expiry=terms)
    for interrupt, words in race("sweep", asked).items():
        row = Interrupt.objects.get(pk=interrupt)
        decision = Decision.objects.get(interrupt=row)
        won = [word for word in words if word.startswith("won")]
        assert won == ([f"won:{decision.pk}"] if row.status == "decided" else [])
        assert (decision.via, row.status) in (("api", "decided"), ("timeout", "expired"))
        late = {word for word in words if word.startswith("late")}
        assert late == {f"late:{decision.pk}"}
        assert {word for word in words if not word.startswith(("won", "late", "expired"))} == set()
        assert PendingWrite.objects.filter(thread=row.thread, slot=-4).count() == 1
        assert audit.find_first_fault(row.thread) is None
    assert invariants.faults() == []
    figures(f"{PROCESSES} processes × {rounds} rounds: a decision or an expiry, never both")


@pytest.mark.promise("P2")
def test_concurrent_decisions_with_one_key_store_one_decision_and_return_the_same_decision(
    rounds: int, figures: Callable[[str], None]
) -> None:
    for interrupt, words in race("repeat", pending_interrupts(rounds)).items():
        found = sort(words)
        assert set(found) == {"won", "repeated"}, found
        assert len([word for word in words if word.startswith("won")]) == 1
        assert found["won"] == found["repeated"]
        assert Decision.objects.filter(interrupt=interrupt).count() == 1
        with pytest.raises(IdempotencyKeyReusedError):
            services.decide(interrupt, "respond", {"other": "content"}, key="one key")
    assert invariants.faults() == []
    figures(f"{PROCESSES} processes × {rounds} rounds: one decision, {PROCESSES} equal responses")


@pytest.mark.promise("P2")
def test_concurrent_starts_with_one_key_create_one_run() -> None:
    for words in race("start", ["a", "b", "c"]).values():
        found = sort(words)
        assert set(found) == {"created", "found"}, found
        assert len([word for word in words if word.startswith("created")]) == 1
        assert found["created"] == found["found"]
    assert (Run.objects.count(), Thread.objects.count()) == (3, 3)
    assert AuditEntry.objects.count() == 3


@pytest.fixture
def people() -> None:
    make_people(PROCESSES)


@pytest.mark.usefixtures("people")
def test_concurrent_claims_of_one_interrupt_have_exactly_one_winner(rounds: int) -> None:
    for interrupt, words in race("hold", pending_interrupts(rounds)).items():
        found = sort(words)
        assert set(found) == {"held", "late"}, found
        assert len([word for word in words if word.startswith("held")]) == 1
        assert found["held"] == found["late"]
        assert {Interrupt.objects.get(pk=interrupt).claimed_by_label} == found["held"]


@pytest.mark.promise("P2")
@pytest.mark.usefixtures("people")
def test_concurrent_claim_next_calls_with_one_key_claim_one_interrupt() -> None:
    asked = pending_interrupts(8)
    Interrupt.objects.filter(pk__in=asked[:4]).update(graph="another")
    for graph, words in race("take_once", ["another", "approval"], count=10).items():
        (held,) = Interrupt.objects.filter(graph=graph, claimed_by__isnull=False)
        assert set(words) == {f"took:{held.pk}"}


@pytest.mark.promise("P2")
@pytest.mark.usefixtures("people")
def test_concurrent_comments_with_one_idempotency_key_create_one_comment(rounds: int) -> None:
    for interrupt, words in race("comment_once", pending_interrupts(rounds), count=10).items():
        (made,) = Comment.objects.filter(interrupt=interrupt)
        assert sorted(words) == [f"made:{made.pk}", *[f"there:{made.pk}"] * 9]


@pytest.mark.usefixtures("people")
def test_concurrent_claim_next_calls_claim_each_interrupt_once(rounds: int) -> None:
    graphs = [f"round-{number}" for number in range(rounds)]
    asked = pending_interrupts(30 * rounds)
    for number, graph in enumerate(graphs):
        Interrupt.objects.filter(pk__in=asked[number * 30 : number * 30 + 30]).update(graph=graph)
    for graph, words in race("take", graphs).items():
        free = Interrupt.objects.filter(graph=graph)
        expected = [f"took:{pk}" for pk in free.values_list("pk", flat=True)]
        assert sorted(words) == sorted([*expected, *["took:None"] * (PROCESSES - 30)])
        assert free.values("claimed_by").distinct().count() == 30


@pytest.mark.usefixtures("people")
def test_concurrent_take_overs_write_consecutive_audit_entries(rounds: int) -> None:
    for interrupt, words in race("take_over", pending_interrupts(rounds), count=10).items():
        assert len(set(words)) == 10
        row = Interrupt.objects.get(pk=interrupt)
        entries = AuditEntry.objects.filter(thread=row.thread, verb="take_over").order_by("seq")
        # The claim is passed on in order: each process takes it over from the process before.
        lost = [entry.detail["from"] for entry in entries]
        assert [*lost[1:], row.claimed_by_label] == [entry.actor_label for entry in entries]
        assert audit.find_first_fault(row.thread) is None


@pytest.mark.promise("P10")
def test_concurrent_workers_claim_each_run_once(
    rounds: int, figures: Callable[[str], None]
) -> None:
    with testing.inline():
        runs = [str(services.start("steps", {"log": []}).id) for _ in range(rounds)]
    said: dict[str, Any] = race("claim", runs)
    for words in said.values():
        assert sorted(set(words)) == ["claimed:1", "none"]
        assert words.count("claimed:1") == 1
    figures(f"{PROCESSES} workers × {rounds} rounds: one claim per round")


@pytest.mark.promise("P8")
@pytest.mark.promise("P10")
def test_two_hundred_concurrent_messages_about_one_run_claim_the_run_once(
    rounds: int, figures: Callable[[str], None]
) -> None:
    with testing.inline():
        runs = [str(services.start("approval", {"text": "x"}).id) for _ in range(rounds)]
    for run, words in race("advance", runs, count=8).items():
        assert words == ["25 times"] * 8
        thread = Run.objects.get(pk=run).thread
        assert (thread.epoch, thread.attempts, thread.lease_until) == (1, 0, None)
    assert set(Run.objects.values_list("state", flat=True)) == {"interrupted"}
    assert invariants.faults() == []
    figures(f"200 messages × {rounds} runs, 8 workers: one claim per run")


@pytest.mark.promise("P4")
@pytest.mark.promise("P8")
def test_concurrent_responses_and_workers_finish_each_run_with_both_responses(
    rounds: int, figures: Callable[[str], None]
) -> None:
    with testing.inline() as advance:
        runs = [str(services.start("panel", {"log": []}).id) for _ in range(rounds * 2)]
        advance()
    # A response may arrive before a worker loads the run, while the worker executes the run, or
    # while the run pauses. Each response is used exactly once, without a sweep.
    for run, words in race("together", runs, count=5).items():
        assert sorted(words) == ["answered:respond"] * 2 + ["ended:succeeded"] * 3
        thread = Run.objects.get(pk=run).thread
        graph = registry.get_graph("panel").graph.with_saver(DjangoSaver())
        state = graph.get_state({"configurable": {"thread_id": thread.thread_id}})
        assert state.values["answers"] == [("left", "left"), ("right", "right")]
        assert (thread.lease_until, thread.attempts) == (None, 0)
        assert audit.find_first_fault(thread) is None
    figures(f"{2 * rounds} runs, 2 reviewers and 3 workers each: no response lost or used twice")


@pytest.mark.promise("P8")
def test_concurrent_starts_with_on_pending_wait_and_workers_execute_each_run_once(
    rounds: int,
) -> None:
    threads = [f"thread {number}" for number in range(rounds)]
    for thread in threads:
        services.start("steps", {"log": ["first"]}, thread_id=thread)
    said = race("line_up", threads)
    assert {sort(words).keys() == {"started", "worked"} for words in said.values()} == {True}
    # Without a sweep: the process that ends a run or starts one sends the message for the next run.
    while recovery.deliver():
        pass
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
    assert invariants.faults() == []
    for thread in threads:
        runs = Run.objects.filter(thread__thread_id=thread).order_by("created_at", "pk")
        assert runs.count() == 1 + PROCESSES // 2
        log = services.run_result(runs.last().pk)["log"]
        given = [word for word in log if word == "first" or word.isdigit()]
        assert len(given) == len(set(given)) == runs.count()


@pytest.mark.promise("P1")
def test_concurrent_use_and_revocation_of_review_link_have_exactly_one_winner(rounds: int) -> None:
    links = [create_review_link(pk, name="Dana K.") for pk in pending_interrupts(rounds)]
    tokens = {link.url.rstrip("/").rpartition("/")[2]: link for link in links}
    for token, words in race("follow", list(tokens)).items():
        found = sort(words)
        assert set(found) <= {"won", "revoked", "refused"}, found
        winners = [word for word in words if not word.startswith("refused")]
        assert len(winners) == 1, winners
        assert found["refused"] == {"LinkUnusableError"}
        used = resolve_link(token).state == "used"
        made = Decision.objects.filter(interrupt=tokens[token].interrupt_id).count()
        assert (used, made) == ((True, 1) if found["won"] else (False, 0))
    assert all(audit.find_first_fault(thread) is None for thread in Thread.objects.all())


def test_concurrent_processes_deliver_each_webhook_message_once(settings: Any) -> None:
    settings.HITL = {"WEBHOOK_NETWORKS": ["127.0.0.1"], "WEBHOOK_TIMEOUT_SECONDS": 120}
    receiver = Receiver([answering(204)])
    try:
        hook = webhook_services.create_webhook(receiver.url)
        messages = [webhook_services.send_test_event(hook.id) for _ in range(20)]
        race("deliver", [str(hook.id)], count=10)
        # On a slow machine the task's time may end before all messages are sent. Another task
        # continues.
        for _ in messages:
            deliver(str(hook.id))
    finally:
        receiver.close()
    assert set(Delivery.objects.values_list("state", "attempts")) == {("delivered", 1)}
    sent = [received.headers["webhook-id"] for received in receiver.all()]
    assert sent == [str(message.id) for message in messages]  # in this order


@pytest.mark.promise("P1")
@pytest.mark.promise("P7")
def test_concurrent_forks_and_decisions_leave_one_active_run_per_thread(
    rounds: int,
) -> None:
    asked = pending_interrupts(rounds)
    for interrupt, words in race("part", asked).items():
        found = sort(words)
        assert set(found) <= {"won", "late", "forked", "refused"}, found
        assert len(found["forked"]) == PROCESSES // 5
        assert len([word for word in words if word.startswith("won")]) <= 1
        # An earlier decision stays valid, although its interrupt was superseded.
        item = Interrupt.objects.get(pk=interrupt)
        assert (item.status == "decided") is bool(found["won"])
        assert item.status in ("decided", "superseded")
        runs = Run.objects.filter(thread=item.thread_id)
        states = sorted(runs.values_list("state", flat=True))
        assert states == ["cancelled"] * (PROCESSES // 5) + ["queued"]
    faults = [one for one in invariants.faults() if " chains: " not in one]
    assert faults == []
