"""Table of the methods of LangGraph's SDKs, from the recorded responses of LangGraph's server."""

from __future__ import annotations

import json
from itertools import chain

from tests.contrib.langgraph_api.recordings.differences import AGENT, GENERAL, REFUSED, SPECIFIC
from tests.contrib.langgraph_api.recordings.exchanges import RECORDING, SCRIPT

from . import markdown


def page() -> str:
    """Return the versions of the SDKs, the table of methods, and the general differences."""
    exchanges = json.loads(RECORDING.read_text("utf-8"))
    sdks = sorted(set(chain.from_iterable(each["sdks"] for each in exchanges)))
    calls = json.loads(SCRIPT.read_text("utf-8"))
    methods = sorted({each["call"] for each in calls} - {AGENT} | REFUSED.keys())
    return markdown.page(
        [
            f"{len(exchanges)} requests of these SDKs were compared: {', '.join(sdks)}.",
            markdown.table(["method", "response", "difference or alternative"], map(_row, methods)),
            "Several methods have these differences from LangGraph's server:",
            "\n".join(f"- {each.reason}" for each in GENERAL),
        ]
    )


def _row(method: str) -> list[str]:
    if method in REFUSED:
        return [markdown.code(method), "refused", REFUSED[method]]
    reasons = [each.reason for each in SPECIFIC if method in each.methods]
    return [markdown.code(method), "differs" if reasons else "same", " ".join(reasons)]
