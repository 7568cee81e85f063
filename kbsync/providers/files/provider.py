"""A folder, zip archive or git checkout as a source. Keeps `contract.Provider` and `contract.Checkable`.

The listing brings the content: reading a file is what tells whether it changed, and it costs no one a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from posixpath import basename, dirname

from kbsync.domain.errors import ItemGone, ItemUnreadable
from kbsync.providers.contract import (
    Access,
    Content,
    DocumentRef,
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    SourceSetup,
    Unchanged,
    UnreadableItem,
)
from kbsync.providers.files.config import allowed_path, files_config
from kbsync.providers.files.places import FoundFile, Place, WalkFault, place_at
from kbsync.providers.files.reading import document_url, is_document, read_document

_BATCH = 32  # files read in one visit to a thread


class FilesProvider:
    """`roots` are the folders below which sources may read; no root, no source."""

    name = "files"
    listing_brings_content = True
    crawls = False

    def __init__(self, setup: SourceSetup, roots: Sequence[str | Path]) -> None:
        """Opens nothing. Raises ProviderRefused for a configuration that can't work, in an editor's words."""
        self._config = files_config(setup.config)
        self._roots = tuple(roots)

    async def check(self) -> Access:
        """Looks the place through without reading a file. Raises ProviderRefused, ProviderUnreachable."""
        return await asyncio.to_thread(self._look)

    async def list_items(self) -> AsyncIterator[ListingPart]:
        """Folders as sections, each before its files; then how it ended. Complete when all of it could be looked into and
        it is not over the source's `max_files`."""
        place = await asyncio.to_thread(self._place)
        try:
            async for part in self._listing(place):
                yield part
        finally:
            place.close()

    async def _listing(self, place: Place) -> AsyncIterator[ListingPart]:
        walk = place.walk()
        told: set[str] = set()
        reasons: list[str] = []
        files = 0
        while found := await asyncio.to_thread(lambda: list(islice(walk, _BATCH))):
            reasons += [one.reason for one in found if isinstance(one, WalkFault)]
            wanted = [one for one in found if isinstance(one, FoundFile) and self._wants(one.relative)]
            room = self._config.max_files - files
            for part in await asyncio.to_thread(self._read_all, place, wanted[:room], told):
                yield part
            files += min(len(wanted), room)
            if len(wanted) > room:
                reasons.append(f"There are more than {self._config.max_files} files.")
                break
        yield ListingEnd(not reasons, " ".join(reasons[:3]) or None)

    async def fetch_document(self, ref: DocumentRef) -> Content | Unchanged:
        """Raises ItemGone for a path that is not there (any more) or none of the source's, ItemUnreadable with the reason."""
        if not self._wants(ref.external_id):
            raise ItemGone(f"{ref.external_id!r} is none of the source's files")
        return await asyncio.to_thread(self._fetch, ref)

    async def close(self) -> None:
        return None

    # --- in a thread ---

    def _look(self) -> Access:
        place = self._place()
        try:
            documents, notes = 0, list[str]()
            for one in place.walk():
                if isinstance(one, WalkFault):
                    notes.append(one.reason)
                elif self._wants(one.relative):
                    documents += 1
                    if documents > self._config.max_files:
                        notes.append(f"There are more than {self._config.max_files} files.")
                        break
        finally:
            place.close()
        if not documents:
            notes.append("No file there is a document that can be read.")
        return Access(self._config.path, (f"{documents} documents",), tuple(notes[:3]))

    def _place(self) -> Place:
        return place_at(allowed_path(self._config.path, self._roots))

    def _fetch(self, ref: DocumentRef) -> Content | Unchanged:
        place = self._place()
        try:
            data, version = place.read(ref.external_id)
        finally:
            place.close()
        if ref.etag is not None and ref.etag == version:
            return Unchanged()
        content = self._content(ref.external_id, data)
        return Content(content.markdown, content.title, content.language, etag=version)

    def _read_all(self, place: Place, files: list[FoundFile], told: set[str]) -> list[ListingPart]:
        parts: list[ListingPart] = []
        for file in files:
            parts.extend(_sections(dirname(file.relative), told))
            part = self._listed(place, file)
            if part is not None:
                parts.append(part)
        return parts

    def _listed(self, place: Place, file: FoundFile) -> ListingPart | None:
        title = basename(file.relative)
        url = document_url(file.relative, self._config.base_url)
        if file.refusal is not None:
            return UnreadableItem(file.relative, title, file.refusal, url)
        try:
            data, version = place.read(file.relative)
            content = self._content(file.relative, data)
        except ItemGone:
            return None  # deleted since the walk saw it
        except ItemUnreadable as error:
            return UnreadableItem(file.relative, title, str(error), url)
        folder = dirname(file.relative)
        return ListedDocument(
            file.relative,
            content.title,
            url,
            section_external_ids=(folder,) if folder else (),
            version=version,
            content=content,
        )

    def _content(self, relative: str, data: bytes) -> Content:
        try:
            return read_document(relative, data, self._config.base_url)
        except ValueError as error:
            raise ItemUnreadable(str(error)) from error

    def _wants(self, relative: str) -> bool:
        return self._config.wants(relative) and is_document(relative, named=self._config.names(relative))


def _sections(folder: str, told: set[str]) -> Iterator[ListedSection]:
    if not folder or folder in told:
        return
    yield from _sections(dirname(folder), told)
    told.add(folder)
    yield ListedSection(folder, basename(folder), dirname(folder) or None, position=len(told) - 1)
