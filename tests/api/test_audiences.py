"""`GET /v1/search` answers each principal what is for it (LS-27)."""

from __future__ import annotations

import pytest

from kbsync.domain.audience import Audience, AudienceKind
from kbsync.library.principals import Role, create_token
from tests.api.conftest import Api
from tests.search.conftest import NewShelf, new_shelf  # noqa: F401  # a fixture
from tests.search.test_audiences import put


@pytest.mark.spec("LS-27", "SE-02")
async def test_search_answers_each_principal_what_is_for_it(api: Api, new_shelf: NewShelf) -> None:  # noqa: F811
    ours, theirs = await new_shelf(), await new_shelf()
    agents = Audience(AudienceKind.GROUPS, ("Agents",))
    for title, audience in (
        ("Public", Audience(AudienceKind.PUBLIC)),
        ("Members", Audience(AudienceKind.MEMBERS)),
        ("Agents", agents),
        ("Unknown", Audience(AudienceKind.UNKNOWN)),
    ):
        await put(ours, title, "![see](kbsync-asset:a-1) the handbook", audience)
    await put(theirs, "Theirs", "the handbook", agents)

    async def found(name: str, groups: tuple[str, ...] = (), *, public_only: bool = False, bound: bool = True) -> str:
        async with api.database.fleet() as connection:
            made = await create_token(
                connection,
                name,
                roles=[Role.READER],
                organization_id=ours.organization_id if bound else None,
                groups=groups,
                public_only=public_only,
            )
        query = f"/v1/search?q=handbook&organization_id={ours.organization_id}&limit=100"
        async with api.client.get(query, headers={"Authorization": f"Bearer {made.text}"}) as answer:
            assert answer.status == 200
            results = (await answer.json())["results"]
        # A passage is plain text: it names no asset, so none has to be turned into an address.
        assert all("kbsync-asset" not in hit["snippet"] + hit["snippet_html"] for hit in results)
        return " ".join(sorted(hit["title"] for hit in results))

    assert await found("site", public_only=True) == "Public"
    assert await found("backend") == "Members Public"
    assert await found("everywhere", bound=False) == "Members Public"
    assert await found("desk", ("Agents", "Other")) == "Agents Members Public"
    assert await found("other desk", ("agents",)) == "Members Public"
