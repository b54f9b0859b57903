"""Operations on a run: retry, cancel, and fork from an earlier checkpoint.

Each operation is a POST request that calls a service. A destructive operation first shows a
confirmation page that describes the consequences.
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
from hitl_django.admin.base import View, format_pill
from hitl_django.admin.display.decision_messages import format_recorded
from hitl_django.engine.constants import START
from hitl_django.engine.errors import (
    GraphChangedError,
    HitlError,
    InvalidInputError,
    InvalidUpdateError,
    PayloadError,
    ThreadNotFound,
)
from hitl_django.engine.state.schema import describe_state
from hitl_django.errors import (
    CheckpointNotFound,
    NotAllowedError,
    RunNotFound,
    RunStateError,
    UnknownGraphError,
)
from hitl_django.forms import MISSING as MISSING_VALUE
from hitl_django.forms import AnswerForm, SchemaNode, read_shape
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.json_text.json_pointer import format_pointer, split_path
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
    """Form for the node and the state update of a fork.

    ``state`` is a form with the fields of the graph's state, or None if the state has no schema.
    Fields that are left blank don't change the state. If the user also enters a state update as
    JSON, the fields are ignored. A button of the form adds blank rows to a list. After a click on
    this button, ``more`` is the name of the list.
    """

    as_node = forms.ChoiceField(
        label=_("Update as node"),
        required=False,
        help_text=_(
            "Leave all fields empty to rerun the steps after this step. If you choose a "
            "node, the values are saved as the output of the node."
        ),
    )
    values = forms.CharField(
        label=_("State update"),
        required=False,
        max_length=200_000,
        help_text=_(
            'JSON, for example {"amount": 12}. These values replace the values in the fields above.'
        ),
        widget=forms.Textarea(
            attrs={"rows": 6, "class": "vLargeTextField hitl-code", "spellcheck": "false"}
        ),
    )

    def __init__(self, graph: str, data: Any = None, *, more: str = "") -> None:
        sent = {} if data is None else data
        initial = {name: sent.get(name) for name in self.base_fields}
        super().__init__(None if more else data, initial=initial)
        nodes: Any = self.fields["as_node"]
        nodes.choices = [("", "–"), *((name, escape_hidden(name)) for name in _nodes(graph))]
        shape = _read_state_shape(graph)
        self.state: AnswerForm | None = None
        if shape is not None:
            self.state = AnswerForm(shape, MISSING_VALUE, data, name="state", more=more)

    def is_valid(self) -> bool:
        is_valid = super().is_valid()
        if not is_valid or self.state is None or self.cleaned_data["values"] is not None:
            return is_valid
        return self.state.is_valid()

    @property
    def update(self) -> Any:
        """The state update in the valid form, or None if the form contains no update."""
        values = self.cleaned_data["values"]
        if values is not None or self.state is None:
            return values
        return self.state.answer or None

    def refuse(self, error: HitlError) -> None:
        """Show an error of the service next to the fields concerned, or next to the JSON field."""
        faults = error.faults if isinstance(error, InvalidInputError) else ()
        inside = [(path, reason) for path, reason in faults if path.startswith("$")]
        if self.state is None or self.cleaned_data["values"] is not None or not inside:
            self.add_error("values", str(error))
            return
        self.state.add_other_faults(
            [(format_pointer(split_path(path)), reason) for path, reason in inside]
        )

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


def _read_state_shape(graph: str) -> SchemaNode | None:
    """Return the schema of a graph's state, changed so that every field is optional.

    Returns None if the state has no fields, or if the graph isn't registered.
    """
    try:
        schema = describe_state(registry.get_graph(graph).graph.state_schema, "State")
    except UnknownGraphError:
        return None
    properties = {
        key: {name: value for name, value in part.items() if name != "default"}
        for key, part in schema.get("properties", {}).items()
        if isinstance(part, dict)
    }
    if not properties:
        return None
    kept = {key: value for key, value in schema.items() if key not in ("required", "default")}
    return read_shape({**kept, "properties": properties})


class RunOperations:
    """Mixin with the operations on runs for the ModelAdmin of runs."""

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
            pill=format_pill(run.state),
            form=form,
            refused=refused,
            back=self.url("change", request, run.pk),
            **self._at_stake(request, run),
        )

    def fork_view(
        self: Any, request: HttpRequest, object_id: str, checkpoint_id: str
    ) -> HttpResponse:
        """Show the form of a fork or, for a POST request, start the forked run."""
        run = self._operable(request, object_id)
        data, more = request.POST if request.method == "POST" else None, request.POST.get("more")
        form = ForkForm(run.graph, data, more=more or "")
        refused, status = "", 200
        # Text that was typed for another step must not appear in this form.
        draft = f"fork {run.pk} {checkpoint_id}"
        if request.method == "POST" and not more and form.is_valid():
            try:
                made = self._fork(request, run, checkpoint_id, form)
            except (RunStateError, GraphChangedError, UnknownGraphError) as error:
                refused, status = str(error), 409
            except (InvalidInputError, InvalidUpdateError, PayloadError) as error:
                form.refuse(error)
            else:
                words = _("New run queued from this step.")
                self.message_user(request, format_recorded(words, draft), messages.SUCCESS)
                return HttpResponseRedirect(self.url("change", request, made.id))
        newest = Run.select_newest(Run.objects.filter(thread=run.thread_id)).first()
        return self.page(
            request,
            run,
            "fork.html",
            status=status,
            title=_("Continue from this step"),
            pill=format_pill(run.state),
            form=form,
            draft=draft,
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
                values=form.update,
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
