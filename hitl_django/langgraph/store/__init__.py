"""Stores, which hold items for all threads."""

from __future__ import annotations
