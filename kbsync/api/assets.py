"""`GET /v1/documents/{id}/assets/{asset}`: on to where a picture or file of a document is now (LS-25, LS-27).

A redirect to the provider's address of this moment; bytes never pass through here. What the principal may not find is not
there: a foreign document, one for another audience, and a name that its text doesn't hold look alike.
"""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Annotated, assert_never

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from kbsync.api.context import principal_of, services_of
from kbsync.api.described import Described
from kbsync.api.problems import Problem
from kbsync.api.services import ApiServices
from kbsync.domain.requests import MAX_ID
from kbsync.library.owners import owner_of_document
from kbsync.library.principals import Principal
from kbsync.sync.assets import MAX_NAME, AssetAt, AssetGone, AssetLater, NoAsset

PATH = "/v1/documents/{id}/assets/{asset}"


class AssetPath(BaseModel):
    """`asset` is what stands behind `kbsync-asset:` in a document's Markdown, percent-encoded."""

    model_config = ConfigDict(frozen=True)

    id: Annotated[int, Field(ge=1, le=MAX_ID)]
    asset: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


DESCRIBED = Described(
    "On to where a picture or file of a document is now. Ask anew each time: the address expires.",
    {HTTPStatus.FOUND: None},
    problems=(HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.TOO_MANY_REQUESTS),
    path=AssetPath,
)


async def asset_route(request: web.Request) -> web.Response:
    services, asset = services_of(request), request.match_info["asset"]
    document_id = _row_id(request.match_info["id"])
    organization_id = await _organization_of(services, principal_of(request), document_id)
    if organization_id is None or services.assets is None:
        raise _not_there()
    answer = await services.assets.address_of(organization_id, document_id, asset, principal_of(request).asker)
    match answer:
        case AssetAt(url):
            return web.Response(status=HTTPStatus.FOUND, headers={"Location": url, "Cache-Control": "no-store"})
        case NoAsset():
            raise _not_there()
        case AssetGone():
            raise Problem(HTTPStatus.GONE, "gone", "the source has no such picture or file any more")
        case AssetLater():
            raise _later(answer)
        case _:
            assert_never(answer)


def _row_id(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 19 and 1 <= (number := int(text)) <= MAX_ID:
        return number
    raise _not_there()


async def _organization_of(services: ApiServices, principal: Principal, document_id: int) -> int | None:
    """Who is bound to an organization stays in it, whoever owns the document: there it is not found then."""
    if principal.organization_id is not None:
        return principal.organization_id
    async with services.database.fleet() as connection:
        return await owner_of_document(connection, document_id)


def _not_there() -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, "not-found", "there is no such document, or no such picture or file in it")


def _later(answer: AssetLater) -> Problem:
    status, kind = (
        (HTTPStatus.TOO_MANY_REQUESTS, "too-many-requests")
        if answer.over_quota
        else (HTTPStatus.SERVICE_UNAVAILABLE, "unavailable")
    )
    wait_s = str(max(1, math.ceil(answer.wait_s)))
    return Problem(status, kind, f"{answer.why}; ask again later", headers={"Retry-After": wait_s})
