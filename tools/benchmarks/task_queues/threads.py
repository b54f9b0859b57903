"""Procrastinate with workers that are OS threads."""

from __future__ import annotations

import os

from hitl_django.contrib.procrastinate.dispatcher import ProcrastinateDispatcher

from .queues import VARIABLE


class Threads(ProcrastinateDispatcher):
    concurrency = int(os.environ.get(VARIABLE, "4"))
