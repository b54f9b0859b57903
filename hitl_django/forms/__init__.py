"""Typed Django forms generated from a JSON schema or from a payload.

``read_shape`` converts a JSON schema to a schema tree (``SchemaNode``). ``infer_shape`` derives a
schema tree from a payload. ``AnswerForm`` is a form with the fields of a schema tree. A form
submitted without changes returns exactly the original value. ``form_for`` returns the form with
which a page of a project decides an interrupt.
"""

from __future__ import annotations

from .answer_form import AnswerForm
from .custom_form import CustomForm
from .response_form import ResponseForm, form_for
from .schema_tree import MISSING, SchemaNode, infer_shape, list_hints, read_shape

__all__ = [
    "MISSING",
    "AnswerForm",
    "CustomForm",
    "ResponseForm",
    "SchemaNode",
    "form_for",
    "infer_shape",
    "list_hints",
    "read_shape",
]
