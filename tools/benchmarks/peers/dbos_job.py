"""The job with DBOS: an async workflow, which needs no OS thread while it waits.

The module is also the program of a worker.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache

from dbos import DBOS, DBOSClient, DBOSConfig

from ..worker import signs
from .job import CENTS, CUSTOMER, WORKERS, check, get_database_url, make_title, pay

#: Seconds that a workflow waits for the decision.
PATIENCE = 7 * 24 * 3600


def _url() -> str:
    url = get_database_url()
    return url.replace("postgres://", "postgresql://", 1)


CONFIG: DBOSConfig = {
    "name": "refunds",
    "system_database_url": _url(),
    "application_version": "1",
    "log_level": "ERROR",
}

QUEUE = "refunds"


@DBOS.step()
async def check_refund(cents: int) -> bool:
    return check(cents)


@DBOS.step()
async def settle(*, approved: bool) -> str:
    signs.give("next", "step")
    return pay(approved=approved)


@DBOS.workflow(name="refund")
async def refund(customer: str, cents: int) -> str:
    await check_refund(cents)
    await DBOS.set_event_async("request", {"title": make_title(customer, cents)})
    signs.give("asked", "run")
    decision = await DBOS.recv_async("decision", timeout_seconds=PATIENCE)
    outcome = await settle(approved=decision["approved"])
    signs.give("ended", "run")
    return outcome


@cache
def _client() -> DBOSClient:
    return DBOSClient(system_database_url=_url())


def prepare() -> None:
    DBOS(config=CONFIG)
    DBOS.launch()
    DBOS.register_queue(QUEUE)
    DBOS.destroy()


def programs() -> Sequence[Sequence[str]]:
    return [["-m", __name__]] * WORKERS


def start(key: str) -> None:
    options = {"queue_name": QUEUE, "workflow_name": "refund", "workflow_id": key}
    _client().enqueue({**options, "app_version": "1"}, CUSTOMER, CENTS)


def list_pending() -> list[str]:
    pending = _client().list_workflows(status="PENDING", load_input=False)
    return [each.workflow_id for each in pending]


def decide(request: str) -> None:
    _client().send(request, {"approved": True}, "decision", idempotency_key=request)


def main() -> None:
    DBOS(config=CONFIG)
    DBOS.listen_queues([QUEUE])
    DBOS.launch()
    threading.Event().wait()


if __name__ == "__main__":
    main()
