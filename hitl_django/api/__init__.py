"""The HTTP API (DRF), versioned by path: ``include("hitl_django.urls")`` mounts it at ``api/v1/``.

    urls.py         paths to views
    views/          one class for each path: parse, call a service, render
    operations.py   what a view's method takes and answers, declared at the method
    openapi/        the document, made from these declarations
    serializers/    bodies, queries and responses, field by field
    querysets.py    the rows that a user may see
    filters.py, paging.py                 query parameters of lists, cursors
    parsers.py, request_bodies.py         JSON bodies, within limits
    renderers.py                          JSON responses
    waiting_response.py, event_stream.py  long polling, and server-sent events
    queue_stream.py                       what changes of a page of questions
    preconditions.py                      ETags, If-Match, Idempotency-Key
    problems.py, problem_extensions.py, invalid_params.py    errors as problems (RFC 9457)
    throttles.py, url_converters.py       rates for each user; ids in paths

It reads through the policy's querysets and writes through ``services``, nothing else.
"""
