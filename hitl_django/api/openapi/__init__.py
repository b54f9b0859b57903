"""The OpenAPI 3.1 document of the API, made from the operations that its views declare.

It describes our paths and nothing of the host's; nor does a host's own document have ours, or do
its ``SPECTACULAR_SETTINGS`` change it. Everything in it is in force: the tests hold each response
of the API against it.

Of drf-spectacular (the extra ``openapi``) it takes the generator's frame, the registry of
components and the authentication schemes, and not ``extend_schema``. That needs drf-spectacular
when a view is imported, takes its base from the host's ``DEFAULT_SCHEMA_CLASS``, and would repeat
what a view needs at run time anyway (body, query, throttle: ``operation``). Its schemas of our
serializers leave out what makes them strict: closed bodies, fields of which one group is given, the
formats and bounds of our fields.

    generator.py    the document
    paths.py        operation objects: parameters, bodies, responses
    problems.py     error responses of an operation, by status and code
    schemas.py      serializers as JSON Schema
    examples.py     examples, made from the schemas
"""

from __future__ import annotations

from .generator import Generator

__all__ = ["Generator"]
