"""Django's folder of commands; the one that there is runs the verbs."""

from __future__ import annotations
