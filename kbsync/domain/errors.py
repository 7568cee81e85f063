"""The error tree. `kbsync.domain.retry.verdict` alone says what each means for a job.

KbsyncError
├── SettingsError                 a setting is missing or wrong: start-up stops, the message says which and how to cure it
├── ServerUnavailable             Redis, Postgres or the flag store can't be reached: wait, no attempt is consumed
│   ├── QueueUnavailable
│   ├── DatabaseUnavailable
│   └── FlagStoreUnavailable
├── PayloadRefused                a job's bytes are not a request this code can run: unrecoverable
│   ├── PayloadTooLarge
│   └── UnknownRequestVersion
├── ProviderError                 a provider (or website) did not give what was asked
│   ├── ProviderRefused           4xx that will not change by itself: unrecoverable, `message` is for an editor
│   │   └── CredentialsRefused    401, expired or revoked
│   │       └── CredentialsWithheld  refused before: the provider is not asked with them again
│   ├── UnknownProvider           no such source type
│   ├── ProviderBusy              429 or 503; `retry_after_s` when it stated a wait
│   ├── ProviderUnreachable       5xx, 408, 425, transport, time-out, truncated or malformed body: retry
│   ├── ItemGone                  404/410 for one document: discard it
│   ├── ItemUnreadable            403 or malformed for one document: keep it, with this reason
│   └── AddressRefused            the address is private, loopback or otherwise not allowed (LS-17)
└── LeaseLost                     the job's lease went to another worker: this run's effects are refused
"""

from __future__ import annotations


class KbsyncError(Exception):
    """The root. `str(error)` is one sentence that says what happened and, where there is one, the cure."""


class SettingsError(KbsyncError):
    pass


class ServerUnavailable(KbsyncError):
    pass


class QueueUnavailable(ServerUnavailable):
    pass


class DatabaseUnavailable(ServerUnavailable):
    pass


class FlagStoreUnavailable(ServerUnavailable):
    pass


class PayloadRefused(KbsyncError):
    pass


class PayloadTooLarge(PayloadRefused):
    pass


class UnknownRequestVersion(PayloadRefused):
    pass


class ProviderError(KbsyncError):
    pass


class ProviderRefused(ProviderError):
    """A 4xx other than 404, 408, 410, 425 and 429 for the whole source (LS-07)."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class CredentialsRefused(ProviderRefused):
    pass


class CredentialsWithheld(CredentialsRefused):
    pass


class UnknownProvider(ProviderError):
    pass


class ProviderBusy(ProviderError):
    """`retry_after_s` is None when no wait was stated; `quota` marks a spent long quota (RL-05)."""

    def __init__(self, message: str, retry_after_s: float | None = None, *, quota: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.quota = quota


class ProviderUnreachable(ProviderError):
    pass


class ItemGone(ProviderError):
    pass


class ItemUnreadable(ProviderError):
    pass


class AddressRefused(ProviderError):
    pass


class LeaseLost(KbsyncError):
    pass
