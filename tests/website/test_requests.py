"""What is sent along: validators of what is known already, credentials, and who asks (LS-07, LS-16, LS-19)."""

from __future__ import annotations

import pytest

from kbsync.domain.errors import ItemGone, ItemUnreadable, ProviderBusy, ProviderRefused, ProviderUnreachable
from kbsync.providers.contract import Content, CrawledPage, DocumentRef, PageUnchanged, Unchanged
from tests.website.crawl import crawl
from tests.website.fake_site import FakeSite, Reply
from tests.website.one_page import stored


@pytest.mark.spec("LS-16")
async def test_validators_are_kept_verbatim_and_sent_back(site: FakeSite) -> None:
    modified = "Wed, 21 Oct 2015 07:28:00 GMT"
    site.on("/p", Reply(body="<p>x</p>", headers={"ETag": 'W/"a-gzip"', "Last-Modified": modified}))
    content = await stored(site)
    assert (content.etag, content.last_modified) == ('W/"a-gzip"', modified)
    again = await site.provider().crawl_page(site.found("/p"), etag=content.etag, last_modified=content.last_modified)
    assert again == PageUnchanged()
    assert site.requests[-1].headers["If-Modified-Since"] == modified
    changed = await site.provider().crawl_page(site.found("/p"), etag='"old"')
    assert isinstance(changed, CrawledPage)
    assert isinstance(await site.provider().crawl_page(site.found("/p"), etag='"x\r\nEvil: 1"'), CrawledPage)
    assert "Evil" not in site.requests[-1].headers


@pytest.mark.spec("LS-07", "LS-16")
async def test_one_document_is_fetched_again(site: FakeSite) -> None:
    provider = site.provider()
    site.on("/p", Reply(body="<p>x</p>", headers={"ETag": '"a"'}))
    ref = DocumentRef(site.at("/p"), site.at("/p"))
    content = await provider.fetch_document(ref)
    assert isinstance(content, Content)
    assert content.markdown == "x"
    assert await provider.fetch_document(DocumentRef("x", site.at("/p"), etag='"a"')) == Unchanged()
    for reply, error in (
        (Reply(404), ItemGone),
        (Reply(410), ItemGone),
        (Reply(403), ItemUnreadable),
        (Reply(body="x", headers={"X-Robots-Tag": "noindex"}), ItemGone),
        (Reply(body=""), ItemUnreadable),
        (Reply(500), ProviderUnreachable),
        (Reply(429), ProviderBusy),
    ):
        site.on("/p", reply)
        with pytest.raises(error):
            await provider.fetch_document(ref)
    with pytest.raises(ItemUnreadable):
        await provider.fetch_document(DocumentRef("mailto:x", None))


# --- credentials --------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-19")
async def test_credentials_go_to_the_start_host_alone(site: FakeSite) -> None:
    async with FakeSite() as other:
        other.page("/x", "<p>x</p>")
        site.page("/", f"<p>x</p><a href='{other.at('/x')}'>x</a><a href='/hop'>y</a>")
        site.redirect("/hop", other.at("/x"))
        secrets = {"username": "ann", "password": "pw:1", "header_X-Token": "secret"}
        provider = site.provider(hosts=[other.host], credentials=secrets)
        done = await crawl(provider)
        assert len(done.rows) == 3
        assert all(asked.headers["Authorization"] == "Basic YW5uOnB3OjE=" for asked in site.requests)
        assert all(asked.headers["X-Token"] == "secret" for asked in site.requests)
        assert other.requests
        assert not any({"Authorization", "X-Token"} & set(asked.headers) for asked in other.requests)
        assert "secret" not in repr(done)
    with pytest.raises(ProviderRefused) as caught:
        site.provider(credentials={"header_X": "a\r\nb"})
    assert "a\r\nb" not in str(caught.value)


async def test_who_asks_is_told(site: FakeSite) -> None:
    site.page("/", "<p>x</p>")
    await crawl(site.provider())
    assert all(asked.headers["User-Agent"].startswith("kbsync/") for asked in site.requests)
    assert not any("Cookie" in asked.headers for asked in site.requests)
