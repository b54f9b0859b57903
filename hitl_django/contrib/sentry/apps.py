"""The app: has workers heard of."""

from __future__ import annotations

from django.apps import AppConfig


class SentryConfig(AppConfig):
    """Tags for whatever the project has set up by ``sentry_sdk.init``."""

    name = "hitl_django.contrib.sentry"
    label = "hitl_sentry"

    def ready(self) -> None:
        from hitl_django.worker.observers import add_observer

        from .segments import observe_segment

        add_observer(observe_segment)
