"""OpenAPI 3.1 document of the API, generated from the operations declared at its views.

The document describes only the paths of this API. The project's own document excludes them, and
``SPECTACULAR_SETTINGS`` has no effect here. The tests validate every API response against the
document.

The generator uses three parts of drf-spectacular (the extra ``openapi``): the generator class, the
component registry and the authentication schemes. It doesn't use ``extend_schema``, for these
reasons:

- ``extend_schema`` requires drf-spectacular at import time, and builds on the project's
  ``DEFAULT_SCHEMA_CLASS``.
- It would repeat declarations that a view needs at run time (``operation``): body, query and
  throttle.
- Schemas that drf-spectacular infers from serializers omit strict rules: no unknown fields,
  mutually exclusive fields, formats and bounds.

    generator.py    the document
    paths.py        operation objects: parameters, bodies, responses
    problems.py     error responses of an operation, by status and code
    schemas.py      serializers as JSON Schema
    examples.py     examples, generated from the schemas
"""

from __future__ import annotations

from .generator import Generator

__all__ = ["Generator"]
