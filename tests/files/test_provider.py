"""The files provider keeps the provider protocol: a streamed listing that proves its completeness, and single fetches."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kbsync.domain.errors import ItemGone, ItemUnreadable, ProviderRefused
from kbsync.providers.contract import (
    Content,
    DocumentRef,
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    Provider,
    SourceSetup,
    Unchanged,
    UnreadableItem,
)
from kbsync.providers.files import FilesProvider


@pytest.fixture
def root(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "guide" / "deep").mkdir(parents=True)
    (docs / "index.md").write_text("# Welcome\n\n[start](guide/start.md)\n")
    (docs / "guide" / "start.md").write_text("---\ntitle: Start here\n---\nText\n")
    (docs / "guide" / "deep" / "page.html").write_text("<title>Deep</title><p>Below</p>")
    (docs / "guide" / "logo.png").write_bytes(b"\x89PNG")
    return docs


def provider(path: Path | str, *, roots: list[Path] | None = None, **config: object) -> FilesProvider:
    setup = SourceSetup(1, 2, {"path": str(path), **config})
    return FilesProvider(setup, roots if roots is not None else [Path(path).parent])


async def listed(of: Provider) -> list[ListingPart]:
    return [part async for part in of.list_items()]


def documents(parts: list[ListingPart]) -> dict[str, ListedDocument]:
    return {part.external_id: part for part in parts if isinstance(part, ListedDocument)}


@pytest.mark.spec("LS-08")
async def test_a_folder_is_listed_with_sections_content_and_a_proof(root: Path) -> None:
    parts = await listed(provider(root, base_url="https://docs.example"))
    assert parts[-1] == ListingEnd(True)
    assert [(p.external_id, p.parent_external_id) for p in parts if isinstance(p, ListedSection)] == [
        ("guide", None),
        ("guide/deep", "guide"),
    ]
    found = documents(parts)
    assert {name: one.title for name, one in found.items()} == {
        "index.md": "Welcome",
        "guide/start.md": "Start here",
        "guide/deep/page.html": "Deep",
    }
    assert found["guide/start.md"].section_external_ids == ("guide",)
    assert found["guide/start.md"].url == "https://docs.example/guide/start.md"
    content = found["index.md"].content
    assert content is not None
    assert content.markdown == "# Welcome\n\n[start](https://docs.example/guide/start.md)"


async def test_an_archive_is_listed_like_its_folder(root: Path) -> None:
    with zipfile.ZipFile(root.parent / "docs.zip", "w") as archive:
        for path in sorted(root.rglob("*.*")):
            archive.write(path, path.relative_to(root).as_posix())
    as_folder, as_archive = await listed(provider(root)), await listed(provider(root.parent / "docs.zip"))
    assert {n: d.content for n, d in documents(as_folder).items()} == {
        n: d.content for n, d in documents(as_archive).items()
    }
    assert as_archive[-1] == ListingEnd(True)


async def test_fetching_one_document(root: Path) -> None:
    files = provider(root)
    content = await files.fetch_document(DocumentRef("guide/start.md", None))
    assert isinstance(content, Content)
    assert (content.title, content.markdown) == ("Start here", "Text")
    assert await files.fetch_document(DocumentRef("guide/start.md", None, etag=content.etag)) == Unchanged()
    for gone in ("guide/none.md", "../secret.md", "guide/logo.png"):
        with pytest.raises(ItemGone):
            await files.fetch_document(DocumentRef(gone, None))


@pytest.mark.spec("LS-07", "LS-09")
async def test_a_file_that_cannot_be_read_is_kept_with_its_reason(root: Path) -> None:
    (root.parent / "secret.md").write_text("secret")
    (root / "link.md").symlink_to(root.parent / "secret.md")
    (root / "LICENSE").write_bytes(b"\x00\x01")
    parts = await listed(provider(root))
    assert {p.external_id: p.reason for p in parts if isinstance(p, UnreadableItem)} == {
        "link.md": "It is a link that leads out of the source's folder.",
        "LICENSE": "It is not a text file.",
    }
    assert parts[-1] == ListingEnd(True)
    with pytest.raises(ItemUnreadable):
        await provider(root).fetch_document(DocumentRef("link.md", None))


@pytest.mark.spec("LS-09")
async def test_over_the_cap_the_listing_is_not_complete(root: Path) -> None:
    for number in range(40):
        (root / f"more{number}.md").write_text("x")
    parts = await listed(provider(root, max_files=5))
    assert len(documents(parts)) == 5
    assert parts[-1] == ListingEnd(False, "There are more than 5 files.")
    assert (await listed(provider(root, max_files=43)))[-1] == ListingEnd(True)


async def test_include_and_exclude(root: Path) -> None:
    (root / "guide" / "Makefile").write_text("all:\n")
    assert set(documents(await listed(provider(root, include=["guide/**"])))) == {
        "guide/start.md",
        "guide/deep/page.html",
        "guide/Makefile",
    }
    assert set(documents(await listed(provider(root, exclude=["guide/deep/*", "**/index.md"])))) == {"guide/start.md"}


async def test_an_empty_folder_is_a_complete_listing_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert await listed(provider(tmp_path / "empty")) == [ListingEnd(True)]


@pytest.mark.spec("LS-07")
@pytest.mark.parametrize(
    ("path", "roots", "says"),
    [
        ("/etc", ["docs"], "not below a folder"),
        ("docs/../outside", ["docs"], "not below a folder"),
        ("link", ["docs"], "not below a folder"),
        ("docs", [], "not below a folder"),
        ("docs-of-others", ["docs"], "not below a folder"),
        ("docs/none", ["docs"], "not there"),
        ("docs/index.md", ["docs"], "neither a folder nor a .zip"),
    ],
)
async def test_only_allowed_folders_are_read(root: Path, path: str, roots: list[str], says: str) -> None:
    base = root.parent
    for name in ("outside", "docs-of-others"):
        (base / name).mkdir()
    (base / "link").symlink_to(base / "outside", target_is_directory=True)
    refused = provider(path if path.startswith("/") else f"{base}/{path}", roots=[base / name for name in roots])
    with pytest.raises(ProviderRefused, match=says):
        await listed(refused)
    with pytest.raises(ProviderRefused, match=says):
        await refused.fetch_document(DocumentRef("a.md", None))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "path: is needed"),
        ({"path": ""}, "path: "),
        ({"path": 5}, "path: "),
        ({"path": "/x", "base_url": "javascript:x"}, "base_url: "),
    ],
)
def test_wrong_settings_are_refused_in_words(config: dict[str, object], words: str) -> None:
    with pytest.raises(ProviderRefused, match=f"Files source is not set up right. {words}"):
        FilesProvider(SourceSetup(1, 2, config), [])
    with pytest.raises(ProviderRefused, match="relative"):
        FilesProvider(SourceSetup(1, 2, {"path": "docs"}), ["docs"])._place()
