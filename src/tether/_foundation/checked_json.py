"""JSON files that carry a checksum of what they say, so that a damaged one is noticed."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec


def encode_checked(contents: dict[str, Any]) -> bytes:
    """The text of a file, with the checksum of its contents as one more field.

    >>> decode_checked(encode_checked({"k": 3}))
    ({'k': 3}, True)
    >>> decode_checked(encode_checked({"k": 3}).replace(b"3", b"4", 1))
    ({'k': 4}, False)
    """
    checked = {**contents, "checksum": digest_of(contents)}
    return msgspec.json.format(msgspec.json.encode(checked), indent=2) + b"\n"


def decode_checked(content: bytes) -> tuple[dict[str, Any], bool]:
    """The contents of a file, and whether its checksum fits; no contents if it is no JSON object."""
    try:
        found = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}, False
    checksum = found.pop("checksum", None)
    return found, checksum == digest_of(found)


def digest_of(contents: dict[str, Any]) -> str:
    """SHA-256 of contents, whatever the order of their fields."""
    return hashlib.sha256(msgspec.json.encode(contents, order="deterministic")).hexdigest()
