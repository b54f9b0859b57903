"""What the row of a question says besides its words: dialect, decisions, who has to agree."""

from __future__ import annotations

from typing import Any

from hitl_django.answers import NAMED, RAW, Asked, offered, recognise
from hitl_django.engine.savers.checkpoint import Question
from hitl_django.engine.terms import ReviewTerms
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.json_text.sanitize import question_title, shorten, visible

WHY_LENGTH = 10_000
_NONE = ReviewTerms()

COLUMNS = (
    "title",
    "why",
    "dialect",
    "allowed_decisions",
    "editable",
    "quorum",
    "no_self_approval",
    "claim_required",
)


def columns_of(question: Question, graph: str) -> dict[str, Any]:
    """Returns the COLUMNS of a question, of which what it doesn't say is its graph's policy."""
    asked, terms = question.interrupt, question.terms or _NONE
    policy = registry.policy_of(graph)
    if question.kind != "interrupt":
        return _columns(question, Asked(payload=asked.value, kind=question.kind), terms, policy)
    named = terms.dialect or policy.dialect
    dialect = recognise(asked.value, asked.response_schema, named=named)
    of = Asked(
        payload=asked.value,
        schema=asked.response_schema,
        dialect=dialect,
        editable=terms.editable,
    )
    return _columns(question, of, terms, policy)


def _columns(
    question: Question, asked: Asked, terms: ReviewTerms, policy: ReviewPolicy
) -> dict[str, Any]:
    spoken = None if asked.dialect == RAW else NAMED[asked.dialect]
    title, why = terms.title, terms.why
    if title is None or not title.strip():
        title = spoken.title(asked.payload) if spoken else None
    if not why:
        why = spoken.why(asked.payload) if spoken else _why(asked.payload)
    editable = None if terms.editable is None else list(terms.editable)
    return {
        "title": shorten(visible(title)) if title else question_title(asked.payload, question.node),
        "why": why[:WHY_LENGTH],
        "dialect": asked.dialect,
        "allowed_decisions": list(offered(asked, terms.decisions)),
        "editable": editable,
        "quorum": terms.quorum or policy.quorum,
        "no_self_approval": _first(terms.no_self_approval, policy.no_self_approval),
        "claim_required": _first(terms.claim_required, policy.claim_required),
    }


def _first(given: bool | None, otherwise: bool) -> bool:
    return otherwise if given is None else given


def _why(payload: Any) -> str:
    why = payload.get("why") if isinstance(payload, dict) else None
    return why if isinstance(why, str) else ""
