"""App configuration, which observes workers and decisions."""

from __future__ import annotations

from django.apps import AppConfig


class OpenTelemetryConfig(AppConfig):
    """App that records spans and metrics with the project's OpenTelemetry provider."""

    name = "hitl_django.contrib.opentelemetry"
    label = "hitl_opentelemetry"

    def ready(self) -> None:
        from hitl_django.worker.observers import add_observer

        from . import reviews
        from .segments import observe_segment

        add_observer(observe_segment)
        reviews.connect()
