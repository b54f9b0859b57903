"""Storable types of the standard library, pydantic and numpy.

The tags of these types start with an @. Names registered by a project don't. If a project has
registered one of these types, the project's registration is used.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from datetime import timezone
from fractions import Fraction
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any
from zoneinfo import ZoneInfo

from .extension_codes import RefusedPart, dump_zone, load_zone
from .registered_types import TypeCodec, TypeTable

#: The default factories of defaultdicts, by stored name.
_FACTORIES: dict[str, Callable[[], Any]] = {
    kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple, bool)
}


def find_by_class(cls: type) -> TypeCodec | None:
    """Return the codec for a class of the standard library, pydantic or numpy, or None."""
    package = cls.__module__.partition(".")[0]
    table = _TABLES.get(package)
    if table is not None:
        return table().by_class.get(cls)
    return _load_library().by_class.get(cls)


def find_by_tag(tag: str) -> TypeCodec | None:
    """Return the codec of a tag, or None if the tag is unknown or its library isn't installed."""
    package = tag.removeprefix("@").partition(".")[0]
    if package in _TABLES:
        return _TABLES[package]().by_tag.get(tag) if find_spec(package) else None
    return _load_library().by_tag.get(tag)


def _fill(entries: list[tuple[str, type, Callable[[Any], Any], Callable[[Any], Any]]]) -> TypeTable:
    table = TypeTable()
    for entry in entries:
        table.adopt(TypeCodec(*entry))
    return table


@cache
def _load_library() -> TypeTable:
    return _fill(
        [
            *((f"@{cls.__name__}", cls, str, _load_path(cls)) for cls in _PATHS),
            *((f"@{cls.__name__}", cls, str, cls) for cls in _ADDRESSES),
            ("@Pattern", re.Pattern, lambda value: [value.pattern, value.flags], _load_pattern),
            ("@Fraction", Fraction, lambda value: [*value.as_integer_ratio()], _load_fraction),
            ("@ZoneInfo", ZoneInfo, dump_zone, load_zone),
            ("@timezone", timezone, dump_zone, load_zone),
            ("@OrderedDict", OrderedDict, dict, OrderedDict),
            ("@Counter", Counter, dict, Counter),
            ("@defaultdict", defaultdict, _dump_defaultdict, _load_defaultdict),
        ]
    )


_PATHS: tuple[type[PurePath], ...] = (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)
_ADDRESSES: tuple[type, ...] = (
    IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network,
)  # fmt: skip


def _load_path(cls: type[PurePath]) -> Callable[[str], PurePath]:
    if not issubclass(cls, Path) or isinstance(Path(), cls):
        return cls
    # Paths of another operating system can be represented, but not opened.
    return PureWindowsPath if cls is WindowsPath else PurePosixPath


def _load_pattern(stored: list[Any]) -> re.Pattern[Any]:
    pattern, flags = stored
    return re.compile(pattern, flags)


def _load_fraction(stored: list[int]) -> Fraction:
    return Fraction(*stored)


def _dump_defaultdict(value: defaultdict[Any, Any]) -> list[Any]:
    names = [name for name, factory in _FACTORIES.items() if factory is value.default_factory]
    return [names[0] if names else None, dict(value)]


def _load_defaultdict(stored: list[Any]) -> defaultdict[Any, Any]:
    name, items = stored
    return defaultdict(None if name is None else _FACTORIES[name], items)


@cache
def _load_pydantic() -> TypeTable:
    types, networks = import_module("pydantic"), import_module("pydantic.networks")
    urls = (networks._BaseUrl, networks._BaseMultiHostUrl)
    return _fill(
        [
            *(
                (f"@pydantic.{cls.__name__}", cls, lambda value: value.get_secret_value(), cls)
                for cls in (types.SecretStr, types.SecretBytes, types.Secret)
            ),
            *(
                (f"@pydantic.{name}", cls, str, cls)
                for name, cls in vars(networks).items()
                if isinstance(cls, type) and issubclass(cls, urls) and cls not in urls
            ),
        ]
    )


@cache
def _load_numpy() -> TypeTable:
    array = import_module("numpy").ndarray
    return _fill([("@numpy.ndarray", array, _dump_array, load_array)])


def _dump_array(value: Any) -> list[Any]:
    if value.dtype.hasobject or value.dtype.names:
        raise RefusedPart(f"is an array of {value.dtype}; store a numeric array or a list")
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    return [value.dtype.str, order, list(value.shape), value.tobytes(order)]


def load_array(stored: list[Any]) -> Any:
    """Return the numpy array for ``stored``, a list of dtype, order, shape and bytes."""
    dtype, order, shape, data = stored
    numpy = import_module("numpy")
    return numpy.frombuffer(data, numpy.dtype(dtype)).reshape(shape, order=order).copy(order)


#: Packages that are imported only when a value of one of their types is encoded or decoded.
_TABLES: dict[str, Callable[[], TypeTable]] = {"pydantic": _load_pydantic, "numpy": _load_numpy}
