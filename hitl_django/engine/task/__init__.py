"""One node call: its function, its context, what node code may call, and how it is run."""

from __future__ import annotations
