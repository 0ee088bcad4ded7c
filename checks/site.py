"""Build the documentation site with pages from outside docs/ and the Python reference (a hook of MkDocs).

Documents are written to be read in the repository: they link to each other, to the pages at its top, to examples and to
sources. Here each of those links leads to the page of the site with the same content. A link to a file that has no page
becomes plain text, because the site does not know where the repository is published.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

TOP = {  # files at the top of the repository, and the pages of the site that show them
    "README.md": "start.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CHANGELOG.md": "changes.md",
}

API = {  # pages of the Python reference: a title, what they are about, and the names they document
    "api/filters.md": (
        "Filters and indexes",
        "Filters say which events are wanted; an index matches events against many filters. All are names of `covey`.",
        [
            *(
                "covey.core.families.parse",
                "covey.core.families.decode",
                "covey.core.attributes.filter.conjunction",
            ),
            *(
                "covey.core.filter.Filter",
                "covey.core.filter.Merge",
                "covey.core.attributes.merging.merge_many",
            ),
            *("covey.core.event.Event", "covey.core.xpath.document.Document", "covey.matching.index.Index"),
        ],
    ),
    "api/clients.md": (
        "Clients",
        "Programs publish and subscribe through a client, with `await` or without. `import covey` gives these names.",
        [
            *(
                "covey.client.client.connect",
                "covey.client.client.Client",
                "covey.client.subscription.Subscription",
            ),
            *("covey.client.subscription.Received", "covey.client.sync.connect_sync"),
        ],
    ),
    "api/simulation.md": (
        "The simulator",
        "Overlays of routers or of whole brokers, in one process and simulated time: `from covey.sim import Network`.",
        ["covey.sim.network.Network", "covey.sim.brokers.BrokerNetwork"],
    ),
    "api/errors.md": (
        "Errors",
        "Every error of Covey is a `CoveyError`. `import covey` gives these names.",
        ["covey.errors"],
    ),
}

STAGES = "api/pipeline.md"  # its names are those that `covey.pipeline` exports

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def page_of(path: str) -> str | None:
    """Return the page that shows a file of the repository, both as relative paths, or None."""
    if path in TOP:
        return TOP[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("examples/") and (ROOT / path).is_file():
        return path if path.endswith((".md", ".ipynb")) else f"{path}.md"
    return None


def source_of(page: str) -> str:
    """Return the file of the repository that a page shows; `docs/…` for the pages that are only in the site."""
    for path, name in TOP.items():
        if name == page:
            return path
    if page.startswith("examples/"):
        return page if page.endswith("README.md") else page.removesuffix(".md")
    return f"docs/{page}"


def led(markdown: str, page: str) -> str:
    """Return the text of a page with its links leading to pages of the site."""
    folder = posixpath.dirname(source_of(page))

    def replaced(found: re.Match[str]) -> str:
        picture, text, link = found.groups()
        path, mark, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link) or not path:
            return found[0]
        target = page_of(posixpath.normpath(posixpath.join(folder, path)))
        if target is None:
            return text
        return f"{picture}[{text}]({posixpath.relpath(target, posixpath.dirname(page) or '.')}{mark}{anchor})"

    parts = FENCED.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def shown(path: Path) -> str:
    """Return the page for an example: its source."""
    language = {".py": "python", ".toml": "toml"}[path.suffix]
    return f"# {path.name}\n\n```{language}\n{path.read_text(encoding='utf-8')}```\n"


def stages() -> list[str]:
    """Return the full names of what `covey.pipeline` exports."""
    from covey import pipeline

    return [f"covey.pipeline.{home}.{name}" for name, home in sorted(pipeline._HOMES.items())]


def reference() -> dict[str, str]:
    """Return the pages of the Python reference, by where they are."""
    about = (
        "On Spark. A stage takes DataFrames and keyword parameters, runs no action and returns a DataFrame."
    )
    pages = {**API, STAGES: ("Stages of the pipeline", about, stages())}
    return {
        name: f"# {title}\n\n{text}\n\n" + "\n".join(f"::: {one}\n" for one in names)
        for name, (title, text, names) in pages.items()
    }


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose files are not in docs/."""
    contents = {page: (ROOT / path).read_text(encoding="utf-8") for path, page in TOP.items()}
    for path in sorted((ROOT / "examples").rglob("*")):
        page = page_of(path.relative_to(ROOT).as_posix())
        if page is None or path.suffix not in {".md", ".py", ".toml", ".ipynb"}:
            continue
        contents[page] = shown(path) if path.suffix in {".py", ".toml"} else path.read_text(encoding="utf-8")
    contents.update(reference())
    for page, text in contents.items():
        files.append(File.generated(config, page, content=text))
    for file in files:
        if file.src_uri.startswith("examples/") and file.src_uri != "examples/README.md":
            file.inclusion = file.inclusion.__class__.NOT_IN_NAV
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to pages of the site."""
    return led(markdown, page.file.src_uri)
