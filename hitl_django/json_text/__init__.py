"""JSON and text: strict reading, JSON Pointer, Patch and Schema, differences, sanitizing."""

from __future__ import annotations
