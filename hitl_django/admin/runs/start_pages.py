"""Pages that start a run: the choice of a graph, and the form for the graph's input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.base import ReadOnlyAdmin, View, name_graph
from hitl_django.admin.display.decision_messages import format_recorded
from hitl_django.admin.display.subject_links import link_named_subject
from hitl_django.engine.errors import HitlError
from hitl_django.errors import BrokenGraphError, NotAllowedError
from hitl_django.forms import MISSING
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import BrokenGraph, RegisteredGraph
from hitl_django.models import Run
from hitl_django.permissions import find_startable_graphs, get_policy

from .start_form import StartForm


@dataclass(frozen=True, slots=True)
class GraphChoice:
    """A graph that the user may start.

    ``problem`` is the reason why the graph can't be started now.
    """

    name: str
    title: str
    url: str
    problem: Any = ""


class StartPages(ReadOnlyAdmin):
    """Pages that start a run: the choice of a graph, and the form for the graph's input."""

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {
            **super().own_pages(),
            "start": ("start/", self.start_view),
            # This URL pattern must be last, because any text is a valid graph name.
            "start_graph": ("start/<str:graph>/", self.start_graph_view),
        }

    def start_view(self, request: HttpRequest) -> HttpResponse:
        """Show the graphs that can be started."""
        names = list(find_startable_graphs(request.user))
        if not names:
            raise PermissionDenied
        may_know = get_policy().may_view_workers(request.user)
        return self.page(
            request,
            _("Start a run"),
            "start.html",
            choices=[self._describe_graph(request, name, may_know=may_know) for name in names],
            about=link_named_subject(request, request.GET.get("subject", "")),
        )

    def start_graph_view(self, request: HttpRequest, graph: str) -> HttpResponse:
        """Show the form for a graph's input or, for a POST request, start the run."""
        if graph not in find_startable_graphs(request.user):
            raise PermissionDenied
        try:
            registered = registry.get_graph(graph)
        except BrokenGraphError:
            return HttpResponseRedirect(self.url("start", request))
        more = "" if "start" in request.POST else request.POST.get("more", "")
        data = request.POST if request.method == "POST" else None
        form = StartForm(registered, data, subject=request.GET.get("subject", ""), more=more)
        if "start" in request.POST and (run := self._start(request, registered, form)) is not None:
            return HttpResponseRedirect(self._add_message(request, form, run))
        return self.page(
            request,
            _("Start a run: %(graph)s") % {"graph": name_graph(graph)},
            "start_graph.html",
            graph=graph,
            form=form,
            about=link_named_subject(request, form.options["subject"].value()),
            back=_add_subject(request, self.url("start", request)),
        )

    def _start(
        self, request: HttpRequest, registered: RegisteredGraph, form: StartForm
    ) -> services.RunInfo | None:
        """Start the run.

        Returns None if the values are invalid.
        """
        given = form.read()
        if given is MISSING:
            return None
        options = form.options.cleaned_data
        try:
            return services.start(
                registered.name,
                given,
                context=form.read_context(),
                configurable=options["configurable"],
                by=request.user,
                via="admin",
                key=options["run_key"] or form.key,
                thread_id=options["thread_id"] or None,
                subject=options["subject"],
            )
        except HitlError as error:
            if isinstance(error, NotAllowedError) and not options["thread_id"]:
                raise
            form.refuse(error)
            return None

    def _add_message(self, request: HttpRequest, form: StartForm, run: services.RunInfo) -> str:
        """Add a message about the started run.

        Returns the URL to which the view redirects.
        """
        words = _("Run queued. It starts when a worker is available.")
        if not run.created:
            words = _("This run had already been started. No second run was created.")
        self.message_user(request, format_recorded(words, form.key), messages.SUCCESS)
        shown = self.visible(request, Run.objects.filter(pk=run.id))
        return self.url("change", request, run.id) if shown.exists() else self.url("start", request)

    def _describe_graph(self, request: HttpRequest, name: str, *, may_know: bool) -> GraphChoice:
        problem: Any = ""
        found = registry.find_graph(name)
        if isinstance(found, BrokenGraph):
            problem = _("Ask your administrator for details.")
            if may_know:
                problem = escape_hidden(found.reason)
        url = _add_subject(request, self.url("start_graph", request, name))
        return GraphChoice(name, name_graph(name), url, problem)


def _add_subject(request: HttpRequest, url: str) -> str:
    """Add the parameter ``subject`` of the current URL, if present, to ``url``.

    The parameter identifies the related object.
    """
    subject = request.GET.get("subject")
    if not subject:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode({'subject': subject})}"
