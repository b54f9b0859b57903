"""Traces and metrics by OpenTelemetry: an app that a project adds to INSTALLED_APPS.

A run is one trace, whose id follows from the run's: nothing of it is stored, and each process that
has a part in the run finds it by itself.

trace_ids.py   the ids of a run's trace and of its first span
segments.py    spans of a worker's stretch, its super-steps and nodes
reviews.py     spans of questions and decisions, and of a run that has ended
figures.py     the metrics
attributes.py  what spans and metrics are told apart by: ids and names, and no payloads
"""

from __future__ import annotations
