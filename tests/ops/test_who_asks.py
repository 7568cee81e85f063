"""`kbsync token create --group`, and `kbsync search` as somebody else (LS-27)."""

from __future__ import annotations

import pytest

from kbsync.api.auth import Authenticator
from kbsync.domain.audience import Asker, Audience, AudienceKind
from kbsync.library.principals import Role, create_token
from tests.ops.source_verbs import Verbs, kbsync  # noqa: F401  # a fixture
from tests.search.conftest import NewShelf, Shelf, new_shelf  # noqa: F401  # a fixture
from tests.search.test_audiences import put

FINDS = {
    "Public": Audience(AudienceKind.PUBLIC),
    "Members": Audience(AudienceKind.MEMBERS),
    "Agents": Audience(AudienceKind.GROUPS, ("Agents",)),
    "Unknown": Audience(AudienceKind.UNKNOWN),
}


@pytest.fixture
async def library(new_shelf: NewShelf) -> Shelf:  # noqa: F811
    made = await new_shelf()
    for title, audience in FINDS.items():
        await put(made, title, "the handbook", audience)
    return made


@pytest.mark.spec("LS-27", "OP-03")
async def test_search_answers_as_whoever_is_named(kbsync: Verbs, library: Shelf) -> None:  # noqa: F811
    async with library.database.fleet() as connection:
        await create_token(connection, "desk", roles=[Role.READER], groups=["Agents"])
        await create_token(connection, "site", roles=[Role.READER], public_only=True)

    async def titles(*words: str) -> list[str]:
        said = await kbsync("search", "handbook", "--organization", str(library.organization_id), "--json", *words)
        return sorted(hit["title"] for hit in said.json)

    assert await titles() == ["Members", "Public"]
    assert await titles("--group", "Agents", "--group", "Others") == ["Agents", "Members", "Public"]
    assert await titles("--public-only") == ["Public"]
    assert await titles("--as", "desk") == ["Agents", "Members", "Public"]
    assert await titles("--as", "site") == ["Public"]
    for wrong, said in (
        (("--as", "nobody"), "no principal is called 'nobody'"),
        (("--as", "desk", "--group", "x"), "each say who asks"),
        (("--public-only", "--group", "x"), "each say who asks"),
    ):
        refused = await kbsync("search", "handbook", "--organization", str(library.organization_id), *wrong)
        assert refused.code != 0
        assert said in refused.error


@pytest.mark.spec("LS-27", "CP-22")
async def test_a_token_says_what_its_holder_finds(kbsync: Verbs, library: Shelf) -> None:  # noqa: F811
    made = await kbsync(
        "token", "create", "desk", "--role", "reader", "--group", "Agents", "--group", " Ünï ", "--json"
    )
    principal = await Authenticator(library.database).authenticate(f"Bearer {made.json['token']}")
    assert principal.asker == Asker(is_member=True, groups=("Agents", "Ünï"))
    public = await kbsync("token", "create", "site", "--role", "reader", "--public-only", "--json")
    assert (await Authenticator(library.database).authenticate(f"Bearer {public.json['token']}")).asker == Asker()
    listed = {one["principal"]: one["finds"] for one in (await kbsync("token", "list", "--json")).json}
    assert listed == {"desk": "members, Agents, Ünï", "site": "public"}
    for words, said in (
        (("token", "create", "x", "--role", "reader", "--group", "a", "--public-only"), "can't be for public"),
        (("token", "create", "desk", "--role", "reader", "--group", "Admins"), "exists with other groups"),
        (("token", "create", "site", "--role", "reader"), "exists with other groups"),
    ):
        refused = await kbsync(*words)
        assert refused.code != 0
        assert said in refused.error
    again = await kbsync("token", "create", "desk", "--role", "reader", "--group", "Ünï", "--group", "Agents")
    assert again.code == 0
