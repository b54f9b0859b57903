"""Sentry: an app that adds run, graph and node to reports, and reports failed nodes.

segments.py    tags, and reports of node errors
"""

from __future__ import annotations
