"""What somebody is told who has just decided: what was recorded, and where the run is."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from hitl_django.decision_types import DECISION_TYPES
from hitl_django.forms.json_input import visible
from hitl_django.models import Interrupt
from hitl_django.services import DecisionInfo

from .run_status import RunLine


def confirmation_of(
    item: Interrupt, made: DecisionInfo, line: RunLine, *, status_url: str, run_url: str
) -> str:
    """Says what was recorded, and where the run is; a script follows that line."""
    # Only the sentence is ours to format; the title goes in as it is, escaped.
    type_ = DECISION_TYPES[made.type]
    words = str(type_.recorded if made.complete else type_.recorded_as_vote)
    counted = {"approvals": made.approvals, "quorum": made.quorum}
    said = format_html(words, title=visible(item.title), **counted)
    if not made.complete:
        return said
    return format_html(
        '{} <span class="hitl-follow" data-hitl-follow="{}">{}</span> <a href="{}">{}</a>',
        said,
        status_url if line.moves else "",
        line.text,
        run_url,
        _("See how it goes on"),
    )
