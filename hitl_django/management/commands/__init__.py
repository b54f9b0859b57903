"""Django's package of commands, with the single command ``hitl``."""

from __future__ import annotations
