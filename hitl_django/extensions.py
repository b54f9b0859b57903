"""Registration interface for optional apps that extend this package.

An app calls ``register()`` in its ``AppConfig.ready()``. An app that is not installed adds nothing
and is not imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from hitl_django.conf import use_settings

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import Model, QuerySet
    from django.db.models.expressions import Combinable
    from django.utils.functional import Promise

__all__ = [
    "AdminLink",
    "Archive",
    "Event",
    "Extension",
    "Finding",
    "Guests",
    "OverviewRow",
    "OverviewTable",
    "Table",
    "list_extensions",
    "list_models",
    "register",
]


Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of ``manage.py hitl doctor``: a state of the installation, and advice.

    If a finding has the level "error", the command fails.
    """

    level: Level
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guests:
    """People without an account who can decide interrupts.

    A model with a foreign key ``interrupt`` has one row per guest and interrupt. Decisions and
    audit entries of a guest have no user and contain the guest's name. In the detail of an audit
    entry, ``"invitation"`` is the id of the row, ``"guest"`` is the guest's name, and
    ``"invited_by"`` is the name of the user who invited the guest. If a guest has the email address
    of exactly one user, ``export_person()`` and ``pseudonymize_user()`` for this user also process
    the guest's data.

    Attributes:
        name: the column with the guest's name.
        email: the column with the guest's email address.
        via: the source of the guests' decisions and audit entries.
    """

    name: str
    email: str
    via: str


class Archive(ABC):
    """Methods for a model whose rows contain archived threads.

    A thread is stored either in the tables for threads or in one archive. An archived thread is
    restored in two cases: its contents are erased, or a run is started with the thread's id or with
    the idempotency key of its first run. Retention deletes archived threads like other threads.
    Archived threads are included in the export and pseudonymization of users, and in the
    re-encryption with new keys. The model has the columns ``thread_id``, ``graph``, ``key``,
    ``ended_at`` and ``digest``.
    """

    #: The binary column with the rows of the thread.
    column: str

    @abstractmethod
    def read(self, archived: Any) -> Mapping[type[Model], Sequence[Model]]:
        """Return the rows of an archived thread, by model.

        Raises:
            CorruptPayloadError: the archived rows can't be read.
        """

    @abstractmethod
    def write(self, rows: Mapping[type[Model], Sequence[Model]]) -> Mapping[str, Any]:
        """Return the values of the columns that store ``rows``, by column name.

        These columns are ``digest`` and the column that ``self.column`` names.
        """

    @abstractmethod
    def restore(self, archived: QuerySet[Any]) -> Any:
        """Move the first thread in ``archived`` from the archive to the tables of threads.

        Return the thread, with ``restored_at`` set to the current time, or None if ``archived`` is
        empty.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rules for the rows of a model: visibility, archiving, export and erasure.

    Attributes:
        model: the model, which is not a proxy.
        graph: the column with the name of a graph. Rows of a graph that is reserved for groups are
            visible only to members of these groups. Empty if rows belong to no graph.
        thread: the lookup from a row to its thread, such as ``"interrupt__thread"``. The rows are
            archived and restored with the thread, and deleted with the thread by
            ``on_delete=CASCADE``. Empty if rows belong to no thread.
        user_labels: maps each column with the name of a user to the foreign key of this user.
            ``pseudonymize_user()`` replaces the name by a pseudonym, and sets the foreign key to
            NULL.
        user_keys: for columns whose text contains primary keys of users. Maps each of these columns
            to a function that receives a row and returns the keys in the column.
            ``export_person()`` returns the rows. ``pseudonymize_user()`` doesn't change the rows,
            so the app should delete the rows after some time.
        exported: the columns that ``export_person()`` returns. By default, all columns except
            binary columns.
        erased: values that ``erase_thread()`` writes into the rows of a thread, by column.
        guests: the columns that name a person without an account. None if there are none.
        archive: how the rows store archived threads. None if the rows don't store archived threads.
    """

    model: type[Model]
    graph: str = ""
    thread: str = ""
    user_labels: Mapping[str, str] = field(default_factory=dict)
    user_keys: Mapping[str, Callable[[Any], Iterable[str]]] = field(default_factory=dict)
    exported: Sequence[str] = ()
    erased: Mapping[str, Any] = field(default_factory=dict)
    guests: Guests | None = None
    archive: Archive | None = None


