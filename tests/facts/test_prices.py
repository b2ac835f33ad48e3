"""Prices: dated, sourced, never made up."""

from __future__ import annotations

import datetime

import pytest

from trainwright.errors import InputError
from trainwright.facts import instances, prices
from trainwright.facts.data import read_rows


def test_a_price_says_where_and_how_old_it_is() -> None:
    price = prices.find("p5.48xlarge", "us-east-1", "on-demand")
    assert price is not None
    assert price.usd_per_hour == 55.04
    day = datetime.date.fromisoformat(price.date) + datetime.timedelta(days=10)
    assert price.describe(day) == f"$55.04/h (on demand, us-east-1, read {price.date}, 10 days ago)"
    assert not price.is_stale(day)
    assert price.is_stale(day + datetime.timedelta(days=365))


def test_what_was_not_read_has_no_price() -> None:
    assert prices.find("p5.48xlarge", "us-east-1", "spot") is None
    assert prices.find("p5.48xlarge", "mars-north-1") is None
    assert prices.find("dgx-h100") is None
    assert prices.find("trn2.48xlarge") is None


def test_capacity_is_checked() -> None:
    with pytest.raises(InputError, match="did you mean capacity_block"):
        prices.find("p5.48xlarge", capacity="capacity-blocks")


def test_every_price_has_a_source_a_date_and_a_known_instance() -> None:
    seen = 0
    for name, by_capacity in read_rows("prices").items():
        assert name in instances.names("ec2")
        for capacity in by_capacity:
            for region in prices.regions(name, capacity):
                price = prices.find(name, region, capacity)
                assert price is not None
                assert price.source
                assert datetime.date.fromisoformat(price.date) <= datetime.date.today()
                assert 0.1 < price.usd_per_hour < 500
                seen += 1
    assert seen > 50


def test_bigger_instances_of_a_family_cost_more() -> None:
    for small, large in (
        ("g5.xlarge", "g5.48xlarge"),
        ("p5.4xlarge", "p5.48xlarge"),
        ("trn1.2xlarge", "trn1.32xlarge"),
    ):
        cheap, dear = prices.find(small), prices.find(large)
        assert cheap is not None
        assert dear is not None
        assert cheap.usd_per_hour < dear.usd_per_hour
