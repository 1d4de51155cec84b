# cpython-only: pytest parameters and folders
"""What `simulation.json` says wrongly is told with its name."""

import json

import pytest

from board import Board


@pytest.mark.parametrize(
    "orders, said",
    [
        ("{", "not JSON"), ("[1]", "must be an object"), ("7", "must be an object"),
        ('{"seed": "x"}', "key 'seed' must be like 0"),
        ('{"sleeps": 1}', "key 'sleeps' must be like True"),
        ('{"stop_file": null}', "key 'stop_file' must be like ''"),
    ],
)  # fmt: skip
def test_a_fault_of_the_orders_is_named(tmp_path, monkeypatch, orders, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "simulation.json").write_text(orders)
    with pytest.raises(ValueError, match=f"simulation.json: {said}"):
        Board().open({"broker_host": "127.0.0.1", "broker_port": 1, "tls": False})


def test_keys_of_others_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "simulation.json").write_text(json.dumps({"note": [1], "seed": 5}))
    board = Board()
    board._read_orders()
    assert board._orders["seed"] == 5
