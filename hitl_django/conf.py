"""The one Django setting of the package, ``HITL = {...}``: its keys and their defaults.

Every field of ``Settings`` is a key; its ``doc`` is its text in the reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed


def _key(default: Any, doc: str) -> Any:
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force: the defaults below, overridden by the ``HITL`` setting."""

    POLICY: str = _key(
        "hitl_django.permissions.ModelPermissionPolicy",
        "Dotted path of the class that says who may.",
    )
    DISPATCH: str = _key(
        "hitl_django.contrib.django_q2.Dispatcher",
        "Dotted path of the class that tells a worker about a queued run.",
    )
    CLUSTER: str = _key(
        "",
        "Name of a cluster of django-q2's that is for runs alone, so that a product's own tasks "
        "and runs don't wait for each other; '': the one of Q_CLUSTER.",
    )
    LEASE_SECONDS: float = _key(
        30, "How long a silent worker, or process that calls a graph, keeps a thread to itself."
    )
    HEARTBEAT_SECONDS: float = _key(10, "How often a lease is renewed.")
    SWEEP_SECONDS: float = _key(30, "How long a queued run waits before a worker is told again.")
    SWEEP_BATCH: int = _key(500, "How many runs or threads one sweep looks after at most.")
    RETENTION_DAYS: float | Mapping[str, float | None] | None = _key(
        None,
        "Days after its last run ended that the sweep deletes a thread, or days by graph, where "
        "'*' is all others; None: never.",
    )
    ARCHIVE_DAYS: float | Mapping[str, float | None] | None = _key(
        None,
        "Days after its last run ended that the sweep archives a thread, or days by graph, where "
        "'*' is all others; None: never.",
    )
    MAX_ATTEMPTS: int = _key(5, "Claims without progress after which a run is parked.")
    TIME_SLICE_SECONDS: float | None = _key(
        None, "How long a worker stays with one run; None: 60 % of the queue's own timeout."
    )
    ON_QUESTION_CHANGE: str = _key(
        "warn",
        "When a node asks something else than was answered: 'warn' uses the answer and flags the "
        "question, 'error' parks the run.",
    )
    ON_UNKNOWN_KEY: str = _key(
        "warn",
        "When a node returns a key that the state doesn't have: 'warn' drops and logs it, 'error' "
        "fails the run.",
    )
    ENCRYPTION_KEYS: Sequence[str] = _key(
        (),
        "Keys that the state of threads is encrypted with in the database, and what people are "
        "asked and answer: the first encrypts, all decrypt. Each is 32 bytes in base64.",
    )
    RECURSION_LIMIT: int = _key(1000, "Super-steps of one run before it fails.")
    CLAIM_SECONDS: float = _key(900, "How long a reviewer who claims a question holds it.")
    UNDO_SECONDS: float = _key(
        0,
        "How long who decided a question can undo that; its run goes on that much later, where "
        "'hitl worker' runs within a second more. 0: at once, and nothing can be undone.",
    )
    EXPIRING_SECONDS: float = _key(
        3600,
        "How long before a question expires interrupt_expiring is sent; one with less than twice "
        "that time is warned of at half of it.",
    )
    COMMENT_MAX_LENGTH: int = _key(10_000, "Characters of a comment.")
    ANSWER_MAX_BYTES: int = _key(256 * 1024, "Size of an answer as JSON.")
    ANSWER_MAX_DEPTH: int = _key(32, "Nesting of an answer.")
    ANSWER_MAX_ITEMS: int = _key(10_000, "Values in an answer, counted at every level.")
    SITE_URL: str = _key(
        "", "Where the site is, such as 'https://shop.example', for links in what is sent out."
    )
    IMAGE_HOSTS: Sequence[str] = _key(
        (),
        "Hosts, such as 'images.shop.example', that a payload's pictures may be loaded from; the "
        "site's content security policy has to allow them too.",
    )
    THROTTLE_LINK: str | None = _key(
        "120/min",
        "How often one review link, or from one address what is none, may be called; None: as "
        "often as one likes.",
    )
    WEBHOOK_NETWORKS: Sequence[str] = _key(
        (),
        "Private networks, such as '10.1.0.0/16', that webhooks may be sent to, by plain http too.",
    )
    WEBHOOK_TIMEOUT_SECONDS: float = _key(
        10, "How long one attempt at a webhook, or a message to Slack, may take in all."
    )
    WEBHOOK_ATTEMPTS: int = _key(
        12, "Attempts at a webhook, a mail or a message to Slack before it is given up."
    )
    DELIVERY_DAYS: float = _key(
        30, "Days that messages of all these are kept which came to their end."
    )
    NOTIFICATION_DEFAULT: str = _key(
        "now",
        "When people who have chosen nothing are told of questions, where contrib.notifications is "
        "installed: 'now', 'daily' or 'off'.",
    )
    DIGEST_HOUR: int = _key(8, "Hour of the day, in TIME_ZONE, at which the daily digest is sent.")
    DUE_REMINDER_SECONDS: float = _key(
        3600, "How long before a question is due its reviewers are told that it soon is."
    )
    EVENT_MAX_BYTES: int = _key(16 * 1024, "Size of one event of a run; the rest is cut off.")
    EVENT_RETENTION_DAYS: float | None = _key(
        None, "Days after a run ended that the sweep deletes its events; None: with the thread."
    )
    EVENT_WAIT_SECONDS: float = _key(25, "How long a request may wait for a run or its next event.")
    EVENT_POLL_SECONDS: float = _key(0.25, "How often a waiting request looks for one.")
    EVENT_WAITERS: int = _key(
        1,
        "Requests of one process that may wait for events where each holds a thread (WSGI): fewer "
        "than it has threads.",
    )
    EVENT_STREAMS: int = _key(500, "Requests of one process that may wait for events (ASGI).")
    EVENT_USER_SHARE: float = _key(
        0.25, "How much of EVENT_WAITERS and EVENT_STREAMS one user may take; one request at least."
    )
    API_KEY_USER: str | None = _key(
        None,
        "Dotted path of a function that returns the user of an 'x-api-key', or None, for clients "
        "of LangGraph's server; None: there are no such keys.",
    )
    ADMIN_ENGINE: bool = _key(
        False, "Whether the admin's index lists the engine's tables; a thread's page leads there."
    )
    PAGE_SIZE: int = _key(50, "Rows on a page of the API.")
    MAX_PAGE_SIZE: int = _key(200, "Rows a client of the API may ask for.")
    THROTTLE_READ: str | None = _key(
        "6000/min", "How often one user may read over the API; None: as often as they like."
    )
    THROTTLE_START: str | None = _key(
        "3000/min", "How often one user may start a run over the API; None: as often as they like."
    )
    THROTTLE_DECIDE: str | None = _key(
        "1200/min", "How often one user may decide over the API; None: as often as they like."
    )
    THROTTLE_WRITE: str | None = _key(
        "1200/min",
        "How often one user may change anything else over the API; None: as often as they like.",
    )


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: so many requests in so many seconds."""

    count: int
    seconds: int

    @classmethod
    def parse(cls, text: Any) -> Rate:
        """Returns the rate that is written as ``"1200/min"``; ValueError where the text is none."""
        found = _RATE.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"{text!r} is not a number of requests by sec, min, hour or day.")
        return cls(int(found["count"]), _SECONDS[found["period"]])


_SECONDS = {"sec": 1, "min": 60, "hour": 3600, "day": 86_400}
_RATE = re.compile(r"(?P<count>[1-9][0-9]{0,8})/(?P<period>sec|min|hour|day)")

KEYS = frozenset(known.name for known in fields(Settings))
#: Those that say how many requests are let through; None lets through all.
RATES = tuple(known.name for known in fields(Settings) if known.name.startswith("THROTTLE_"))


class LazySettings:
    """The values of ``HITL``, read at first use, and again after the setting has changed."""

    def __getattr__(self, name: str) -> Any:
        if name not in KEYS:
            raise AttributeError(name)
        # As attributes they are found without this method from now on.
        loaded = self._load()
        vars(self).update({key: getattr(loaded, key) for key in KEYS})
        return getattr(loaded, name)

    def _load(self) -> Settings:
        # Unknown keys are left to a system check, which can say so for all of them at once.
        given = getattr(settings, "HITL", None) or {}
        return Settings(**{name: value for name, value in given.items() if name in KEYS})

    def reload(self) -> None:
        """Has the setting read again at its next use."""
        vars(self).clear()


hitl = LazySettings()


def limit_for_user(slots: int) -> int:
    """Returns how many of the slots for requests that wait one user may take."""
    return max(1, int(slots * hitl.EVENT_USER_SHARE))


def _reload(*, setting: str, **kwargs: Any) -> None:
    if setting == "HITL":
        hitl.reload()


setting_changed.connect(_reload, dispatch_uid="hitl_django.conf")
