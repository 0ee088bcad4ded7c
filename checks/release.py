"""Say what is new in a release, or why it cannot be made.

    python checks/release.py v0.1.0

The version is in one place, `__version__` in src/covey/__init__.py. A tag must name it, and CHANGELOG.md must have a
section for it with a date. That section is printed: the release notes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
SECTION = re.compile(r"^## \[(?P<version>[^\]]+)\] – (?P<date>.+)$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def version_of(source: str) -> str:
    """Return the version that a package's source states; ValueError if it does not state one."""
    found = VERSION.search(source)
    if found is None:
        raise ValueError("there is no __version__")
    return found[1]


def notes_of(changelog: str, version: str) -> tuple[str, str]:
    """Return the date that the changelog gives a version, and what is new in it; ValueError without a section."""
    headings = list(SECTION.finditer(changelog))
    for number, heading in enumerate(headings):
        if heading["version"] == version:
            end = headings[number + 1].start() if number + 1 < len(headings) else len(changelog)
            return heading["date"], changelog[heading.end() : end].strip()
    raise ValueError(f"CHANGELOG.md has no section for {version}")


def release_notes(tag: str, source: str, changelog: str) -> str:
    """Return the notes of the release with this tag; ValueError that says why there cannot be one."""
    version = version_of(source)
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, and the version of the sources is {version}")
    date, notes = notes_of(changelog, version)
    if not DATE.fullmatch(date):
        raise ValueError(f"CHANGELOG.md has no date for {version}, but {date!r}")
    if not notes:
        raise ValueError(f"CHANGELOG.md has nothing about {version}")
    return notes


def main(words: list[str]) -> int:
    """Do what the command line says."""
    try:
        (tag,) = words
        source = (ROOT / "src" / "covey" / "__init__.py").read_text(encoding="utf-8")
        changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        print(release_notes(tag, source, changelog))
    except ValueError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
