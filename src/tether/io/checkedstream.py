"""The text of a large file, passed to Arrow piece by piece: checked to be UTF-8, with its quotes counted."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tether.errors import FileError, Problem
from tether.io.files import checked_text, file_error, opened_bytes

__all__ = ["CheckedStream", "changed", "opened_text"]


def changed(name: str) -> FileError:
    """The error for a file that has changed when it is read a second time."""
    return file_error(name, Problem("the file was changed while it was read", fix="read it again"))


@contextmanager
def opened_text(
    name: str, start: int, max_unpacked: int | str | None = None, quotes_expected: bool = True
) -> Iterator[CheckedStream]:
    """A text from some byte on; a byte-order mark at its beginning is not counted."""
    with opened_bytes(name, max_unpacked) as stream:
        first = stream.read(len(codecs.BOM_UTF8) + start).removeprefix(codecs.BOM_UTF8)[start:]
        yield CheckedStream(name, stream, first, max_unpacked, quotes_expected)


class CheckedStream:
    """The stream that Arrow reads. It ends early at anything that is not text; `raise_any` then raises the reason.

    ``quotes`` counts the quotes so far. If none are expected, the first ones end the text.
    """

    closed = False

    def __init__(
        self, name: str, stream: BinaryIO, first: bytes, max_unpacked: int | str | None, quotes_expected: bool
    ) -> None:
        self.quotes = 0
        self._name, self._stream, self._max_unpacked = name, stream, max_unpacked
        self._quotes_expected = quotes_expected
        self._unread = first
        self._error: Exception | None = None

    def read(self, size: int) -> bytes:
        """The next bytes; none at the end and after any problem: Arrow must not see our errors."""
        if self._error is not None or (self.quotes and not self._quotes_expected):
            return b""
        try:
            piece = self._next(size)
        except Exception as error:
            self._error = error
            return b""
        if piece.find(b'"') >= 0:  # finding is faster than counting
            self.quotes += piece.count(b'"')
            return piece if self._quotes_expected else b""
        return piece

    def _next(self, size: int) -> bytes:
        """Whole characters without NUL; an incomplete last one waits for the next piece."""
        read = self._stream.read(size - len(self._unread))
        piece = self._unread + read if self._unread else read
        if b"\0" in piece:
            raise UnicodeError("a NUL byte")
        used = len(piece) if piece.isascii() else codecs.utf_8_decode(piece, "strict", not read)[1]
        self._unread = piece[used:]
        return piece[:used]

    def raise_any(self) -> None:
        """Raise the problem that ended the text early, if any."""
        if isinstance(self._error, UnicodeError):
            checked_text(self._name, self._max_unpacked)  # raises an error with every line that is not text
            raise changed(self._name)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Does nothing: the opener of the file closes it."""
