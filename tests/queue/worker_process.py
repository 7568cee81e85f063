"""A worker process for tests of kills and signals: `python -m tests.queue.worker_process URL FOLDER OPTIONS`.

Each run of a job leaves a file `<job id>.<n>` in FOLDER. Payload: {"do": "nothing" | "sleep" | "exit"}.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from kbsync.queue.jobs import Completed, JobEnd, RunningJob
from kbsync.queue.loop import run
from tests.queue.support import a_worker


def handler_for(folder: Path):  # type: ignore[no-untyped-def]
    async def handle(job: RunningJob) -> JobEnd:
        number = len(list(folder.glob(f"{job.job_id}.*")))
        (folder / f"{job.job_id}.{number}").write_text(f"{os.getpid()} {job.attempt} {job.stalls}")
        match job.payload.get("do"):
            case "exit":
                os._exit(137)
            case "sleep":
                await asyncio.sleep(float(str(job.payload.get("seconds", 30))))
            case "block":
                while not (folder / "release").exists():
                    await asyncio.sleep(0.01)
        return Completed({"pid": os.getpid()})

    return handle


async def main() -> None:
    url, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    worker = a_worker(url, handler_for(folder), handle_signals=True, **options)
    (folder / f"started-{os.getpid()}").touch()
    await worker.run()
    (folder / f"stopped-{os.getpid()}").touch()


if __name__ == "__main__":
    run(main())
