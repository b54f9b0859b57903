"""Services for interrupts: decisions, claims, assignments, comments, deadlines and the queue."""

from __future__ import annotations
