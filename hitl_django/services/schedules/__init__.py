"""Schedules: made, changed, deleted; and the runs that they start."""

from __future__ import annotations
