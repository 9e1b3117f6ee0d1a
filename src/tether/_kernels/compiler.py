"""numba's compiler for our kernels: the same code, made with less work over and over.

Most of the time that numba takes is spent in Python, and most of that in three things that it does over and over:

- finding what ``a[i]`` or ``a + b`` comes to. numba asks some twenty rules in turn, for each place where it stands, and
  several times over; a kernel has a dozen different ones. Here each is asked once per kernel.
- copying a function that is written into another. numba copies it block by block, and with each block the list of all
  variables of the function, which is then not used. Here the list is not copied.
- looking for garbage: of a million new objects hardly any is garbage before the kernel is done.

All of it happens while numba's lock on compiling is held: no other thread compiles meanwhile.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import ir, types
from numba.core.compiler import Compiler, CompileResult

__all__ = ["QuickCompiler"]

_PLAIN = (types.Number, types.Boolean, types.Array)
"""Types for which nothing but their own names decides what an operator comes to."""


class _Remembered:
    """numba's knowledge of types, which remembers what operators on numbers and arrays come to."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._known: dict[tuple[Any, ...], Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        """What a call comes to. Calls of other kernels are not remembered: numba keeps these itself."""
        ask = self._context.resolve_function_type
        if keywords or isinstance(function, types.Dispatcher) or not _are_plain(arguments):
            return ask(function, arguments, keywords)
        return self._remember((function, *arguments), lambda: ask(function, arguments, keywords))

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        """What ``target[index] = value`` comes to."""
        arguments = (target, index, value)
        if not _are_plain(arguments):
            return self._context.resolve_setitem(*arguments)
        return self._remember(("setitem", *arguments), lambda: self._context.resolve_setitem(*arguments))

    def _remember(self, key: tuple[Any, ...], ask: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = ask()
        return self._known[key]


def _are_plain(arguments: Any) -> bool:
    return all(isinstance(one, _PLAIN) for one in arguments)


class QuickCompiler(Compiler):
    """Compiles as numba does: for ``pipeline_class``."""

    def __init__(self, context: Any, *others: Any) -> None:
        super().__init__(_Remembered(context), *others)  # type: ignore[no-untyped-call]
        self._context = context

    def compile_extra(self, function: Callable[..., Any]) -> CompileResult:
        """Compile a function."""
        with _no_collection(), _one_list_of_variables():
            result: CompileResult = super().compile_extra(function)  # type: ignore[no-untyped-call]
        return result._replace(typing_context=self._context)  # type: ignore[call-arg]


@contextmanager
def _no_collection() -> Iterator[None]:
    """No search for garbage; one kernel may be compiled within another."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def _one_list_of_variables() -> Iterator[None]:
    """Blocks of code are copied without the list of variables of their function."""
    if hasattr(ir.Scope, "__deepcopy__"):  # of a later numba, or as one kernel is compiled within another
        yield
        return
    ir.Scope.__deepcopy__ = lambda scope, _memo: scope  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del ir.Scope.__deepcopy__  # type: ignore[attr-defined]
