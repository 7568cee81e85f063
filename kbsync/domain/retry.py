"""What an error means for the job that met it: the only place that says retry, wait or give up (LS-07, QU-05, RL-05)."""

from __future__ import annotations

from enum import StrEnum

from kbsync.domain.errors import (
    AddressRefused,
    CredentialsRefused,
    ItemGone,
    ItemUnreadable,
    LeaseLost,
    PayloadRefused,
    ProviderBusy,
    ProviderRefused,
    ServerUnavailable,
    UnknownProvider,
)

MAX_ATTEMPTS = 3
FIRST_BACKOFF_S = 60.0


class Verdict(StrEnum):
    RETRY = "retry"  # a failing attempt, with backoff
    WAIT = "wait"  # come back later, no attempt consumed
    GIVE_UP = "give_up"  # unrecoverable, no retry


def verdict(error: BaseException) -> Verdict:
    """RETRY for whatever is not known to be hopeless or merely early."""
    match error:
        case ProviderBusy(retry_after_s=wait) if wait is not None:
            return Verdict.WAIT
        case ServerUnavailable() | LeaseLost():
            return Verdict.WAIT
        case (
            ProviderRefused()
            | CredentialsRefused()
            | UnknownProvider()
            | PayloadRefused()
            | AddressRefused()
            | ItemGone()
            | ItemUnreadable()
        ):
            return Verdict.GIVE_UP
        case _:
            return Verdict.RETRY


def backoff_s(failed_attempts: int, jitter: float = 0.0, first_s: float = FIRST_BACKOFF_S) -> float:
    """Seconds to wait after the n-th failing attempt: 60, 120, 240 ... times 1 + `jitter` (0..1, drawn by the caller)."""
    if failed_attempts < 1:
        raise ValueError("failed_attempts counts the attempt that just failed, so it is at least 1")
    return float(first_s * 2 ** (failed_attempts - 1)) * (1.0 + jitter)
