"""Credentials at rest (LS-19): sealed with the first key, opened with any, so that a key is rotated by prepending one."""

from __future__ import annotations

import json
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from kbsync.domain.errors import CredentialsRefused, SettingsError


class Vault:
    """`keys`: Fernet keys, comma-separated, the first one seals. Raises SettingsError for text that is no key."""

    def __init__(self, keys: str | None) -> None:
        parts = [part.strip() for part in (keys or "").split(",") if part.strip()]
        try:
            fernets = [Fernet(part) for part in parts]
        except ValueError:
            raise SettingsError(
                "KBSYNC_CREDENTIALS_KEYS holds something that is no Fernet key (32 bytes in url-safe base64)"
            ) from None
        self._first = fernets[0] if fernets else None
        self._fernet = MultiFernet(fernets) if fernets else None

    def __repr__(self) -> str:
        return "Vault(...)"

    def seal(self, credentials: Mapping[str, str]) -> str:
        """The text that may be stored. Raises SettingsError when no key is set."""
        if self._fernet is None:
            raise SettingsError("set KBSYNC_CREDENTIALS_KEYS before credentials are stored")
        return self._fernet.encrypt(json.dumps(dict(credentials)).encode()).decode()

    def open(self, sealed: str | None) -> dict[str, str]:
        """Empty for None. Raises CredentialsRefused, in words for an editor and without a byte of the secret."""
        if sealed is None:
            return {}
        if self._fernet is None:
            raise CredentialsRefused(
                "The stored credentials can't be opened: this installation has no key for them. Ask an administrator."
            )
        try:
            opened = json.loads(self._fernet.decrypt(sealed.encode("utf-8", "replace")))
        except (InvalidToken, ValueError):
            raise CredentialsRefused(
                "The stored credentials were sealed with another key. Enter them again, or ask an administrator."
            ) from None
        return {str(name): str(value) for name, value in opened.items()} if isinstance(opened, dict) else {}

    def is_of_first_key(self, sealed: str) -> bool:
        """Whether the first key alone opens it: then no other key is needed for it."""
        if self._first is None:
            return False
        try:
            self._first.decrypt(sealed.encode("utf-8", "replace"))
        except InvalidToken:
            return False
        return True

    def reseal(self, sealed: str) -> str:
        """The same credentials under the first key. Raises CredentialsRefused as `open` does."""
        return self.seal(self.open(sealed))
