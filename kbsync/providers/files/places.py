"""Where files are read from: a folder or a zip archive. Blocking; nothing outside of the place is ever opened."""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from kbsync.domain.errors import ItemGone, ItemUnreadable, ProviderRefused, ProviderUnreachable

MAX_FILE_BYTES = 10_000_000
MAX_ARCHIVE_BYTES = 2_000_000_000
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True)
class FoundFile:
    """A file by its path from the place (posix, `/`); `version` changes when the file does. `refusal`: why it is not read."""

    relative: str
    version: str
    refusal: str | None = None


@dataclass(frozen=True)
class WalkFault:
    """A part of the place that could not be looked into: the listing is not complete."""

    reason: str


class Place(Protocol):
    def walk(self) -> Iterator[FoundFile | WalkFault]:
        """In one order; raises ProviderError when the place itself is not there."""
        ...

    def read(self, relative: str) -> tuple[bytes, str]:
        """Bytes and version. Raises ItemGone, ItemUnreadable, ProviderError."""
        ...

    def close(self) -> None: ...


def place_at(path: Path) -> Place:
    """Raises ProviderRefused, in an editor's words, when there is neither a folder nor a zip file."""
    if path.is_dir():
        return Folder(path)
    if path.is_file():
        if path.suffix.lower() == ".zip":
            return Archive(path)
        raise ProviderRefused(f"{str(path)!r} is neither a folder nor a .zip file.")
    raise ProviderRefused(f"The folder {str(path)!r} is not there (any more).")


def _checked(relative: str) -> PurePosixPath:
    path = PurePosixPath(relative)
    if not relative or "\x00" in relative or "\\" in relative or path.is_absolute() or ".." in path.parts:
        raise ItemGone(f"{relative!r} is no path below the source's folder")
    return path


def _is_skipped(folder: str) -> bool:
    return folder.startswith(".") or folder in SKIPPED_FOLDERS


class Folder:
    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def walk(self) -> Iterator[FoundFile | WalkFault]:
        faults: list[OSError] = []
        for folder, folders, names in os.walk(self._root, onerror=faults.append, followlinks=False):
            folders[:] = sorted(name for name in folders if not _is_skipped(name))
            for name in sorted(names):
                if not name.startswith(".") and (found := self._found(Path(folder) / name)):
                    yield found
        if faults and not self._root.is_dir():
            raise ProviderUnreachable(f"The folder {str(self._root)!r} went away while it was read.")
        for fault in faults:
            yield WalkFault(f"The folder {str(fault.filename)!r} can't be opened: {fault.strerror}.")

    def read(self, relative: str) -> tuple[bytes, str]:
        path = self._root / _checked(relative)
        if not self._root.is_dir():
            raise ProviderUnreachable(f"The folder {str(self._root)!r} is not there at the moment.")
        real = path.resolve()
        if not real.is_relative_to(self._root):
            raise ItemUnreadable("It is a link that leads out of the source's folder.")
        try:
            # Neither a link set in this moment nor a pipe without a writer is waited for or followed.
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ItemGone(f"{relative!r} is not there any more") from error
        except OSError as error:
            raise ItemUnreadable(f"It can't be opened: {error.strerror}.") from error
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ItemUnreadable("It is not a regular file.")
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ItemUnreadable(_TOO_LARGE)
        return data, f"{status.st_mtime_ns}-{status.st_size}"

    def close(self) -> None:
        return None

    def _found(self, path: Path) -> FoundFile | None:
        relative = path.relative_to(self._root).as_posix()
        try:
            if path.is_symlink() and not path.resolve().is_relative_to(self._root):
                return FoundFile(relative, "", "It is a link that leads out of the source's folder.")
            status = path.stat()
        except (FileNotFoundError, RuntimeError):
            return None  # gone since the folder was listed, or a link to nothing
        except OSError as error:
            return FoundFile(relative, "", f"It can't be opened: {error.strerror}.")
        if not stat.S_ISREG(status.st_mode):
            return None
        refusal = _TOO_LARGE if status.st_size > MAX_FILE_BYTES else None
        return FoundFile(relative, f"{status.st_mtime_ns}-{status.st_size}", refusal)


class Archive:
    """A zip file. Nothing is unpacked to disk; an entry is read up to MAX_FILE_BYTES whatever its header says.

    It is opened once, because its list of entries is read with it; `close` it after use. Not for two threads at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: zipfile.ZipFile | None = None

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def walk(self) -> Iterator[FoundFile | WalkFault]:
        entries = {entry.filename: entry for entry in self._opened().infolist() if not entry.is_dir()}
        for name in sorted(entries):
            entry = entries[name]
            try:
                parts = _checked(name).parts
            except ItemGone:
                yield FoundFile(name, "", "Its name leads out of the archive.")
                continue
            if not parts[-1].startswith(".") and not any(_is_skipped(part) for part in parts[:-1]):
                yield FoundFile(name, _entry_version(entry), _entry_refusal(entry))

    def read(self, relative: str) -> tuple[bytes, str]:
        _checked(relative)
        archive = self._opened()
        try:
            entry = archive.getinfo(relative)
        except KeyError:
            raise ItemGone(f"{relative!r} is not in the archive any more") from None
        if refusal := _entry_refusal(entry):
            raise ItemUnreadable(refusal)
        try:
            with archive.open(entry) as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise ItemUnreadable("It is damaged in the archive, or packed in a way that can't be read.") from error
        if len(data) > MAX_FILE_BYTES:
            raise ItemUnreadable(_TOO_LARGE)
        return data, _entry_version(entry)

    def _opened(self) -> zipfile.ZipFile:
        if self._open is None:
            self._open = self._opened_anew()
        return self._open

    def _opened_anew(self) -> zipfile.ZipFile:
        try:
            if self._path.stat().st_size > MAX_ARCHIVE_BYTES:
                raise ProviderRefused(f"The archive {str(self._path)!r} is larger than 2 GB.")
            return zipfile.ZipFile(self._path)
        except FileNotFoundError as error:
            raise ProviderRefused(f"The archive {str(self._path)!r} is not there (any more).") from error
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            # A file that is still being copied looks damaged, so it is tried again.
            raise ProviderUnreachable(f"The archive {str(self._path)!r} can't be read as a zip file.") from error


_TOO_LARGE = "It is larger than 10 MB."


def _entry_version(entry: zipfile.ZipInfo) -> str:
    return f"{entry.CRC:08x}-{entry.file_size}"


def _entry_refusal(entry: zipfile.ZipInfo) -> str | None:
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "It is a link."
    if entry.flag_bits & 0x1:
        return "It is encrypted."
    return _TOO_LARGE if entry.file_size > MAX_FILE_BYTES else None
