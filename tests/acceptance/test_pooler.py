"""Behind a transaction-mode pooler: no session lock, setting or statement name is relied on (field cases B01, B02)."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis

from kbsync.db.migrate import PooledUrl, migrate
from kbsync.db.pool import Database
from kbsync.domain.ids import QueueName
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Completed, JobEnd, RunningJob
from kbsync.queue.worker import FleetWorker
from ops.embedded import process
from ops.embedded.redis import EmbeddedRedis
from producers.outbox_relay import OutboxRelay


class NeverPaused:
    async def paused(self, organization_id: int | None) -> bool:
        return False


@pytest.fixture
def pooled_url(database_url: str, tmp_path: Path) -> Iterator[str]:
    """pgbouncer in front of the test's database: transaction mode, two server connections."""
    server = urlsplit(database_url)
    port = process.free_port()
    name = server.path.lstrip("/")
    config = tmp_path / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n{name} = host=127.0.0.1 port={server.port} dbname={name} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n"
        "pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\n"
    )
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    binary = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert binary
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    log = tmp_path / "pgbouncer.log"
    running = process.start([binary, config], log, user=user)
    process.wait_until(lambda: process.accepts_connections(port), running, log, "pgbouncer")
    yield f"postgresql://postgres@127.0.0.1:{port}/{name}"
    process.stop(running, signal.SIGINT)


@pytest.mark.needs("pgbouncer")
async def test_enqueue_claim_lease_and_relay_work_through_a_transaction_pooler(
    pooled_url: str, database_url: str, redis_server: EmbeddedRedis, redis: Redis
) -> None:
    database = await Database.open(pooled_url, pooled=True, max_size=8)
    fleet = Fleet(redis_server.url)
    async with database.fleet() as connection:
        await connection.execute("insert into organizations (id, name) values (1, 'Acme')")
    ran: list[str] = []
    done = asyncio.Event()

    async def sync_source(job: RunningJob) -> JobEnd:
        async with database.organization(1) as connection:
            await connection.fetchval("select count(*) from knowledge_base_sources where organization_id = $1", 1)
        ran.append(job.job_id)
        if len(ran) == 40:
            done.set()
        return Completed()

    async def ask(number: int) -> None:
        async with database.direct() as connection:
            request = f'{{"type": "sync_source", "organization_id": 1, "source_id": {number}}}'
            await connection.fetchval("select kbsync.request_sync($1::jsonb)", request)

    stop = asyncio.Event()
    relays = [
        asyncio.create_task(OutboxRelay(database, fleet, NeverPaused()).run(database_url, stop, sweep_s=0.2))
        for _ in range(2)
    ]
    worker = FleetWorker(
        redis_server.url, QueueName.SYNC, {"sync_source": sync_source}, concurrency=8, job_timeout_s=10, lease_s=1
    )
    running = asyncio.create_task(worker.run())
    await asyncio.gather(*(ask(number) for number in range(1, 41)))
    await asyncio.wait_for(done.wait(), 20)
    assert sorted(ran) == sorted(f"kb-source-sync-{number}" for number in range(1, 41))
    stop.set()
    worker.request_stop()
    await asyncio.gather(running, *relays)
    async with database.direct() as connection:
        assert await connection.fetchval("select count(*) from pg_locks where locktype = 'advisory'") == 0
    await fleet.close()
    await database.close()


@pytest.mark.needs("pgbouncer")
async def test_migrations_and_listen_refuse_a_pooled_address(pooled_url: str) -> None:
    with pytest.raises(PooledUrl, match="KBSYNC_DATABASE_DIRECT_URL"):
        await migrate(pooled_url)
