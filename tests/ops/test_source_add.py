"""Adding a source: asked for what is missing, tried before it is kept, looked at before it is synced (OP-03, LS-19)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kbsync.db.pool import Database
from kbsync.domain.errors import ProviderRefused, SettingsError
from kbsync.library.credentials import Vault
from kbsync.providers.declaration import declaration_of
from kbsync.providers.registry import FACTORIES
from ops.source_setup import TRIES, complete_pairs, complete_secrets, read_secrets
from tests.ops.source_verbs import Verbs, kbsync
from tests.providers.account import SECRET
from tests.providers.fake_api import Fault
from tests.providers.fake_scribe import KEY, FakeScribe, ScribeAccount
from tests.website.fake_site import FakeSite

__all__ = ["kbsync"]


@pytest.fixture
async def account() -> AsyncIterator[ScribeAccount]:
    async with FakeScribe().served() as fake:
        account = ScribeAccount(fake)
        account.fill(30)
        yield account


def setup_of(account: ScribeAccount) -> list[str]:
    pairs = {"base_url": account.fake.url, "types": "scribe", "requests_per_minute": "1000000"}
    return [word for name, value in pairs.items() for word in ("--config", f"{name}={value}")]


async def row(database: Database, query: str) -> object:
    async with database.fleet() as connection:
        return await connection.fetchval(query)


# --- what each provider declares -----------------------------------------------------------------------------------


@pytest.mark.spec("OP-03", "LS-18")
@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_each_provider_of_the_registry_says_what_it_is_set_up_with(name: str) -> None:
    declared = declaration_of(name)
    fields = set(declared.config.model_fields)
    named = {declared.where, declared.include, declared.exclude} - {None}
    assert set(declared.help) | set(declared.required) | named <= fields
    assert all(way for way in declared.secrets)
    assert declared.describe().startswith(declared.title)


def test_lists_flags_and_numbers_are_typed_by_the_model() -> None:
    website = declaration_of("website")
    given = [("start_url", "https://x.test/"), ("include_paths", "/a,/b"), ("include_paths", "/c"), ("max_urls", "5")]
    assert website.read([*given, ("use_sitemaps", "false")]) == {
        "start_url": "https://x.test/",
        "include_paths": ["/a", "/b", "/c"],
        "max_urls": 5,
        "use_sitemaps": False,
    }
    zendesk = declaration_of("zendesk").read([("base_url", "https://a.test"), ("brand_urls", "b=https://b.test")])
    assert zendesk["brand_urls"] == {"b": "https://b.test"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([("start_url", "ftp://x.test/")], "start_url: not http or https"),
        ([], "start_url: is needed"),
        ([("start_url", "https://x.test/"), ("max_urls", "many")], "max_urls: "),
        ([("start_url", "https://x.test/"), ("colour", "red")], "no setting 'colour'"),
        ([("hosts", '["a"')], "hosts: not JSON"),
    ],
)
def test_a_wrong_setup_is_one_line_that_names_the_field(given: list[tuple[str, str]], words: str) -> None:
    with pytest.raises((SettingsError, ProviderRefused)) as raised:
        declaration_of("website").read(given)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


# --- questions -----------------------------------------------------------------------------------------------------


class Person:
    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.asked: list[tuple[str, bool]] = []

    def __call__(self, question: str, hidden: bool) -> str:
        name = question.split()[0]
        self.asked.append((name, hidden))
        return self.answers[name]


@pytest.mark.spec("OP-03", "LS-19")
def test_only_what_is_missing_is_asked_for_and_secrets_are_hidden() -> None:
    zendesk = declaration_of("zendesk")
    person = Person(base_url="https://acme.zendesk.com", Sign="1", email="a@b.test", api_token="t")
    assert complete_pairs(zendesk, [], person) == [("base_url", "https://acme.zendesk.com")]
    assert complete_secrets(zendesk, {}, person) == {"email": "a@b.test", "api_token": "t"}
    assert person.asked == [("base_url", False), ("Sign", False), ("email", False), ("api_token", True)]
    person.asked.clear()
    assert complete_pairs(zendesk, [("base_url", "https://x.test")], person) == [("base_url", "https://x.test")]
    assert complete_secrets(zendesk, {"email": "a@b.test"}, person) == {"email": "a@b.test", "api_token": "t"}
    assert complete_secrets(zendesk, {"oauth_token": "o"}, person) == {"oauth_token": "o"}
    assert complete_secrets(declaration_of("website"), {}, person) == {}
    assert person.asked == [("api_token", True)]


@pytest.mark.spec("OP-03")
def test_a_person_is_asked_only_for_what_counts_with_the_settings() -> None:
    """A Data Center takes no e-mail address; a session token, with which nothing can be read, is offered to nobody."""
    confluence = declaration_of("confluence")
    person = Person(base_url="https://wiki.acme.test", deployment="data_center", Sign="2", username="ada", password="p")
    pairs = complete_pairs(confluence, [], person, choices=True)
    assert pairs == [("deployment", "data_center"), ("base_url", "https://wiki.acme.test")]
    assert complete_secrets(confluence, {}, person, confluence.read(pairs)) == {"username": "ada", "password": "p"}
    assert person.asked[2:] == [("Sign", False), ("username", False), ("password", True)]
    with pytest.raises(SettingsError, match="needs email and api_token, or access_token:"):
        complete_secrets(confluence, {"token": "t"}, None, {"base_url": "https://acme.atlassian.net"})
    again = Person(Sign="ada@acme.test", oauth_token="o")
    with pytest.raises(SettingsError, match="a number from 1 to 2"):
        complete_secrets(declaration_of("zendesk"), {}, again)
    assert len(again.asked) == TRIES
    again.answers["Sign"] = "oauth_token"
    assert complete_secrets(declaration_of("zendesk"), {}, again) == {"oauth_token": "o"}
    scribe = declaration_of("scribe")
    assert complete_secrets(scribe, {}, Person(api_key="k")) == {"api_key": "k"}
    assert complete_secrets(scribe, {"session_token": "s"}, None) == {"session_token": "s"}


@pytest.mark.spec("OP-03")
@pytest.mark.parametrize("name", ["notion", "confluence", "zendesk", "scribe", "intercom"])
def test_each_setting_is_told_with_what_it_is_and_what_may_be_typed(name: str) -> None:
    declared = declaration_of(name)
    assert set(declared.help) == set(declared.config.model_fields)
    for shown in (declared.describe(), declared.a_source):
        assert not any(word in shown for word in ("False", "True", "('", "a Intercom"))
    assert name != "confluence" or "one of cloud, data_center; default cloud" in declared.describe()


@pytest.mark.parametrize(
    ("name", "typed", "words"),
    [
        ("zendesk", "ftp://x", "base_url: must be an address that begins with https:// or http://, without a path"),
        ("intercom", "x", "base_url: must be an address that begins with https:// or http://"),
    ],
)
def test_a_wrong_address_is_told_without_a_pattern(name: str, typed: str, words: str) -> None:
    with pytest.raises(ProviderRefused) as raised:
        declaration_of(name).read([("base_url", typed)])
    assert str(raised.value).endswith(words)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("walk_requests=many", "must be a whole number"),
        ("requests_per_second=x", "must be a number"),
        ("api_version=1", "must be '2022-06-28', '2025-09-03' or '2026-03-11'"),
    ],
)
def test_a_wrong_value_is_told_in_words(setting: str, words: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(ProviderRefused, match=f"{name}: {words}"):
        declaration_of("notion").read([(name, value)])


@pytest.mark.spec("OP-03")
def test_where_nobody_can_be_asked_it_is_an_error_that_names_what_is_missing() -> None:
    zendesk = declaration_of("zendesk")
    with pytest.raises(SettingsError, match=r"needs base_url .*--config base_url="):
        complete_pairs(zendesk, [], None)
    with pytest.raises(SettingsError, match="needs email and api_token, or oauth_token"):
        complete_secrets(zendesk, {}, None)
    with pytest.raises(SettingsError, match="has no credential 'password'"):
        complete_secrets(zendesk, {"password": "x"}, None)
    with pytest.raises(SettingsError) as raised:
        read_secrets(f'["{SECRET}"]')
    assert SECRET not in str(raised.value)


# --- the verbs -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("OP-03", "LS-04", "LS-19")
async def test_a_source_is_tried_sealed_and_its_sync_is_owed(
    kbsync: Verbs, account: ScribeAccount, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    added = await kbsync(
        "source", "add", "scribe", *setup_of(account), "--new-organization", "Acme", "--secret-file",
        f"api_key={tmp_path / 'key'}", "--every", "6h", "--json",
    )  # fmt: skip
    made = added.json
    assert made["sync_requested"] is True
    sealed = await row(database, "select sealed_credentials from data_sources")
    assert SECRET not in str(sealed) + added.out + added.error
    assert Vault(kbsync.key).open(str(sealed)) == {"api_key": KEY}
    assert await row(database, "select sync_every_s from knowledge_base_sources") == 21_600
    assert await row(database, "select count(*) from kbsync.unit_requests") == 1
    assert await row(database, "select count(*) from kbsync.audit_entries where action = 'source.add'") == 1


@pytest.mark.spec("LS-19", "LS-07")
async def test_credentials_and_addresses_that_do_not_work_are_never_kept(
    kbsync: Verbs, account: ScribeAccount, database: Database
) -> None:
    words = ("source", "add", "scribe", *setup_of(account), "--new-organization", "Acme", "--credentials", "-")
    refused = await kbsync(*words, typed=json.dumps({"api_key": f"wrong-{SECRET}"}))
    assert refused.code == 1
    assert "refused the API key" in refused.error
    assert SECRET not in refused.error + refused.out
    account.fake.fail(lambda asked: True, Fault(200, "<html>", "text/html"))
    wrong_place = await kbsync(*words, typed=json.dumps({"api_key": KEY}))
    assert wrong_place.code == 1
    assert "no JSON" in wrong_place.error
    nothing = await kbsync("source", "add", "scribe", *setup_of(account), "--new-organization", "Acme")
    assert "needs api_key" in nothing.error
    unknown = await kbsync("source", "add", "wiki", "--new-organization", "Acme")
    assert "no provider 'wiki'; there are" in unknown.error
    nobody = ("source", "add", "scribe", "--config", "base_url=http://127.0.0.1:9", "--credentials", "-")
    gone = await kbsync(*nobody, "--new-organization", "Acme", typed=json.dumps({"api_key": KEY}))
    assert "Scribe at 127.0.0.1:9 can't be reached: " in gone.error
    asked = len(account.fake.log)
    stranger = await kbsync(
        *words[:-4], "--organization", "99", "--credentials", "-", typed=json.dumps({"api_key": KEY})
    )
    assert stranger.error == "no organization 99; --new-organization NAME makes one"
    assert len(account.fake.log) == asked, "the provider is not asked for an organization that is not there"
    no_file = await kbsync(*words[:-1], "/nowhere/at/all.json")
    assert no_file.error == "/nowhere/at/all.json can't be read: No such file or directory"
    assert await row(database, "select count(*) from knowledge_base_sources") == 0


@pytest.mark.spec("OP-03", "LS-17")
async def test_an_address_of_the_own_network_is_refused_with_what_opens_it(
    kbsync: Verbs, account: ScribeAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KBSYNC_FETCH_ALLOW_ADDRESSES")
    words = ("source", "add", "scribe", *setup_of(account), "--dry-run", "--credentials", "-")
    refused = await kbsync(*words, typed=json.dumps({"api_key": KEY}))
    assert f"Scribe at {account.fake.url[7:]} can't be asked: address not allowed." in refused.error
    assert "KBSYNC_FETCH_ALLOW_ADDRESSES, here and for the workers" in refused.error


@pytest.mark.spec("OP-03")
async def test_a_check_says_what_is_visible_and_a_refusal_stops_the_syncs_until_one_succeeds(
    kbsync: Verbs, account: ScribeAccount, database: Database
) -> None:
    made = (
        await kbsync(
            "source", "add", "scribe", *setup_of(account), "--new-organization", "Acme", "--credentials", "-", "--json",
            typed=json.dumps({"api_key": KEY}),
        )
    ).json  # fmt: skip
    of = (str(made["source_id"]), "--organization", str(made["organization_id"]))
    looked = await kbsync("source", "check", *of)
    assert looked.code == 0
    assert "account: an API key" in looked.out
    assert "sees: Team 1" in looked.out
    account.revoke()
    refused = await kbsync("source", "check", *of, "--json")
    assert refused.code == 1
    assert json.loads(refused.out)["ok"] is False
    assert "refused" in json.loads(refused.out)["error"]
    assert await row(database, "select refused_at is not null from data_sources") is True
    account.fake.revoked = False
    taken = await kbsync("source", "check", *of)
    assert f"taken again; next: kbsync source sync {of[0]} --organization {of[2]}" in taken.out
    again = await kbsync("source", "check", *of)
    assert "taken again" not in again.out
    assert await row(database, "select refused_at is null from data_sources") is True
    wrong = await kbsync("source", "credentials", *of, typed='{"api_key": "wrong"}')
    assert "refused the API key" in wrong.error
    sealed = await row(database, "select sealed_credentials from data_sources")
    assert Vault(kbsync.key).open(str(sealed)) == {"api_key": KEY}
    assert (await kbsync("source", "credentials", *of, typed=json.dumps({"api_key": KEY}))).code == 0


@pytest.mark.spec("OP-03")
async def test_a_website_and_a_folder_can_be_checked_too(
    kbsync: Verbs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text("# A")
    monkeypatch.setenv("KBSYNC_FILES_ROOTS", json.dumps([str(tmp_path)]))
    added = await kbsync("source", "add", "files", str(tmp_path), "--new-organization", "Acme")
    assert added.code == 0, added
    assert "sees: 1 documents" in added.out
    outside = await kbsync("source", "add", "files", "/etc", "--new-organization", "Acme")
    assert "KBSYNC_FILES_ROOTS" in outside.error
    async with FakeSite() as site:
        site.page("/", '<p>Words.</p><a href="/x">x</a>', title="Front")
        found = await kbsync("source", "add", "website", site.at("/"), "--new-organization", "Acme", "--no-sync")
        assert found.code == 0, found
        assert "the start page: Front" in found.out
        lost = await kbsync("source", "add", "website", site.at("/nowhere"), "--new-organization", "Acme")
        assert "it answered 404" in lost.error
