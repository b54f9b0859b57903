"""The decision whether a failed task is retried."""

from __future__ import annotations

from ..types import RetryPolicy

#: Errors in code or data, which would occur again in a retry.
_HOPELESS = (
    ValueError,
    TypeError,
    ArithmeticError,
    ImportError,
    LookupError,
    NameError,
    SyntaxError,
    RuntimeError,
    ReferenceError,
    StopIteration,
    StopAsyncIteration,
    OSError,
)


def default_retry_on(exc: Exception) -> bool:
    """Return whether an error may be temporary, such as a lost connection or an HTTP 5xx status.

    Other HTTP statuses and some error classes, such as ValueError, are permanent. All other errors
    count as temporary.
    """
    if isinstance(exc, ConnectionError):
        return True
    status = getattr(getattr(exc, "response", None), "status_code", None)
    if isinstance(status, int):
        return 500 <= status < 600
    return not isinstance(exc, _HOPELESS)


def should_retry(policy: RetryPolicy, error: Exception) -> bool:
    """Return whether ``policy`` retries a task after ``error``.

    The number of attempts isn't checked.
    """
    wanted = policy.retry_on
    if wanted is None:
        return default_retry_on(error)
    if isinstance(wanted, type):
        return isinstance(error, wanted)
    if isinstance(wanted, (list, tuple)):
        return isinstance(error, tuple(wanted))
    if callable(wanted):
        return wanted(error)
    raise TypeError(
        "retry_on must be an Exception class, a list or tuple of Exception classes, or a callable"
    )
