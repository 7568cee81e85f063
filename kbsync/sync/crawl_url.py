"""The unit that crawls one URL: fetch it, store its page, claim its links, count it, in one transaction (LS-14, LS-15).

    claimed --fetch--> [ page, children + their count, finished_at - its count, the end of the crawl ] --> follow-ups

A retryable failure writes nothing. A URL that is finished is never fetched or counted again: its follow-ups are read back
from the ledger."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kbsync.db.errors import retry_on_conflict
from kbsync.db.pool import Connection
from kbsync.domain.crawl_text import same_text_key
from kbsync.domain.outcomes import Done, Outcome, RecordMissing
from kbsync.domain.requests import CrawlUrl, LibraryRequest
from kbsync.domain.states import CrawlStatus, CrawlUrlOutcome, UnitEnd
from kbsync.library import crawl_pages, crawl_tasks, crawl_urls, documents, statistics, unit_requests
from kbsync.library.crawl_pages import NewPage, StoredPage
from kbsync.library.crawl_urls import ClaimedUrl, Finish
from kbsync.providers.contract import FoundUrl, PageResult
from kbsync.sync.context import Run, Units
from kbsync.sync.crawl_claim import Caps, Claims, claim_links, requests_of
from kbsync.sync.crawl_end import complete_crawl
from kbsync.sync.crawl_verdict import PageVerdict, judge_page
from kbsync.sync.follow_ups import PAGE, chunks_of
from kbsync.sync.stored_text import stored_text


class _FinishedElsewhere(Exception):
    """Another run of this URL finished it first: this one's writes are given up."""


@dataclass(frozen=True)
class _Visit:
    """One fetch of a claimed URL, and the bounds of its crawl."""

    request: CrawlUrl
    claimed: ClaimedUrl
    verdict: PageVerdict
    caps: Caps
    run: Run


async def crawl_url(units: Units, request: CrawlUrl, run: Run) -> Outcome:
    """Before: the URL is claimed in its crawl, else RecordMissing. After: it is finished and counted, once; its unit request
    is ended in the same transaction.

    Raises ProviderBusy and ProviderUnreachable: then nothing was written, and `fail_url` ends the last attempt."""
    organization_id = request.organization_id
    async with units.database.organization(organization_id) as connection:
        claimed = await crawl_urls.get(connection, organization_id, request.crawl_task_id, request.url)
        if claimed is None:
            return RecordMissing("crawl URL")
        # Exact, where the run's own start may be an estimate: a request that comes after this reading stays open.
        run = replace(run, started_at=claimed.read_at)
        if claimed.is_finished:
            return await _replay(connection, request, claimed, run)
        if claimed.task_status not in (CrawlStatus.PENDING, CrawlStatus.RUNNING):
            await unit_requests.end(connection, organization_id, run.job_id, run.started_at, UnitEnd.DONE)
            return Done(summary={"status": "the crawl has ended"})
    async with units.crawler_of(claimed.source) as provider:
        caps = Caps(provider.max_urls, provider.max_depth, provider.max_urls_per_pattern)
        known = claimed.may_be_unchanged
        page: PageResult = await provider.crawl_page(
            FoundUrl(claimed.url, claimed.fetch_url),
            etag=claimed.etag if known else None,
            last_modified=claimed.last_modified if known else None,
        )
    visit = _Visit(request, claimed, judge_page(claimed.url, page, claimed.links), caps, run)
    try:
        return await retry_on_conflict(lambda: _record(units, visit))
    except _FinishedElsewhere:
        async with units.database.organization(organization_id) as connection:
            claimed = await crawl_urls.get(connection, organization_id, request.crawl_task_id, request.url)
            return await _replay(connection, request, claimed, run) if claimed else RecordMissing("crawl URL")


async def fail_url(units: Units, request: CrawlUrl, run: Run, reason: str, ended_as: UnitEnd) -> None:
    """The URL will not be tried again: it is finished as failed and counted, if it was not before."""
    organization_id, task_id = request.organization_id, request.crawl_task_id
    async with units.database.organization(organization_id) as connection:
        claimed = await crawl_urls.get(connection, organization_id, task_id, request.url)
        if claimed is None or claimed.is_finished:
            return
        finish = Finish(CrawlUrlOutcome.FAILED, reason, reasons=("a page could not be read",))
        counted = await crawl_urls.finish(
            connection,
            organization_id,
            task_id,
            claimed.url_key,
            finish,
            unit=run.job_id,
            started_at=run.started_at,
            ended_as=ended_as,
        )
        if counted is not None and counted.is_last:
            await complete_crawl(connection, organization_id, task_id, run)


async def _record(units: Units, visit: _Visit) -> Outcome:
    """The one transaction of a visit. The crawl's row is everybody's, so it is taken last and held shortly."""
    organization_id, task_id, claimed = visit.request.organization_id, visit.request.crawl_task_id, visit.claimed
    async with units.database.organization(organization_id) as connection:
        verdict, text_key, claims, new = await _bounded(units, connection, visit)
        page = await _store_page(units, connection, visit, verdict)
        follow_ups: list[LibraryRequest] = []
        if page is not None and page.chunks_due:
            follow_ups.append(chunks_of(organization_id, page.id))
        if new:
            claims = _joined(claims, await _claim(connection, visit, verdict))
        follow_ups += requests_of(organization_id, task_id, (link.url for link in claims.links))
        finish = Finish(
            verdict.outcome,
            verdict.detail,
            page.id if page is not None else None,
            text_key,
            len(claims.links),
            claims.reasons,
            claims.notes,
        )
        counted = await crawl_urls.finish(
            connection,
            organization_id,
            task_id,
            claimed.url_key,
            finish,
            unit=visit.run.job_id,
            started_at=visit.run.started_at,
            ended_as=UnitEnd.DONE,
            follow_ups=follow_ups,
        )
        if counted is None:
            raise _FinishedElsewhere
        if counted.is_last:
            await complete_crawl(connection, organization_id, task_id, visit.run)
    if statistics.is_due(counted.finished):
        async with units.database.fleet() as connection:
            await statistics.refresh(connection)
    return Done(tuple(follow_ups), {"status": str(verdict.outcome), "claimed": len(claims.links)})


