"""Serializers of the API, with explicitly declared fields."""

from __future__ import annotations
