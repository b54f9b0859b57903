"""The attacks on each kind of server, with their costs in the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model

from tests.api.servers import PASSWORD, USER, Server

from .graphs import register_graphs, unregister_graphs
from .table import EVE, KB, LISTER, READER, STARTER, TABLE, Attack
from .target import Answer, Target, user

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]

#: Disables throttling, so that the attacks reach the limits behind it.
UNTHROTTLED = dict.fromkeys(
    ("THROTTLE_READ", "THROTTLE_START", "THROTTLE_DECIDE", "THROTTLE_WRITE", "THROTTLE_LINK")
)
#: Servers that read a complete request body before they call the application.
COLLECTING = ("uvicorn", "daphne")


@pytest.fixture(params=["gunicorn few", "uvicorn", "daphne quiet"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    get_user_model().objects.create_superuser(USER, password=PASSWORD)
    user(EVE, "view_run", is_staff=True)
    user("theo", "view_run", "view_thread", is_staff=True)
    user(STARTER, "start_run")
    user(LISTER, "view_thread")
    user(READER, "view_run", "view_thread", "view_interrupt", "view_thread_state")
    register_graphs()
    server = Server(request.param, tmp_path / "log", **UNTHROTTLED)
    yield Target(server)
    server.stop()
    unregister_graphs()


@pytest.mark.promise("P21")
def test_server_under_attack_stays_within_time_and_memory_limits(
    target: Target, figures: Callable[[str], None]
) -> None:
    faults, lines = [], [f"{target.server.kind}: attack | response | limit | measured"]
    for row in TABLE:
        fault, line = attempt(target, row)
        lines.append(line)
        if fault:
            faults.append(f"{row.name}: {fault}")
    figures("\n    ".join(lines))
    written = target.log()
    faults += [
        f"the log contains a review link's token: …{t[-6:]}" for t in target.tokens if t in written
    ]
    faults += ["the log contains a server error"] * ("Internal Server Error" in written)
    assert not faults, "\n".join([*faults, written[-3000:]])


def attempt(target: Target, row: Attack) -> tuple[str, str]:
    """Run the attack of a row. Return the fault, or an empty string, and a line for the report."""
    before, began = target.seconds(), time.monotonic()
    answer, fault = Answer(-1), ""
    try:
        answer = row.send(target)
    except AssertionError as error:
        fault = str(error).partition("\n")[0]
    except TimeoutError:
        fault = "no response in time"
    spent, passed = target.seconds() - before, time.monotonic() - began
    if fault == "no response in time":
        target.restart()
    fault = fault or judge(target, row, answer, spent)
    answers = "/".join(map(named, sorted(row.answers)))
    taken = f", {answer.sent // KB} kB read" if row.taken else ""
    measured = f"{named(answer.status)}, {spent:.2f} s of {passed:.2f} s{taken}"
    line = f"{row.name} | {answers} | {row.seconds} s | {measured}"
    return fault, f"{line} | FAULT: {fault}" if fault else line


def named(status: int) -> str:
    return {-1: "nothing", 0: "closed"}.get(status, str(status))


def judge(target: Target, row: Attack, answer: Answer, spent: float) -> str:
    if answer.status not in row.answers:
        return f"responded with {answer.status}: {answer.text[:200]}"
    if spent > row.seconds:
        return f"took {spent:.2f} s of processor time"
    if len(answer.raw) > row.most_bytes:
        return f"responded with {len(answer.raw)} bytes"
    reads_all = target.server.kind.startswith(COLLECTING)
    if row.taken is not None and not reads_all and answer.sent > row.taken:
        return f"read {answer.sent} bytes"
    return ""