class Event(NamedTuple):
    """An event that is passed to subscribers: a change of a run or an interrupt.

    Attributes:
        name: the name of the event, such as ``"interrupt.created"``.
        graph: the name of the graph.
        data: ids of the changed objects, and the name of the graph.
        group: the name of the group to which the interrupt is assigned, or an empty string.
        is_assigned: whether the interrupt is assigned to a group or a person. True for an event
            without an interrupt.
        decision: the ``Decision`` that the event is about, or None.
    """

    name: str
    graph: str
    data: Mapping[str, Any]
    group: str = ""
    is_assigned: bool = True
    decision: Any = None


class AdminLink(NamedTuple):
    """A link to a page of the admin.

    Attributes:
        label: the text of the link.
        model: the model to which the page belongs.
        page: the name of the page's URL pattern, without app and model.
    """

    label: str | Promise
    model: type[Model]
    page: str


class OverviewRow(NamedTuple):
    """A row of a table on the Overview page of the admin.

    Attributes:
        cells: texts, numbers and times, one for each column. Times are shown relative to now.
        pk: the key of the row's object. The first cell links to the object's page.
        note: a second line of the first cell.
        tone: the meaning of the last cell: "ok", "warn" or "bad". Empty for no meaning.
    """

    cells: Sequence[Any]
    pk: Any = None
    note: Any = ""
    tone: Literal["", "ok", "warn", "bad"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewTable:
    """A table of an app on the Overview page of the admin, with a link to the model's list.

    Attributes:
        title: the heading.
        model: the model whose list and pages are linked.
        columns: the labels of the columns.
        rows: the rows, at most about ten.
    """

    title: str | Promise
    model: type[Model]
    columns: Sequence[str | Promise]
    rows: Sequence[OverviewRow]


#: Called with a ``db.write_batch.WriteBatch`` and an event.
Subscriber = Callable[[Any, Event], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The additions of an optional app. Modules are given by their dotted paths.

    Attributes:
        name: the app's label.
        verbs: maps the name of each subcommand of ``manage.py hitl`` to its module. A module has
            ``HELP``, ``add_arguments(parser)`` and ``perform(command, options)``.
        api_urls: a module whose ``urlpatterns`` are added below ``api/v1/``, in the namespace
            ``hitl_django``.
        urls: a module whose ``urlpatterns`` are added to the patterns of ``hitl_django.urls``, in
            the namespace ``hitl_django``.
        panels: maps the name of each panel of the request page in the admin to the dotted path of
            its class. The class is a subclass of ``hitl_django.admin.panels.Panel``.
        admin_links: links to pages of the app, shown in the navigation of the review pages.
        overview: functions that take a user. They return a table for the Overview page of the
            admin, or None. A table contains only rows that the user may view.
        audit_verbs: labels for the verbs of the audit log entries that the app writes.
        tables: rules for the rows of the app's models.
        sweep: functions without arguments that each sweep calls after it has enqueued runs. An
            exception is logged, and the other functions are still called.
        overdue: functions with one argument, a time as a database expression. They look for work of
            the app that was due before this time and that no sweep has done. They return the due
            time of the oldest such work, or None if there is none. Worker health is based on the
            result.
        doctor: functions without arguments that yield findings.
        tasks: dotted paths of functions with one argument, a string. Messages to workers may name
            these functions. ``hitl_django.task_queue.dispatcher.enqueue_task`` adds such a message
            to a write batch.
        events: maps the name of each event that the app itself publishes to its label. Webhooks can
            be sent for these events.
        settings: a frozen dataclass whose fields are keys of HITL. The fields are created with
            ``hitl_django.conf.kinds.setting``.
        retention: names of fields of ``settings``. Each of these settings determines after how many
            days the app removes ended threads from the tables of the core. The kind of these fields
            is ``days_by_graph``.
        subscribers: functions that take a write batch and an event. They are called in the
            transaction of the event and add rows to the batch. The rows are therefore stored
            together with the change, or not at all. An exception rolls the change back.
    """

    name: str
    verbs: Mapping[str, str] = field(default_factory=dict)
    api_urls: str = ""
    urls: str = ""
    panels: Mapping[str, str] = field(default_factory=dict)
    admin_links: Sequence[AdminLink] = ()
    overview: Sequence[Callable[[Any], OverviewTable | None]] = ()
    audit_verbs: Mapping[str, str | Promise] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    sweep: Sequence[Callable[[], object]] = ()
    overdue: Sequence[Callable[[Combinable], datetime | None]] = ()
    doctor: Sequence[Callable[[], Iterable[Finding]]] = ()
    tasks: Sequence[str] = ()
    events: Mapping[str, str | Promise] = field(default_factory=dict)
    settings: type[Any] | None = None
    retention: Sequence[str] = ()
    subscribers: Sequence[Subscriber] = ()


_registered: dict[str, Extension] = {}


def register(extension: Extension) -> None:
    """Register the additions of an app. A later call with the same name replaces them.

    Raises:
        ImproperlyConfigured: another app has registered one of the verbs, audit verbs, panels,
            models, events or settings.
    """
    others = [each for each in _registered.values() if each.name != extension.name]
    kinds: tuple[tuple[str, Callable[[Extension], Iterable[str]]], ...] = (
        ("verb", lambda each: each.verbs),
        ("audit verb", lambda each: each.audit_verbs),
        ("panel", lambda each: each.panels),
        ("model", lambda each: [table.model._meta.label for table in each.tables]),
        ("event", lambda each: each.events),
    )
    for kind, get in kinds:
        taken = {item: each.name for each in others for item in get(each)}
        for item in get(extension):
            if item in taken:
                raise ImproperlyConfigured(
                    f"The app {extension.name!r} registers the {kind} {item!r}, which the app "
                    f"{taken[item]!r} has registered."
                )
    use_settings(extension.name, extension.settings)
    _registered[extension.name] = extension


def require_app(name: str) -> None:
    """Raise ImproperlyConfigured unless an app of this package is installed.

    Modules with models of optional apps call this function first. These modules are in the package
    ``hitl_django``. Without the call, Django would assign the models of an app that isn't installed
    to the app ``hitl_django``. URL modules that a project includes directly also call this
    function, because the settings of an app are unknown if the app isn't installed.
    """
    if not apps.is_installed(name):
        raise ImproperlyConfigured(f"Add {name!r} to INSTALLED_APPS to use it.")


def list_extensions() -> list[Extension]:
    """Return the registered extensions, in the order of their registration."""
    return list(_registered.values())


def iterate_tables() -> Iterator[Table]:
    """Iterate over the tables of all extensions."""
    return chain.from_iterable(each.tables for each in _registered.values())


def iterate_archives() -> Iterator[tuple[type[Model], Archive]]:
    """Iterate over the archives of all extensions, each with its model."""
    return ((each.model, each.archive) for each in iterate_tables() if each.archive is not None)


def list_subscribers() -> list[Subscriber]:
    """Return the functions that are called with each event."""
    return [each for extension in _registered.values() for each in extension.subscribers]


def list_models() -> list[type[Model]]:
    """Return the models of this package, of its installed apps and of extensions."""
    own = [
        model
        for app in apps.get_app_configs()
        if app.name.partition(".")[0] == __name__.partition(".")[0]
        for model in app.get_models()
        if not model._meta.proxy
    ]
    return [*own, *(table.model for table in iterate_tables() if table.model not in own)]


def find_table(model: type[Model]) -> Table | None:
    """Return the rules for a model, or None if no extension has registered the model."""
    return next((table for table in iterate_tables() if table.model is model), None)
