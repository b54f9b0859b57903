"""Checkpointers, which store the checkpoints of threads."""

from __future__ import annotations
