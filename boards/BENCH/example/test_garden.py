"""Tests of garden.py on the bench: `pytest test_garden.py`."""


def test_a_day_with_a_broker_that_is_away(bench):
    bench.values["adc 34"] = lambda second: 30_000 + second // 60
    bench.outage(120, 300)  # from minute 120 to minute 300
    world = bench.run("garden.py", hours=24)
    assert len(world.broker.came) == 1440 and not world.lost() and not world.out_of_order()


def test_no_power_cut_loses_a_reading(bench):
    bench.outage(10, 12)
    bench.every_cut("garden.py", minutes=20)


def test_the_lamp_stays_dark(bench):
    world = bench.run("garden.py", minutes=30)
    assert not any(level for _, pin, level in world.driven if pin == "pin 2")
