"""`kbsync token`: who may call the API (CP-22). A token's text is shown once; only its digest is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import typer

from ops.cli.output import JSON_OPTION, print_json, print_rows

group = typer.Typer(help="Create, list and revoke API tokens.", no_args_is_help=True)
_ROLES = typer.Option(..., "--role", help="producer, reader, viewer, operator or admin; may be given several times.")
_GROUPS = typer.Option(
    [], "--group", help="A group whose content it finds, as its provider spells it; may be repeated."
)


@group.command()
def create(
    name: str = typer.Argument(help="The principal: a backend, a person, an agent."),
    role: list[str] = _ROLES,
    kind: str = typer.Option("service", help="human, service or agent."),
    organization: int = typer.Option(0, help="Bind it to one organization's id."),
    group: list[str] = _GROUPS,
    public_only: bool = typer.Option(False, "--public-only", help="It finds public content alone: no member."),
    days: int = typer.Option(0, min=0, help="Expire after so many days; 0 never."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make a token and show it, this once.

    Who holds it is a member of the organization (of all, when it is bound to none): search answers public content, members'
    content, and content of its groups.

    Example: kbsync token create rails-backend --role producer --organization 1
    Example: kbsync token create support-desk --role reader --organization 1 --group Agents
    """
    from kbsync.domain.errors import SettingsError
    from kbsync.library.principals import Role, create_token
    from ops.cli.context import audited, connected, run

    known = {str(one) for one in Role}
    wrong = sorted(set(role) - known)
    if wrong:
        raise SettingsError(f"no role {', '.join(wrong)}; there are {', '.join(sorted(known))}")
    if kind not in ("human", "service", "agent"):
        raise SettingsError("--kind is human, service or agent")

    detail: dict[str, object] = {"roles": role}
    detail |= {"groups": group} if group else {}
    detail |= {"public_only": True} if public_only else {}

    async def make() -> tuple[int, str]:
        expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
        async with connected() as here, here.database.fleet() as connection:
            made = await create_token(
                connection,
                name,
                roles=[Role(one) for one in role],
                kind=kind,  # type: ignore[arg-type]  # checked above
                organization_id=organization or None,
                groups=group,
                public_only=public_only,
                expires_at=expires_at,
            )
            await audited(connection, "token.create", f"principal:{name}", detail=detail | {"token": made.token_id})
            return made.token_id, made.text

    token_id, text = run(make)
    if as_json:
        print_json({"id": token_id, "token": text})
    else:
        typer.echo(text)
        typer.echo(f"Token {token_id} of {name}. Keep it now: it is not shown again.", err=True)


@group.command("list")
def list_(as_json: bool = JSON_OPTION) -> None:
    """Every token, by its first characters."""
    from kbsync.library.principals import list_tokens
    from ops.cli.context import connected, run

    async def rows() -> list[dict[str, object]]:
        async with connected() as here, here.database.fleet() as connection:
            return [
                {
                    "id": one.token_id,
                    "principal": one.principal,
                    "kind": one.kind,
                    "roles": ", ".join(one.roles),
                    "organization": one.organization_id,
                    "finds": "public" if one.public_only else ", ".join(["members", *one.groups]),
                    "token": f"{one.hint}...",
                    "created": f"{one.created_at:%Y-%m-%d %H:%M}",
                    "expires": one.expires_at and f"{one.expires_at:%Y-%m-%d}",
                    "revoked": one.revoked_at and f"{one.revoked_at:%Y-%m-%d %H:%M}",
                }
                for one in await list_tokens(connection)
            ]

    print_rows(run(rows), as_json=as_json, empty="no tokens")


@group.command()
def revoke(token_id: int = typer.Argument(help="The id that `kbsync token list` shows.")) -> None:
    """End a token: within a second no process takes it any more. Safe to repeat."""
    from kbsync.library.principals import revoke_token
    from ops.cli.context import audited, connected, run

    async def end() -> bool:
        async with connected() as here, here.database.fleet() as connection:
            ended = await revoke_token(connection, token_id)
            if ended:
                await audited(connection, "token.revoke", f"token:{token_id}")
            return ended

    typer.echo(f"token {token_id} revoked" if run(end) else f"token {token_id} is unknown or was revoked before")
