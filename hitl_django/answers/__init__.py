"""The answers that a question takes, and the resume value that each decision makes.

Pure but for ``read_options``: the same question, decision and value always make the same answer, so
the admin can show before what the service stores after.
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

__all__ = [
    "AnswerOptions",
    "add_reason",
    "check_limits",
    "choose_decisions",
    "compose_resume_value",
    "infer_decision",
    "make_decision_patch",
    "make_proposal",
    "make_resume_value",
    "read_options",
    "resume_value",
]
