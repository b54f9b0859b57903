"""The job with Absurd, which stores durable steps in PostgreSQL by stored procedures.

Absurd has no requests for people, so the client keeps the names of the events. The module is also
the program of a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import absurdctl
import psycopg
from absurd_sdk import Absurd

from ..worker import signs
from .job import CENTS, CUSTOMER, WORKERS, check, get_database_url, make_title, pay

_started: list[str] = []


@cache
def _app() -> Absurd:
    connection = psycopg.connect(get_database_url(), autocommit=True)
    app = Absurd(connection, queue_name="refunds")
    app.register_task("refund")(refund)
    return app


def refund(params: Any, context: Any) -> dict[str, str]:
    context.step("check", lambda: check(params["cents"]))
    context.step("ask", lambda: _ask(params))
    decision = context.await_event(f"decision:{params['key']}")
    outcome = context.step("settle", lambda: _settle(decision))
    signs.give("ended", "run")
    return {"outcome": outcome}


def _ask(params: Any) -> str:
    signs.give("asked", "run")
    return make_title(params["customer"], params["cents"])


def _settle(decision: Any) -> str:
    signs.give("next", "step")
    return pay(approved=decision["approved"])


def prepare() -> None:
    with psycopg.connect(get_database_url(), autocommit=True) as connection:
        connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
    _app().create_queue("refunds")


def programs() -> Sequence[Sequence[str]]:
    return [["-m", __name__]] * WORKERS


def start(key: str) -> None:
    params = {"key": key, "customer": CUSTOMER, "cents": CENTS}
    _app().spawn("refund", params, idempotency_key=key)
    _started.append(key)


def list_pending() -> list[str]:
    pending = [*_started]
    _started.clear()
    return pending


def decide(request: str) -> None:
    _app().emit_event(f"decision:{request}", {"approved": True})


def main() -> None:
    _app().start_worker()


if __name__ == "__main__":
    main()
