"""A worker process that stops at a chosen point, says so, and waits for what is done to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.db import connections  # noqa: E402
from django.test import override_settings  # noqa: E402

from hitl_django import worker  # noqa: E402
from hitl_django.saver import DjangoSaver  # noqa: E402
from hitl_django.saver.storing import Batch  # noqa: E402

#: Short enough for a test to wait for, long enough for a worker that lives.
IMPATIENT = {"LEASE_SECONDS": 1, "HEARTBEAT_SECONDS": 0.3, "SWEEP_SECONDS": 0.05}


def work(database: str, run: str, when: str, nth: int, here: Any) -> None:
    """Advance the run, with a stop just before, within or just after its n-th commit."""
    connections["default"].settings_dict["NAME"] = database
    counted = iter(range(1, 1000))

    def stop() -> None:
        here.send(os.getpid())
        here.recv()

    def stopping(function: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            at_point = next(counted) == nth
            if at_point and not after:
                stop()
            returned = function(*args, **kwargs)
            if at_point:
                stop()
            return returned

        return call

    if when == "within":
        # All rows are written, and the transaction is still open.
        Batch.insert = stopping(Batch.insert, after=True)  # type: ignore[method-assign]
    else:
        commit = stopping(DjangoSaver.commit, after=when == "after")
        DjangoSaver.commit = commit  # type: ignore[method-assign]
    with override_settings(HITL=IMPATIENT):
        worker.advance(run)
    here.send(0)
