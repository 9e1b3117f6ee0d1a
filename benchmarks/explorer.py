"""The explorer: from a request to the response, moving a slider on sepsis, against the plan itself.

A server on the loopback address, asked as the page asks it: each k and m once, in an order in which nothing that was
answered before helps but what the explorer keeps of the episode (κ and the table), as when a person moves the slider.
"""

from __future__ import annotations

import http.client
import statistics
import time
from urllib.parse import urlsplit

from harness import Result

import tether


def measure(quick: bool) -> list[Result]:
    from tether.explorer.offered import Cases
    from tether.explorer.server import Explorer

    case = tether.cases.sepsis()
    cf = tether.counterfactual(case.mdp, case.path)
    explorer = Explorer(Cases())
    thread = explorer.start()
    try:
        asked = [(k, m) for m in range(1, cf.T + 1) for k in range(1, cf.T + 2)]
        times, plans = _times(explorer.address, asked[:: 3 if quick else 1], cf)
    finally:
        explorer.stop()
        thread.join(10)
    slider, plan = statistics.median(times), statistics.median(plans)
    limit = 5 * plan + 0.020
    return [
        Result(
            "the explorer: moving a slider on sepsis",
            1e3 * slider,
            "ms",
            f"median of {len(times)} requests, to the response; the plan itself {1e3 * plan:.1f} ms",
            f"≤ 5 × the plan + 20 ms = {1e3 * limit:.0f} ms",
            slider <= limit,
        )
    ]


def _times(
    address: str, asked: list[tuple[int, int]], cf: tether.records.CounterfactualMDP
) -> tuple[list[float], list[float]]:
    """Seconds of each request; and of the same plan by itself, in turn, so that both meet the same machine."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    headers = {"x-tether-token": place.query.partition("=")[2], "x-tether-tab": "bench"}
    times, plans = [], []
    for i, (k, m) in enumerate([(1, 1), *asked]):  # the first opens the episode
        start = time.perf_counter()
        connection.request("GET", f"/part/limits?e=case:sepsis&k={k}&m={m}", headers=headers)
        response = connection.getresponse()
        text = response.read()
        between = time.perf_counter()
        cf.plan(k, m)
        if i:
            times.append(between - start)
            plans.append(time.perf_counter() - between)
        assert response.status == 200
        assert f'data-k="{k}"'.encode() in text
    return times, plans
