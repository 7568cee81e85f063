"""Traps of this design that no other test names: each would be silent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from redis.asyncio import Redis

import kbsync.queue
from kbsync.domain.errors import SettingsError
from kbsync.domain.requests import Priority
from kbsync.queue import lanes as lanes_module
from kbsync.queue.fleet import Fleet
from kbsync.queue.keys import BANDS, TURN, QueueKeys
from kbsync.queue.loop import run
from kbsync.queue.queue import FleetQueue
from kbsync.queue.scripts import script
from ops.embedded import process
from tests.queue.support import Recorder, a_request, a_worker, ask, claim, running, until

LUA = sorted((Path(kbsync.queue.__file__).parent / "lua").glob("*.lua"))
SCRIPTS = [path for path in LUA if not path.name.startswith("lib_")]


@pytest.mark.spec("QU-22")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_each_script_says_its_keys_arguments_answer_and_invariant(path: Path) -> None:
    head = path.read_text().split("\n\n")[0]
    assert head.startswith(f"-- {path.stem}: ")
    for part in ("-- KEYS", "-- ARGV", "-- returns", "-- keeps"):
        assert part in head, part
    assert script(path.stem).text.endswith(path.read_text())


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.stem)
def test_no_script_uses_cjson_or_an_offset_or_keys(path: Path) -> None:
    text = path.read_text()
    assert "cjson" not in re.sub(r"--.*", "", text)
    assert not re.search(r"'LIMIT', [1-9]", text)
    assert not re.search(r"call\('(KEYS|SCAN|HGETALL', META)", text)


@pytest.mark.spec("QU-22")
def test_the_scripts_name_every_key_in_the_order_they_are_passed() -> None:
    text = (LUA[0].parent / "lib_keys.lua").read_text()
    assert len(set(re.findall(r"KEYS\[(\d+)\]", text))) == len(QueueKeys("q").all)


@pytest.mark.spec("QU-15")
async def test_starts_stay_exact_numbers_at_the_far_ends_of_the_bands(queue: FleetQueue, redis: Redis) -> None:
    for number, priority in enumerate((Priority.URGENT, Priority.NORMAL, Priority.BACKGROUND)):
        clock = int(BANDS[number]) + 2_987_654_321_987_000
        await ask(redis, "HSET", "q:vt", f"v{number}", clock, f"e{number}", clock)
        await queue.enqueue([a_request(f"{priority}-{n}", priority=priority) for n in range(3)])
        found = await redis.zrangebyscore("q", clock, clock + 10 * TURN, withscores=True)
        assert [int(score) for _, score in found] == [clock + 1, clock + 1 + TURN, clock + 1 + 2 * TURN]
    assert await claim(queue, 9) == [f"{p}-{n}" for p in ("urgent", "normal", "background") for n in range(3)]
    assert await ask(redis, "HGET", "q:vt", "v1") == str(int(BANDS[1]) + 2_987_654_321_987_000 + 1 + 2 * TURN).encode()


@pytest.mark.spec("QU-06")
async def test_a_claim_never_takes_a_delayed_job(queue: FleetQueue) -> None:
    await queue.enqueue([a_request("ready"), *(a_request(f"d{n}", delay_ms=60_000) for n in range(5))])
    assert await claim(queue, 10) == ["ready"]
    assert (await queue.counts()).delayed == 5


@pytest.mark.spec("QU-10")
async def test_an_armed_claim_outlives_its_blpop_on_the_same_connection(
    queue: FleetQueue, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "ARMED_S", 1)
    recorder = Recorder()
    worker = a_worker(url, recorder, lease_s=15)
    async with running(worker):
        await until(lambda: worker.lanes.armed)
        link = worker.lanes.link
        await asyncio.sleep(2.5)  # longer than redis-py's socket time-out, too
        assert worker.lanes.link is link
        await queue.enqueue([a_request("j")])
        await until(lambda: recorder.runs == ["j"], wait_s=1)


@pytest.mark.spec("QU-22")
async def test_a_stock_arq_worker_on_the_queue_is_refused_as_it_takes_ids_unfenced(url: str, redis: Redis) -> None:
    await redis.set("q:health-check", "Nov-30 15:00:00 j_complete=1")
    with pytest.raises(SettingsError, match="stock arq worker"):
        await asyncio.wait_for(a_worker(url, Recorder()).run(), 5)


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"lease_s": 0}, {"job_timeout_s": -1}, {"max_attempts": 0}])
async def test_nonsense_settings_are_refused(url: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        a_worker(url, Recorder(), **wrong)


@pytest.mark.spec("QU-23")
async def test_a_workers_wrong_clock_plays_no_part(
    queue: FleetQueue, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose clock is an hour ahead neither runs a delayed job early nor reclaims a live lease."""
    import time

    true_time = time.time
    await queue.enqueue([a_request("held")])
    await claim(queue, 1, "other", 60_000)
    await queue.enqueue([a_request("delayed", delay_ms=400)])
    monkeypatch.setattr(time, "time", lambda: true_time() + 3_600)
    recorder = Recorder()
    async with running(a_worker(url, recorder)):
        await asyncio.sleep(0.2)
        assert recorder.runs == []
        await until(lambda: recorder.runs == ["delayed"])
        shown = (await queue.detail("delayed")) if await _ended(queue) else None
    assert shown is not None
    assert abs((shown.view.ended_ms or 0) / 1000 - true_time()) < 5
    assert (await queue.counts()).active == 1


async def _ended(queue: FleetQueue) -> bool:
    async def is_done() -> bool:
        return (await queue.counts()).completed == 1

    await until(is_done)
    return True


def test_the_loop_runs_a_coroutine_on_uvloop_where_it_is_installed() -> None:
    async def name() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(name()) == "uvloop"


@pytest.fixture
def tls_url(tmp_path: Path) -> Iterator[str]:
    """A password-protected server that speaks TLS only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(True, None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    port = process.free_port()
    log = tmp_path / "redis.log"
    command: list[str | Path] = [
        "redis-server", "--port", "0", "--tls-port", str(port), "--tls-cert-file", certificate_path,
        "--tls-key-file", key_path, "--tls-auth-clients", "no", "--save", "", "--requirepass", "secret",
    ]  # fmt: skip
    server = process.start(command, log)
    process.wait_until(lambda: process.accepts_connections(port), server, log, "Redis over TLS")
    yield f"rediss://:secret@localhost:{port}/2?ssl_ca_certs={certificate_path}"
    process.stop(server, 15)


@pytest.mark.needs("redis-server")
@pytest.mark.spec("QU-22")
def test_tls_a_password_and_a_database_number_hold_for_the_workers_own_connections(tls_url: str) -> None:
    async def drain() -> None:
        fleet = Fleet(tls_url)
        recorder = Recorder()
        async with running(a_worker(tls_url, recorder)):
            await fleet.enqueue("q", [a_request(f"j{n}", payload={"x": "y" * 100_000}) for n in range(20)])
            await until(lambda: len(recorder.runs) == 20)
        assert (await fleet.queue("q").counts()).completed == 20
        await fleet.close()

    asyncio.run(drain())
    run(drain_again(tls_url))


async def drain_again(url: str) -> None:
    """The same on uvloop."""
    fleet = Fleet(url)
    recorder = Recorder()
    async with running(a_worker(url, recorder)):
        await fleet.enqueue("q", [a_request("again")])
        await until(lambda: recorder.runs == ["again"])
    await fleet.close()
