"""Services about questions: decide, claim, assign, comment, deadlines, the queue."""

from __future__ import annotations
