"""Stores of items that all threads share."""

from __future__ import annotations
