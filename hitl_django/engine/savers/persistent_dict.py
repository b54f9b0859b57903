"""A dict stored in a file."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any, Self

from ..serde import Codec


class PersistentDict(defaultdict[Any, Any]):
    """A dict in memory, with a copy in the file ``filename``.

    ``load`` reads the file, ``sync`` and ``close`` write it. The arguments before ``filename`` are
    those of defaultdict. The state codec encodes the dict, so keys and values must be serializable
    like state. The file is replaced atomically.
    """

    def __init__(self, *args: Any, filename: str | os.PathLike[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._path = os.fspath(filename)
        self._codec = Codec()

    def load(self) -> None:
        """Load the content of the file, if it exists."""
        try:
            with open(self._path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
        self.update(self._codec.decode(data))

    def sync(self) -> None:
        data = self._codec.encode(list(self.items()))
        part = f"{self._path}.{os.getpid()}.part"
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self._path)

    def close(self) -> None:
        self.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
