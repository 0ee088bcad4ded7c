"""The version is stated in one place; everything that has to repeat it says the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from checks.release import notes_of, release_notes, version_of
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import covey

ROOT = Path(__file__).parents[2]
SOURCE = '"""A package."""\n\n__version__ = "1.2.0"\n'
CHANGELOG = """# Changelog

## [1.2.0] – 2026-01-31

### Added

- Something.

## [1.1.0] – 2025-12-24

- What was before.
"""


def test_the_version_is_stated_in_the_sources_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert version_of(source.read_text(encoding="utf-8")) == covey.__version__


def test_what_is_built_has_that_version() -> None:
    metadata = ProjectMetadata(str(ROOT), PluginManager())
    assert metadata.version == covey.__version__


def test_the_chart_has_that_version() -> None:
    chart = yaml.safe_load((ROOT / "deploy/helm/covey/Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (covey.__version__, covey.__version__)


def test_the_changelog_begins_with_that_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## \[([^\]]+)\]", changelog, re.MULTILINE)
    assert first is not None
    assert first[1] == covey.__version__
    assert notes_of(changelog, covey.__version__)[1]


def test_security_fixes_are_promised_for_that_version() -> None:
    supported = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert f"| {covey.__version__.rpartition('.')[0]} | yes |" in supported


def test_release_notes_are_the_section_of_the_version() -> None:
    assert release_notes("v1.2.0", SOURCE, CHANGELOG) == "### Added\n\n- Something."
    assert notes_of(CHANGELOG, "1.1.0") == ("2025-12-24", "- What was before.")


@pytest.mark.parametrize(
    ("tag", "changelog", "problem"),
    [
        ("v1.3.0", CHANGELOG, "the tag is v1.3.0, and the version of the sources is 1.2.0"),
        ("1.2.0", CHANGELOG, "the tag is 1.2.0"),
        ("v1.2.0", CHANGELOG.replace("2026-01-31", "unreleased"), "no date for 1.2.0, but 'unreleased'"),
        ("v1.2.0", CHANGELOG.replace("[1.2.0]", "[1.2.1]"), "no section for 1.2.0"),
        ("v1.2.0", "## [1.2.0] – 2026-01-31\n", "nothing about 1.2.0"),
    ],
)
def test_a_release_that_cannot_be_made_says_why(tag: str, changelog: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        release_notes(tag, SOURCE, changelog)


def test_a_package_without_a_version_is_noticed() -> None:
    with pytest.raises(ValueError, match="no __version__"):
        version_of("")
