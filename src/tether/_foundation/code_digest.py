"""A digest of a function, or of an object of the user's own: to notice that it says something else than before."""

from __future__ import annotations

import copyreg
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

_ATOMS = (str, bytes, int, float, complex, bool, type(None), type(...))
_NOT_SAID = frozenset(
    ("__annotations__", "__dict__", "__doc__", "__firstlineno__", "__static_attributes__", "__weakref__", "_abc_impl")
)
"""What a class has beside what it says and does."""
_ATTRIBUTES = {
    CodeType: "co_code co_consts co_exceptiontable co_names co_varnames co_freevars "
    "co_flags co_argcount co_posonlyargcount co_kwonlyargcount",
    MethodType: "__func__ __self__",
    ModuleType: "__name__",
    cached_property: "func",
    classmethod: "__func__",
    partial: "func args keywords",
    property: "fget fset fdel",
    staticmethod: "__func__",
}
"""What objects of some types consist of; not the file and the lines of code."""


def digest_of_code(function: Any) -> tuple[str | None, str]:
    """A digest of a function with its code and all that it refers to; or None, and why there is none.

    The digest is that of another process too, and does not change when the function moves to another line or file.
    Functions and classes of installed modules are only named: they do not change from run to run. There is none of a
    function that refers to what cannot be copied, such as a lock or an open file.

    >>> def near(limit):
    ...     return lambda p: p > limit
    >>> digest_of_code(near(0.5)) == digest_of_code(near(0.5)), digest_of_code(near(0.5)) == digest_of_code(near(0.6))
    (True, False)
    >>> import threading
    >>> digest_of_code(near(threading.Lock()))[1]
    "<lambda> uses something that cannot be compared with that of an earlier call (cannot pickle '_thread.lock' object)"
    """
    try:
        return _Walk().digest(function).hex(), ""
    except Exception as error:  # whatever an object of the user's own raises
        name = getattr(function, "__name__", type(function).__name__)
        what = f"{name} uses something that cannot be compared with that of an earlier call"
        return None, f"{what} ({str(error) or type(error).__name__})"


class _Walk:
    """A walk through all that an object refers to: each has a digest of its kind and of the digests of its parts."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, bytes]] = {}
        """By id: the object, so that it stays and its id with it, and its digest."""

    def digest(self, value: Any) -> bytes:
        if isinstance(value, _ATOMS) and type(value) in _ATOMS:
            return hashlib.sha256(f"{type(value).__name__} {value!r}".encode("utf-8", "backslashreplace")).digest()
        if id(value) not in self._known:
            self._known[id(value)] = value, b"again"  # what refers to itself
            self._known[id(value)] = value, self._of_parts(value)
        return self._known[id(value)][1]

    def _of_parts(self, value: Any) -> bytes:
        if isinstance(value, set | frozenset):  # their order is another one in every process
            parts = sorted(map(self.digest, value))
        else:
            parts = [self.digest(part) for part in _parts(value)]
        kind = type(value).__qualname__.encode("utf-8", "backslashreplace")
        return hashlib.sha256(b"\0".join([kind, *parts])).digest()


def _parts(value: Any) -> Iterable[Any]:
    """What an object consists of."""
    kind = type(value)
    if kind in _ATTRIBUTES:
        return [getattr(value, name) for name in _ATTRIBUTES[kind].split()]
    if kind in (tuple, list):
        return list(value)
    if kind in (dict, MappingProxyType):
        return [part for item in value.items() for part in item]
    if isinstance(value, FunctionType | type):
        return (value.__module__, value.__qualname__) if _is_named(value) else _inside(value)
    inner = getattr(value, "py_func", getattr(value, "__wrapped__", None))
    return [inner] if isinstance(inner, FunctionType) else _as_pickled(value)  # compiled, or it keeps its results


def _inside(value: FunctionType | type) -> list[Any]:
    """What a function or a class says and does."""
    if isinstance(value, type):
        return [value.__bases__, {name: vars(value)[name] for name in sorted(set(vars(value)) - _NOT_SAID)}]
    cells = [_content(cell) for cell in value.__closure__ or ()]
    return [value.__code__, value.__defaults__, value.__kwdefaults__, cells, _globals_of(value)]


def _as_pickled(value: Any) -> Iterator[Any]:
    """What pickle keeps of an object, to make it again."""
    registered = copyreg.dispatch_table.get(type(value))
    made: Any = value.__reduce_ex__(4) if registered is None else registered(value)
    if isinstance(made, str):
        yield from (getattr(value, "__module__", None), made)
        return
    for part in made:
        yield list(part) if isinstance(part, Iterator) else part  # items of a list or dict


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return "empty"


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """The globals that a function uses, also those of other modules of the user's own."""
    names = _names(function.__code__)
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for module in [one for one in found.values() if isinstance(one, ModuleType) and not _is_installed(one)]:
        found |= {f"{module.__name__}.{name}": vars(module)[name] for name in names if name in vars(module)}
    return found


def _names(code: CodeType) -> list[str]:
    """The names that code uses, and the functions within it."""
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in _names(one)]
    return sorted({*code.co_names, *inner})


def _is_named(value: Any) -> bool:
    """Whether a function or a class is that of an installed module, where it can be found by its name."""
    module = sys.modules.get(value.__module__)
    return module is not None and "<" not in value.__qualname__ and _is_installed(module)


def _is_installed(module: ModuleType) -> bool:
    top, file = module.__name__.partition(".")[0], getattr(module, "__file__", None)
    if top == "tether" or top in sys.stdlib_module_names or file is None:
        return module.__name__ != "__main__"
    return "site-packages" in file or "dist-packages" in file
