"""Procrastinate's app for tests that temporarily change the installed apps."""

from __future__ import annotations

import procrastinate
from procrastinate.contrib.django import procrastinate_app
from procrastinate.contrib.django.apps import ProcrastinateConfig


class QueueConfig(ProcrastinateConfig):
    """App that is initialized once per process, because Procrastinate refuses a second
    initialization by Django.
    """

    def ready(self) -> None:
        if not isinstance(procrastinate_app.current_app, procrastinate.App):
            super().ready()
