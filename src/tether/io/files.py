"""Reading files: their bytes, unpacked up to a limit, and whether they are valid text; large ones piece by piece."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from tether._foundation.problems import FEW, Complaints, Source
from tether.errors import FileError, Problem, QueryError

File = str | os.PathLike[str]

TABLES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
"""The kind of table behind each suffix; CSV and TSV may also be compressed (``.csv.gz``)."""

_BLOCK = 1 << 24

VARIABLE = "TETHER_MAX_UNPACKED"
"""The environment variable that says how much a file may unpack to."""

ARCHIVE_END = 22 + 0xFFFF
"""In how many of the last bytes of a ZIP archive the end of its directory is."""

_SMALLEST, _TIMES, _LARGEST = 256_000_000, 100, 8_000_000_000
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]+)?)\s*([kKmMgGtT]?)i?[bB]?")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

_MAGIC = {
    b"PAR1": ("a Parquet file", "name it .parquet"),
    b"ARROW1": ("an Arrow file", "name it .arrow"),
    b"PK\x03\x04": ("a ZIP archive, as a workbook of Excel or .npz is", "name it .xlsx, or .npz"),
    b"\x1f\x8b": ("compressed with gzip", "add .gz to its name"),
    b"\xfd7zXZ": ("compressed with xz", "unpack it first"),
    b"BZh": ("compressed with bzip2", "unpack it first"),
    b"MATLAB 5": ("a MATLAB file", "name it .mat"),
    b"\x93NUMPY": ("a NumPy array", "save several as .npz: np.savez(file, P=P, R=R)"),
    b"\xff\xfe": ("UTF-16", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16", "save it as UTF-8"),
}


def name_of(file: File) -> str:
    """The name of a file, for messages."""
    name = os.fspath(file) if isinstance(file, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise QueryError(Problem(f"expected the name of a file, not {file!r}", value=file))
    return name


def file_error(file: File, what: str | Problem, line: int | None = None) -> FileError:
    """The error for one thing that is wrong with a file."""
    return FileError(Source(name_of(file)).located(what if isinstance(what, Problem) else Problem(what), line=line))


def table_kind(file: File) -> str | None:
    """``csv``, ``tsv``, ``parquet``, ``arrow`` or ``xlsx`` by the file's suffix; None for another."""
    path = Path(name_of(file))
    if path.suffix.lower() == ".gz":
        kind = TABLES.get(Path(path.stem).suffix.lower())
        return kind if kind in ("csv", "tsv") else None
    return TABLES.get(path.suffix.lower())


def unknown_table(file: File) -> FileError:
    """The error for a file name without a known suffix."""
    return file_error(
        file, Problem("the name does not say what table this is", expectation=f"one of {', '.join(TABLES)}")
    )


def unpacked_limit(size: int, given: int | str | None = None, *, in_pieces: bool = False) -> int:
    """How many bytes a file of ``size`` bytes may unpack to: as given, or as is plausible for its size.

    A few bytes can unpack to more than fits into memory, by accident or on purpose. By default a file may unpack to
    256 MB or to 100 times its size, whichever is more, but not to more than 8 GB, unless it is read in pieces and is
    never in memory as a whole. The environment variable ``TETHER_MAX_UNPACKED`` sets another limit for all files.

    >>> unpacked_limit(1_000), unpacked_limit(10_000_000), unpacked_limit(1_000, "2 GB")
    (256000000, 1000000000, 2000000000)
    """
    said = os.environ.get(VARIABLE) if given is None else given
    if said in (None, ""):
        plausible = max(_SMALLEST, _TIMES * size)
        return plausible if in_pieces else min(plausible, _LARGEST)
    found = _SIZE.fullmatch(str(said).strip())
    if found is None or isinstance(said, bool) or not float(found[1]):
        place = f"the environment variable {VARIABLE}" if given is None else "max_unpacked="
        raise QueryError(Problem(f"{said!r} is not a size", value=said, place=place, expectation="bytes, or as '4 GB'"))
    return int(float(found[1]) * _UNITS[(found[2] or "").upper()])


def too_large(file: File, limit: int, what: str = "it") -> FileError:
    """The error for a file that unpacks to more than the limit."""
    fix = f"if it is meant to, raise the limit: max_unpacked=…, or the environment variable {VARIABLE} (as '4 GB')"
    text = f"{what} unpacks to more than {limit / 1e6:,g} MB, far more than a file of this size should"
    return file_error(file, Problem(text, value=limit, fix=fix, argument="max_unpacked"))


def read_bytes(file: File, max_unpacked: int | str | None = None) -> bytes:
    """All of a file, decompressed if its name ends in ``.gz``."""
    name = name_of(file)
    with opened_bytes(name, max_unpacked) as stream:
        return stream.read()


