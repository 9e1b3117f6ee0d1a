"""Listening and stopping: one server, on the loopback address, until Ctrl-C; or in a thread, for a notebook."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from typing import Any

from tether.errors import QueryError
from tether.explorer.offered import Offered
from tether.explorer.safety import Keys

_LOOPBACK = "127.0.0.1"


@dataclass
class Explorer:
    """A server that listens already; `run` answers until it is stopped.

    Attributes
    ----------
    offered : Offered
    port : int
        0: any that is free.
    listen : str
        Another address than loopback lets others in.
    framed : bool
        Whether the page may stand in a notebook.
    """

    offered: Offered
    port: int = 0
    listen: str = _LOOPBACK
    framed: bool = False
    keys: Keys = field(init=False)
    _socket: socket.socket = field(init=False)
    _server: Any = field(init=False)

    def __post_init__(self) -> None:
        """Listen: the address is known before the first answer."""
        uvicorn = _uvicorn()
        from tether.explorer.app import make_app

        self._socket = _listening(self.listen, self.port)
        self.port = int(self._socket.getsockname()[1])
        self.keys = Keys.made(self.listen, self.port, self.framed)
        settings = uvicorn.Config(
            make_app(self.offered, self.keys),
            log_level="warning",
            access_log=False,
            lifespan="on",
            limit_concurrency=200,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=32_000,
            server_header=False,
            date_header=False,
        )
        self._server = uvicorn.Server(settings)

    @property
    def address(self) -> str:
        """What to open: with the token, without which nothing is answered."""
        host = _LOOPBACK if self.listen in ("0.0.0.0", "::") else self.listen
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={self.keys.token}"

    def run(self) -> None:
        """Answer until Ctrl-C."""
        try:
            self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:
            pass  # the normal end
        finally:
            self._socket.close()

    def start(self) -> threading.Thread:
        """Answer in a thread that ends with the program, or with `stop`."""
        thread = threading.Thread(target=self.run, name="tether-explorer-server", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Stop answering."""
        self._server.should_exit = True


def _listening(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # The protocol is named: only then does asyncio send data at once; otherwise the end of a response waits 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((address, port))
        made.listen(128)
    except OSError as error:
        made.close()
        what = f"{address}:{port}" if port else address
        raise QueryError(f"cannot listen on {what}: {error.strerror or error}; choose another with --port") from None
    return made


def _uvicorn() -> Any:
    """The server library, or what to install."""
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise QueryError("the explorer needs Starlette and uvicorn: pip install 'tether[explorer]'") from None
    return uvicorn
