"""Type variables of graphs."""

from __future__ import annotations

from hitl_django.engine.types import ContextT, InputT, OutputT, StateT

__all__ = [
    "ContextT",
    "InputT",
    "OutputT",
    "StateT",
]
