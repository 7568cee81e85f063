"""A browser's small part: signs in to the dashboard and times pages."""

from __future__ import annotations

import http.client
import re
import time
from urllib.parse import urlencode

_CSRF = re.compile(r'name="csrf"[^>]*?value="([^"]+)"|value="([^"]+)"[^>]*?name="csrf"')
WITHIN_S = 30


class NoPage(Exception):
    """A page that did not answer with 200."""


class Browser:
    """One keep-alive connection with a session."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
        self._origin = f"http://127.0.0.1:{port}"
        self._cookies: dict[str, str] = {}

    def sign_in(self, token: str) -> None:
        """By the form, as a person does. Raises NoPage."""
        status, text = self._ask("GET", "/login")
        found = _CSRF.search(text)
        fields = {"token": token} | ({"csrf": found.group(1) or found.group(2)} if found else {})
        if status != 200:
            raise NoPage(f"/login answered {status}")
        status, _ = self._ask("POST", "/login", urlencode(fields))
        if status not in (302, 303):
            raise NoPage(f"signing in answered {status}")

    def time_of(self, path: str) -> float:
        """Ms from the request to the last byte. Raises NoPage."""
        begun = time.perf_counter()
        status, _ = self._ask("GET", path)
        took = (time.perf_counter() - begun) * 1e3
        if status != 200:
            raise NoPage(f"{path} answered {status}")
        return took

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, form: str | None = None) -> tuple[int, str]:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        if form is not None:
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._origin}
        try:
            self._connection.request(method, path, form, {name: value for name, value in headers.items() if value})
            answer = self._connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise NoPage(f"{path}: {type(error).__name__}: {error}") from error
        for cookie in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name.strip()] = value.strip()
        return answer.status, text
