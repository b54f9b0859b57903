"""Typed Django forms generated from a JSON schema or from a payload.

``read_shape`` and ``infer_shape`` return the schema tree of a value, and ``AnswerForm`` is the form
of a schema tree. A form submitted without changes returns exactly the original value.
"""

from __future__ import annotations

from .answer_form import AnswerForm
from .custom_form import CustomForm
from .schema_tree import MISSING, SchemaNode, infer_shape, list_hints, read_shape

__all__ = [
    "MISSING",
    "AnswerForm",
    "CustomForm",
    "SchemaNode",
    "infer_shape",
    "list_hints",
    "read_shape",
]
