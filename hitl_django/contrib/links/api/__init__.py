"""The API of review links."""

from __future__ import annotations
