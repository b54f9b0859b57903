"""The OpenAPI 3.1 document of the API, made from what its methods declare (api/operations.py).

It is built with drf-spectacular (the extra ``openapi``), and describes our addresses and nothing of
the host's; nor does a host's own document have ours, or do its ``SPECTACULAR_SETTINGS`` change it.
Everything in it is in force: the tests hold each answer of the API against it.

    generator.py    the document
    paths.py        operations: parameters, bodies, answers
    problems.py     which errors an operation answers, by status and code
    schemas.py      serializers as JSON Schema
    samples.py      examples, made from the schemas
"""

from __future__ import annotations

from .generator import Generator

__all__ = ["Generator"]
