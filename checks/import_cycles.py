"""Import cycles: no new ones, and the known ones only shrink.

Imports for type checking count too: two modules that name each other's types are one concept in two files, or hold
references to each other. The known cycles are in pyproject.toml, `[tool.covey] import-cycles`, each as the set of
modules that reach each other. A cycle that is gone or smaller must be taken from that list, so that it cannot come
back. Run by `make check`.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import grimp

PACKAGE = "covey"
SETTINGS = Path(__file__).parents[1] / "pyproject.toml"

Cycle = frozenset[str]


def main() -> int:
    """Compare the cycles of the sources with the list; print every difference, return the exit code."""
    with SETTINGS.open("rb") as file:
        known = {frozenset(cycle) for cycle in tomllib.load(file)["tool"]["covey"]["import-cycles"]}
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    problems = list(differences(cycles(imports), known))
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"Import cycles: {len(known)}, all known, among {len(imports)} modules.")
    return 1 if problems else 0


def differences(found: Iterable[Cycle], known: Iterable[Cycle]) -> Iterator[str]:
    """Yield a line for every cycle that is not known, and for every known one that is not found as it is listed."""
    found, known = set(found), set(known)
    for cycle in sorted(map(sorted, found - known)):
        yield f"import cycle that is not in the list of {SETTINGS.name}: {', '.join(cycle)}"
    for cycle in sorted(map(sorted, known - found)):
        yield f"import cycle of the list that is gone or has changed, take it out: {', '.join(cycle)}"


def cycles(imports: Mapping[str, Iterable[str]]) -> list[Cycle]:
    """Return the sets of two or more modules that all reach each other (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_modules: list[str] = []
    closed: set[str] = set()
    found: list[Cycle] = []

    def close(module: str) -> None:
        component: set[str] = set()
        while module not in component:
            component.add(open_modules.pop())
        closed.update(component)
        if len(component) > 1:
            found.append(frozenset(component))

    for start in sorted(imports):
        # By hand instead of by recursion: a chain of imports can be longer than Python's stack.
        path = [] if start in order else [(start, iter(sorted(imports[start])))]
        while path:
            module, rest = path[-1]
            if module not in order:
                order[module] = lowest[module] = len(order)
                open_modules.append(module)
            for imported in rest:
                if imported not in order and imported in imports:
                    path.append((imported, iter(sorted(imports[imported]))))
                    break
                if imported in order and imported not in closed:
                    lowest[module] = min(lowest[module], order[imported])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[module])
                if lowest[module] == order[module]:
                    close(module)
    return found


if __name__ == "__main__":
    sys.exit(main())
