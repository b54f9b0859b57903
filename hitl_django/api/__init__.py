"""HTTP API based on Django REST Framework, versioned by path.

``include("hitl_django.urls")`` mounts the API at ``api/v1/``.

    urls.py         paths and their views
    views/          one class per path: parse, call a service, render
    operations.py   declarations of parameters, bodies and responses at the view methods
    openapi/        the OpenAPI document, generated from these declarations
    serializers/    bodies, queries and responses, field by field
    querysets.py    rows that a user can view
    filters.py, paging.py                 query parameters of lists, cursors
    parsers.py, request_bodies.py         size-limited JSON bodies
    renderers.py                          JSON responses
    waiting_response.py, event_stream.py  long polling and server-sent events
    queue_stream.py                       changes of one page of interrupts as events
    preconditions.py                      ETags, If-Match, Idempotency-Key
    problems.py, problem_extensions.py, invalid_params.py    errors as problems (RFC 9457)
    throttles.py, url_converters.py       rate limits per user; ids in paths

The API reads only through the policy's querysets and writes only through ``services``.
"""
