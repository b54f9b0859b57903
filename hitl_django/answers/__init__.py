"""The responses that an interrupt accepts, and the resume value of each decision.

Except for ``read_options``, the functions are pure: the same interrupt, decision and value always
result in the same resume value. The admin can therefore show the resume value before a decision is
stored.
"""

from __future__ import annotations

from .inference import infer_decision
from .limits import check_limits
from .options import (
    AnswerOptions,
    add_reason,
    choose_decisions,
    compose_resume_value,
    make_decision_patch,
    make_proposal,
    make_resume_value,
    read_options,
)
from .request_titles import describe_call, describe_request

__all__ = [
    "AnswerOptions",
    "add_reason",
    "check_limits",
    "choose_decisions",
    "compose_resume_value",
    "describe_call",
    "describe_request",
    "infer_decision",
    "make_decision_patch",
    "make_proposal",
    "make_resume_value",
    "read_options",
    "resume_value",
]
