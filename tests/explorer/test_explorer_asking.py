"""How the explorer computes: one thread, newer questions first, and what is kept is bounded."""

from __future__ import annotations

import asyncio
import threading

import pytest
from asking import log_of

from tether.explorer.answer_cache import Memory
from tether.explorer.asking import Asking, BusyError, SupersededError, TooLongError
from tether.explorer.offered import LogEpisodes
from tether.explorer.view import View

pytestmark = pytest.mark.compiled

# ---- one thread computes ---------------------------------------------------------------------------------------------


def test_a_newer_question_takes_the_place_of_an_older():
    done = []

    async def several():
        asking, begun, asked = Asking(), threading.Event(), threading.Event()

        def compute(number):
            def run(asker):
                asker.check()
                done.append(number)
                return number

            return run

        def slow(asker):
            begun.set()
            asked.wait(60)
            done.append("slow")
            asker.check()

        first = asyncio.create_task(asking.ask("tab", slow))
        await asyncio.to_thread(begun.wait, 60)
        rest = [asyncio.create_task(asking.ask("tab", compute(i))) for i in range(5)]
        other = asyncio.create_task(asking.ask("another tab", compute("other")))
        await asyncio.sleep(0)  # each of them begins, and asks
        asked.set()
        found = await asyncio.gather(first, *rest, other, return_exceptions=True)
        asking.close()
        return found

    found = asyncio.run(several())
    assert [type(one) for one in found[:5]] == [SupersededError] * 5
    assert found[5:] == [4, "other"]
    assert done == ["slow", 4, "other"]  # what nobody waited for was not computed


def test_who_has_gone_is_not_waited_for():
    """The asker closes the page: what it asked for ends at the next stage, or is not begun."""

    async def leaves():
        asking, begun, left = Asking(), threading.Event(), threading.Event()
        reached = []

        def long(asker):
            begun.set()
            left.wait(60)
            asker.check()
            reached.append("the end")

        gone = asyncio.get_running_loop().create_future()
        tasks = [asyncio.create_task(asking.ask("a", long, gone))]
        await asyncio.to_thread(begun.wait, 60)
        tasks.append(asyncio.create_task(asking.ask("b", lambda _: reached.append("b"), asyncio.shield(gone))))
        await asyncio.sleep(0)
        gone.set_result(None)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        left.set()
        last = await asking.ask("c", lambda _: "c", asyncio.sleep(60))
        asking.close()
        return found, reached, last

    found, reached, last = asyncio.run(leaves())
    assert [type(one) for one in found] == [SupersededError] * 2
    assert (reached, last) == ([], "c")


def test_times_and_queues_are_bounded():
    async def long():
        asking, go = Asking(patience=0.02), threading.Event()
        with pytest.raises(TooLongError):
            await asking.ask("a", lambda _: go.wait(60))
        waiting = [asyncio.create_task(asking.ask(i, lambda _: None)) for i in range(250)]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        go.set()
        asking.close()
        return {type(one) for one in found}

    assert asyncio.run(long()) == {TooLongError, BusyError}


# ---- what is kept is bounded -----------------------------------------------------------------------------------------


def test_episodes_and_questions_are_forgotten():
    episodes, grid = log_of(12)
    memory = Memory(LogEpisodes(grid, episodes))
    first = memory.answer(View("0"))
    assert memory.answer(View("0")) is first
    for key in range(12):
        memory.answer(View(str(key)))
    assert len(memory._episodes) == 8
    assert memory.answer(View("0")) is not first
    cf = memory.answer(View("0")).cf
    for eps in range(20):
        memory.answer(View("0", influence=f"effective:{eps / 100}"))
    assert memory.answer(View("0")).cf is not cf
    assert len(memory._answers) <= 24


def test_what_is_kept_is_bounded_in_bytes():
    episodes, grid = log_of(4)
    memory = Memory(LogEpisodes(grid, episodes), most=1)
    for key in "0123":
        for k in (1, 2, 3):
            _ = memory.answer(View(key, k)).outlook
    assert (len(memory._episodes), len(memory._answers)) == (1, 1)
    assert memory.nbytes > memory.answer(View("3", 3)).nbytes > 0
