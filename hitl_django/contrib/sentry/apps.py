"""App configuration, which observes workers."""

from __future__ import annotations

from django.apps import AppConfig


class SentryConfig(AppConfig):
    """App that adds tags to the reports of the project's Sentry setup."""

    name = "hitl_django.contrib.sentry"
    label = "hitl_sentry"

    def ready(self) -> None:
        from hitl_django.worker.observers import add_observer

        from .segments import observe_segment

        add_observer(observe_segment)
