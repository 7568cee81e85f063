"""Name look-ups that answer what a test says, and bounds that an answer passes in no time."""

from __future__ import annotations

import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from kbsync.http.client import FetchLimits

TIGHT = FetchLimits(total_s=5, first_byte_s=0.3, body_bytes=100_000, drip_grace_s=0.2, min_bytes_per_s=1_000)


class StubResolver(AbstractResolver):
    """Answers each look-up with the next list of addresses; the last one repeats."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=ip,
                port=port,
                family=socket.AF_INET6 if ":" in ip else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for ip in answer
        ]

    async def close(self) -> None:
        return None
