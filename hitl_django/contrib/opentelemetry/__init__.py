"""Traces and metrics with OpenTelemetry: an app for INSTALLED_APPS.

Each run is one trace. The trace id is derived from the run's id, so processes don't have to store
or share it.

trace_ids.py   ids of a run's trace and of its root span
segments.py    spans of run segments, super-steps and nodes
reviews.py     spans of interrupts, decisions and ended runs
metrics.py     metrics
attributes.py  attributes of spans and metrics: ids and names, no payloads
"""

from __future__ import annotations

from hitl_django.engine.extras import require_extra

with require_extra("opentelemetry"):
    import opentelemetry  # noqa: F401  (all modules of this package need it)
