"""The table of provider limits, line by line, and its overrides."""

from __future__ import annotations

import pytest

from kbsync.domain.errors import SettingsError
from ratelimits.limits import Limit, UnitKind, default_limit, limit_for
from ratelimits.scope import DataSourceScope, HostScope, ThrottleScope, data_source_of_member, scope_of_member


@pytest.mark.spec("RL-01")
@pytest.mark.parametrize(
    ("provider", "kind", "limit"),
    [
        ("notion", UnitKind.SOURCE_SYNC, Limit(4, 60)),
        ("scribe", UnitKind.SOURCE_SYNC, Limit(20, 1)),
        ("zendesk", UnitKind.SOURCE_SYNC, Limit(20, 1)),
        ("notion", UnitKind.DOCUMENT_SYNC, Limit(4, 60)),
        ("Notion ", UnitKind.DOCUMENT_SYNC, Limit(4, 60)),
        ("scribe", UnitKind.DOCUMENT_SYNC, Limit(50, 60)),
        ("confluence", UnitKind.DOCUMENT_SYNC, Limit(3_000, 60)),
        ("one that nobody knows", UnitKind.DOCUMENT_SYNC, Limit(3_000, 60)),
    ],
)
def test_the_table(provider: str, kind: UnitKind, limit: Limit) -> None:
    assert default_limit(provider, kind) == limit
    assert limit_for(provider, kind, {}) == limit


@pytest.mark.spec("RL-07")
def test_an_override_changes_its_own_kind_only() -> None:
    overrides = {"document_sync": {"count": 20, "window_s": 30}}
    assert limit_for("notion", UnitKind.DOCUMENT_SYNC, overrides) == Limit(20, 30)
    assert limit_for("notion", UnitKind.SOURCE_SYNC, overrides) == Limit(4, 60)


@pytest.mark.spec("RL-07")
@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"document_sync": {"count": 0, "window_s": 60}}, "document_sync.count"),
        ({"document_sync": {"count": "20", "window_s": 60}}, "document_sync.count"),
        ({"document_sync": {"count": True, "window_s": 60}}, "document_sync.count"),
        ({"document_sync": {"count": 20, "window_s": 0}}, "document_sync.window_s"),
        ({"document_sync": {"count": 20, "window_s": float("nan")}}, "document_sync.window_s"),
        ({"document_sync": {"count": 20}}, "document_sync.window_s"),
        ({"document_sync": 20}, "document_sync"),
        ({"documents": {"count": 20, "window_s": 60}}, "documents"),
    ],
)
def test_a_wrong_override_is_refused_by_name(overrides: dict[str, object], part: str) -> None:
    with pytest.raises(SettingsError, match=rf"\({part.replace('.', chr(92) + '.')}: "):
        limit_for("notion", UnitKind.SOURCE_SYNC, overrides)


@pytest.mark.parametrize(("count", "window_s"), [(0, 60), (1, 0), (1, float("inf")), (2_000_000, 60)])
def test_a_limit_that_could_never_open_is_refused(count: int, window_s: float) -> None:
    with pytest.raises(ValueError, match="it must be"):
        Limit(count, window_s)


@pytest.mark.spec("RL-01")
@pytest.mark.parametrize("provider", ["notion", "a:b", "a%3Ab", "", "naïve\x00", "*", "\ud800"])
def test_no_name_reaches_into_another_scope(provider: str) -> None:
    scope = ThrottleScope(provider, UnitKind.SOURCE_SYNC, 7, None)
    assert scope.key(60_000).count(":") == 6
    assert "\x00" not in scope.key(60_000)
    if provider != "\ud800":
        assert scope_of_member(scope.member(60_000)) == (scope, 60_000)
        assert data_source_of_member(scope.data_source.member) == scope.data_source
    assert DataSourceScope(provider, 7, 1).closed_key.count(":") == 4


def test_a_host_is_one_host_however_it_is_spelled() -> None:
    assert HostScope("Example.ORG.").key == HostScope("example.org").key == "kbsync:host:example.org"
