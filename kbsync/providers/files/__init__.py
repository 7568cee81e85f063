"""Docs as code: a folder, a zip archive or a git checkout of Markdown, HTML and text as a source."""

from kbsync.providers.files.provider import FilesProvider

__all__ = ["FilesProvider"]
