"""Sentry: an app that puts run, graph and node on what is reported, and reports failed nodes.

segments.py    the tags, and a node's error
"""

from __future__ import annotations
