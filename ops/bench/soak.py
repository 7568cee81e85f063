"""RB-05: the whole stack at half of what it can do, for half an hour; then whether anything grew.

A folder of documents that change all the time: each second some are written anew and asked for over the API, so that
documents and chunks are replaced in Postgres, and something is searched for. Once a while what could grow is sampled.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kbsync.library.principals import Role
from ops.bench import growth
from ops.bench.figures import Bar, Check, Figure, Row, sample
from ops.bench.processes import environment, new_token
from ops.bench.soak_looks import Look, documents_of, register
from ops.bench.table import Options
from ops.embedded import process
from ops.stack import Running

DOCUMENTS = 400
PARAGRAPHS = 12
SAMPLES = 180  # over the whole soak
CALIBRATIONS = 2
WITHIN_S = 180.0
WORDS = (
    "sync",
    "queue",
    "worker",
    "source",
    "document",
    "chunk",
    "window",
    "lease",
    "fence",
    "tenant",
    "crawl",
    "page",
)


@dataclass(frozen=True)
class Stack:
    """`kbsync up`, with one folder to read; and a token for it."""

    running: Running
    token: str
    documents: Path
    log: Path

    def ask(self, path: str, body: object | None = None) -> bytes:
        """A GET, or a POST of JSON. Raises OSError for a refusal (urllib's HTTPError is one)."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(self.running.api_url + path, data, headers), timeout=30
        ) as answer:
            text: bytes = answer.read()
            return text

    def enqueue(self, requests: Sequence[Mapping[str, object]]) -> None:
        self.ask("/internal/knowledge_base_sync/enqueue", {"requests": list(requests)})


def measure(options: Options) -> list[Figure]:
    documents = options.count(DOCUMENTS, 40)
    minutes = options.minutes if not options.quick else min(options.minutes, 0.5)
    with stack_up(options.folder) as stack:
        for number in range(documents):
            write(stack.documents, number)
        organization, source = register(stack.running.database_url, stack.documents)
        look = Look(stack.running, organization)
        stack.enqueue([{"type": "sync_source", "organization_id": organization, "source_id": source}])
        look.await_idle(WITHIN_S)
        known = documents_of(stack.running.database_url, organization)
        if len(known) != documents:
            raise RuntimeError(f"{len(known)} of {documents} documents were synced: {stack.log.parent}")
        capacity = max(everything_once(stack, look, organization, known) for _ in range(CALIBRATIONS))
        options.say(f"it syncs {capacity:.0f} changed documents a second; half of that for {minutes:g} minutes")
        series, asked = soak(stack, look, organization, known, capacity / 2, minutes, options)
        failed = look.failed()
    checks = (*growth.checks(series), Check(" failed jobs", failed, 0, Bar.AT_MOST))
    rows = [Row(name, sample(values)) for name, values in series.items()]
    notes = (
        f"{minutes:g} minutes; {asked:,} syncs of changed documents, {capacity / 2:.0f} a second, half of what a closed loop "
        f"reached; {len(known):,} documents; growth is the middle of the last quarter over that of the second",
    )
    return [Figure("RB-05", "soak", checks, tuple(rows), notes)]


def soak(
    stack: Stack,
    look: Look,
    organization: int,
    known: Mapping[int, int],
    per_second: float,
    minutes: float,
    options: Options,
) -> tuple[dict[str, list[float]], int]:
    """The load for that long; what was sampled, by name, and how many documents were asked for."""
    series: dict[str, list[float]] = defaultdict(list)
    choose = random.Random(7)
    begun = time.monotonic()
    end, sample_every = begun + minutes * 60, max(1.0, minutes * 60 / SAMPLES)
    next_sample, told, asked, owed = begun, begun, 0, 0.0
    while (now := time.monotonic()) < end:
        owed += per_second
        chosen = choose.sample(sorted(known), min(int(owed), len(known)))
        owed -= len(chosen)
        asked += len(chosen)
        change(stack, organization, known, chosen)
        stack.ask(f"/v1/search?organization_id={organization}&q={choose.choice(WORDS)}")
        stack.ask("/readyz")
        if now >= next_sample:
            next_sample += sample_every
            for name, value in look.sample().items():
                series[name].append(value)
        if now - told > 60:
            told = now
            options.say(", ".join(f"{name} {values[-1]:,.0f}" for name, values in series.items()))
        time.sleep(max(0.0, now + 1.0 - time.monotonic()))
    look.await_idle(WITHIN_S)
    return series, asked


def everything_once(stack: Stack, look: Look, organization: int, known: Mapping[int, int]) -> float:
    """All documents changed and asked for at once: documents a second until nothing is left to do."""
    begun = time.monotonic()
    change(stack, organization, known, list(known))
    look.await_idle(WITHIN_S)
    return len(known) / (time.monotonic() - begun)


def change(stack: Stack, organization: int, known: Mapping[int, int], chosen: Sequence[int]) -> None:
    for document in chosen:
        write(stack.documents, known[document])
    if chosen:
        stack.enqueue(
            [{"type": "sync_document", "organization_id": organization, "document_id": one} for one in chosen]
        )


def write(folder: Path, number: int) -> None:
    """Document `number`, with a text that it never had before; whole at each moment."""
    choose = random.Random()
    paragraphs = [" ".join(choose.choices(WORDS, k=60)) for _ in range(PARAGRAPHS)]
    new = folder / f".{number}.new"
    new.write_text(f"# Document {number}\n\n" + "\n\n".join(paragraphs), encoding="utf-8")
    new.rename(folder / f"document-{number}.md")


@contextmanager
def stack_up(folder: Path) -> Iterator[Stack]:
    """`kbsync up` in a home of its own, stopped with all its processes afterwards."""
    home, documents, log = folder / "home", folder / "documents", folder / "up.log"
    home.mkdir()
    documents.mkdir()
    up = process.start(
        [sys.executable, "-m", "ops.cli", "up", "--port", "0", "--files", str(documents)],
        log,
        env=environment(KBSYNC_HOME=str(home)),
    )
    try:
        process.wait_until(lambda: b"kbsync is up" in log.read_bytes(), up, log, "kbsync up", 60)
        running = Running(**json.loads((home / "running.json").read_text()))
        yield Stack(running, new_token(running.database_url, *Role), documents, log)
    finally:
        process.stop(up, signal.SIGTERM, wait_s=40)
