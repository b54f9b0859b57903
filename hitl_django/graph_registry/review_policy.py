"""Review policies of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.utils.functional import Promise

from hitl_django.decision_types import DECISION_TYPES, VALUE
from hitl_django.engine.arguments import check_mapping, check_names, check_switch
from hitl_django.engine.payload import check_json
from hitl_django.review_options import check_dialect, check_quorum

from .display_hints import parse_hints, parse_names
from .title_templates import check_title


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPolicy:
    """The rules for the review of a graph's interrupts.

    Attributes:
        groups: names of the groups whose members, in addition to superusers, can see and decide the
            interrupts. If empty, the model permissions apply.
        quorum: the default number of required approvals.
        no_self_approval: by default, whether the user who started the run is excluded from
            approving.
        claim_required: by default, whether only a user with a claim may decide.
        dialect: the default payload format.
        answers: resume values by decision type, for interrupts without a response schema:
            ``{"approve": "yes", "edit": {"text": VALUE}}``. VALUE is replaced by the person's
            response or, for "approve", by the payload.
        resume_on: whether the run resumes after "each" decision, or when "all" of its pending
            interrupts are decided.
        display: formats of values by member name or JSON pointer: ``{"letter": "markdown",
            "/lines/cents": "money EUR"}``.
        facts: member names or JSON pointers of payload values. Lists of requests show these values
            below the title, in this order. By default, lists show the first short values.
        forms: Django forms for responses in the admin, by node, as classes or dotted paths.
        reasons: suggested reasons for decisions, which may be lazy translations.
        replies: suggested responses, which may be lazy translations.
        titles: titles of requests for a single tool call, by tool name. A title is a format string
            with the names of arguments (``"Issue refund: {order}"``), or a function that takes the
            arguments as a dict and returns a str.
        conversation: whether a request shows the messages of its thread to people who can view the
            thread's state. Instead of a bool, it can be a function that returns the messages to
            show. The function's arguments are the newest messages, as dicts, and the interrupt.
    """

    groups: Sequence[str] = ()
    quorum: int = 1
    no_self_approval: bool = False
    claim_required: bool = False
    dialect: str | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)
    resume_on: Literal["each", "all"] = "each"
    display: Mapping[str, str] = field(default_factory=dict)
    facts: Sequence[str] = ()
    forms: Mapping[str, Any] = field(default_factory=dict)
    reasons: Sequence[Any] = ()
    replies: Sequence[Any] = ()
    titles: Mapping[str, str | Callable[[dict[str, Any]], str]] = field(default_factory=dict)
    conversation: bool | Callable[[list[dict[str, Any]], Any], Sequence[Any]] = True

    def __post_init__(self) -> None:
        check_names("groups", self.groups)
        for name in ("answers", "display", "forms", "titles"):
            check_mapping(name, getattr(self, name))
        for name in ("facts", "reasons", "replies"):
            words = getattr(self, name)
            is_list = isinstance(words, Iterable) and not isinstance(words, str)
            if not is_list or not all(isinstance(one, str | Promise) for one in words):
                raise TypeError(f"{name} must be a list of strings, not {words!r}.")
            if "" in words:
                raise ValueError(f"{name} contains an empty string.")
        if self.resume_on not in ("each", "all"):
            raise ValueError(f"resume_on is 'each' or 'all', not {self.resume_on!r}.")
        parse_hints(self.display)
        for fact in self.facts:
            parse_names(fact)
        for form in self.forms.values():
            if not isinstance(form, str | type):
                raise TypeError(f"A form must be a class or a dotted path, not {form!r}.")
        for tool, title in self.titles.items():
            check_title(tool, title)
        if not isinstance(self.conversation, bool) and not callable(self.conversation):
            raise TypeError(
                f"conversation must be True, False or a function, not {self.conversation!r}."
            )
        check_switch("no_self_approval", self.no_self_approval)
        check_switch("claim_required", self.claim_required)
        check_quorum(self.quorum)
        check_dialect(self.dialect)
        for decision, answer in self.answers.items():
            if decision not in DECISION_TYPES:
                raise ValueError(f"{decision!r} is not one of {', '.join(DECISION_TYPES)}.")
            holds = _holds_value(answer)
            expected = DECISION_TYPES[decision].value_in_answer
            if expected == "required" and not holds:
                raise ValueError(f"The answer for {decision!r} must contain VALUE.")
            if expected == "forbidden" and holds:
                raise ValueError(
                    "The answer for a rejection can't contain VALUE: a rejection has no value."
                )
            check_json(_plain(answer), f"The answer for {decision!r}")


def _holds_value(answer: Any) -> bool:
    parts = answer.values() if isinstance(answer, dict) else answer
    return answer is VALUE or (isinstance(answer, dict | list) and any(map(_holds_value, parts)))


def _plain(answer: Any) -> Any:
    if answer is VALUE:
        return None
    if isinstance(answer, dict):
        return {key: _plain(part) for key, part in answer.items()}
    if isinstance(answer, list):
        return [_plain(part) for part in answer]
    return answer
