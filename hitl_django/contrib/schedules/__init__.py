"""Schedules: runs that cron expressions start.

registered.py   ``schedule()``: the schedules of the code
cron.py         due times of an expression
services.py     create, change, delete
start_due.py    the sweep step
"""

from __future__ import annotations

from .registered import schedule

__all__ = ["schedule"]
