"""What the documentation site adds to ``docs/``: documents from elsewhere in the repository, a page for each module.

Documents link to each other and to source files with relative paths, so that they can be read on any git host. Here
these links become links of the site: to the page of the document, to the page of the module, or to a copy of the file.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

DOCUMENTS = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "client/README.md": "client.md",
    "model/pretrained/CARD.md": "card.md",
}
"""Pages of the site whose documents lie outside ``docs/``."""

PACKAGES = ("app", "model")
"""Packages with an API reference."""

_FOLDERS = {
    "docs": "index.md",
    "docs/decisions": "decisions/README.md",
    "benchmarks": "benchmarks.md",
    "client": "client.md",
}
"""Pages of folders."""

_LINK = re.compile(r"(?P<text>!?\[[^\[\]]*\])\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_ROLE = re.compile(r":(?:mod|class|func|meth|attr|data|exc):(?=<code|`)")
"""Roles of docstrings, such as ``:class:``, which Markdown does not know."""

_FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation: the decisions, and the modules by package."""
    assert config.nav is not None
    decisions = [f"decisions/{path.name}" for path in _decisions()]
    for section in config.nav:
        for entry in section.get("Understand", ()):
            if "Decisions" in entry:
                entry["Decisions"] = ["decisions/README.md", *decisions]
    config.nav.append({"Reference": ["reference/index.md", *({package: _navigation(package)} for package in PACKAGES)]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the files that documents link to."""
    for source, page in DOCUMENTS.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for module in _modules():
        text = f"# {module.replace('_', chr(92) + '_')}\n\n::: {module}\n"
        files.append(File.generated(config, _module_page(module), content=text))
    files.append(File.generated(config, "reference/index.md", content=_reference_index()))
    for file in list(files.documentation_pages()):
        for target in _linked_files(file):
            if files.get_file_from_path(_copy_of(target)) is None:
                files.append(File.generated(config, _copy_of(target), abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links of a document into links of the site."""
    source = _source_of(page.file)
    if source is None:
        return markdown
    here = posixpath.dirname(page.file.src_uri)

    def link(match: re.Match[str]) -> str:
        target = _target(source, match["target"])
        if target is None:
            return match[0]
        page_of_target = _page_of(target)
        if page_of_target is None:
            return match["text"].strip("[]")
        return f"{match['text']}({posixpath.relpath(page_of_target, here or '.')}{match['anchor'] or ''})"

    # Blocks of code are left as they are.
    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave out the roles of docstrings."""
    return _ROLE.sub("", html)


def _decisions() -> list[Path]:
    return sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))


def _modules() -> Iterator[str]:
    """Every public module, packages before what is in them."""
    for package in PACKAGES:
        paths = sorted((ROOT / package).rglob("*.py"), key=lambda path: (path.parent, path.name != "__init__.py", path))
        for path in paths:
            names = path.relative_to(ROOT).with_suffix("").parts
            if names[-1] == "__init__":
                names = names[:-1]
            if not any(name.startswith("_") for name in names):
                yield ".".join(names)


def _is_package(module: str) -> bool:
    return (ROOT / module.replace(".", "/")).is_dir()


def _module_page(module: str) -> str:
    path = module.replace(".", "/")
    return f"reference/{path}/index.md" if _is_package(module) else f"reference/{path}.md"


def _navigation(package: str) -> list[Any]:
    """The pages of a package and of what is in it."""
    children = [module for module in _modules() if module.rpartition(".")[0] == package]
    entries: list[Any] = [_module_page(package)]
    entries += [{module.rpartition(".")[2]: _module_page(module)} for module in children if not _is_package(module)]
    entries += [{module.rpartition(".")[2]: _navigation(module)} for module in children if _is_package(module)]
    return entries


def _reference_index() -> str:
    """A table of all modules with the first line of their docstrings."""
    lines = [
        "# Reference",
        "",
        "Every public module, from its docstrings. `app` is the service, `model` what it serves; the",
        "[architecture](../architecture.md) says how they work together. The HTTP interface is described in",
        "[the API](../api.md).",
        "",
        "| module | |",
        "|---|---|",
    ]
    for module in _modules():
        path = ROOT / module.replace(".", "/")
        text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
        match = re.match(r'"""(.*?)(?:\n\n|""")', text, re.DOTALL)
        summary = " ".join(match[1].split()) if match else ""
        link = posixpath.relpath(_module_page(module), "reference")
        lines.append(f"| [`{module}`]({link}) | {summary.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def _source_of(file: File) -> str | None:
    """A page's document, relative to the repository; None for generated pages."""
    if file.abs_src_path is None:
        return None
    source = os.path.relpath(file.abs_src_path, ROOT)
    return None if source.startswith("..") else Path(source).as_posix()


def _target(source: str, link: str) -> str | None:
    """What a document's link leads to, relative to the repository; None if it leads elsewhere."""
    if re.match(r"[a-z]+:|/", link):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return None if target.startswith("..") or not (ROOT / target).exists() else target


def _page_of(target: str) -> str | None:
    """The page of a file or folder of the repository, or the copy of a file, relative to the site.

    Args:
        target: A path relative to the repository.

    Returns:
        The path; None for a folder that has no page.
    """
    if target in DOCUMENTS:
        return DOCUMENTS[target]
    if target in _FOLDERS:
        return _FOLDERS[target]
    module = target.removesuffix(".py").replace("/", ".")
    if module in set(_modules()):
        return _module_page(module)
    if (ROOT / target).is_dir():
        return None
    return target.removeprefix("docs/") if target.startswith("docs/") else _copy_of(target)


def _copy_of(target: str) -> str:
    """Where the site has a copy of a file. Pictures keep their names; all else is text that a browser is to show."""
    return f"source/{target}" if target.endswith(".png") else f"source/{target}.txt"


def _linked_files(file: File) -> set[str]:
    """Files outside ``docs/`` that a document links to and that have no page."""
    source = _source_of(file)
    if source is None:
        return set()
    targets = {_target(source, match["target"]) for match in _LINK.finditer(_FENCE.sub("", file.content_string))}
    return {
        target
        for target in targets
        if target is not None and (ROOT / target).is_file() and _page_of(target) == _copy_of(target)
    }
