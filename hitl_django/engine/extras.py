"""Imports of packages that only an extra of this distribution installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import HitlError


class MissingExtraError(HitlError, ModuleNotFoundError):
    """A package that an extra installs is not installed.

    Attributes:
        command: the command that installs the extra.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.command = f"pip install 'hitl-django[{extra}]'"
        super().__init__(f"{package} is not installed: {self.command}")
        self.name = package


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Raise MissingExtraError, which names the extra, if an import in the block finds no package.

    Missing modules of this package raise their own error.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = error.name or ""
        if package.partition(".")[0] in ("", "hitl_django"):
            raise
        raise MissingExtraError(package, extra) from error
