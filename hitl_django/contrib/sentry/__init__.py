"""Sentry: an app that adds the run, graph and node to Sentry's reports, and reports failed nodes.

segments.py    tags, and reports of node errors
"""

from __future__ import annotations
