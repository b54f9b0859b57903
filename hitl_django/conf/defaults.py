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
        "Duration of a lease: if a process that executes a thread dies, the thread stays locked "
        "for up to this time.",
        positive,
    )
    HEARTBEAT_SECONDS: float = setting(10, "How often a lease is renewed.", positive)
    SWEEP_SECONDS: float = setting(
        30, "How long a run may stay queued before its message is sent again.", positive
    )
    SWEEP_BATCH: int = setting(500, "Maximum number of runs or threads processed per sweep.", count)
    RETENTION_DAYS: float | Mapping[str, float | None] | None = setting(
        None,
        "Number of days from the end of a thread's last run until the thread is deleted. A dict "
        "sets the days by graph, with '*' for all other graphs. None: threads are not deleted.",
        days_by_graph,
    )
    MAX_ATTEMPTS: int = setting(
        5, "Number of claims without progress before a run is parked.", count
    )
    TIME_SLICE_SECONDS: float | None = setting(
        None,
        "Maximum time that a worker executes a run before the worker requeues the run. None: 60 % "
        "of django-q2's timeout, or at most 60 s with another task queue.",
        positive_or_none,
    )
    ON_INTERRUPT_CHANGE: str = setting(
        "warn",
        "Effect if a decided interrupt has another payload when its node runs again. 'warn': the "
        "node receives the response, and the interrupt is marked as changed after the decision. "
        "'error': the run is parked.",
        one_of("warn", "error"),
    )
    ON_UNKNOWN_KEY: str = setting(
        "warn",
        "Effect if a node returns a key that is not in the state. 'warn': the key is ignored and "
        "logged. 'error': the run fails.",
        one_of("warn", "error"),
    )
    ENCRYPTION_KEYS: Sequence[str] = setting(
        (),
        "Keys that encrypt state, interrupts and responses in the database. New data is encrypted "
        "with the first key. All keys can decrypt data. A key has 32 bytes, encoded as base64.",
    )
    RECURSION_LIMIT: int = setting(1000, "Maximum number of super-steps per run.", count)
    CLAIM_SECONDS: float = setting(900, "How long a reviewer's claim lasts.", positive)
    UNDO_SECONDS: float = setting(
        0,
        "Time in which a reviewer can undo a decision. The run resumes only after this time, with "
        "'hitl worker' up to one second later. 0: decisions can't be undone. Decisions made before "
        "you set 0 can still be undone in their time, and their runs resume with a later sweep, in "
        "'hitl worker' up to SWEEP_SECONDS / 3 later.",
    )
    EXPIRY_WARNING_SECONDS: float = setting(
        3600,
        "Time between the signal interrupt_expiring and the expiry of the interrupt. If the time "
        "limit of an interrupt is less than twice this time, the signal is sent after half of the "
        "time limit.",
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
        "Dotted path of a function that takes a user and an interrupt, and returns the URL of the "
        "page on which the user decides the interrupt. Empty: the admin's page.",
        dotted_path,
    )
    IMAGE_HOSTS: Sequence[str] = setting(
        (),
        "Hosts from which images in payloads may be loaded, for example 'images.shop.example'. "
        "Your content security policy must allow these hosts, too.",
    )
    BRAND: Mapping[str, str] | None = setting(
        None,
        "Name, logo and accent color on the pages of review links and in emails: a dict with the "
        "optional keys 'name', 'logo' (URL or path) and 'accent' ('#rrggbb').",
        brand,
    )
    EVENT_MAX_BYTES: int = setting(
        16 * 1024, "Maximum size of one run event; larger data is truncated.", count
    )
    EVENT_RETENTION_DAYS: float | None = setting(
        None,
        "Number of days from the end of a run until its events are deleted. None: the events are "
        "deleted with the thread.",
        positive_or_none,
    )
    EVENT_WAIT_SECONDS: float = setting(
        25, "Maximum time a request waits for a run or an event.", positive
    )
    EVENT_POLL_SECONDS: float = setting(0.1, "Polling interval of waiting requests.", positive)
    EVENT_MAX_WAITING_THREADS: int = setting(
        1,
        "Maximum number of HTTP requests that wait at the same time in a process under WSGI, where "
        "each of them occupies an OS thread. Must be lower than the process's number of threads.",
        slots,
    )
    EVENT_MAX_STREAMS: int = setting(
        500,
        "Maximum number of HTTP requests that wait at the same time in a process under ASGI.",
        slots,
    )
    EVENT_MAX_USER_SHARE: float = setting(
        0.25,
        "Share of EVENT_MAX_WAITING_THREADS and EVENT_MAX_STREAMS that one user may use. A user "
        "may always use one waiting request.",
        share,
    )
    ADMIN_SHOW_ENGINE_MODELS: bool = setting(
        False,
        "Whether the admin index lists the engine's tables. The page of a thread always links to "
        "these tables.",
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
