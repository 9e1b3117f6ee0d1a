"""The text of a large file on its way to Arrow, piece by piece: known to be UTF-8, its quotes counted."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tether.errors import FileError, Problem
from tether.io.files import checked_text, file_error, opened_bytes

__all__ = ["CheckedStream", "changed", "opened_text"]


def changed(name: str) -> FileError:
    """The error of a file that a second reading finds changed."""
    return file_error(name, Problem("the file was changed while it was read", fix="read it again"))


@contextmanager
def opened_text(
    name: str, start: int, max_unpacked: int | str | None = None, quotes_expected: bool = True
) -> Iterator[CheckedStream]:
    """A text from some byte on; the mark that some put before a text is not counted."""
    with opened_bytes(name, max_unpacked) as stream:
        first = stream.read(len(codecs.BOM_UTF8) + start).removeprefix(codecs.BOM_UTF8)[start:]
        yield CheckedStream(name, stream, first, max_unpacked, quotes_expected)


class CheckedStream:
    """What Arrow reads from, as far as there is only text; what stopped it is raised afterwards, by `raise_any`.

    ``quotes`` counts the quotes so far. Where none are expected, the first ones end the text.
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
        """The next bytes; none at the end, and after anything that is wrong: Arrow must not see an error of ours."""
        if self._error is not None or (self.quotes and not self._quotes_expected):
            return b""
        try:
            piece = self._next(size)
        except Exception as error:
            self._error = error
            return b""
        if piece.find(b'"') >= 0:  # to find is faster than to count
            self.quotes += piece.count(b'"')
            return piece if self._quotes_expected else b""
        return piece

    def _next(self, size: int) -> bytes:
        """Whole characters, and no NUL among them; what is left of the last one waits for the next piece."""
        read = self._stream.read(size - len(self._unread))
        piece = self._unread + read if self._unread else read
        if b"\0" in piece:
            raise UnicodeError("a NUL byte")
        used = len(piece) if piece.isascii() else codecs.utf_8_decode(piece, "strict", not read)[1]
        self._unread = piece[used:]
        return piece[:used]

    def raise_any(self) -> None:
        """Raise what ended the text before its end."""
        if isinstance(self._error, UnicodeError):
            checked_text(self._name, self._max_unpacked)  # raises an error with every line that is not text
            raise changed(self._name)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Nothing: whoever opened the file closes it."""
