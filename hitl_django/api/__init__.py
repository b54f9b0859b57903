"""The HTTP API, versioned by path: ``include("hitl_django.urls")`` mounts it at ``api/v1/``.

    views/        permission, service call, rendering: no logic
    operations.py what a method takes and answers, declared at the method; openapi/ makes the
                  document of it
    resource.py   what every view of ours has in common, whatever the host's DRF settings say
    serializers.py, executions.py, reviewing.py, fields.py    what goes in and out, field by field
    parsers.py, strictjson.py    JSON as strangers send it
    errors.py     the one table from our errors to HTTP answers (RFC 9457), with members.py
    filters.py, paging.py, conditions.py    query parameters, cursors, If-Match and Idempotency-Key
    throttles.py, addresses.py    how often; and ids in addresses that aren't ours to choose

It reads through the policy's querysets and writes through ``services``, nothing else.
"""
