"""Clocks jump: the time of day is set, or the machine is suspended."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from app.accounts.rates import RequestRates
from app.accounts.service import Accounts
from app.accounts.store import KeyStore
from app.engine.estimate import PACE_S, STALE_S, Pace
from app.errors import InvalidKey
from app.main import create_app
from app.settings import Settings
from tests.app.engines import GREEDY, Inbox, engine_of, ids, text_of
from tests.app.fakes import BUDGET, FakeBundles, held_translator
from tests.app.serving import client_of
from tests.waiting import until

HOUR_S = 3600.0
REQUEST = {"text": "word", "source": "en", "target": "de"}


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S, 400 * 86_400.0, -400 * 86_400.0])
async def test_requests_do_not_notice_that_the_time_of_day_is_set(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = held_translator()
    today = time.time

    app = create_app(Settings(**BUDGET, address_requests_per_minute=3), FakeBundles(translator))
    async with app.router.lifespan_context(app), client_of(app) as client:
        await app.state.service.wait_loaded()
        running = asyncio.create_task(client.post("/translate", json=REQUEST))
        while not translator.stepping.is_set():
            await asyncio.sleep(0.002)
        monkeypatch.setattr(time, "time", lambda: today() + jump_s)
        translator.step_gate.set()
        assert (await running).json()["translations"][0]["text"] == "WORD"
        statuses = [(await client.post("/translate", json=REQUEST)).status_code for _ in range(3)]
        assert statuses == [200, 200, 429], "three a minute, whatever the time of day"
        assert (await client.get("/livez")).status_code == 200


def test_a_request_during_which_the_machine_was_suspended_is_given_up_and_the_next_one_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator = held_translator()
    steady = time.monotonic

    async def test() -> None:
        app = create_app(Settings(**BUDGET), FakeBundles(translator))
        async with app.router.lifespan_context(app), client_of(app) as client:
            await app.state.service.wait_loaded()
            running = asyncio.create_task(client.post("/translate", json=REQUEST))
            while not translator.stepping.is_set():
                await asyncio.sleep(0.002)
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, "time", lambda: steady() + HOUR_S)
            monkeypatch.setattr(time, "monotonic", lambda: steady() + HOUR_S)
            answer = await running
            assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
            translator.step_gate.set()
            assert (await client.post("/translate", json=REQUEST)).json()["translations"][0]["text"] == "WORD"
            for path in ("/livez", "/readyz"):
                assert (await client.get(path)).status_code == 200

    # The deadline of the test itself would be over as well.
    asyncio.run(test())


def test_after_an_hour_of_suspension_no_request_is_refused_for_its_deadline() -> None:
    """The throughput seems to be a thousandth of what it is, which would refuse even the shortest requests."""
    pace = Pace()
    for second in range(20):
        pace.joined(float(second), 100.0, num_waiting=9, num_callers=1)
    before = pace.rate(19.0)
    pace.joined(19.0 + HOUR_S, 100.0, num_waiting=9, num_callers=1)
    assert pace.rate(19.0 + HOUR_S) == pytest.approx(before, rel=0.2)


def test_a_throughput_that_is_wrong_for_another_reason_is_forgotten() -> None:
    pace = Pace()
    for second in range(3):
        pace.joined(second * (PACE_S - 1), 0.01, num_waiting=9, num_callers=1)
    rate = pace.rate(18.0)
    assert rate is not None and rate < 0.01
    pace.joined(30.0, 1.0, num_waiting=0, num_callers=0)
    assert pace.rate(30.0 + STALE_S) is not None
    assert pace.rate(31.0 + STALE_S) is None


def test_a_suspension_while_sentences_wait_leaves_the_engine_working() -> None:
    clock, inbox, translator = [0.0], Inbox(), held_translator()
    with engine_of(translator, max_rows=1, clock=lambda: clock[0]) as engine:
        engine.ask([ids("decodes")], GREEDY, inbox.deliver)
        until(translator.stepping.is_set)
        engine.ask([ids("waits")], GREEDY, inbox.deliver)
        engine.watch()
        clock[0] += HOUR_S
        engine.watch()
        translator.step_gate.set()
        assert {text_of(inbox.take(1)[0]) for _ in range(2)} == {"decodes", "waits"}
        engine.submit([], lambda index, outcome: None, within_s=1.0)
        assert 1 <= engine.retry_after_s() <= 60
        assert not engine.has_given_up


def test_requests_a_minute_follow_a_clock_that_is_never_set(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    rates = RequestRates(lambda: now[0])
    monkeypatch.setattr(time, "time", lambda: pytest.fail("the time of day was asked for"))
    assert [rates.take("caller", 2).retry_after_s is None for _ in range(3)] == [True, True, False]
    now[0] += HOUR_S  # suspended: each caller has waited long enough
    assert rates.take("caller", 2).retry_after_s is None


def test_keys_and_months_follow_the_time_of_day_in_both_directions(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    path = tmp_path / "keys.db"
    with contextlib.closing(KeyStore(path)) as store:
        _, token = store.create("shop", ["translate"], now[0], expires_at=now[0] + HOUR_S)
    accounts = Accounts(path, clock=lambda: now[0])
    with contextlib.closing(accounts):
        assert accounts.identify(token.text) is not None
        now[0] += 2 * HOUR_S
        with pytest.raises(InvalidKey, match="expired"):
            accounts.identify(token.text)
        now[0] -= 2 * HOUR_S
        assert accounts.identify(token.text) is not None, "expired is what the clock says, and no more"
