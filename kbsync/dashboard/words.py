"""Numbers, times and names from outside, as people read them. Filters of the templates; all pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup, escape

MINUTE, HOUR, DAY = 60, 3_600, 86_400
_JOINERS = {"\n", "\t"}


def number(value: int | float | None) -> Markup:
    """1,204; 1.2 M from a million on with the exact figure in its title; a faint 0; a faint dash for not known."""
    if value is None:
        return Markup('<span class="zero">–</span>')
    if value == 0:
        return Markup('<span class="zero">0</span>')
    if value < 1_000_000:
        return Markup(f"{value:,.0f}")
    return Markup('<span title="{}">{}</span>').format(f"{value:,.0f}", plain_number(value))


def plain_number(value: int | float) -> str:
    """The same without markup, for sentences and titles."""
    if value < 1_000_000:
        return f"{value:,.0f}"
    return f"{int(value / 100_000) / 10:g} M" if value < 1_000_000_000 else f"{value / 1e9:.1f} G"


def count(many: int, one: str, more: str | None = None) -> str:
    """`1 job`, `214 jobs`."""
    return f"{plain_number(many)} {one if many == 1 else more or one + 's'}"


def percent(part: float, whole: float) -> int:
    """Rounded down; 100 only at the end."""
    return 100 if part >= whole else max(0, int(100 * part / whole)) if whole else 0


def duration(seconds: float | None) -> str:
    """0.3 s, 4 s, 1 min 12 s, 22 min, 1 h 2 min, 3 d 4 h."""
    if seconds is None:
        return "–"
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds:.1f} s" if seconds >= 0.05 else f"{seconds * 1000:.0f} ms"
    whole = int(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        minutes, rest = divmod(whole, MINUTE)
        return f"{minutes} min {rest} s" if minutes < 10 and rest else f"{minutes} min"
    if whole < DAY:
        hours, rest = divmod(whole, HOUR)
        return f"{hours} h {rest // MINUTE} min" if rest >= MINUTE else f"{hours} h"
    days, rest = divmod(whole, DAY)
    return f"{days} d {rest // HOUR} h" if rest >= HOUR and days < 10 else f"{days} d"


def at_ms(ms: int | float) -> datetime:
    """A moment from Redis's clock. Numbers from outside that are no moment become the first or the last one."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=min(max(float(ms), 0.0), 253_370_764_800_000.0))


def moment_text(moment: datetime, now: datetime) -> str:
    """14:03:00 within a day, 24 Aug 01:07 when further, with the year in another one."""
    moment, now = moment.astimezone(UTC), now.astimezone(UTC)
    if abs((moment - now).total_seconds()) < DAY and moment.date() == now.date():
        return f"{moment:%H:%M:%S}"
    if moment.year == now.year:
        return f"{moment.day} {moment:%b %H:%M}"
    return f"{moment.day} {moment:%b %Y}"


def _time(moment: datetime, text: str) -> Markup:
    moment = moment.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%Y-%m-%d %H:%M:%S} UTC", text
    )


def moment(value: datetime | None, now: datetime) -> Markup:
    """The moment itself, in a <time>."""
    return number(None) if value is None else _time(value, moment_text(value, now))


def ago(value: datetime | None, now: datetime) -> Markup:
    """An age for lists: `4 min ago`, the whole moment in the title; what is to come reads as the moment itself."""
    if value is None:
        return number(None)
    seconds = (now - value).total_seconds()
    if seconds < -1:
        return moment(value, now)
    if seconds >= 2 * DAY:
        return _time(value, moment_text(value, now))
    # Whole minutes: a live list must not change each second for what is minutes old.
    whole = seconds if seconds < MINUTE else seconds - seconds % MINUTE
    return _time(value, f"{duration(max(whole, 1))} ago")


def until(value: datetime, now: datetime) -> str:
    """`in 29 s`; `now` for what is due."""
    seconds = (value - now).total_seconds()
    return f"in {duration(seconds)}" if seconds >= 1 else "now"


def size(value: int | float | None) -> str:
    """Bytes: 78 MB."""
    if value is None:
        return "–"
    for unit, step in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if value >= step:
            return f"{value / step:.1f} {unit}" if value < 10 * step else f"{value / step:.0f} {unit}"
    return f"{value:.0f} B"


def _code(character: str) -> str | None:
    """How a character that can't be shown as it is, or turns the text around, is written instead."""
    if character in _JOINERS:
        return None
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return f"U+{ord(character):04X}"
    return None


def plain(value: object) -> str:
    """Text from outside for attributes and titles: control and direction characters as their codes."""
    return "".join(_code(character) or character for character in str(value))


def outside(value: object) -> Markup:
    """Text from outside for the page: escaped, in <bdi>, control and direction characters as marked codes."""
    parts: list[Markup] = []
    run = ""
    for character in str(value):
        code = _code(character)
        if code is None:
            run += character
        else:
            parts += [escape(run), Markup('<span class="escape">{}</span>').format(code)]
            run = ""
    parts.append(escape(run))
    return Markup("<bdi>{}</bdi>").format(Markup("").join(parts))


def link_or_none(url: object) -> str | None:
    """An address that a page may link to: http and https only, nothing hidden in it."""
    text = str(url or "")
    if not text.lower().startswith(("http://", "https://")) or any(_code(character) for character in text):
        return None
    return text


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number,
    "plain_number": plain_number,
    "count": count,
    "duration": duration,
    "moment": moment,
    "moment_text": moment_text,
    "ago": ago,
    "until": until,
    "size": size,
    "plain": plain,
    "outside": outside,
    "link_or_none": link_or_none,
    "at_ms": at_ms,
}
