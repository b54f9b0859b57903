"""Operations on a run: retry, cancel, and fork from an earlier checkpoint.

Each operation is a POST request that calls a service. A destructive operation first shows a
confirmation page that lists the losses.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.base import View
from hitl_django.admin.display.decision_messages import format_recorded
from hitl_django.engine.constants import START
from hitl_django.engine.errors import (
    GraphChangedError,
    InvalidInputError,
    InvalidUpdateError,
    PayloadError,
    ThreadNotFound,
)
from hitl_django.errors import (
    CheckpointNotFound,
    NotAllowedError,
    RunNotFound,
    RunStateError,
    UnknownGraphError,
)
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.json_text.strict_json import parse_strict
from hitl_django.models import Interrupt, Run
from hitl_django.permissions import get_policy, select_visible
from hitl_django.services.runs.cancel import CANCELLABLE
from hitl_django.services.runs.operate import RETRYABLE

#: Maximum number of pending interrupts that the confirmation of a cancellation lists.
LISTED = 20
MISSING = (RunNotFound, ThreadNotFound, CheckpointNotFound)


class CancelForm(forms.Form):
    """Form for the reason of a cancellation. The audit log contains the reason."""

    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=2000,
        help_text=_("Optional. Saved in the audit log."),
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField", "dir": "auto"}),
    )


class ForkForm(forms.Form):
    """Form for the node and the state update of a fork."""

    as_node = forms.ChoiceField(
        label=_("As node"),
        required=False,
        help_text=_(
            "Leave both fields empty to rerun the steps after this one. With a node, the "
            "values are written as if that node had returned them."
        ),
    )
    values = forms.CharField(
        label=_("State update"),
        required=False,
        max_length=200_000,
        help_text=_('JSON, for example {"amount": 12}. Leave empty to keep the state.'),
        widget=forms.Textarea(
            attrs={"rows": 6, "class": "vLargeTextField hitl-code", "spellcheck": "false"}
        ),
    )

    def __init__(self, graph: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        nodes: Any = self.fields["as_node"]
        nodes.choices = [("", "–"), *((name, escape_hidden(name)) for name in _nodes(graph))]

    def clean_values(self) -> Any:
        text = self.cleaned_data["values"].strip()
        if not text:
            return None
        try:
            return parse_strict(text)
        except ValueError:
            raise forms.ValidationError(_("Enter valid JSON.")) from None


def _nodes(graph: str) -> list[str]:
    try:
        return [name for name in registry.get_graph(graph).graph.nodes if name != START]
    except UnknownGraphError:
        return []


class RunOperations:
    """Operations of operators, mixed into the ModelAdmin of runs."""

    def operations(self: Any, request: HttpRequest, run: Run) -> dict[str, Any]:
        """Return the operations that the user can perform on a run."""
        may = get_policy().may_operate(request.user, run)
        return {
            "may_operate": may,
            "can_retry": may and run.state in RETRYABLE,
            "can_cancel": may and run.state in CANCELLABLE,
        }

    def own_pages(self: Any) -> dict[str, tuple[str, View]]:
        return {
            "retry": ("<path:object_id>/retry/", self.retry_view),
            "cancel": ("<path:object_id>/cancel/", self.cancel_view),
            "fork": ("<path:object_id>/fork/<str:checkpoint_id>/", self.fork_view),
        }

    def retry_view(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        """Queue a failed or parked run again."""
        run = self._operable(request, object_id)
        if request.method == "POST":
            try:
                services.retry(run.pk, by=request.user, via="admin")
            except RunStateError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                message = _("Run queued. It resumes from its last saved step.")
                self.message_user(request, message, messages.SUCCESS)
        return HttpResponseRedirect(self.url("change", request, run.pk))

    def cancel_view(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the confirmation page of a cancellation, or cancel the run."""
        run = self._operable(request, object_id)
        form = CancelForm(request.POST or None)
        refused = ""
        if request.method == "POST" and form.is_valid():
            try:
                reason = form.cleaned_data["reason"]
                services.cancel(run.pk, by=request.user, via="admin", reason=reason)
            except RunStateError as error:
                refused = str(error)
            else:
                words = _("Run cancelled. Its saved state is kept.")
                message = format_recorded(words, f"cancel {run.pk}")
                self.message_user(request, message, messages.SUCCESS)
                return HttpResponseRedirect(self.url("change", request, run.pk))
        return self.page(
            request,
            run,
            "cancel.html",
            status=409 if refused else 200,
            title=_("Cancel this run?"),
            form=form,
            refused=refused,
            back=self.url("change", request, run.pk),
            **self._at_stake(request, run),
        )

    def fork_view(
        self: Any, request: HttpRequest, object_id: str, checkpoint_id: str
    ) -> HttpResponse:
        """Show the form of a fork, or create its run."""
        run = self._operable(request, object_id)
        form = ForkForm(run.graph, request.POST if request.method == "POST" else None)
        refused, status = "", 200
        if request.method == "POST" and form.is_valid():
            try:
                made = self._fork(request, run, checkpoint_id, form)
            except (RunStateError, GraphChangedError, UnknownGraphError) as error:
                refused, status = str(error), 409
            except (InvalidInputError, InvalidUpdateError, PayloadError) as error:
                form.add_error("values", str(error))
            else:
                words = _("New run queued from this step.")
                message = format_recorded(words, f"fork {run.pk}")
                self.message_user(request, message, messages.SUCCESS)
                return HttpResponseRedirect(self.url("change", request, made.id))
        newest = Run.select_newest(Run.objects.filter(thread=run.thread_id)).first()
        return self.page(
            request,
            run,
            "fork.html",
            status=status,
            title=_("Fork from this step?"),
            form=form,
            refused=refused,
            step=self._step(run, checkpoint_id),
            is_live=newest is not None and newest.state in Run.ACTIVE,
            back=self.url("change", request, run.pk),
            **self._at_stake(request, newest or run),
        )

    def _fork(
        self: Any, request: HttpRequest, run: Run, checkpoint_id: str, form: ForkForm
    ) -> services.RunInfo:
        try:
            return services.fork(
                run.thread.thread_id,
                checkpoint_id,
                values=form.cleaned_data["values"],
                as_node=form.cleaned_data["as_node"] or None,
                by=request.user,
                via="admin",
            )
        except MISSING:
            raise Http404 from None
        except NotAllowedError:
            raise PermissionDenied from None

    def _step(self: Any, run: Run, checkpoint_id: str) -> Any:
        rows = run.thread.checkpoints.filter(ns="", checkpoint_id=checkpoint_id)
        found = rows.values("step", "source", "created_at").first()
        if found is None:
            raise Http404
        return found

    def _operable(self: Any, request: HttpRequest, object_id: str) -> Run:
        run: Run = self.get_object(request, unquote(object_id))
        if not get_policy().may_operate(request.user, run):
            raise PermissionDenied
        return run

    def _at_stake(self: Any, request: HttpRequest, run: Run) -> dict[str, Any]:
        interrupts = Interrupt.objects.filter(run=run, status=Interrupt.Status.PENDING)
        seen = select_visible(interrupts, request.user).order_by("created_at", "index", "id")
        titles = list(seen.values_list("title", flat=True)[:LISTED])
        return {"interrupts": titles, "unlisted": interrupts.count() - len(titles)}
