"""How sources, documents and crawls are put into words (pure)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kbsync.dashboard import knowledge_words as words
from kbsync.dashboard.audience_words import audience_words
from kbsync.domain.audience import PUBLIC, Audience, AudienceKind
from kbsync.library.crawl_views import CrawlPage
from kbsync.library.source_pages import DocumentLine, SourceCounts, SourceLine
from kbsync.providers.declaration import declaration_of
from kbsync.providers.registry import FACTORIES

NOW = datetime(2026, 8, 25, 14, 2, 31, tzinfo=UTC)
SOURCE = SourceLine(
    id=7,
    organization_id=1,
    organization="Acme",
    type="website",
    name="Docs",
    config={},
    sync_status="synced",
    sync_error=None,
    sync_error_at=None,
    sync_started_at=None,
    last_synced_at=NOW - timedelta(minutes=12),
    daily_tick=None,
    counts={"documents": 30},
    held=None,
    crawl_id=None,
    crawl_found=None,
    crawl_pending=None,
)
CRAWL = CrawlPage(
    id=1,
    organization_id=1,
    organization="Acme",
    source_id=7,
    source="Docs",
    start_url="https://docs.example.test/",
    status="running",
    urls_found=1_900,
    urls_pending=733,
    created_at=NOW - timedelta(minutes=12),
    started_at=NOW - timedelta(minutes=10),
    finished_at=None,
    incomplete_reasons=(),
    error=None,
    notes=(),
    config={},
    source_config={},
    outcomes={"stored": 1_161, "failed": 6},
)


def test_a_source_says_how_it_stands() -> None:
    assert words.standing_of(SOURCE, NOW).word == "synced 12 min ago"
    unreadable = replace(SOURCE, counts={"unreadable": 3, "incomplete": "a page could not be read"})
    assert words.standing_of(unreadable, NOW).why == "3 unreadable; not proven complete, so nothing was removed"
    crawling = replace(SOURCE, sync_status="syncing", crawl_id=4, crawl_found=1_000, crawl_pending=585)
    assert words.standing_of(crawling, NOW).word == "syncing, about 41%"
    all_but_the_end = replace(crawling, crawl_pending=0)
    assert words.standing_of(all_but_the_end, NOW).word == "syncing, about 99%"
    waits = replace(SOURCE, sync_status="syncing", sync_error="quota spent until 1 Sep")
    assert words.standing_of(waits, NOW).look == "delayed"
    assert words.standing_of(replace(SOURCE, sync_status="pending"), NOW).why == "No sync has run yet."


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        ("Notion refused the token (401)", "new credentials"),
        ("The stored credentials can't be opened", "new credentials"),
        ("interrupted", "goes on from what is stored"),
        ("It was given up because every worker that took it stopped in the middle of it.", "Sync it now"),
        ("robots.txt can't be read: answered 500", "robots.txt"),
        ("The folder '/x' is not there (any more).", "Put it back"),
        (
            "The folder '/x' is not below a folder. An operator can allow it in KBSYNC_FILES_ROOTS.",
            "restart the workers",
        ),
        ("The start page could not be read (answered 404).", "moved"),
        ("start URL not allowed: a private address", "KBSYNC_FETCH_ALLOW_ADDRESSES"),
        ("Something went wrong inside kbsync (KeyError).", "a fault of kbsync"),
        ("something nobody has thought of", "tried again with the next sync"),
    ],
)
def test_each_failure_has_its_cure(error: str, cure: str) -> None:
    failed = replace(SOURCE, sync_status="failed", sync_error=error, sync_error_at=NOW - timedelta(minutes=3))
    said = words.standing_of(failed, NOW)
    assert said.word == "failed 3 min ago"
    assert said.why[0].isupper()
    assert said.why.rstrip(".") == (error[0].upper() + error[1:]).rstrip(".")
    assert cure in said.cure


def test_the_verdict_counts_what_needs_a_person() -> None:
    def counts(**given: int) -> SourceCounts:
        return SourceCounts(**{"total": 9, "failed": 0, "syncing": 0, "pending": 0, "held": 0} | given)

    assert words.verdict_of(counts(total=0)) == "There is no source yet."
    assert words.verdict_of(counts(syncing=2)) == "Every source is in order, 2 sources syncing."
    both = words.verdict_of(counts(failed=1, held=2))
    assert both == "1 source failed and needs a person; 2 removals wait for an approval."
    assert words.verdict_of(counts(failed=1_001)).startswith("more than 1,000 sources failed and need")
    assert "never synced yet" in words.verdict_of(counts(pending=1))


def test_the_daily_scan_passes_some_sources_by() -> None:
    assert words.next_due(SOURCE, NOW) == datetime(2026, 8, 26, 1, tzinfo=UTC)
    assert words.next_due(replace(SOURCE, daily_tick=False), NOW) is None
    assert words.next_due(replace(SOURCE, type="intercom"), NOW) is None
    assert words.next_due(replace(SOURCE, type="intercom", daily_tick=True), NOW) is not None


def test_what_is_due_next_is_the_scan_or_the_source_s_own_interval() -> None:
    often = replace(SOURCE, sync_every_s=1_800, interval_asked_at=NOW)
    assert words.next_due(often, NOW) == NOW + timedelta(minutes=30)
    assert words.next_due(replace(often, daily_tick=False), NOW) == NOW + timedelta(minutes=30)
    assert words.next_due(replace(often, sync_every_s=90 * 86_400), NOW) == words.next_due(SOURCE, NOW)
    assert words.next_due(replace(often, disabled_at=NOW), NOW) is None


LONGEST_LABEL = 18


@pytest.mark.parametrize("type", sorted({*FACTORIES} - {"website", "files"}))
def test_each_setting_of_an_api_provider_has_a_name_on_the_page(type: str) -> None:
    fields = declaration_of(type).config.model_fields
    shown, hidden = words.shown_settings(type, {name: {"acme": "https://a.test"} for name in fields})
    assert (len(shown), hidden) == (len(fields), 0)
    assert shown[0][1] == ["acme: https://a.test"]
    assert all(len(label) <= LONGEST_LABEL for label, _ in shown), "a value beside it has no room"
    assert words.shown_settings("notion", {"requests_per_second": 2.0})[0] == [("Requests a second", ["2"])]
    assert words.address_of({"base_url": "https://acme.test"}) == "https://acme.test"


@pytest.mark.spec("LS-19", "SE-04")
def test_settings_are_shown_by_name_and_logins_never() -> None:
    config = {"start_url": "https://bob:pw@docs.test/a", "max_urls": 5_000, "api_key": "k", "header_Authorization": "b"}
    shown, hidden = words.shown_settings("website", config)
    assert shown == [("Start page", ["https://docs.test/a"]), ("URLs at most", ["5,000"])]
    assert hidden == 2
    assert words.shown_settings("nobody-knows", {"token": "t"}) == ([], 1)
    assert words.address_of(config) == "https://docs.test/a"
    assert "pw" not in words.without_login("http://a:pw@[broken")


def test_documents_say_how_they_stand() -> None:
    line = DocumentLine(1, "t", None, NOW, NOW, None, True, False, PUBLIC)
    assert words.document_standing(line).word == "searchable"
    assert words.document_standing(replace(line, chunks_synced_at=None)).word == "waits for chunks"
    unreadable = words.document_standing(replace(line, unreadable_reason="answered 403"))
    assert (unreadable.look, unreadable.why) == ("failed", "Answered 403.")
    assert words.document_standing(replace(line, has_content=False)).word == "empty"
    assert words.document_standing(replace(line, has_content=False, last_synced_at=None)).word == "pending"
    unknown = words.document_standing(replace(line, audience=Audience(AudienceKind.UNKNOWN)))
    assert unknown.word == "found by nobody"
    assert "did not say who may read it" in unknown.why
    assert "permissions" in unknown.cure


def test_an_audience_is_said_in_words() -> None:
    assert audience_words(PUBLIC) == "everybody"
    assert audience_words(Audience(AudienceKind.MEMBERS)) == "members"
    assert audience_words(Audience(AudienceKind.GROUPS, ("Agents",))) == "1 group: Agents"
    many = Audience(AudienceKind.GROUPS, tuple(f"g{number}" for number in range(23)))
    assert audience_words(many).endswith("g19 and 3 more")


def test_a_crawl_says_how_far_how_fast_and_until_when() -> None:
    pace = words.pace_of(CRAWL, NOW)
    assert pace.finished == 1_167
    assert pace.a_minute == pytest.approx(116.7)
    assert words.estimate_text(pace, NOW) == ("14:08", "in about 6 min 16 s")
    said = words.crawl_verdict(CRAWL, NOW)
    assert said.startswith("1,167 of 1,900 URLs finished, 6 URLs failed.")
    assert "in about 6 min 16 s" in said
    young = words.pace_of(replace(CRAWL, started_at=NOW - timedelta(seconds=2)), NOW)
    assert (young.a_minute, words.estimate_text(young, NOW)) == (None, None)
    done = replace(CRAWL, status="completed", urls_pending=0, finished_at=NOW)
    assert "It was complete" in words.crawl_verdict(done, NOW)
    capped = replace(done, incomplete_reasons=("the limit of 1,900 URLs was reached",))
    assert "nothing was removed: the limit" in words.crawl_verdict(capped, NOW)
    assert "robots.txt" in words.crawl_verdict(replace(CRAWL, status="pending", started_at=None), NOW)


def test_a_url_is_shown_as_a_path_on_its_own_host_alone() -> None:
    start = "https://docs.example.test/"
    assert words.short_url("https://docs.example.test/a?b=1", start) == "/a?b=1"
    assert words.short_url("https://docs.example.test", start) == "/"
    assert words.short_url("http://docs.example.test/a", start) == "http://docs.example.test/a"
    assert words.short_url("http://[broken", start) == "http://[broken"


def test_a_held_removal_of_another_hand_is_still_shown() -> None:
    held = words.HeldRemoval.of_source({"count": "x", "titles": 4, "since": "never"})
    assert held == words.HeldRemoval(0, 0, 0, [], None, "many would go at once")
    assert words.HeldRemoval.of_source(None) is None
