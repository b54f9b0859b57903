"""Stored bytes: decoding of old bytes, and encoding to the same bytes."""

from __future__ import annotations

import base64
import json
import zlib

import ormsgpack
import pytest

from hitl_django.engine.serde import Codec, digest
from hitl_django.engine.serde.extension_codes import LOAD_BRANCH, LOAD_LEAF, OBJECT
from tests.engine.encoded_values import FILE, VALUES, register_classes
from tests.engine.test_serde import same

STORED = json.loads(FILE.read_text())

register_classes()


@pytest.mark.promise("P14")
@pytest.mark.parametrize("name", STORED)
def test_codec_decodes_recorded_bytes_to_the_recorded_value(name: str) -> None:
    codec, stored, value = Codec(), STORED[name], VALUES[name]
    data = codec.encode(value)
    if stored["zlib"] is not None:
        data = zlib.decompress(base64.b64decode(stored["zlib"]))
    assert digest(data) == stored["digest"]
    assert same(codec.decode(data), value)


@pytest.mark.parametrize("name", STORED)
def test_codec_encodes_value_to_the_recorded_bytes(name: str) -> None:
    assert digest(Codec().encode(VALUES[name])) == STORED[name]["digest"]


def test_recorded_codec_values_contain_every_extension_code() -> None:
    seen: set[int] = set()

    def note(code: int, data: bytes) -> None:
        seen.add(code)
        if code not in LOAD_LEAF:
            ormsgpack.unpackb(data, ext_hook=note)

    for value in VALUES.values():
        ormsgpack.unpackb(Codec().encode(value), ext_hook=note)
    assert seen == {*LOAD_LEAF, *LOAD_BRANCH, OBJECT}
