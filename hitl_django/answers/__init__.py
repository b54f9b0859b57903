"""What may be done with a question, and which resume value each decision comes to.

Pure but for ``asked_of``: the same question, decision and value always compose to the same answer,
so the admin can show before what the service stores after.
"""

from __future__ import annotations

from .decision_types import APPROVE, DECISIONS, EDIT, REJECT, RESPOND, UNSET
from .dialects import NAMED, RAW, recognise
from .dialects.hitl_request import Action
from .dialects.hitl_request import actions as actions_of
from .dialects.plain_json import APPROVED
from .inference import infer_decision
from .limits import check_limits
from .options import Asked, asked_of, changes_of, compose, offered, proposal_of, resume_value, said

__all__ = [
    "APPROVE",
    "APPROVED",
    "DECISIONS",
    "EDIT",
    "NAMED",
    "RAW",
    "REJECT",
    "RESPOND",
    "UNSET",
    "Action",
    "Asked",
    "actions_of",
    "asked_of",
    "changes_of",
    "check_limits",
    "compose",
    "infer_decision",
    "offered",
    "proposal_of",
    "recognise",
    "resume_value",
    "said",
]
