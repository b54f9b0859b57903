"""A typed Django form, made on the server from a JSON schema or from a payload.

``read_shape`` and ``infer_shape`` say what kind of answer is wanted, ``AnswerForm`` asks for it.
A post that changes nothing gives back exactly the value the form was made from.
"""

from __future__ import annotations

from .answer_form import AnswerForm
from .custom_form import CustomForm
from .schema_tree import MISSING, SchemaNode, infer_shape, read_shape

__all__ = ["MISSING", "AnswerForm", "CustomForm", "SchemaNode", "infer_shape", "read_shape"]
