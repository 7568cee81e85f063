"""Templates to text: the environment with its filters and parts, whole pages, and single blocks of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp_jinja2
import jinja2
from aiohttp import web

from kbsync.dashboard.words import FILTERS

_HERE = Path(__file__).parent
ASSETS = _HERE / "assets"


@cache
def asset(name: str) -> str:
    """The address of an asset, which changes with its content, so that browsers may keep it for ever."""
    seal = hashlib.sha256((ASSETS / name).read_bytes()).hexdigest()[:12]
    return f"/assets/{name}?v={seal}"


def install(app: web.Application) -> None:
    environment = aiohttp_jinja2.setup(
        app,
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        filters=FILTERS,
        extensions=["jinja2.ext.do"],
    )
    environment.globals["asset"] = asset
    # Global, so that a block rendered by itself has the parts too.
    environment.globals["parts"] = environment.get_template("parts.html").module
    environment.globals["charts"] = environment.get_template("charts.html").module


def render(request: web.Request, template: str, context: Mapping[str, Any]) -> str:
    return aiohttp_jinja2.get_env(request.app).get_template(template).render(context)


def render_blocks(
    request: web.Request, template: str, names: tuple[str, ...], context: Mapping[str, Any]
) -> dict[str, str]:
    """The named blocks of a page, each by itself."""
    page = aiohttp_jinja2.get_env(request.app).get_template(template)
    return {name: "".join(page.blocks[name](page.new_context(dict(context)))).strip() for name in names}
