"""Node calls: the function, its context, the functions for node code, and its execution."""

from __future__ import annotations
