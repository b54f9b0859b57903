"""Actions of each process in a race.

Before each round, all processes wait at a barrier, so that only the database determines the winner.
Each process returns the result of a round as one word.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connections
from django.db.models.functions import Now
from django.test import Client

from hitl_django import run_leases, services
from hitl_django.contrib.links.services import decide_by_link, resolve_link, revoke_link
from hitl_django.contrib.schedules.start_due import start_due
from hitl_django.contrib.webhooks import delivery
from hitl_django.engine.errors import HitlError
from hitl_django.errors import AlreadyDecidedError, ClaimedError, StaleInterruptError
from hitl_django.models import Decision, Interrupt, Run
from hitl_django.worker import runner
from tests.admin.browsing import press, sheet_of, text_of


def contend(act: str, number: int, rounds: Iterable[str], barrier: Any, results: Any) -> None:
    connections["default"].ensure_connection()
    for subject in rounds:
        do = OPENED[act](number, subject) if act in OPENED else partial(ACTS[act], number, subject)
        barrier.wait()
        try:
            said = do()
        except AlreadyDecidedError as error:
            said = f"late:{error.decision.id}" if error.decision else f"late:{error.status}"
        except HitlError as error:
            said = f"refused:{type(error).__name__}"
        except Exception as error:
            said = f"error:{type(error).__name__}: {error}"
        results.put((subject, number, said))
    connections.close_all()


def decide(number: int, interrupt: str) -> str:
    kind = "approve" if number % 2 else "reject"
    return f"won:{services.decide(interrupt, kind, via='api', reason=str(number)).id}"


def review(number: int, interrupt: str) -> Callable[[], str]:
    """Half of the processes submit the admin's form, and half use the API."""
    item, client, who = Interrupt.objects.get(pk=interrupt), Client(), person(number)
    client.force_login(who)
    kind = "approve" if number % 4 < 2 else "reject"
    if number % 2:
        return partial(call, client, interrupt, kind)
    return partial(push, client, item, kind, sheet_of(client, item), who)


def push(client: Client, item: Interrupt, button: str, sheet: Any, who: Any) -> str:
    answer = press(client, item, button, sheet)
    while asked := re.search(r'name="over_claim_of" value="(\d+)"', text_of(answer)):
        # The user who decided the previous interrupt was redirected to this one and has claimed it.
        # The decision is made nevertheless.
        answer = press(client, item, button, {**sheet, "over_claim_of": [asked[1]]})
    made = Decision.objects.get(interrupt=item)
    if answer.status_code == 302:
        return f"won:{made.id}" if made.by == who else "error: told of a decision of another's"
    said = f"{made.by.username} {'approved' if made.type == 'approve' else 'rejected'} this"
    if answer.status_code == 409 and said in text_of(answer):
        return f"late:{made.id}"
    return f"error: {answer.status_code} instead of a page on which {said}"


def call(client: Client, interrupt: str, kind: str) -> str:
    url = f"/hitl/api/v1/interrupts/{interrupt}/decisions/"
    answer = client.post(url, {"type": kind}, "application/json")
    if answer.status_code == 202:
        return f"won:{answer.json()['id']}"
    told = answer.json()
    return f"late:{told['decision']['id']}" if answer.status_code == 409 else f"error: {told}"


def vote(number: int, interrupt: str) -> str:
    made = services.decide(interrupt, "approve", by=person(number), via="api")
    return f"{'closed' if made.complete else 'voted'}:{made.id}"


def propose(number: int, interrupt: str) -> str:
    """Half of the processes approve the payload, and half approve an edit that one of them
    proposed.
    """
    who = person(number)
    kind, value = ("edit", {"text": "y"}) if number % 2 else ("approve", services.UNSET)
    try:
        made = services.decide(interrupt, kind, value, by=who, via="api", version=1)
    except StaleInterruptError:
        made = services.decide(interrupt, "approve", by=who, via="api", key=str(number))
    return f"{'closed' if made.complete else 'voted'}:{made.id}"


def last(number: int, run: str) -> str:
    interrupt = Interrupt.objects.order_by("node").filter(run=run)[number]
    return f"answered:{services.decide(interrupt.pk, 'respond', number).type}"


def sweep(number: int, interrupt: str) -> str:
    return decide(number, interrupt) if number % 2 else f"expired:{services.expire_due()}"


