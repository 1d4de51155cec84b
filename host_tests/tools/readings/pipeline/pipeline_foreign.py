"""Other people's messages on Spark; test_pipeline.py runs this in its session."""

from __future__ import annotations

import patient_job
from outpost_tools.readings.pipeline import quarantine, tables
from pipeline_features import message, put
from serial_engine import Serial
from test_foreign_tables import MAPPING, WRONG, Frames, at_s, many, meter, readings, without_places
from test_plan import contents


def test_other_peoples_messages_on_spark_are_those_of_one_process(spark, tmp_path):
    """A source refuses at first; then it is mended, replayed, and copies come."""
    frames, places = Frames(tmp_path / "log"), {}
    many(frames, 7)
    put(frames.log, *(message(n, 1, bt=at_s(n)) for n in range(9)), collector="collector-0")
    for name, engine in (("spark", spark), ("serial", Serial())):
        places[name] = tmp_path / name
        assert patient_job.run(engine, frames.log, places[name], sources=WRONG) == 1
        assert quarantine.replay(places[name], "meter: none", sources=MAPPING)[0] > 50
    assert contents(places["spark"]) == contents(places["serial"])
    frames.put(("plant/d1/meter", meter(5, 5000), 1), ("plant/d1/radio", {"id": "i5", "v": 5}, 1))
    for name, engine in (("spark", spark), ("serial", Serial())):
        assert patient_job.run(engine, frames.log, places[name], sources=MAPPING) == 1
        assert without_places(readings(places[name])) == without_places(frames.expected())
    one, other = (contents(places[name]) for name in ("spark", "serial"))
    for name in tables.ALL:
        assert one[name] == other[name], name
