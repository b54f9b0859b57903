"""Processes for tests, forked from a server that has loaded Django but has no connection.

Starting a process takes a hundredth of a second, and it shares no state with the test's process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db import connections  # noqa: E402
from django.test import override_settings  # noqa: E402

from hitl_django.worker import runner, sweeper  # noqa: E402, F401  (what every child needs)

PATIENCE = 120

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__, "tests.chaos.victim", "tests.races.contenders"])


def start(act: Callable[..., None], *args: Any, database: dict[str, Any] | None = None) -> Any:
    """Start a process that calls ``act`` with the test's database and the current settings.

    ``database`` contains changed connection settings.
    """
    database = {**connections["default"].settings_dict, **(database or {})}
    process = SERVER.Process(target=_child, args=(database, dict(settings.HITL), act, args))
    process.start()
    return process


def _child(
    database: dict[str, Any], hitl: dict[str, Any], act: Callable[..., None], args: Any
) -> None:
    connections["default"].settings_dict.update(database)
    with override_settings(HITL=hitl):
        act(*args)


def kill(process: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE)
