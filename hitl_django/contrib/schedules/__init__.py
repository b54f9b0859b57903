"""Schedules: runs that cron expressions start.

registered.py   ``schedule()``: schedules that are defined in code
cron.py         due times of a cron expression
services.py     create, change and delete schedules
start_due.py    the sweep step that starts due runs
"""

from __future__ import annotations

from .registered import schedule

__all__ = ["schedule"]
