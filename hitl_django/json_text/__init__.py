"""JSON and text: strict parsing, JSON Pointer, Patch and Schema, differences, sanitizing."""

from __future__ import annotations
