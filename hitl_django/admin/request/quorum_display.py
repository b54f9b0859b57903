"""Approvals of an interrupt that needs several approvals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from hitl_django.admin.display.diff_display import Difference, list_patch_differences
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Decision, Interrupt

SELF_APPROVAL = gettext_lazy("You started this run, so someone else has to approve this request.")


@dataclass(frozen=True)
class QuorumStatus:
    """The approvals of an interrupt's current version.

    ``words`` is a text about the approvals. ``changes`` are the changes that the first approval
    made. ``barred`` is the reason why the user can't approve, or empty if the user can approve.
    ``is_own`` is true if the reason is that the user started the run.
    """

    words: str = ""
    changes: Sequence[Difference] = ()
    barred: Any = ""
    is_own: bool = False


def read_quorum(
    item: Interrupt, approvals: Sequence[Decision], user: Any, *, own: bool
) -> QuorumStatus:
    """Return the approval status of an interrupt.

    ``approvals`` are the approvals of the current version. ``own`` is true if the user can't
    approve because the user started the run.
    """
    return QuorumStatus(
        words=_words(item, approvals),
        changes=list_patch_differences(item, (item.proposal or {}).get("patch")),
        barred=SELF_APPROVAL if own else _barred(approvals, user),
        is_own=own,
    )


def read_approvals(items: Sequence[Interrupt]) -> dict[Any, list[Decision]]:
    """Return the approvals of each interrupt's current version, by interrupt id, oldest first."""
    jointly = {item.pk: item for item in items if item.quorum > 1 and item.approvals}
    if not jointly:
        return {}
    rows = Decision.objects.filter(interrupt__in=jointly, effective=None).defer("value", "patch")
    found: dict[Any, list[Decision]] = {}
    for approval in rows.order_by("created_at", "id"):
        if approval.version == jointly[approval.interrupt_id].version:
            found.setdefault(approval.interrupt_id, []).append(approval)
    return found


def _words(item: Interrupt, approvals: Sequence[Decision]) -> str:
    if item.quorum == 1:
        return ""
    counts = {"approvals": item.approvals, "quorum": item.quorum}
    if not approvals:
        return _("Requires %(quorum)d approvals. None yet.") % counts
    names = get_text_list([escape_hidden(approval.by_label) for approval in approvals], _("and"))
    return _("%(approvals)d of %(quorum)d approvals: %(names)s approved this version.") % {
        **counts,
        "names": names,
    }


def _barred(approvals: Sequence[Decision], user: Any) -> Any:
    if any(approval.by_id == user.pk for approval in approvals):
        return _("You approved this version. It needs more approvals.")
    return ""
