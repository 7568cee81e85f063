"""Scrapy on a site: every page fetched and parsed, its links followed, its title and words read, nothing stored.

    scrapy_spider URL CONCURRENCY

Reports `@pages COUNT SECONDS` at the end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit


def main(url: str, concurrency: int) -> None:
    import scrapy  # type: ignore[import-not-found]  # in the peer's own environment
    from scrapy.crawler import CrawlerProcess  # type: ignore[import-not-found]

    pages = 0

    class Site(scrapy.Spider):  # type: ignore[misc]
        name = "site"
        start_urls = (url,)
        allowed_domains = (urlsplit(url).hostname,)

        def parse(self, response: Any, **_: Any) -> Iterator[Any]:
            nonlocal pages
            pages += 1
            response.css("title::text").get()
            " ".join(response.css("body ::text").getall())
            yield from response.follow_all(css="a")

    begun = time.perf_counter()
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": concurrency,
            "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": True,
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(Site)
    process.start()
    print(f"@pages {pages} {time.perf_counter() - begun:.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
