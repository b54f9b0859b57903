"""Calls of nodes: the function, its context, the API for node code, and the execution."""

from __future__ import annotations
