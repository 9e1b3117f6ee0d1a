"""Who may ask, and what: the door of the explorer.

The server listens on the loopback address. That alone does not keep out other pages of the same browser. So every
request must meet these rules:

- it carries the token of the printed address (once in the address, after that in a cookie or a header);
- its host is the server's own address (a page whose name was made to resolve to 127.0.0.1 has another host);
- it does not come from another origin;
- it is a GET without a body, with a short address.

Scripts come from the server's own files; nothing inline runs.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LONGEST = 16_000
"""Characters of an address."""

_OPEN = ("/static/",)
"""These need no token: our own scripts and styles, which contain nothing about any model."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
)
_FRAMES = "'self' http://127.0.0.1:* http://localhost:* https://127.0.0.1:* https://localhost:*"
"""Where the page may be shown inside another: in a notebook on the same machine."""


@dataclass(frozen=True)
class Keys:
    """What opens the door.

    Attributes
    ----------
    token : str
        Random, new for each server.
    address : str
        What the server listens on.
    port : int
    framed : bool
        Whether the page may be shown in a notebook.
    """

    token: str
    address: str
    port: int
    framed: bool = False

    @classmethod
    def made(cls, address: str, port: int, framed: bool = False) -> Keys:
        """New keys with a token that nobody can guess."""
        return cls(secrets.token_urlsafe(18), address, port, framed)

    @property
    def cookie(self) -> str:
        """Name of the cookie with the token: it has the port, because cookies are shared between ports."""
        return f"tether-{self.port}"

    def is_host(self, host: str) -> bool:
        """Whether a request means this server.

        A name can be made to resolve to any address, a number cannot. So beyond loopback only numbers are accepted.

        >>> keys = Keys("x", "127.0.0.1", 8000)
        >>> keys.is_host("127.0.0.1:8000"), keys.is_host("evil.example:8000"), keys.is_host("10.0.0.1:8000")
        (True, False, False)
        """
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        if name in ("127.0.0.1", "localhost", self.address, f"[{self.address}]"):
            return True
        return not is_loopback(self.address) and _is_number(name)

    def fits(self, token: str | None) -> bool:
        """Whether a token is this server's; the comparison takes the same time whatever the token is."""
        return token is not None and secrets.compare_digest(token.encode(), self.token.encode())


def is_loopback(address: str) -> bool:
    """Whether nobody else can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Door:
    """Lets in what may come in, and puts the rules of the page on every response."""

    app: App
    keys: Keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; only HTTP is accepted."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]
        refused = self._refused(scope, headers, token)
        begin = self._with_rules(send, set_cookie=self.keys.fits(token))
        if refused is not None:
            return await _refuse(begin, *refused)
        return await self.app(scope, receive, begin)

    def _refused(self, scope: Scope, headers: dict[str, str], token: str | None) -> tuple[int, str] | None:
        """Status and reason of the first rule that a request breaks; None for one that may come in."""
        fits = self.keys.fits
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        from_elsewhere = (origin is not None and not self._is_own(origin)) or (
            site not in ("none", "same-origin") and not fits(token)
        )
        shown = (token, headers.get("x-tether-token"), self._cookie(headers.get("cookie", "")))
        rules = (
            (self.keys.is_host(headers.get("host", "")), 421, "This request means another host."),
            (not from_elsewhere, 403, "Requests from other pages are refused."),
            (scope["method"] in ("GET", "HEAD"), 405, "Only GET is answered here."),
            (
                headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers,
                413,
                "Requests have no body here.",
            ),
            (len(scope["path"]) + len(scope["query_string"]) <= _LONGEST, 414, "The address is too long."),
            (
                scope["path"].startswith(_OPEN) or any(map(fits, shown)),
                403,
                "The token is missing or wrong. Open the address that tether explore printed, as it is.",
            ),
        )
        return next(((status, reason) for kept, status, reason in rules if not kept), None)

    def _is_own(self, origin: str) -> bool:
        scheme, _, host = origin.partition("://")
        return scheme == "http" and self.keys.is_host(host)

    def _cookie(self, text: str) -> str | None:
        try:
            found = SimpleCookie(text).get(self.keys.cookie)
        except CookieError:
            return None
        return None if found is None else found.value

    def _with_rules(self, send: Send, set_cookie: bool) -> Send:
        frames = _FRAMES if self.keys.framed else "'none'"
        rules = [
            (b"content-security-policy", (_POLICY + frames).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]
        if set_cookie:
            kept = f"{self.keys.cookie}={self.keys.token}; Path=/; HttpOnly; SameSite=Strict"
            rules.append((b"set-cookie", kept.encode()))

        async def begin(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *rules]
            await send(message)

        return begin


async def _refuse(send: Send, status: int, reason: str) -> None:
    text = f"{status} {HTTPStatus(status).phrase}\n{reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
