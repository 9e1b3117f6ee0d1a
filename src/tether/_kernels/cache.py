"""Compiled kernels on disk, and what happens if they cannot be kept there.

Compiling takes seconds, so its results are kept in a private directory (`tether._kernels.place`). Each compiled
function is one file that begins with a checksum.

Answers do not depend on the cache. A problem with it (a full disk, a damaged file, no place to write) is one warning
per process; the kernel is then compiled in memory.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core import caching, serialize
from numba.core.compiler import CompileResult

from tether._kernels.ahead import wait_for
from tether._kernels.place import warn_once

__all__ = ["KernelCache"]

_DIGEST = hashlib.sha256().digest_size


class KernelCache(caching._Cache):
    """The compiled forms of one kernel on disk: numba asks it before it compiles, and gives it the result."""

    def __init__(self, function: Callable[..., Any], find: Callable[[], Path | None]) -> None:
        self._function = function
        self._find = find
        self._enabled = True

    @property
    def cache_path(self) -> Path | None:
        """The directory, None if there is none."""
        return self._find()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for a signature; None if it has to be compiled."""
        target_context.refresh()
        place = self._find() if self._enabled else None
        if place is None:
            return None
        key = self._key(sig, target_context.codegen())
        file = place / self._file_name(key)
        try:
            if not file.exists() and not wait_for(self._stem(), file):
                return None
            content = file.read_bytes()
        except FileNotFoundError:  # removed by another process
            return None
        except OSError as error:
            warn_once(f"cannot be read ({error})")
            return None
        checksum, data = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(data).digest() != checksum:
            warn_once(f"has a damaged file ({file}), which is made anew")
            return None
        stored_key, payload = pickle.loads(data)
        rebuild: Callable[..., Any] = CompileResult._rebuild
        return rebuild(target_context, *payload) if stored_key == key else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function."""
        place = self._find() if self._enabled else None
        if place is None or any(not part.can_cache for part in data.lifted) or data.library.has_dynamic_globals:
            return
        key = self._key(sig, data.codegen)
        pickled: Callable[..., bytes] = serialize.dumps
        content = pickled((key, data._reduce()))
        try:
            _write_whole(place / self._file_name(key), hashlib.sha256(content).digest() + content)
        except OSError as error:
            warn_once(f"cannot be written ({error})")

    def enable(self) -> None:
        """Use the disk from now on."""
        self._enabled = True

    def disable(self) -> None:
        """Compile in memory from now on."""
        self._enabled = False

    def flush(self) -> None:
        """Forget this kernel's compiled forms."""
        place = self._find()
        if place is not None:
            for file in place.glob(f"{self._stem()}-*"):
                file.unlink(missing_ok=True)

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """What a compiled function is valid for: argument types, processor, and the function itself."""
        return (sig, codegen.magic_tuple(), self._function.__code__.co_code)

    def _stem(self) -> str:
        return f"{self._function.__module__.rpartition('.')[2]}.{self._function.__qualname__}".replace("<locals>", "")

    def _file_name(self, key: tuple[Any, ...]) -> str:
        return f"{self._stem()}-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}"


def _write_whole(file: Path, content: bytes) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
