"""Requests to the explorer's server, without a browser and without a socket."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np

import tether
from tether.explorer.safety import Keys

KEYS = Keys("right", "127.0.0.1", 8000)
OWN = "http://127.0.0.1:8000"


def log_of(n):
    rng = np.random.default_rng(1)
    grid = tether.cases.grid_world().mdp
    return tether.Episodes.from_paths(grid.simulate("random", 4, rng=rng) for _ in range(n)), grid


def ask(app, *paths, headers=None, method="GET", content=None):
    """Responses to requests that are sent at the same time; with the right token, unless other headers are given."""
    sent = {"cookie": f"tether-8000={KEYS.token}"} if headers is None else headers

    async def each():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=OWN) as client:
            return await asyncio.gather(
                *(client.request(method, path, headers=sent, content=content) for path in paths)
            )

    responses = asyncio.run(each())
    return responses[0] if len(paths) == 1 else responses
