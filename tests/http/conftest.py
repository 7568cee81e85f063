"""A site that clients come to, counting what reaches it."""

from tests.website.conftest import site

__all__ = ["site"]
