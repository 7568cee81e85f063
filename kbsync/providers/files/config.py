"""What a files source says of itself, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from kbsync.domain.errors import ProviderRefused
from kbsync.providers.config import read_config

Pattern = Annotated[str, Field(min_length=1, max_length=500)]


class FilesConfig(BaseModel):
    """`path`: a folder or a .zip file. `include` and `exclude`: patterns over relative paths, `*` crosses folders; without
    include everything readable is taken. `base_url`: where the files are published; it gives documents their addresses."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    path: Annotated[str, Field(min_length=1, max_length=4_096)]
    include: tuple[Pattern, ...] = ()
    exclude: tuple[Pattern, ...] = ()
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=2_000)] | None = None
    max_files: Annotated[int, Field(ge=1, le=200_000)] = 50_000

    def wants(self, relative: str) -> bool:
        if any(_matches(relative, pattern) for pattern in self.exclude):
            return False
        return not self.include or self.names(relative)

    def names(self, relative: str) -> bool:
        """Whether the source asks for this very file by a pattern."""
        return any(_matches(relative, pattern) for pattern in self.include)


def files_config(config: Mapping[str, object]) -> FilesConfig:
    """Raises ProviderRefused naming every field that is wrong, without its value."""
    return read_config(FilesConfig, config, "Files")


def allowed_path(path: str, roots: Sequence[str | Path]) -> Path:
    """The real path of a source, links resolved; ProviderRefused unless it is one of the allowed folders or below one."""
    if "\x00" in path:
        raise ProviderRefused("The source's path is not a path.")
    try:
        real = Path(path).resolve()
        allowed = [Path(root).resolve() for root in roots]
    except (OSError, RuntimeError) as error:
        raise ProviderRefused(f"The path {path!r} can't be followed: its links go in a circle.") from error
    if not Path(path).is_absolute():
        raise ProviderRefused(f"The path {path!r} is relative; give the whole path.")
    if not any(real.is_relative_to(root) for root in allowed):
        raise ProviderRefused(
            f"The folder {path!r} is not below a folder that files may be read from. "
            "An operator can allow it in KBSYNC_FILES_ROOTS."
        )
    return real


def _matches(relative: str, pattern: str) -> bool:
    # "docs/**" means the folder's files at any depth, and "**/x" also x at the top.
    return fnmatchcase(relative, pattern) or (pattern.startswith("**/") and fnmatchcase(relative, pattern[3:]))
