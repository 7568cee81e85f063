"""What a person is asked for a folder, zip or checkout."""

from __future__ import annotations

from kbsync.providers.declaration import Declaration
from kbsync.providers.files.config import FilesConfig

SETUP = Declaration(
    title="Files",
    config=FilesConfig,
    help={
        "path": "a folder, or a .zip file",
        "include": "only files like these patterns",
        "exclude": "no files like these patterns",
        "base_url": "where the files are published",
        "max_files": "more than these make a listing incomplete",
    },
    where="path",
    include="include",
    exclude="exclude",
)
