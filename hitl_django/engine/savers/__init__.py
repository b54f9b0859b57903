"""Checkpoint savers: the interface, the stored data, and an in-memory saver."""

from __future__ import annotations
