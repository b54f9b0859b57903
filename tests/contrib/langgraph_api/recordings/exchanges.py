"""Recorded exchanges: bodies of responses, and placeholders for ids and times."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SCRIPT, RECORDING = FOLDER / "script.json", FOLDER / "recording.json"
_ID = re.compile(r"\b(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32})\b")
_DEPLOYMENT = re.compile(
    "langgraph_(request_id|api_url|api_version|version|host|plan|auth.*)|__request_start_time_ms__"
    "|langsmith_.*|ls_integration|lc_versions|\\$defs"
)
_URL = re.compile(r"http://127\.0\.0\.1:\d+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def read_body(kind: str, text: str) -> Any:
    """Return a JSON value, or the names and data of a stream's events."""
    if kind.startswith("text/event-stream"):
        return list(_read_events(text))
    if not text:
        return None
    return json.loads(text) if "json" in kind else text


def _read_events(text: str) -> Iterator[list[Any]]:
    for frame in re.split(r"\r?\n\r?\n", text):
        lines = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line[1:])
        if "event" in lines:
            data = lines.get("data", "")
            yield [lines["event"], json.loads(data) if data else None]


def normalize(exchanges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove all values from recorded exchanges that change with every recording.

    Ids are replaced by ``{id-12.1}``, ``{id-12.2}`` etc., where 12 is the number of the call in
    which the id appears first. Times are replaced by ``{time}``, and the server's URL by ``{url}``.
    Data about the deployment is removed.
    """
    places: dict[str, str] = {}
    counts: Counter[int] = Counter()

    def name_id(found: re.Match[str]) -> str:
        if found[0] not in places:
            counts[call] += 1
            places[found[0]] = f"{{id-{call}.{counts[call]}}}"
        return places[found[0]]

    normalized = []
    for exchange in exchanges:
        call = exchange["call"]
        text = _URL.sub("{url}", json.dumps(remove_deployment(exchange)))
        normalized.append(json.loads(_TIME.sub("{time}", _ID.sub(name_id, text))))
    return normalized


def remove_deployment(value: Any) -> Any:
    """Return a value without data about the server's deployment and its installed packages."""
    if isinstance(value, dict):
        return {
            name: remove_deployment(each)
            for name, each in value.items()
            if not _DEPLOYMENT.fullmatch(name)
        }
    return [remove_deployment(each) for each in value] if isinstance(value, list) else value
