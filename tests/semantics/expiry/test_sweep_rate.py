"""How many rows a sweep looks at: what it is granted, and what it learns from what it finds."""

import pytest

from statestores.registry import load_backend
from statestores.semantics.expiry.sweep_rate import SweepRate
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.progress import Progress
from statestores.semantics.timestamped.expiry import Sweep
from statestores.semantics.timestamped.rows import stamped_row
from statestores.spi import Durability

LEAST, MOST = 0.5, 3.0


@pytest.fixture
def rate() -> SweepRate:
    """A sweep that has not looked at anything."""
    return SweepRate(least=LEAST, most=MOST)


def test_what_is_granted_adds_up_until_it_is_worth_a_look(rate: SweepRate) -> None:
    """Small commits are swept too, once there are enough of them; each row is granted once."""
    spent = []
    for _ in range(8):
        rate.grant(3, besides=7)
        spent.append(rate.spend(rests=False))

    # 16 with each of them: three for each of three rows, and seven.
    assert spent == [0, 0, 0, 64, 0, 0, 0, 64]


def test_a_sweep_that_rests_saves_nothing_up(rate: SweepRate) -> None:
    """Else the first commit after it knew every row would pay for all those before."""
    rate.grant(1_000)

    assert rate.spend(rests=True) == 0
    assert rate.spend(rests=False) == 0
    rate.grant(22)
    assert rate.spend(rests=False) == 66


def test_the_share_falls_by_an_eighth_with_each_pass_that_finds_nothing(rate: SweepRate) -> None:
    """Down to the least; the first pass finds little of what expires later."""
    factors = []
    for _ in range(15):
        rate.grant(4_096)
        rate.learn(0, is_pass_over=True)
        factors.append(rate.factor)

    assert factors == [max(LEAST, MOST * (7 / 8) ** passes) for passes in range(1, 16)]


def test_before_the_first_commit_there_is_nothing_to_go_back_to(rate: SweepRate) -> None:
    """A first commit that fails leaves the sweep as it began; so does a pass without a write."""
    rate.grant(1_000)
    rate.learn(0, is_pass_over=True)
    rate.rollback()
    assert (rate.factor, rate.spend(rests=False)) == (MOST, 0)

    rate.learn(1, is_pass_over=True)
    assert rate.factor == MOST


def test_the_share_grows_with_what_is_found(rate: SweepRate) -> None:
    """By the part of the remembered rows that were written since, and within a pass only up."""
    for _ in range(40):
        rate.grant(64)
        rate.learn(0, is_pass_over=True)
    assert rate.factor == LEAST
    share = (7 / 8) ** 40
    for found, written in [(512, 1_024), (0, 1_024), (4_096, 8_192)]:
        rate.grant(written)
        rate.learn(found, is_pass_over=False)
        share += min(1.0, written / 4_096) * max(0.0, found / written - share)
        assert rate.factor == max(LEAST, 3 * share)
    rate.grant(0)
    rate.learn(5, is_pass_over=False)  # without a row written there is no share to tell

    assert rate.factor == 1.5
    # The pass is over: 4,613 of 10,240 were found in all of it, and the next begins with none.
    rate.learn(0, is_pass_over=True)
    assert rate.factor == 3 * 4_613 / 10_240
    rate.grant(1_000)
    rate.learn(1_000, is_pass_over=True)
    assert rate.factor == MOST


def test_what_a_failed_commit_was_granted_and_learned_is_forgotten(rate: SweepRate) -> None:
    """Else each repetition would be granted it again, for the same rows."""
    rate.grant(10)
    rate.learn(5, is_pass_over=False)
    rate.commit()
    rate.grant(30)
    budget = rate.spend(rests=False)
    rate.learn(0, is_pass_over=True)
    rate.rollback()

    assert budget == 120
    assert rate.factor == MOST
    rate.grant(12)
    assert rate.spend(rests=False) == 66
    rate.learn(15, is_pass_over=True)
    # Twenty of 22 rows; with the 30, of which nothing is left, it would be seven eighths.
    assert rate.factor == 3 * 20 / 22


@pytest.mark.spec("TTL-8")
def test_a_commit_is_granted_rows_once_however_often_it_sweeps() -> None:
    """Who asks for its changes, and commits then, sweeps twice; the rows are looked at for one."""
    removed = []
    for times in (1, 3):
        with load_backend("memory").open("unused") as engine:
            rows: dict[bytes, bytes | None] = {
                DATA + b"%04d" % number: stamped_row(b"v", 0) for number in range(2_000)
            }
            engine.apply(rows, Durability.PROCESS_CRASH)
            sweep = Sweep(10, 0)
            progress = Progress(floor_ms=0, pass_floor_ms=0, cursor=DATA)
            gone = 0
            for _ in range(8):
                pending: dict[bytes, bytes | None] = {}
                sweep.begin_commit()
                for _ in range(times):
                    sweep.run(engine, pending, progress, horizon_ms=50)
                engine.apply(pending, Durability.PROCESS_CRASH)
                gone += len(pending)
            removed.append(gone)

    assert removed[0] == removed[1] > 0
