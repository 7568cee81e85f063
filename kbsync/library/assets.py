"""Where an asset of a document is asked for: its source, as far as the asker may find the document (LS-25, LS-27)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.audience import Asker

_SQL = Statements.beside(__file__)


@dataclass(frozen=True)
class AssetPlace:
    """The source (`id`, `type` ...) and the document's name and address there. `limits` override the throttles' table."""

    organization_id: int
    id: int
    type: str
    config: Mapping[str, object]
    data_source_id: int | None
    limits: Mapping[str, object]
    external_id: str
    url: str | None


async def place_of_asset(
    connection: Connection, organization_id: int, document_id: int, reference: str, asker: Asker
) -> AssetPlace | None:
    """`reference` is the asset as the document's Markdown spells it. None for all that is not there for this asker."""
    row = await connection.fetchrow(
        _SQL["place_of_asset"], organization_id, document_id, reference, asker.is_member, list(asker.groups)
    )
    if row is None:
        return None
    values = dict(row)
    return AssetPlace(
        **values | {"config": json.loads(values["config"]), "limits": json.loads(values["limits"] or "{}")}
    )
