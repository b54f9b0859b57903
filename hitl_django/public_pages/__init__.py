"""Pages for people without an account: their frame, headers and common messages."""

from __future__ import annotations
