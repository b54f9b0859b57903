"""Sentry: an app that adds the run, graph and node to Sentry's reports, and reports failed nodes.

segments.py    tags, and reports of node errors
"""

from __future__ import annotations

from hitl_django.engine.extras import require_extra

with require_extra("sentry"):
    import sentry_sdk  # noqa: F401  (all modules of this package need it)