@contextmanager
def opened_bytes(file: File, max_unpacked: int | str | None = None, *, in_pieces: bool = False) -> Iterator[BinaryIO]:
    """A file to read bytes from, decompressed if its name ends in ``.gz``; errors become a `FileError`."""
    name = name_of(file)
    with _opened(name) as stream:
        limit = unpacked_limit(os.fstat(stream.fileno()).st_size, max_unpacked, in_pieces=in_pieces)
        if not name.lower().endswith(".gz"):
            yield stream
            return
        try:
            yield cast(BinaryIO, io.BufferedReader(_Limited(gzip.GzipFile(fileobj=stream), name, limit), _BLOCK))
        except EOFError:
            wrong = "the file is cut off: its compressed data has no end"
            raise file_error(name, Problem(wrong, fix="copy it again")) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise file_error(name, f"its name ends in .gz, but it is not gzip data, or damaged: {error}") from None


class _Limited(io.RawIOBase):
    """A stream that unpacks to a limit and not beyond."""

    def __init__(self, stream: gzip.GzipFile, name: str, limit: int) -> None:
        self._stream, self._name, self._limit, self._left = stream, name, limit, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise too_large(self._name, self._limit)
        return count


def ends_of(file: File, size: int) -> tuple[bytes, bytes]:
    """The first and the last bytes of a file."""
    with _opened(name_of(file)) as stream:
        head = stream.read(size)
        stream.seek(max(stream.seek(0, io.SEEK_END) - size, 0))
        return head, stream.read()


def check_archive(archive: zipfile.ZipFile, end: bytes) -> None:
    """Refuse a ZIP archive whose directory is damaged: a file that is not in it, or has another name, would be missed.

    ``end`` is the end of the archive, of `ARCHIVE_END` bytes or more. Raises what `zipfile` raises.
    """
    members = archive.infolist()
    for member in members:
        archive.open(member).close()  # which compares the name in the directory with that of the file
    count = end[end.rfind(b"PK\x05\x06") :][10:12]
    if len(members) < 0xFFFF and int.from_bytes(count, "little") != len(members):
        raise zipfile.BadZipFile(f"{len(members)} files are found, not as many as its directory says")


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """A file to read from; errors become a `FileError`."""
    try:
        with open(name, "rb") as stream:
            yield stream
    except FileError:
        raise
    except FileNotFoundError:
        raise file_error(name, "there is no such file") from None
    except IsADirectoryError:
        raise file_error(name, "this is a directory, not a file") from None
    except OSError as error:
        raise file_error(name, f"it cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        if "\0" not in name:
            raise
        raise FileError(Problem(f"{name!r} is not the name of a file: {error}", value=name)) from None


def checked_text(file: File, max_unpacked: int | str | None = None) -> bytes:
    """The bytes of a text file, checked to be UTF-8 without NUL bytes; without a byte-order mark."""
    name, data = name_of(file), read_bytes(file, max_unpacked).removeprefix(codecs.BOM_UTF8)
    check_text(name, data)
    return data


def check_text(name: str, data: bytes, first_line: int = 1) -> None:
    """Refuse bytes that are not UTF-8 text without NUL bytes: those of a file, or of its last lines."""
    for magic, (what, fix) in _MAGIC.items() if first_line == 1 else ():
        if data.startswith(magic):
            raise file_error(name, Problem(f"this is not UTF-8 text but {what}", fix=fix))
    if b"\0" not in data and _is_utf8(data):
        return
    complaints = Complaints(name)
    wrong: list[tuple[int, int]] = []
    for number, line in enumerate(lines_of(data, encoding="latin-1"), start=first_line):
        found = line.encode("latin-1")
        try:
            found.decode()
        except UnicodeDecodeError as error:
            wrong.append((number, found[error.start]))
        if "\0" in line:
            complaints.add("a NUL byte: this is not text, or not in UTF-8", number, fix="save it as UTF-8 text")
    fix = "save the file as UTF-8 text; a log can also be read as it is: encoding='latin-1'"
    more = f", and {len(wrong) - 1:,} more lines have such bytes" if len(wrong) > FEW else ""
    for number, byte in wrong[:1] if more else wrong:
        complaints.add(f"the byte 0x{byte:02x} is not UTF-8{more}", number, value=byte, fix=fix, argument="encoding")
    complaints.raise_any()
    raise AssertionError("bytes that are not text are on some line")


def lines_of(data: bytes, start: int = 0, encoding: str = "utf-8") -> Iterator[str]:
    """The lines from some byte on, each with its end; all three kinds of line ends count, as in Arrow."""
    stream = io.BytesIO(data)
    stream.seek(start)
    return iter(io.TextIOWrapper(stream, encoding=encoding, newline=""))


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _BLOCK):  # block by block: a decoded text takes up to four times its bytes
            decoder.decode(data[start : start + _BLOCK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


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
