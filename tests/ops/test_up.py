"""One machine, one process tree: `kbsync up`, used as a person and a backend would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ops.state import LocalState

ENQUEUE = "/internal/knowledge_base_sync/enqueue"


@dataclass
class Up:
    """A running `kbsync up` in a folder of its own."""

    process: subprocess.Popen[str]
    home: Path
    docs: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KBSYNC_")}
        return kept | {"KBSYNC_HOME": str(self.home), "NO_COLOR": "1"}

    @property
    def running(self) -> dict[str, object]:
        loaded: dict[str, object] = json.loads((self.home / "running.json").read_text())
        return loaded

    @property
    def token(self) -> str:
        return LocalState(self.home).secret("admin.token") or ""

    def cli(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ops.cli", *arguments]
        return subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            input=typed,
        )

    def json(self, *arguments: str) -> object:
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def post(self, body: object, token: str | None = None) -> tuple[int, dict[str, object]]:
        request = urllib.request.Request(
            f"{self.running['api_url']}{ENQUEUE}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def until_synced(self, organization: int, patience_s: float = 60) -> list[dict[str, object]]:
        deadline = time.monotonic() + patience_s
        while True:
            sources = self.json("source", "list", "--organization", str(organization))
            assert isinstance(sources, list)
            if all(source["status"] in ("synced", "failed") for source in sources):
                return sources
            assert time.monotonic() < deadline, sources
            time.sleep(0.2)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    docs = folder / "docs"
    docs.mkdir()
    (docs / "vacuum.md").write_text("# Vacuum\n\nFreezing old rows keeps the table readable.\n")
    (docs / "guide").mkdir()
    (docs / "guide" / "start.md").write_text("# Getting started\n\nInstall the fleet, then add a source.\n")
    home = folder / "home"
    started = Up(None, home, docs)  # type: ignore[arg-type]  # filled in below
    command = [sys.executable, "-m", "ops.cli", "up", "--port", "0"]
    environment = started.environment | {"KBSYNC_FILES_ROOTS": json.dumps([str(docs)])}
    started.process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert started.process.stdout
    for line in started.process.stdout:
        if line.startswith("Ctrl-C"):
            break
    yield started
    if started.process.poll() is None:
        started.process.send_signal(signal.SIGTERM)
        started.process.wait(30)


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def process_named(up: Up, verb: str) -> int:
    for pid in children_of(up.process.pid):
        if verb.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    raise AssertionError(f"no {verb} process")


@pytest.mark.spec("OP-02", "LS-04", "LS-21")
def test_a_folder_is_added_synced_and_found(up: Up) -> None:
    made = up.json("source", "add", "files", str(up.docs), "--new-organization", "Acme")
    assert isinstance(made, dict)
    organization = int(made["organization_id"])
    (source,) = up.until_synced(organization)
    assert (source["status"], source["documents"]) == ("synced", 2)
    deadline = time.monotonic() + 20
    hits: object = []
    while not hits and time.monotonic() < deadline:
        hits = up.json("search", "freezing rows", "--organization", str(organization))
    assert isinstance(hits, list)
    assert hits[0]["title"] == "Vacuum"
    assert up.json("search", "freezing rows", "--organization", str(organization + 1)) == []


@pytest.mark.spec("LS-01", "QU-02", "SE-01")
def test_the_enqueue_api_as_a_backend_sees_it(up: Up) -> None:
    request = {"type": "document_chunks", "organization_id": 999, "document_id": 12345}
    status, body = up.post({"requests": [request, request]})
    assert status == 202
    results = body["requests"]
    assert isinstance(results, list)
    assert [one["outcome"] for one in results] == ["created", "already_queued"]
    assert results[0]["job_id"] == "kb-document-chunks-12345"
    deadline = time.monotonic() + 20
    while up.post({"requests": [request]})[1]["requests"][0]["outcome"] != "replaced":  # type: ignore[index]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert up.post({"requests": [request]}, token="kbs_wrong")[0] == 401
    status, body = up.post({"requests": [{"type": "sync_source"}, {"type": "nothing"}]})
    assert status == 422
    assert len(body["errors"]) >= 3  # type: ignore[arg-type]


@pytest.mark.spec("OP-03")
def test_every_read_has_json_and_faults_have_exit_codes(up: Up) -> None:
    queues = up.json("queues")
    assert isinstance(queues, list)
    assert {queue["queue"] for queue in queues} == {"knowledge-base-sync", "knowledge-base-chunks"}
    assert isinstance(up.json("throttles"), list)
    assert isinstance(up.json("jobs", "knowledge-base-sync", "--state", "completed"), list)
    assert isinstance(up.json("token", "list"), list)
    assert isinstance(up.json("pause", "--show"), dict)
    wrong = up.cli("jobs", "no-such-queue")
    assert wrong.returncode == 2
    assert "knowledge-base-sync" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert up.cli("enqueue", '{"type": "sync_source"}').returncode == 2
    assert up.cli("--help").returncode == 0
    assert "\x1b[" not in up.cli("queues").stdout


def test_credentials_are_sealed_and_shown_nowhere(up: Up) -> None:
    site = ("website", "https://example.org/", "--new-organization", "Login")
    made = up.json("source", "add", *site, "--no-sync", "--no-check")
    assert isinstance(made, dict)
    of = (str(made["source_id"]), "--organization", str(made["organization_id"]))
    login = '{"username": "u", "password": "hunter2-secret"}'
    stored = up.cli("source", "credentials", *of, "--no-check", typed=login)
    assert stored.returncode == 0, stored.stderr
    shown = up.cli("source", "show", *of, "--json")
    assert json.loads(shown.stdout)["has_credentials"] is True
    wrong = up.cli("source", "credentials", *of, typed='["hunter2-secret"]')
    assert wrong.returncode == 2
    assert "hunter2" not in stored.stdout + stored.stderr + shown.stdout + wrong.stdout + wrong.stderr
    assert up.cli("source", "credentials", *of, "--remove").returncode == 0
    assert up.json("source", "show", *of)["has_credentials"] is False  # type: ignore[index]


@pytest.mark.spec("RL-07")
def test_an_operator_sets_a_source_s_limits_while_everything_runs(up: Up) -> None:
    made = up.json("source", "add", "files", str(up.docs), "--new-organization", "Bigger plan", "--no-sync")
    assert isinstance(made, dict)
    of = ("--organization", str(made["organization_id"]))
    source = str(made["source_id"])
    assert up.cli("source", "limits", source, *of, "--document-sync", "120/60").returncode == 0
    shown = up.json("source", "show", source, *of)
    assert isinstance(shown, dict)
    assert shown["limits"] == {"document_sync": {"count": 120, "window_s": 60.0}}
    assert up.cli("source", "limits", source, *of, "--document-sync", "many").returncode == 2
    assert up.cli("source", "limits", source, *of, "--document-sync", "0/60").returncode == 2
    assert up.cli("source", "limits", source, *of, "--reset").returncode == 0
    assert up.json("source", "show", source, *of)["limits"] == {}  # type: ignore[index]
    nothing_held = up.cli("source", "approve-removal", source, *of)
    assert (nothing_held.returncode, "holds no removal back" in nothing_held.stderr) == (2, True)
    assert up.cli("source", "show", source, "--organization", "987654").returncode == 2


def test_a_source_that_could_never_sync_is_refused_before_it_exists(up: Up) -> None:
    for kind, where, why in (
        ("files", "/etc", "KBSYNC_FILES_ROOTS"),
        ("website", "ftp://example.org/", "not http or https"),
        ("website", "http://[::1", "start_url"),
        ("wiki", "x", "no provider 'wiki'; there are"),
    ):
        refused = up.cli("source", "add", kind, where, "--new-organization", "Never")
        assert refused.returncode in (1, 2)
        assert why in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.spec("CP-22")
def test_a_token_works_for_its_role_until_it_is_revoked(up: Up) -> None:
    made = up.json("token", "create", "backend", "--role", "producer")
    assert isinstance(made, dict)
    request = {"requests": [{"type": "document_chunks", "organization_id": 999, "document_id": 7}]}
    assert up.post(request, token=made["token"])[0] == 202
    assert up.cli("token", "revoke", str(made["id"])).returncode == 0
    deadline = time.monotonic() + 5
    while up.post(request, token=made["token"])[0] != 401:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.spec("KS-06", "KS-03")
def test_the_kill_switch_is_set_with_a_reason_and_lifted(up: Up) -> None:
    assert up.cli("pause").returncode == 2
    assert "provider outage" in up.cli("pause", "--reason", "provider outage").stdout
    assert up.json("pause", "--show")["on"] is True  # type: ignore[index]
    assert up.cli("resume", "--redrive").returncode == 0
    assert up.json("pause", "--show")["on"] is False  # type: ignore[index]


@pytest.mark.spec("OP-02", "OP-11")
def test_a_killed_worker_is_started_again_and_health_answers(up: Up) -> None:
    killed = process_named(up, "worker")
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + 20
    again = killed
    while again == killed:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        try:
            again = process_named(up, "worker")
        except (AssertionError, OSError):
            continue
    for path in ("/healthz", "/readyz"):
        with urllib.request.urlopen(f"{up.running['api_url']}{path}", timeout=10) as answer:
            assert answer.status == 200


@pytest.mark.spec("OP-02", "QU-20")
def test_killed_servers_come_back_with_their_data_and_work_goes_on(up: Up) -> None:
    """Redis and Postgres die one after the other while a sync is asked for; it is done all the same."""
    made = up.json("source", "add", "files", str(up.docs), "--new-organization", "Crash", "--no-sync")
    assert isinstance(made, dict)
    organization, source = int(made["organization_id"]), int(made["source_id"])
    request = {"requests": [{"type": "sync_source", "organization_id": organization, "source_id": source}]}
    for binary in ("valkey-server", "redis-server", "postgres"):
        for pid in children_of(up.process.pid):
            if binary in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]:
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while up.post(request)[0] != 202:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert up.until_synced(organization)[0]["status"] == "synced"


def test_a_second_one_in_the_same_folder_says_who_runs(up: Up) -> None:
    second = up.cli("up", "--port", "0")
    assert second.returncode == 2
    assert str(up.process.pid) in second.stderr


@pytest.mark.spec("OP-02", "QU-12")
def test_a_signal_stops_all_of_it_with_exit_code_0(up: Up) -> None:
    """Last: it ends the stack."""
    pids = children_of(up.process.pid)
    assert len(pids) == 5  # Postgres, Redis, API, worker, scheduler
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(30) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert up.cli("queues").returncode == 2
