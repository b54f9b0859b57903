"""The core's keys of the Django setting ``HITL = {...}``, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .kinds import (
    brand,
    count,
    days_by_graph,
    dotted_path,
    flag,
    one_of,
    positive,
    positive_or_none,
    rate,
    setting,
    share,
    slots,
    url,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the core."""

    POLICY: str = setting(
        "hitl_django.permissions.ModelPermissionPolicy",
        "Dotted path of the permission policy class.",
    )
    DISPATCH: str = setting(
        "hitl_django.contrib.django_q2.Dispatcher",
        "Dotted path of the dispatcher class, which notifies workers of queued runs.",
    )
    LEASE_SECONDS: float = setting(
        30,
        "Lease duration: how long a dead worker, or process that calls a graph directly, "
        "keeps its thread locked.",
        positive,
    )
    HEARTBEAT_SECONDS: float = setting(10, "How often a lease is renewed.", positive)
    SWEEP_SECONDS: float = setting(
        30, "How long a run may stay queued before its message is sent again.", positive
    )
    SWEEP_BATCH: int = setting(500, "Maximum number of runs or threads processed per sweep.", count)
    RETENTION_DAYS: float | Mapping[str, float | None] | None = setting(
        None,
        "Delete threads this many days after their last run ended. A dict sets days per "
        "graph, with '*' for all others. None: never.",
        days_by_graph,
    )
    MAX_ATTEMPTS: int = setting(
        5, "Number of claims without progress before a run is parked.", count
    )
    TIME_SLICE_SECONDS: float | None = setting(
        None,
        "Maximum time a worker spends on one run before it requeues it. None: 60 % of "
        "the queue's task timeout, at most 60 s except with django-q2.",
        positive_or_none,
    )
    ON_INTERRUPT_CHANGE: str = setting(
        "warn",
        "What to do if a decided interrupt has a different payload when its node runs again. "
        "'warn': use the response and flag the interrupt. 'error': park the run.",
        one_of("warn", "error"),
    )
    ON_UNKNOWN_KEY: str = setting(
        "warn",
        "What to do if a node returns a key that is not in the state. 'warn': drop and "
        "log it. 'error': fail the run.",
        one_of("warn", "error"),
    )
    ENCRYPTION_KEYS: Sequence[str] = setting(
        (),
        "Keys for encrypting state, interrupts and responses in the database. The first "
        "key encrypts; all keys decrypt. Each is 32 bytes, base64-encoded.",
    )
    RECURSION_LIMIT: int = setting(1000, "Maximum number of super-steps per run.", count)
    CLAIM_SECONDS: float = setting(900, "How long a reviewer's claim lasts.", positive)
    UNDO_SECONDS: float = setting(
        0,
        "How long a reviewer can undo a decision. The run resumes after this delay (plus "
        "up to one second with 'hitl worker'). 0: disabled.",
    )
    EXPIRY_WARNING_SECONDS: float = setting(
        3600,
        "How long before an interrupt expires the interrupt_expiring signal is sent. For "
        "interrupts with less than twice that time, it is sent halfway.",
        positive,
    )
    COMMENT_MAX_LENGTH: int = setting(10_000, "Maximum length of a comment.", count)
    RESPONSE_MAX_BYTES: int = setting(256 * 1024, "Maximum size of a response as JSON.", count)
    RESPONSE_MAX_DEPTH: int = setting(32, "Maximum nesting depth of a response.", count)
    RESPONSE_MAX_ITEMS: int = setting(
        10_000, "Maximum number of values in a response, counted at all levels.", count
    )
    SITE_URL: str = setting(
        "", "URL of the site, such as 'https://shop.example', for links in messages.", url
    )
    REQUEST_URL: str = setting(
        "",
        "Dotted path of a function of a user and an interrupt, which returns the URL of the page "
        "on which the user decides the interrupt. Empty: the admin's page.",
        dotted_path,
    )
    IMAGE_HOSTS: Sequence[str] = setting(
        (),
        "Hosts that images in payloads may be loaded from, for example "
        "'images.shop.example'. Your content security policy must allow them, too.",
    )
    BRAND: Mapping[str, str] | None = setting(
        None,
        "Name, logo and accent color on pages of links and in emails: a dict with the keys "
        "'name', 'logo' (URL or path) and 'accent' ('#rrggbb'), all optional.",
        brand,
    )
    EVENT_MAX_BYTES: int = setting(
        16 * 1024, "Maximum size of one run event; larger data is truncated.", count
    )
    EVENT_RETENTION_DAYS: float | None = setting(
        None,
        "Delete the events of a run this many days after it ended. None: keep them with "
        "the thread.",
        positive_or_none,
    )
    EVENT_WAIT_SECONDS: float = setting(
        25, "Maximum time a request waits for a run or an event.", positive
    )
    EVENT_POLL_SECONDS: float = setting(0.1, "Polling interval of waiting requests.", positive)
    EVENT_MAX_WAITING_THREADS: int = setting(
        1,
        "Maximum number of waiting requests per process under WSGI, where each occupies "
        "a thread. Must be lower than the number of threads.",
        slots,
    )
    EVENT_MAX_STREAMS: int = setting(
        500, "Maximum number of waiting requests per process under ASGI.", slots
    )
    EVENT_MAX_USER_SHARE: float = setting(
        0.25,
        "Share of EVENT_MAX_WAITING_THREADS and EVENT_MAX_STREAMS that one user may use; "
        "at least one request.",
        share,
    )
    ADMIN_SHOW_ENGINE_MODELS: bool = setting(
        False,
        "Whether the admin index lists the engine's tables. They are always linked from "
        "a thread's page.",
        flag,
    )
    PAGE_SIZE: int = setting(50, "Default page size of the API.", count)
    MAX_PAGE_SIZE: int = setting(200, "Maximum page size of the API.", count)
    THROTTLE_READ: str | None = setting(
        "6000/min", "Rate limit per user for API reads. None: unlimited.", rate
    )
    THROTTLE_START: str | None = setting(
        "3000/min",
        "Rate limit per user for starting runs via the API. None: unlimited.",
        rate,
    )
    THROTTLE_DECIDE: str | None = setting(
        "1200/min", "Rate limit per user for API decisions. None: unlimited.", rate
    )
    THROTTLE_WRITE: str | None = setting(
        "1200/min",
        "Rate limit per user for all other API writes. None: unlimited.",
        rate,
    )
