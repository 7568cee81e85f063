"""Folders and archives: nothing outside of the place is read, and nothing in it is read without bound."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from kbsync.domain.errors import ItemGone, ItemUnreadable, ProviderRefused, ProviderUnreachable
from kbsync.providers.files import places
from kbsync.providers.files.places import Archive, Folder, FoundFile, WalkFault, place_at

OUTSIDE = ["../secret.md", "/etc/passwd", "a/../../secret.md", "..\\secret.md", "", "a\x00.md"]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "guide").mkdir(parents=True)
    (root / "index.md").write_text("# Index")
    (root / "guide" / "start.md").write_text("# Start")
    (tmp_path / "secret.md").write_text("secret")
    return root


def refusals(found: list[FoundFile | WalkFault]) -> dict[str, str | None]:
    return {one.relative: one.refusal for one in found if isinstance(one, FoundFile)}


def zipped(path: Path, entries: dict[str, bytes]) -> Archive:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return Archive(path)


@pytest.mark.spec("SE-05")
@pytest.mark.parametrize("relative", OUTSIDE)
def test_a_path_that_leads_out_is_no_item(docs: Path, relative: str) -> None:
    with pytest.raises(ItemGone):
        Folder(docs).read(relative)
    with pytest.raises(ItemGone):
        zipped(docs.parent / "x.zip", {"a.md": b"a"}).read(relative)


@pytest.mark.spec("SE-05")
def test_links_out_of_the_folder_are_refused_and_links_inside_are_followed(docs: Path) -> None:
    (docs / "out.md").symlink_to(docs.parent / "secret.md")
    (docs / "in.md").symlink_to(docs / "index.md")
    (docs / "dangling.md").symlink_to(docs / "nothing.md")
    (docs / "loop.md").symlink_to(docs / "loop.md")
    (docs / "elsewhere").symlink_to(docs.parent, target_is_directory=True)
    found = refusals(list(Folder(docs).walk()))
    assert set(found) == {"guide/start.md", "in.md", "index.md", "out.md"}
    assert [name for name, refusal in found.items() if refusal] == ["out.md"]
    assert Folder(docs).read("in.md")[0] == b"# Index"
    for relative in ("out.md", "elsewhere/secret.md"):
        with pytest.raises(ItemUnreadable, match="leads out"):
            Folder(docs).read(relative)


def test_hidden_and_vendored_folders_and_pipes_are_not_listed(docs: Path) -> None:
    for folder in (".git", "node_modules", "__pycache__"):
        (docs / folder).mkdir()
        (docs / folder / "x.md").write_text("x")
    (docs / ".hidden.md").write_text("x")
    os.mkfifo(docs / "pipe.md")
    assert set(refusals(list(Folder(docs).walk()))) == {"guide/start.md", "index.md"}
    with pytest.raises(ItemUnreadable, match="regular"):
        Folder(docs).read("pipe.md")


def test_the_version_changes_with_the_file_and_a_missing_one_is_gone(docs: Path) -> None:
    before = Folder(docs).read("index.md")[1]
    (docs / "index.md").write_text("# Other")
    assert Folder(docs).read("index.md")[1] != before
    with pytest.raises(ItemGone):
        Folder(docs).read("guide/none.md")
    with pytest.raises(ItemGone):
        Folder(docs).read("index.md/below.md")


@pytest.mark.spec("LS-09")
def test_a_folder_that_is_away_is_no_proof_that_its_files_are(docs: Path) -> None:
    folder = Folder(docs)
    docs.rename(docs.parent / "moved")
    with pytest.raises(ProviderUnreachable):
        folder.read("index.md")
    with pytest.raises(ProviderUnreachable):
        list(folder.walk())
    with pytest.raises(ProviderRefused, match="not there"):
        place_at(docs)


@pytest.mark.spec("LS-09")
def test_a_folder_that_cannot_be_opened_is_a_fault_of_the_walk(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests may run as root, whom no permission stops, so the refusal is the operating system's reply made up.
    real = os.scandir

    def refusing(path: str | os.PathLike[str]) -> object:
        if str(path).endswith("guide"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = list(Folder(docs).walk())
    assert [one.reason for one in found if isinstance(one, WalkFault)] == [
        f"The folder {str(docs / 'guide')!r} can't be opened: Permission denied."
    ]


def test_large_files_are_refused_by_name(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MAX_FILE_BYTES", 4)
    assert refusals(list(Folder(docs).walk()))["index.md"] == "It is larger than 10 MB."
    with pytest.raises(ItemUnreadable, match="larger"):
        Folder(docs).read("index.md")


@pytest.mark.spec("SE-05")
def test_entries_that_lead_out_of_an_archive_are_named_and_never_opened(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "x.zip", {"../up.md": b"x", "/abs.md": b"x", "a\\..\\b.md": b"x", "ok/a.md": b"# A"})
    found = refusals(list(archive.walk()))
    assert {name for name, refusal in found.items() if refusal} == set(found) - {"ok/a.md"}
    assert archive.read("ok/a.md")[0] == b"# A"
    assert not (tmp_path / "up.md").exists()


@pytest.mark.spec("SE-05")
def test_an_entry_is_read_up_to_the_limit_whatever_its_header_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zipped(tmp_path / "bomb.zip", {"bomb.md": b"\x00" * 300_000})
    monkeypatch.setattr(places, "MAX_FILE_BYTES", 100_000)
    assert refusals(list(Archive(tmp_path / "bomb.zip").walk()))["bomb.md"] == "It is larger than 10 MB."
    lying = bytearray((tmp_path / "bomb.zip").read_bytes())
    size = (300_000).to_bytes(4, "little")
    while (at := lying.find(size)) >= 0:
        lying[at : at + 4] = (50).to_bytes(4, "little")
    (tmp_path / "bomb.zip").write_bytes(lying)
    with pytest.raises(ItemUnreadable):
        Archive(tmp_path / "bomb.zip").read("bomb.md")


def test_links_and_encrypted_entries_of_an_archive_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        link = zipfile.ZipInfo("link.md")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert refusals(list(Archive(tmp_path / "x.zip").walk())) == {"link.md": "It is a link."}
    with pytest.raises(ItemUnreadable):
        Archive(tmp_path / "x.zip").read("link.md")


@pytest.mark.spec("LS-07")
@pytest.mark.parametrize("cut", [0, 10, 60])
def test_a_half_copied_archive_is_tried_again(tmp_path: Path, cut: int) -> None:
    zipped(tmp_path / "x.zip", {"a.md": b"# A" * 50})
    (tmp_path / "x.zip").write_bytes((tmp_path / "x.zip").read_bytes()[:cut])
    with pytest.raises(ProviderUnreachable):
        list(Archive(tmp_path / "x.zip").walk())
