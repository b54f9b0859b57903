"""Addresses of checkpoints: thread id, namespace and checkpoint id."""

from __future__ import annotations

from dataclasses import dataclass

from hitl_django.engine.types import RunnableConfig


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """The address of a checkpoint.

    Without a checkpoint id, the address is that of the newest checkpoint of the namespace.
    """

    thread_id: str
    ns: str = ""
    checkpoint_id: str | None = None

    @classmethod
    def from_config(cls, config: RunnableConfig) -> CheckpointRef:
        """Return the address of the checkpoint that a config selects.

        Raises:
            ValueError: the config has no thread id.
        """
        given = config.get("configurable") or {}
        if "thread_id" not in given:
            raise ValueError("The config has no 'configurable.thread_id'.")
        return cls(
            str(given["thread_id"]), given.get("checkpoint_ns") or "", given.get("checkpoint_id")
        )

    def config(self, checkpoint_id: str | None) -> RunnableConfig:
        """Return the config of a checkpoint in the same namespace."""
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.ns,
                "checkpoint_id": checkpoint_id,
            }
        }
