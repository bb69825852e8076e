"""Engines restarted in turn behind real balancers: no request is lost."""

from pathlib import Path

import pytest

import rolling


@pytest.mark.parametrize("balancer", sorted(rolling.BALANCERS))
def test_no_request_is_lost_in_a_rolling_restart(balancer: str, tmp_path: Path) -> None:
    if not rolling.BALANCERS[balancer].program():
        pytest.skip(f"{balancer} is not installed")
    outcome = rolling.run(balancer, tmp_path, rounds=1, rate=50, drain_delay="4s", connections=4)
    assert outcome.load_ok > 0 and outcome.lines_read > 0, outcome
    assert outcome.lost == 0, outcome
