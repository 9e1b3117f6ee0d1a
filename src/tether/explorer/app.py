"""The server's answers: the page, its parts, what can be taken away, and our own scripts and styles."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.errors import TetherError
from tether.explanation.verdicts import Nouns
from tether.explorer.answer_cache import Memory
from tether.explorer.asking import Asker, Asking, BusyError, SupersededError, TooLongError
from tether.explorer.offered import Offered, OfTypes
from tether.explorer.panels import Asked, Part, parts
from tether.explorer.panels.take_panel import as_json
from tether.explorer.panels.types_panel import types_page
from tether.explorer.safety import Door, Keys
from tether.explorer.view import TABS, View, read_view
from tether.views.pages import drawing, render
from tether.views.report import report

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_PANELS = {
    "answer": ("cards", "sentences", "ladder", "beyond", "sure", "steps"),
    "time": ("time",),
    "if": ("if", "if-time"),
    "why": ("why",),
    "decisions": ("decisions",),
    "states": ("states",),
    "episodes": ("episodes",),
    "take": ("take",),
}
"""The parts of each panel."""

_SCRIPTS = ("main.js", "address.js", "parts.js", "controls.js", "keys.js")


def make_app(offered: Offered, keys: Keys) -> Door:
    """The explorer of what is offered, behind its door; an ASGI application."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    desk = _Desk(offered, Asking(), keys.token)
    routes = [
        Route("/", desk.of_types if isinstance(offered, OfTypes) else desk.page),
        Route("/one", desk.page),
        Route("/part/{name}", desk.part),
        Route("/take/{name}", desk.take),
        Route("/static/{name}", desk.static),
    ]

    @asynccontextmanager
    async def open_until_stopped(_app: Any) -> AsyncIterator[None]:
        yield
        desk.asking.close()

    return Door(Starlette(routes=routes, lifespan=open_until_stopped), keys)


class _Desk:
    """Answers requests; slow questions go to the thread that computes."""

    def __init__(self, offered: Offered, asking: Asking, token: str) -> None:
        self.asking, self.memory, self._token = asking, Memory(offered), token
        self.parts: dict[str, Part] = parts()
        self._places = {name: drawing(part.attributes(name)) for name, part in self.parts.items()}
        self._files = _static()
        self._strangers = count()

    async def page(self, _request: Request) -> Response:
        """The frame: its scripts ask for everything else."""
        from starlette.responses import HTMLResponse

        nouns = getattr(self.memory.offered, "nouns", Nouns())  # cases have nouns of their own each
        return HTMLResponse(render("explorer/page.html", tabs=TABS, panels=_PANELS, places=self._places, nouns=nouns))

    async def of_types(self, request: Request) -> Response:
        """The page about somebody whose type was never recorded; it needs no script."""
        return await self._answered(request, "types", self._types)

    def _types(self, view: View, asker: Asker) -> tuple[str, str]:
        offered = self.memory.offered
        assert isinstance(offered, OfTypes)
        return "text/html", render("explorer/types.html", **types_page(offered, view, self._token, asker.check))

    async def static(self, request: Request) -> Response:
        """One of our own files, by name among those that were read when the server started."""
        from starlette.responses import PlainTextResponse, Response

        found = self._files.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("There is no such file.", 404)
        kind, text = found
        return Response(text, media_type=kind)

    async def part(self, request: Request) -> Response:
        """A part of the page, as a fragment of HTML."""
        name = request.path_params["name"]
        part = self.parts.get(name)
        if part is None:
            return _problem("There is no such part of the page.", 404)
        return await self._answered(request, name, partial(self._part, part))

    def _part(self, part: Part, view: View, asker: Asker) -> tuple[str, str]:
        asked = Asked(view, self.memory, asker.check)
        contents = part.contents(asked)
        return "text/html", render(f"explorer/{part.template}.html", places=self._places, nouns=asked.nouns, **contents)

    async def take(self, request: Request) -> Response:
        """The present view as a file."""
        name = request.path_params["name"]
        makers = {"report.html": self._report, "answer.json": self._json}
        if name not in makers:
            return _problem("There is no file of that name to take away.", 404)
        found = await self._answered(request, f"take {name}", makers[name])
        found.headers["content-disposition"] = f'attachment; filename="{name}"'
        return found

    def _report(self, view: View, asker: Asker) -> tuple[str, str]:
        answer = self.memory.answer(view, asker.check)
        with tempfile.TemporaryDirectory() as folder:
            file = report(
                answer.plan,
                Path(folder, "report.html"),
                title=answer.entry.title or None,
                action_name=answer.naming.action,
                about={"episode": answer.entry.name},
                nouns=answer.entry.nouns,
            )
            return "text/html", file.read_text(encoding="utf-8")

    def _json(self, view: View, asker: Asker) -> tuple[str, str]:
        answer = self.memory.answer(view, asker.check)
        return "application/json", json.dumps(as_json(answer, view), ensure_ascii=False, allow_nan=False)

    async def _answered(
        self, request: Request, name: str, compute: Callable[[View, Asker], tuple[str, str]]
    ) -> Response:
        """What the thread computes, or what went wrong, in a sentence."""
        from starlette.responses import Response

        tab = request.headers.get("x-tether-tab", "")[:64] or f"stranger {next(self._strangers)}"
        try:
            view = read_view(request.query_params)
            kind, text = await self.asking.ask((tab, name), lambda asker: compute(view, asker), _gone(request))
        except SupersededError:
            return Response(status_code=204)
        except BusyError:
            return _problem("Too many questions are waiting. Try again.", 503)
        except TooLongError:
            return _problem("This takes long; it is still being computed. Ask again in a while.", 503)
        except TetherError as error:
            return _problem(str(error), 200)  # shown on the page, in place of the part
        return Response(text.encode("utf-8", "replace"), media_type=kind)


async def _gone(request: Request) -> None:
    """Waits until the asker has gone: has closed the page, or moved on."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _problem(message: str, status: int) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(render("explorer/problem.html", message=message), status)


def _static() -> dict[str, tuple[str, str]]:
    """Our own scripts and styles: kind and text, by name."""
    here, views = files("tether.explorer") / "static", files("tether.views") / "templates"
    found: dict[str, Any] = {name: ("text/javascript", here / name) for name in _SCRIPTS}
    found |= {"explorer.css": ("text/css", here / "explorer.css"), "style.css": ("text/css", views / "style.css")}
    return {name: (kind, file.read_text(encoding="utf-8")) for name, (kind, file) in found.items()}
