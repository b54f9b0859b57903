"""Calls of a script with LangGraph's Python SDK, in an environment without this package.

    python call_methods.py URL SCRIPT

The number of each call is posted to ``URL/call/NUMBER`` before the call. Calls of methods that this
version of the SDK doesn't have are skipped, and errors of the server are ignored.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_sync_client


def main(url: str, script: str) -> None:
    client, saved = get_sync_client(url=url, api_key=None), {}
    for number, call in enumerate(json.loads(Path(script).read_text())):
        area, _, name = call["call"].partition(".")
        method = getattr(getattr(client, area, None), name, None)
        if method is None:
            continue
        httpx.post(f"{url}/call/{number}")
        try:
            arguments = fill_in(call.get("args", []), saved)
            result = method(*arguments, **fill_in(call.get("options", {}), saved))
            if isinstance(result, Iterator):
                result = [{"event": part.event, "data": part.data} for part in result]
        except Exception as error:  # The SDKs raise several types, also for failed runs.
            print(number, call["call"], type(error).__name__, str(error)[:150])
        else:
            saved[call.get("save")] = result


def fill_in(value: Any, saved: dict[str, Any]) -> Any:
    """Replace ``$name.path`` by a part of a saved result."""
    if isinstance(value, str) and value.startswith("$"):
        name, *path = value[1:].split(".")
        found = saved[name]
        for part in path:
            found = found[int(part) if isinstance(found, list) else part]
        return found
    if isinstance(value, dict):
        return {name: fill_in(each, saved) for name, each in value.items()}
    return [fill_in(each, saved) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
