"""Files as they come: their bytes, unpacked, and whether they are the text they should be."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tether._problems import Complaints
from tether.errors import FileError, Problem, QueryError

__all__ = ["File", "checked_text", "ends_of", "file_error", "lines_of", "name_of", "read_bytes"]

File = str | os.PathLike[str]

_BLOCK = 1 << 24

_MAGIC = {
    b"PAR1": "a Parquet file; name it .parquet",
    b"ARROW1": "an Arrow file; name it .arrow",
    b"PK\x03\x04": "a ZIP archive, as a spreadsheet (.xlsx) or .npz is; save the sheet as CSV",
    b"\x1f\x8b": "compressed with gzip; add .gz to its name",
    b"MATLAB 5": "a MATLAB file; name it .mat",
    b"\x93NUMPY": "a NumPy array; save several as .npz: np.savez(file, P=P, R=R)",
    b"\xff\xfe": "UTF-16; save it as UTF-8",
    b"\xfe\xff": "UTF-16; save it as UTF-8",
}


def name_of(file: File) -> str:
    """The name of a file, for messages."""
    name = os.fspath(file) if isinstance(file, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise QueryError(f"expected the name of a file, not {file!r}")
    return name


def file_error(file: File, message: str, line: int | None = None) -> FileError:
    """One thing that is wrong with a file."""
    name = name_of(file)
    place = name if line is None else f"{name}, line {line:,}"
    return FileError(Problem(f"{place}: {message}", file=name, line=line))


def read_bytes(file: File) -> bytes:
    """All of a file, decompressed where its name ends in ``.gz``."""
    name = name_of(file)
    with _opened(name) as stream:
        data = stream.read()
    if not name.lower().endswith(".gz"):
        return data
    try:
        return gzip.decompress(data)
    except EOFError:
        raise file_error(name, "the file is cut off: its compressed data has no end; copy it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise file_error(name, f"its name ends in .gz, but it is not gzip data, or damaged: {error}") from None


def ends_of(file: File, size: int) -> tuple[bytes, bytes]:
    """The first and the last bytes of a file."""
    with _opened(name_of(file)) as stream:
        head = stream.read(size)
        stream.seek(max(stream.seek(0, io.SEEK_END) - size, 0))
        return head, stream.read()


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """A file to read from; why it cannot be read becomes an error of ours."""
    try:
        with open(name, "rb") as stream:
            yield stream
    except FileNotFoundError:
        raise file_error(name, "there is no such file") from None
    except IsADirectoryError:
        raise file_error(name, "this is a directory, not a file") from None
    except OSError as error:
        raise file_error(name, f"it cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise QueryError(f"{name!r} is not the name of a file: {error}") from None


def checked_text(file: File) -> bytes:
    """The bytes of a text file, known to be UTF-8 without NUL bytes; without the mark that some put before it."""
    name, data = name_of(file), read_bytes(file).removeprefix(codecs.BOM_UTF8)
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            raise file_error(name, f"this is not UTF-8 text but {what}")
    if b"\0" not in data and _is_utf8(data):
        return data
    complaints = Complaints(name)
    for number, line in enumerate(lines_of(data, encoding="latin-1"), start=1):
        found = line.encode("latin-1")
        try:
            found.decode()
        except UnicodeDecodeError as error:
            wrong = f"the byte 0x{found[error.start]:02x} is not UTF-8; save the file as UTF-8 text"
            complaints.add(wrong, line=number)
        if "\0" in line:
            complaints.add("a NUL byte: this is not text, or not in UTF-8; save it as UTF-8 text", line=number)
    complaints.raise_any()
    raise AssertionError("bytes that are not text are on some line")


def lines_of(data: bytes, start: int = 0, encoding: str = "utf-8") -> Iterator[str]:
    """The lines from some byte on, each with its end; all three kinds of line end are known, as they are to Arrow."""
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
