"""A digest of a function, or of an object of the user's own: to notice that it says something else than before."""

from __future__ import annotations

import hashlib
import sys
from functools import partial
from types import ModuleType
from typing import Any

__all__ = ["digest_of_code"]


def digest_of_code(function: Any) -> str:
    """A digest of a function with its code and the globals that it uses, also where it is that of a module.

    Functions of installed modules are only named: they do not change from run to run.

    >>> def near(limit):
    ...     return lambda p: p > limit
    >>> digest_of_code(near(0.5)) == digest_of_code(near(0.5)), digest_of_code(near(0.5)) == digest_of_code(near(0.6))
    (True, False)
    """
    import cloudpickle

    written = function
    while isinstance(written, partial):
        written = written.func
    module = sys.modules.get(getattr(written, "__module__", None) or type(written).__module__)
    if module is None or _is_installed(module) or module.__name__ in cloudpickle.list_registry_pickle_by_value():
        return hashlib.sha256(cloudpickle.dumps(function)).hexdigest()
    cloudpickle.register_pickle_by_value(module)
    try:
        return hashlib.sha256(cloudpickle.dumps(function)).hexdigest()
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _is_installed(module: ModuleType) -> bool:
    name, file = module.__name__, getattr(module, "__file__", None)
    top = name.partition(".")[0]
    own = name != "__main__" and top != "tether" and top not in sys.stdlib_module_names
    return not own or file is None or "site-packages" in file
