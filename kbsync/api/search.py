"""`GET /v1/search`: full text over one organization's documents (LS-21)."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kbsync.api.answers import Shape
from kbsync.api.context import principal_of, services_of
from kbsync.api.described import Described
from kbsync.api.problems import Fault, forbidden, invalid
from kbsync.domain.requests import MAX_ID
from kbsync.library.search import MAX_LIMIT, MAX_OFFSET, MAX_QUERY, Hit, SearchRefused, search

Id = Annotated[int, Field(ge=1, le=MAX_ID)]


class SearchQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    q: Annotated[str, Field(min_length=1, max_length=MAX_QUERY)]
    organization_id: Id
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 10
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET)] = 0
    source_id: Id | None = None
    language: Annotated[str, Field(max_length=35)] | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """`snippet_html` is `snippet`, escaped, with `<mark>` around the highlights (start, end)."""

    document_id: int
    source_id: int | None
    title: str
    url: str | None
    anchor: str | None
    link: str | None
    heading_path: tuple[str, ...]
    snippet: str
    snippet_html: str
    highlights: tuple[tuple[int, int], ...]
    score: float


@dataclass(frozen=True)
class Results:
    results: list[Result]


RESULTS = Shape(Results)
DESCRIBED = Described(
    "Full text search over the documents of one organization that the principal may find.",
    {HTTPStatus.OK: RESULTS},
    query=SearchQuery,
)


async def search_route(request: web.Request) -> web.Response:
    asked = parse_query(request)
    principal = principal_of(request)
    if principal.organization_id is not None and principal.organization_id != asked.organization_id:
        raise forbidden("this token is bound to another organization")
    async with services_of(request).database.organization(asked.organization_id) as connection:
        try:
            hits = await search(
                connection,
                asked.organization_id,
                asked.q,
                limit=asked.limit,
                offset=asked.offset,
                source_id=asked.source_id,
                language=asked.language,
                asker=principal.asker,
            )
        except SearchRefused as error:
            raise invalid(str(error), [Fault("q", str(error))]) from None
    return RESULTS.response(Results([_result(hit) for hit in hits]))


def parse_query(request: web.Request) -> SearchQuery:
    """Raises the 422 problem; a fault's pointer is the parameter's name."""
    if len(request.query) != len(set(request.query)):
        raise invalid("a parameter is there twice", [Fault("", "a parameter is there twice")])
    try:
        return SearchQuery.model_validate(dict(request.query))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise invalid(
            "the query is not one that can be answered",
            [Fault(".".join(str(part) for part in fault["loc"]), fault["msg"]) for fault in faults],
        ) from None


def _result(hit: Hit) -> Result:
    return Result(
        document_id=hit.document_id,
        source_id=hit.source_id,
        title=hit.title,
        url=hit.url,
        anchor=hit.anchor,
        link=hit.link,
        heading_path=hit.heading_path,
        snippet=hit.snippet,
        snippet_html=hit.snippet_html,
        highlights=hit.highlights,
        score=hit.score,
    )
