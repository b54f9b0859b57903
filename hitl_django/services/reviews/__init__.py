"""Services about questions: decide, claim, assign, comment, links, deadlines, the queue."""

from __future__ import annotations
