"""Pages for people without an account: base template, headers and common messages."""

from __future__ import annotations
