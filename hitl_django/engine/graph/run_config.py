"""Merging of a graph's config with a call's config, and configs for batches of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..bridges import find_langchain
from ..types import RunnableConfig

#: Keys that address a checkpoint. A config with any of these keys determines its thread.
COORDINATES = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")


def merge_configs(*configs: RunnableConfig | None) -> RunnableConfig:
    """Return the merged configs. Values of later configs take precedence.

    Tags and callbacks are concatenated. Metadata and ``configurable`` are merged by key.
    """
    merged: RunnableConfig = {}
    for config in configs:
        for key, value in (config or {}).items():
            if value is None:
                continue
            if key == "tags":
                value = _add_tags(merged.get(key, ()), value)
            elif key in ("metadata", "configurable"):
                value = {**merged.get(key, {}), **value}
            elif key == "callbacks" and merged.get(key):
                value = _add_callbacks(merged[key], value)
            merged[key] = value
    return merged


def _add_tags(tags: Sequence[str], more: Sequence[str]) -> list[str]:
    return [*tags, *(tag for tag in more if tag not in tags)]


def _add_callbacks(callbacks: Any, more: Any) -> Any:
    if isinstance(callbacks, list) and isinstance(more, list):
        return [*callbacks, *(one for one in more if one not in callbacks)]
    # Only langchain has callback managers.
    return find_langchain().merge_callbacks(callbacks, more)


def list_configs(
    config: RunnableConfig | Sequence[RunnableConfig] | None, count: int
) -> list[RunnableConfig]:
    """Return one config for each of ``count`` inputs, from a shared config or a list of configs.

    If a shared config contains ``run_id``, only the config of the first input keeps it, because a
    run id identifies one run.
    """
    if isinstance(config, Sequence):
        if len(config) != count:
            raise ValueError(
                f"config must be a single config or a list of {count}, one per input; got "
                f"{len(config)}"
            )
        return [*config]
    shared = config or {}
    others = {key: value for key, value in shared.items() if key != "run_id"}
    return [shared if index == 0 else others for index in range(count)]