def undo(number: int, interrupt: str) -> str:
    """Every tenth process undoes the decision. The others let the time limit pass and execute the
    run.
    """
    if number % 10 == 0:
        made = Decision.objects.get(interrupt=interrupt)
        return f"undone:{services.undo(interrupt, decision_id=made.pk).id}"
    run = Run.objects.get(interrupts=interrupt).pk
    Run.objects.filter(pk=run, resumes_at__isnull=False).update(resumes_at=Now())
    services.resume_due()
    lease = run_leases.claim(run)
    return "none" if lease is None else f"claimed:{lease.thread.epoch}"


def repeat(number: int, interrupt: str) -> str:
    info = services.decide(interrupt, "respond", {"same": "content"}, key="one key")
    return f"{'repeated' if info.repeated else 'won'}:{info.id}"


def start(number: int, key: str) -> str:
    info = services.start("approval", {"text": "x"}, key=key)
    return f"{'created' if info.created else 'found'}:{info.id}"


def claim(number: int, run: str) -> str:
    lease = run_leases.claim(run)
    return "none" if lease is None else f"claimed:{lease.thread.epoch}"


def advance(number: int, run: str) -> str:
    for _ in range(25):
        runner.advance(run)
    return "25 times"


def together(number: int, run: str) -> str:
    """Two processes respond to a run and the others execute it, until it ends or the process gives
    up.
    """
    if number < 2:
        interrupt = Interrupt.objects.order_by("task_path").filter(run=run)[number]
        return f"answered:{services.decide(interrupt.pk, 'respond', interrupt.node).type}"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        runner.advance(run)
        state = Run.objects.get(pk=run).state
        if state not in ("queued", "running", "interrupted"):
            return f"ended:{state}"
    return f"stuck:{state}"


def hold(number: int, interrupt: str) -> str:
    try:
        return f"held:{services.claim(interrupt, by=person(number)).claimed_by_label}"
    except ClaimedError as error:
        return f"late:{error.claimed_by_label}"


def follow(number: int, token: str) -> str:
    if number % 10 == 9:
        link = resolve_link(token)
        return f"revoked:{revoke_link(link.id).id}"
    return f"won:{decide_by_link(token, 'approve', reason=str(number)).id}"


def deliver(number: int, endpoint: str) -> str:
    delivery.deliver(endpoint)
    return "sent:"


def part(number: int, interrupt: str) -> str:
    if number % 5:
        return decide(number, interrupt)
    asked = Interrupt.objects.select_related("thread").get(pk=interrupt)
    return f"forked:{services.fork(asked.thread.thread_id, asked.checkpoint_id).id}"


def take(number: int, graph: str) -> str:
    return f"took:{services.claim_next(by=person(number), graph=graph)}"


def take_once(number: int, graph: str) -> str:
    return f"took:{services.claim_next(by=person(0), graph=graph, key=graph)}"


def comment_once(number: int, interrupt: str) -> str:
    """Each process sends the same comment of the same user."""
    person_0 = person(0)
    outcome = services.run_idempotent(
        lambda: services.comment(interrupt, "Once.", by=person_0),
        lambda made: str(made.id),
        key=interrupt,
        request=["comment", interrupt],
        by=person_0,
    )
    return (
        f"made:{outcome.result.id}" if outcome.earlier_id is None else f"there:{outcome.earlier_id}"
    )


def start_due_schedules(number: int, schedule: str) -> str:
    return f"started:{len(start_due())}"


def line_up(number: int, thread: str) -> str:
    """Half of the processes start a run that waits for the thread, and half execute waiting
    runs.
    """
    if number % 2:
        run = services.start("steps", {"log": [str(number)]}, thread_id=thread, on_pending="wait")
        return f"started:{run.id}"
    for pk in Run.objects.filter(thread__thread_id=thread).values_list("pk", flat=True):
        runner.advance(str(pk))
    return "worked:"


def take_over(number: int, interrupt: str) -> str:
    return f"held:{services.claim(interrupt, by=person(number), take_over=True).claimed_by_label}"


def person(number: int) -> Any:
    return get_user_model().objects.get(username=f"person-{number}")


#: Pages that are opened before all processes act.
OPENED: dict[str, Callable[[int, str], Callable[[], str]]] = {"review": review}

ACTS: dict[str, Callable[[int, str], str]] = {
    "comment_once": comment_once,
    "decide": decide,
    "vote": vote,
    "part": part,
    "undo": undo,
    "propose": propose,
    "last": last,
    "line_up": line_up,
    "sweep": sweep,
    "repeat": repeat,
    "start": start,
    "claim": claim,
    "advance": advance,
    "together": together,
    "hold": hold,
    "take": take,
    "take_once": take_once,
    "follow": follow,
    "deliver": deliver,
    "start_due": start_due_schedules,
    "take_over": take_over,
}
