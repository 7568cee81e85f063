"""The peers: what peers.toml says, what happens to one that is not to be had, and one driver at work (arq is here anyway)."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ops.bench import contestants, draining, pick_up
from ops.bench.contest import Contest
from ops.bench.contestants import Contestant, NotInstalled
from ops.bench.figures import Bar, Figure, Verdict
from ops.bench.peers.driver import requests
from ops.bench.processes import Arena, NoReport
from ops.bench.table import Options

DRIVERS = Path(contestants.__file__).with_name("peers")


def test_every_peer_pins_its_version_and_has_a_driver() -> None:
    for peer in contestants.peers():
        pinned = peer.pip or peer.npm
        assert "==" in peer.pip[0] if peer.pip else all("@" in one for one in peer.npm)
        assert pinned
        assert (DRIVERS / peer.driver).exists() or (DRIVERS / f"{peer.driver}.py").exists()
        assert peer.settings


@pytest.mark.spec("PF-01", "PF-02", "PF-03")
def test_all_peers_that_a_target_names_are_there() -> None:
    keys = {peer.key for peer in contestants.peers()}
    assert {"bullmq-node", "ardiq", "taskiq", "dramatiq", "bullmq-python", "saq", "arq", "streaq"} <= keys


def test_a_peer_that_cannot_be_installed_is_missing_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(peer: contestants.Peer, say: object) -> Contestant:
        raise NotInstalled("no such package")

    monkeypatch.setattr(contestants, "install", refuse)
    field = contestants.installed("PF-01", lambda text: None)
    assert field.peers == []
    assert field.missing["BullMQ Node"] == "no such package"


def test_node_is_looked_for_before_npm_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    node = next(peer for peer in contestants.peers() if peer.npm)
    with pytest.raises(NotInstalled, match="node and npm are not on PATH"):
        contestants.install(node, lambda text: None, tmp_path)


def test_a_contest_without_a_peer_is_not_measured_and_one_that_breaks_is_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, us: Contestant
) -> None:
    there, broken = replace(us, key="there", name="There"), replace(us, key="broken", name="Broken")
    field = contestants.Field([there, broken], {"Gone": "no network"})
    monkeypatch.setattr(contestants, "installed", lambda spec_id, say: field)
    contest = Contest("PF-02", Options(tmp_path, rounds=3, say=lambda text: None), "jobs/s")
    calls: list[str] = []

    def once(one: Contestant) -> float:
        calls.append(one.key)
        if one is broken and len(calls) > 3:
            raise NoReport("it ended")
        return {"kbsync": 100.0, "there": 50.0, "broken": 90.0}[one.key]

    contest.run(once)
    assert calls == ["kbsync", "there", "broken", "kbsync", "there", "broken", "kbsync", "there"]
    assert contest.of("broken") is None
    checks = contest.against_the_best(1.3, Bar.AT_LEAST)
    assert [(check.says, check.value) for check in checks] == [
        ("x There, the best peer", 2.0),
        ("x Broken", None),
        ("x Gone", None),
    ]
    assert Figure("PF-02", "jobs", checks).verdict is Verdict.NOT_MEASURED
    assert [(row.what, row.sample is None, row.note) for row in contest.rows()] == [
        ("kbsync", False, ""),
        ("There", False, ""),
        ("Broken", True, "it ended"),
        ("Gone", True, "no network"),
    ]


def test_our_own_breakdown_ends_the_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(contestants, "installed", lambda spec_id, say: contestants.Field())
    contest = Contest("PF-01", Options(tmp_path, say=lambda text: None), "jobs/s")

    def once(one: Contestant) -> float:
        raise NoReport("ours")

    with pytest.raises(NoReport):
        contest.run(once)


def test_a_peers_driver_speaks_as_ours_does(place: Arena) -> None:
    arq = Contestant("arq", "arq", [sys.executable, "-m", "ops.bench.peers.arq_driver"], "defaults", 50, 50, 50)
    assert draining.drain(place, arq, 60) > 0
    quick = replace(arq, arguments=["--poll-delay", "0.01"])
    assert pick_up.pick_ups(place, quick, 10).p50 > 0


def test_requests_are_of_the_agreed_size_under_ids_of_their_own() -> None:
    made = requests(3, 200)
    assert [one.id for one in made] == ["job-0000000", "job-0000001", "job-0000002"]
    assert {len(f'{{"id":"{one.id}","text":"{one.text}"}}') for one in made} == {200}