async def _bounded(units: Units, connection: Connection, visit: _Visit) -> tuple[PageVerdict, str | None, Claims, bool]:
    """The verdict within the bounds on depth and on pages of one text, the text's key, what the bounds say about the
    crawl, and whether there is anything new to claim."""
    verdict, claimed = visit.verdict, visit.claimed
    text_key = same_text_key(verdict.content.markdown) if verdict.content is not None else None
    bound = units.crawl_bounds.pages_per_text
    context = await crawl_urls.page_context(
        connection,
        visit.request.organization_id,
        visit.request.crawl_task_id,
        url_key=claimed.url_key,
        text_key=text_key,
        link_keys=[link.url_key for link in (*verdict.same_page, *verdict.links)],
        text_bound=bound,
    )
    new_links = [link for link in verdict.links if link.url_key not in context.claimed]
    new_names = [link for link in verdict.same_page if link.url_key not in context.claimed]
    claims = Claims()
    if new_links and context.same_text >= bound:
        claims = _joined(claims, Claims(reasons=("pages with one text seem to have no end",)))
        new_links = []
    if new_links and claimed.depth >= visit.caps.max_depth:
        claims = _joined(claims, Claims(reasons=(f"the depth limit of {visit.caps.max_depth} was reached",)))
        new_links = []
    # A page that is in the library already stays there: else two equal pages would take turns in being removed.
    if context.same_text and claimed.document_id is None:
        verdict = replace(verdict, outcome=CrawlUrlOutcome.DUPLICATE, detail="has another page's text", content=None)
    verdict = replace(verdict, same_page=tuple(new_names), links=tuple(new_links))
    return verdict, text_key, claims, bool(new_names or new_links)


async def _store_page(units: Units, connection: Connection, visit: _Visit, verdict: PageVerdict) -> StoredPage | None:
    organization_id, task_id = visit.request.organization_id, visit.request.crawl_task_id
    document_id = visit.claimed.document_id
    match verdict.outcome:
        case CrawlUrlOutcome.STORED if verdict.content is not None:
            content = verdict.content
            page = NewPage(
                url=visit.claimed.url,
                shown_url=visit.claimed.fetch_url,
                title=content.title,
                text=stored_text(content, units.bounds.content_cap),
                etag=content.etag,
                last_modified=content.last_modified,
                links=visit.verdict.links,
            )
            return await crawl_pages.upsert(
                connection, organization_id, visit.claimed.source.id, visit.claimed.source.type, task_id, page
            )
        case CrawlUrlOutcome.UNCHANGED if document_id is not None:
            return await crawl_pages.confirm(connection, organization_id, document_id, task_id)
        case CrawlUrlOutcome.GONE if document_id is not None:
            await documents.discard(connection, organization_id, document_id)
            return None
        case _:
            return None


async def _claim(connection: Connection, visit: _Visit, verdict: PageVerdict) -> Claims:
    """Claims what is new. From here to the end of the transaction the crawl's row is held."""
    claimed, organization_id = visit.claimed, visit.request.organization_id
    task = await crawl_tasks.lock(connection, organization_id, visit.request.crawl_task_id)
    if task is None:
        return Claims()
    claims = Claims()
    for links, depth in ((verdict.same_page, claimed.depth), (verdict.links, claimed.depth + 1)):
        if links:
            made = await claim_links(connection, task, links, visit.caps, parent_url=claimed.url, depth=depth)
            claims = _joined(claims, made)
            task = replace(task, urls_found=task.urls_found + len(made.links))
    return claims


async def _replay(connection: Connection, request: CrawlUrl, claimed: ClaimedUrl, run: Run) -> Outcome:
    """The follow-ups of a finished URL: exactly the children it claimed, and its page's chunks while they are due."""
    organization_id, task_id = request.organization_id, request.crawl_task_id
    urls: list[str] = []
    after_id: int | None = 0
    while after_id is not None:
        page = await crawl_urls.children_after(connection, organization_id, task_id, claimed.url, after_id, PAGE)
        urls += page.urls
        after_id = page.last_id
    follow_ups: list[LibraryRequest] = list(requests_of(organization_id, task_id, urls))
    if claimed.document_id is not None and await documents.chunks_are_due(
        connection, organization_id, claimed.document_id
    ):
        follow_ups.insert(0, chunks_of(organization_id, claimed.document_id))
    await unit_requests.end(connection, organization_id, run.job_id, run.started_at, UnitEnd.DONE)
    return Done(tuple(follow_ups), {"status": "replayed"})


def _joined(first: Claims, second: Claims) -> Claims:
    return Claims(
        first.links + second.links,
        tuple(dict.fromkeys(first.reasons + second.reasons)),
        tuple(dict.fromkeys(first.notes + second.notes)),
    )
