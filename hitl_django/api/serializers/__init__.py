"""Serializers of the API, field by field: nothing is shown or taken because a model has it."""

from __future__ import annotations
