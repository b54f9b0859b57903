"""JSON and text: sanitizing, JSON Schema, JSON Patch and readable differences."""

from __future__ import annotations
