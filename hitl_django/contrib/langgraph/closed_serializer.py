"""Deserialization of LangGraph's stored bytes.

Code named in the bytes is never imported or called.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cache, partial
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, NoReturn
from uuid import UUID

import langgraph.types as theirs
import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from pydantic import SecretBytes, SecretStr, ValidationError

import hitl_django.engine.types as ours
from hitl_django.contrib.langchain.messages import list_stored_classes
from hitl_django.engine.errors import UnknownTagError
from hitl_django.engine.serde import find_application_class, load_array, load_zone

#: Extension codes of LangGraph's msgpack format. The first items of these extensions are the class
#: name.
_ONE_ARGUMENT, _ARGUMENTS, _KEYWORDS, _METHOD, _PYDANTIC_1, _PYDANTIC_2, _ARRAY, _SNAPSHOT = range(
    8
)

#: Maximum nesting depth. For each level, ormsgpack uses native stack, which is small on OS threads.
MAX_NESTED = 64
_LIBRARY = (
    date, datetime, time, timedelta, timezone, UUID, Decimal, set, frozenset, deque,
    IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network,
    SecretBytes, SecretStr,
)  # fmt: skip
#: Modules that contain pathlib's classes in different Python versions.
_PATH_MODULES = ("pathlib", "pathlib._local")
_TYPES = ("Command", "Interrupt", "Overwrite", "TimeoutPolicy")
#: Methods that LangGraph stores instead of a class.
_METHODS: Mapping[tuple[str, Any], Callable[..., Any]] = {
    ("datetime.datetime", "fromisoformat"): datetime.fromisoformat,
    ("builtins.bytes", "fromhex"): bytes.fromhex,
    ("builtins.bytearray", "fromhex"): bytearray.fromhex,
}


class ClosedSerializer:
    """Serializer for LangGraph's stored bytes that creates only instances of allowed classes.

    A class of this library, LangGraph or LangChain is allowed if the codec supports it. A class of
    the application is allowed if it is registered or belongs to a graph. If the bytes name another
    class, this serializer raises UnknownTagError. LangGraph's serializer would import and call the
    class. Pickles are rejected.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return JsonPlusSerializer().dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind, stored = data
        if kind == "msgpack":
            return self._unpack(stored)
        if kind == "json":
            return json.loads(stored, object_hook=self._revive)
        if kind == "null":
            return None
        if kind in ("bytes", "bytearray"):
            return bytes(stored) if kind == "bytes" else bytearray(stored)
        raise UnknownTagError(f"a value that is stored as {kind!r}")

    def _unpack(self, data: bytes) -> Any:
        # ormsgpack discards exceptions of a hook. The first exception is that of the innermost
        # extension.
        faults: list[Exception] = []
        depth = 0

        def load(code: int, body: bytes) -> Any:
            nonlocal depth
            depth += 1
            try:
                if depth > MAX_NESTED:
                    raise UnknownTagError(f"objects nested deeper than {MAX_NESTED} levels")
                return self._load_extension(code, unpack(body))
            except Exception as fault:
                faults.append(fault)
                raise
            finally:
                depth -= 1

        unpack = partial(ormsgpack.unpackb, ext_hook=load, option=ormsgpack.OPT_NON_STR_KEYS)
        try:
            return unpack(data)
        except ValueError as error:
            raise (faults or [error])[0] from None

    def _load_extension(self, code: int, body: Any) -> Any:
        if code == _SNAPSHOT:
            return _DeltaSnapshot(body)
        if code == _ARRAY:
            dtype, shape, order, data = body
            return load_array([dtype, order, shape, data])
        if not _ONE_ARGUMENT <= code <= _PYDANTIC_2:
            raise UnknownTagError(f"the extension {code}")
        module, name, given = body[:3]
        if code in (_KEYWORDS, _PYDANTIC_1, _PYDANTIC_2):
            return self._build(module, name, (), given)
        args = given if code == _ARGUMENTS else (given,)
        return self._build(module, name, args, {}, body[3] if code == _METHOD else None)

    def _revive(self, found: dict[str, Any]) -> Any:
        """Create the object that ``found`` describes, if ``found`` is a constructor.

        A constructor is a JSON object in LangChain's format, with a class name and arguments. Any
        other JSON object is returned unchanged.
        """
        layout, kind = found.get("lc"), found.get("type")
        if layout not in (1, 2) or kind not in ("constructor", "secret", "not_implemented"):
            return found
        *module, name = map(str, found.get("id") or ("",))
        path = ".".join(module)
        if kind != "constructor":
            raise UnknownTagError(f"a {kind} value, {path}.{name}")
        if layout == 1:
            made = _list_messages().get((path, name))
            if made is None:
                _refuse(path, name)
            return made(**found.get("kwargs") or {})
        args, kwargs = found.get("args") or (), found.get("kwargs") or {}
        return self._build(path, name, args, kwargs, found.get("method"))

    def _build(
        self,
        module: Any,
        name: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        method: Any = None,
    ) -> Any:
        path = f"{module}.{name}"
        if isinstance(method, str) and method != "model_construct":
            call = _METHODS.get((path, method))
            if call is None:
                _refuse(module, f"{name}.{method}")
            return call(*args)
        make: Any = _list_builders().get(path) or find_application_class(str(module), str(name))
        if make is None:
            _refuse(module, name)
        try:
            return make(*args, **kwargs)
        except ValidationError:
            # LangGraph also reads models whose class has changed since they were stored.
            return make.model_construct(**kwargs)


def _refuse(module: Any, name: Any) -> NoReturn:
    raise UnknownTagError(f"{module}.{name}")


@cache
def _list_builders() -> Mapping[str, Callable[..., Any]]:
    """Return the allowed constructors of this library, LangGraph and LangChain, by dotted name."""
    found: dict[str, Callable[..., Any]] = {
        f"{cls.__module__}.{cls.__name__}": cls for cls in (*_LIBRARY, *list_stored_classes())
    }
    found |= {
        f"{module}.{name}": cls for module in _PATH_MODULES for name, cls in _find_paths().items()
    }
    found |= {"re.compile": re.compile, "zoneinfo.ZoneInfo": _load_named_zone}
    for types in (theirs, ours):
        found |= {f"{types.__name__}.{name}": getattr(types, name) for name in _TYPES}
        found[f"{types.__name__}.Send"] = partial(_make_send, types.Send)
    # The module's name in old releases.
    for name in ("Interrupt", "Send"):
        found[f"langgraph.constants.{name}"] = found[f"langgraph.types.{name}"]
    return found


@cache
def _list_messages() -> Mapping[tuple[str, str], Callable[..., Any]]:
    """Return LangChain's message classes, by each name under which messages are serialized."""
    found = {}
    for cls in list_stored_classes():
        *module, name = cls.lc_id()
        found[".".join(module), name] = found[cls.__module__, cls.__name__] = cls
    return found


def _find_paths() -> Mapping[str, Callable[..., PurePath]]:
    """Return the classes of pathlib by name.

    A class of another platform, such as WindowsPath on Linux, is replaced by its pure path class.
    """
    here = type(Path())
    return {
        "Path": Path,
        "PosixPath": here if issubclass(here, PurePosixPath) else PurePosixPath,
        "WindowsPath": here if issubclass(here, PureWindowsPath) else PureWindowsPath,
    }


def _load_named_zone(key: Any) -> Any:
    return load_zone(str(key))


def _make_send(cls: Any, node: str, arg: Any, timeout: Any = None) -> Any:
    return cls(node, arg, timeout=timeout)
