"""The extras of the package: what `pip install covey` leaves out, and how a program says that it needs it.

The base installation has the client, the filter languages and the commands that use a network. Everything else needs
an extra: `broker` for brokers, indexes and the simulator, `spark` for planning, `lab` for the papers. Each extra
contains the ones before it.

Rule: what needs an extra calls `require` before it imports anything else, so that nobody sees a bare
ModuleNotFoundError, and no long work fails halfway because a package is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Final

from covey.errors import MissingExtraError

_BROKER: Final = ("aiohttp", "numba", "numpy")
_SPARK: Final = (*_BROKER, "jinja2", "matplotlib", "pandas", "pyarrow", "pyspark", "scipy")

# The modules by which an extra is recognised. `java` is not here: any Java 17 will do (`pipeline.session`).
MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "broker": _BROKER,
    "dashboard": _BROKER,
    "spark": _SPARK,
    "lab": _SPARK,
    "connect": ("google.rpc", "grpc", "grpc_status", "zstandard"),
}


def require(extra: str, user: str) -> None:
    """Raise MissingExtraError unless the modules of an extra are installed; `user` names who needs them."""
    missing = _missing(MODULES[extra])
    if missing:
        raise MissingExtraError(
            f"{user} needs {', '.join(missing)}, which the base installation leaves out "
            f"(hint: pip install 'covey[{extra}]')"
        )


def installed(extra: str) -> bool:
    """Return whether the modules of an extra are installed."""
    return not _missing(MODULES[extra])


def _missing(modules: Iterable[str]) -> list[str]:
    return [module for module in modules if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there
        return False
