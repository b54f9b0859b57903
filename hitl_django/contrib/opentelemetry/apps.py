"""The app: has workers and decisions heard of."""

from __future__ import annotations

from django.apps import AppConfig


class OpenTelemetryConfig(AppConfig):
    """Spans and metrics for whatever provider the project has set up."""

    name = "hitl_django.contrib.opentelemetry"
    label = "hitl_opentelemetry"

    def ready(self) -> None:
        from hitl_django.worker.observers import add_observer

        from . import reviews
        from .segments import observe_segment

        add_observer(observe_segment)
        reviews.connect()
