"""numba's compiler for our kernels: the same code, made with less repeated work.

Most of numba's time is spent in Python, on work that it repeats, or that no kernel needs:

- finding the type of ``a[i]`` or ``a + b``. numba tries about twenty rules for each such expression, several times. A
  kernel has about a dozen different expressions. Here each of them is typed once per kernel.
- copying a function that is inlined into another. numba copies it block by block. With each block it copies the list of
  all variables of the function, and does not use the copy. Here the list is not copied.
- giving each value of a variable a name of its own. numba goes through the whole function twice per variable. Here it
  goes only through the blocks that have the variable.
- counting references. A kernel that allocates nothing has no references to count, so the last use of each variable need
  not be found.
- optimising the code that unpacks Python's arguments. It runs once per call. Here it is optimised together with the
  rest, and not also by itself.
- collecting garbage: hardly any of a million new objects is garbage before the kernel is compiled.

All of this happens while numba's lock on compiling is held, so no other thread compiles meanwhile. A function of numba
is replaced only if it takes the arguments expected here; a later numba's own function stays if it takes others.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from numba.core import codegen, ir, postproc, ssa, transforms, types
from numba.core.compiler import Compiler, CompileResult

from tether._kernels.compiling import compiling

__all__ = ["QuickCompiler"]

_PLAIN = (types.Number, types.Boolean, types.Array)
"""Types whose names alone decide the result type of an operator."""

_FROM_PYTHON = "_ZN7cpython"
"""The prefix of functions that unpack Python's arguments; each is in a module of its own."""


class QuickCompiler(Compiler):
    """Compiles as numba does: for ``pipeline_class``."""

    def compile_extra(self, function: Callable[..., Any]) -> CompileResult:
        """Compile a function."""
        with ExitStack() as less:
            less.enter_context(compiling())
            less.enter_context(_no_collection())
            less.enter_context(_one_list_of_variables())
            less.enter_context(_replaced(types.BaseFunction, "get_call_type", _remember_types))
            less.enter_context(_replaced(ssa, "_run_ssa", _rename_where_it_stands))
            if not self.state.flags.nrt:
                less.enter_context(_replaced(postproc.PostProcessor, "run", _count_no_references))
                less.enter_context(_replaced(codegen.CPUCodeLibrary, "_optimize_functions", _optimise_loops))
            result: CompileResult = super().compile_extra(function)  # type: ignore[no-untyped-call]
        return result


@contextmanager
def _replaced(owner: Any, name: str, instead: Callable[[Any], Any]) -> Iterator[None]:
    """Replace a function of numba by the result of ``instead``, if the two take the same arguments."""
    original = getattr(owner, name, None)
    new = instead(original)
    known = callable(original) and [*inspect.signature(original).parameters] == [*inspect.signature(new).parameters]
    if not known or original.__module__ == __name__:  # replaced already: one kernel is compiled within another
        yield
        return
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _remember_types(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Result types of operators on numbers and arrays are found once; numba itself remembers calls of other kernels."""
    known: dict[tuple[Any, ...], Any] = {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws or not all(isinstance(one, _PLAIN) for one in args):
            return ask(self, context, args, kws)
        key = (self, *args)
        if key not in known:
            known[key] = ask(self, context, args, kws)
        return known[key]

    return get_call_type


def _rename_where_it_stands(rename: Callable[..., Any]) -> Callable[..., Any]:
    """Variables with several values get one name per value; a block that does not have the variable is left alone."""

    def _run_ssa(blocks: Any) -> Any:
        names = {
            label: {one.name for line in block.body for one in line.list_vars()} for label, block in blocks.items()
        }

        def only_these(rewrite: Callable[..., Any]) -> Callable[..., Any]:
            def _run_block_rewrite(blocks: Any, states: Any, handler: Any) -> Any:
                new = {}
                for label, block in blocks.items():
                    has_it = states["varname"] in names[label]
                    new[label] = rewrite({label: block}, states, handler)[label] if has_it else _copy(block)
                return new

            return _run_block_rewrite

        with _replaced(ssa, "_run_block_rewrite", only_these):
            return rename(blocks)

    return _run_ssa


def _copy(block: Any) -> Any:
    copy: Any = ir.Block(scope=block.scope, loc=block.loc)
    copy.body = list(block.body)
    return copy


def _count_no_references(run_in_full: Callable[..., Any]) -> Callable[..., Any]:
    """Variables are not deleted after their last use: that is only needed for reference counting."""

    def run(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        function = self.func_ir
        if function.is_generator:
            run_in_full(self, emit_dels, extend_lifetimes)
            return
        function.blocks = transforms.canonicalize_cfg(function.blocks)
        function.variable_lifetime = postproc.VariableLifetime(function.blocks)
        function.generator_info = None

    return run


def _optimise_loops(optimise: Callable[..., Any]) -> Callable[..., Any]:
    """Functions are optimised one by one, then all together; those that unpack arguments only together."""

    def _optimize_functions(self: Any, ll_module: Any) -> None:
        if any(one.name.startswith(_FROM_PYTHON) for one in ll_module.functions):
            ll_module.data_layout = self._codegen._data_layout
        else:
            optimise(self, ll_module)

    return _optimize_functions


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection; one kernel may be compiled within another."""
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
    if hasattr(ir.Scope, "__deepcopy__"):  # a later numba has its own, or one kernel is compiled within another
        yield
        return
    ir.Scope.__deepcopy__ = lambda scope, _memo: scope  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del ir.Scope.__deepcopy__  # type: ignore[attr-defined]
