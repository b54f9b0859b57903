"""The keys of the Django setting ``HITL = {...}`` that the core has, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .kinds import (
    count,
    days_by_graph,
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
    """The settings of the core."""

    POLICY: str = setting(
        "hitl_django.permissions.ModelPermissionPolicy",
        "Dotted path of the class that says who may.",
    )
    DISPATCH: str = setting(
        "hitl_django.contrib.django_q2.Dispatcher",
        "Dotted path of the class that tells a worker about a queued run.",
    )
    CLUSTER: str = setting(
        "",
        "Name of a cluster of django-q2's that is for runs alone, so that a product's own tasks "
        "and runs don't wait for each other; '': the one of Q_CLUSTER.",
    )
    LEASE_SECONDS: float = setting(
        30,
        "How long a silent worker, or process that calls a graph, keeps a thread to itself.",
        positive,
    )
    HEARTBEAT_SECONDS: float = setting(10, "How often a lease is renewed.", positive)
    SWEEP_SECONDS: float = setting(
        30, "How long a queued run waits before a worker is told again.", positive
    )
    SWEEP_BATCH: int = setting(
        500, "How many runs or threads one sweep looks after at most.", count
    )
    RETENTION_DAYS: float | Mapping[str, float | None] | None = setting(
        None,
        "Days after its last run ended that the sweep deletes a thread, or days by graph, where "
        "'*' is all others; None: never.",
        days_by_graph,
    )
    MAX_ATTEMPTS: int = setting(5, "Claims without progress after which a run is parked.", count)
    TIME_SLICE_SECONDS: float | None = setting(
        None,
        "How long a worker stays with one run; None: 60 % of the queue's own timeout.",
        positive_or_none,
    )
    ON_INTERRUPT_CHANGE: str = setting(
        "warn",
        "When a node asks something else than was answered: 'warn' uses the answer and flags the "
        "question, 'error' parks the run.",
        one_of("warn", "error"),
    )
    ON_UNKNOWN_KEY: str = setting(
        "warn",
        "When a node returns a key that the state doesn't have: 'warn' drops and logs it, 'error' "
        "fails the run.",
        one_of("warn", "error"),
    )
    ENCRYPTION_KEYS: Sequence[str] = setting(
        (),
        "Keys that the state of threads is encrypted with in the database, and what people are "
        "asked and answer: the first encrypts, all decrypt. Each is 32 bytes in base64.",
    )
    RECURSION_LIMIT: int = setting(1000, "Super-steps of one run before it fails.", count)
    CLAIM_SECONDS: float = setting(
        900, "How long a reviewer who claims a question holds it.", positive
    )
    UNDO_SECONDS: float = setting(
        0,
        "How long who decided a question can undo that; its run goes on that much later, where "
        "'hitl worker' runs within a second more. 0: at once, and nothing can be undone.",
    )
    EXPIRY_WARNING_SECONDS: float = setting(
        3600,
        "How long before a question expires interrupt_expiring is sent; one with less than twice "
        "that time is warned of at half of it.",
        positive,
    )
    COMMENT_MAX_LENGTH: int = setting(10_000, "Characters of a comment.", count)
    ANSWER_MAX_BYTES: int = setting(256 * 1024, "Size of an answer as JSON.", count)
    ANSWER_MAX_DEPTH: int = setting(32, "Nesting of an answer.", count)
    ANSWER_MAX_ITEMS: int = setting(10_000, "Values in an answer, counted at every level.", count)
    SITE_URL: str = setting(
        "", "URL of the site, such as 'https://shop.example', for links in messages.", url
    )
    IMAGE_HOSTS: Sequence[str] = setting(
        (),
        "Hosts, such as 'images.shop.example', that a payload's pictures may be loaded from; the "
        "site's content security policy has to allow them too.",
    )
    EVENT_MAX_BYTES: int = setting(
        16 * 1024, "Size of one event of a run; the rest is cut off.", count
    )
    EVENT_RETENTION_DAYS: float | None = setting(
        None,
        "Days after a run ended that the sweep deletes its events; None: with the thread.",
        positive_or_none,
    )
    EVENT_WAIT_SECONDS: float = setting(
        25, "How long a request may wait for a run or its next event.", positive
    )
    EVENT_POLL_SECONDS: float = setting(
        0.25, "How often a waiting request looks for one.", positive
    )
    EVENT_MAX_WAITING_THREADS: int = setting(
        1,
        "Requests of one process that may wait for events where each holds a thread (WSGI): fewer "
        "than it has threads.",
        slots,
    )
    EVENT_MAX_STREAMS: int = setting(
        500, "Requests of one process that may wait for events (ASGI).", slots
    )
    EVENT_MAX_USER_SHARE: float = setting(
        0.25,
        "Share of EVENT_MAX_WAITING_THREADS and EVENT_MAX_STREAMS that one user may use; "
        "at least one request.",
        share,
    )
    API_KEY_USER_RESOLVER: str | None = setting(
        None,
        "Dotted path of a function that returns the user of an 'x-api-key', or None, for clients "
        "of LangGraph's server; None: there are no such keys.",
    )
    ADMIN_SHOW_ENGINE_MODELS: bool = setting(
        False,
        "Whether the admin's index lists the engine's tables; a thread's page leads there.",
        flag,
    )
    PAGE_SIZE: int = setting(50, "Rows on a page of the API.", count)
    MAX_PAGE_SIZE: int = setting(200, "Rows a client of the API may ask for.", count)
    THROTTLE_READ: str | None = setting(
        "6000/min", "How often one user may read over the API; None: as often as they like.", rate
    )
    THROTTLE_START: str | None = setting(
        "3000/min",
        "How often one user may start a run over the API; None: as often as they like.",
        rate,
    )
    THROTTLE_DECIDE: str | None = setting(
        "1200/min", "How often one user may decide over the API; None: as often as they like.", rate
    )
    THROTTLE_WRITE: str | None = setting(
        "1200/min",
        "How often one user may change anything else over the API; None: as often as they like.",
        rate,
    )
