"""The command ``manage.py hitl VERB``, which runs the module of the verb."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from hitl_django.extensions import list_extensions

from .. import (
    decide,
    doctor,
    export_audit,
    export_person,
    graph,
    list_rows,
    preflight,
    pseudonymize_user,
    purge,
    reencrypt,
    retry,
    show,
    start,
    sweep,
    verify_audit,
    verify_backup,
    worker,
)
from ..diagnosis import find_obstacle
from ..forked_call import call_in_fork

VERBS = {
    "verify-backup": verify_backup,
    "decide": decide,
    "doctor": doctor,
    "export-audit": export_audit,
    "export-person": export_person,
    "pseudonymize-user": pseudonymize_user,
    "graph": graph,
    "list": list_rows,
    "preflight": preflight,
    "reencrypt": reencrypt,
    "purge": purge,
    "retry": retry,
    "show": show,
    "start": start,
    "sweep": sweep,
    "verify-audit": verify_audit,
    "worker": worker,
}


class Command(BaseCommand):
    """Management command that runs the module of a verb."""

    help = "Start and manage runs."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
        for name, module in list_verbs().items():
            verb = verbs.add_parser(name, help=module.HELP, description=module.HELP)
            module.add_arguments(verb)
            verb.set_defaults(perform=module.perform)

    def check(self, *args: Any, **options: Any) -> None:
        # The checks import the admin and the API, which a worker's supervisor doesn't need.
        call_in_fork(partial(super().check, *args, **options))

    def handle(self, *args: Any, **options: Any) -> None:
        verb = options["verb"]
        if verb != "doctor":
            # ``preflight --structures`` reads a file and needs no database, for example in CI.
            refuse_unready(needs_database=verb != "worker" and not options.get("structures"))
        options["perform"](self, options)


def list_verbs() -> dict[str, Any]:
    """Return the modules of all verbs, by verb.

    Raises:
        CommandError: if an optional app defines a verb of this package.
    """
    found = dict[str, Any](VERBS)
    for extension in list_extensions():
        for name, path in extension.verbs.items():
            if name in VERBS:
                raise CommandError(
                    f"The verb {name!r} of the app {extension.name!r} is one of hitl_django's own."
                )
            found[name] = import_module(path)
    return found


def refuse_unready(*, needs_database: bool) -> None:
    """Raise CommandError if a problem of the installation would make every command fail.

    The error contains the finding that ``doctor`` reports about the problem. If ``needs_database``
    is false, an unavailable database is ignored.
    """
    found = call_in_fork(partial(find_obstacle, needs_database=needs_database))
    if found is not None:
        raise CommandError(f"{found.message} {found.advice}")
