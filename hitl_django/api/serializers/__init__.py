"""Serializers of the HTTP API: request bodies, query parameters and responses."""

from __future__ import annotations
