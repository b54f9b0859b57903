"""Registered graphs: by name, with review policy, compatibility of stored runs, and picture."""

from __future__ import annotations
