import unittest

from station.settings import SettingsError, check, load

GOOD = {"device_id": "board-1", "broker_host": "127.0.0.1"}


class TestSettings(unittest.TestCase):
    def test_defaults_are_filled_in(self):
        settings = check(GOOD)
        self.assertEqual(
            (settings["broker_port"], settings["mode"], settings["sensors"]),
            (1883, "collector", None),
        )

    def test_tls_changes_the_port_and_the_name_is_the_hosts_if_not_given(self):
        self.assertEqual((check(GOOD)["tls"], check(GOOD)["broker_port"]), (False, 1883))
        given = dict(GOOD)
        given.update({"tls": True, "ca_file": "ca.der"})
        self.assertEqual(
            (check(given)["broker_port"], check(given)["server_name"]), (8883, "127.0.0.1")
        )
        given.update({"broker_port": 1, "server_name": "broker.example"})
        self.assertEqual(
            (check(given)["broker_port"], check(given)["server_name"]), (1, "broker.example")
        )

    def test_series_are_off_where_nothing_is_said_of_them(self):
        settings = check(GOOD)
        self.assertEqual((settings["series"], settings["series_age_s"]), (False, 600))
        alarms = {"t": {"above": 30.5, "below": -3}}
        settings = check(dict(GOOD, series=True, series_age_s=950_400, alarms=alarms))
        self.assertEqual((settings["series"], settings["alarms"]), (True, alarms))

    def test_each_fault_gives_one_line_that_names_the_key(self):
        for change, key in (
            ({"brokr_host": "x"}, "brokr_host"),
            ({"broker_port": "1883"}, "broker_port"),
            ({"broker_port": 0}, "broker_port"),
            ({"broker_port": True}, "broker_port"),
            ({"mode": "fast"}, "mode"),
            ({"level": 6}, "level"),
            ({"level": "5"}, "level"),
            ({"interval_ms": 0}, "interval_ms"),
            ({"device_id": ""}, "device_id"),
            ({"device_id": "a b"}, "device_id"),
            ({"device_id": "x" * 33}, "device_id"),
            ({"sensors": "load"}, "sensors"),
            ({"outbox_blocks": 1}, "outbox_blocks"),
            ({"tls": True}, "tls"),
            ({"tls": 1, "ca_file": "ca.der"}, "tls"),
            ({"ca_file": "ca.der"}, "ca_file"),
            ({"alpn": "mqtt"}, "alpn"),
            ({"confirmation": "none"}, "confirmation"),
            ({"deep_sleep": 1}, "deep_sleep"),
            ({"when_full": "drop"}, "when_full"),
            ({"when_full": "newest_per_topic"}, "when_full"),
            (
                {"when_full": "newest_per_topic", "mode": "broker", "outbox_blocks": 3},
                "outbox_blocks",
            ),
            ({"when_full": "newest_per_topic", "mode": "broker", "commands": True}, "commands"),
            ({"password": "secret"}, "user"),
            ({"connect_every": 20}, "connect_every"),
            ({"connect_every": 0, "deep_sleep": True}, "connect_every"),
            ({"wake_limit_ms": 10}, "wake_limit_ms"),
            ({"tls": True, "ca_file": "ca.der", "client_cert_file": "c.der"}, "client_key_file"),
        ):
            given = dict(GOOD)
            given.update(change)
            with self.assertRaises(SettingsError) as caught:
                check(given)
            message = str(caught.exception)
            self.assertTrue("'" + key + "'" in message and "\n" not in message, message)

    def test_so_does_what_only_looks_right(self):
        for key, value in (
            ("level", 4.0), ("level", 5.0),
            ("topic_prefix", "home/#"), ("topic_prefix", "home+"), ("topic_prefix", "a\0"),
        ):  # fmt: skip
            with self.assertRaises(SettingsError) as caught:
                check(dict(GOOD, **{key: value}))
            self.assertTrue("'" + key + "'" in str(caught.exception), value)

    def test_faults_of_series_and_alarms_name_their_key_too(self):
        for change, key in (
            ({"series": 1}, "series"),
            ({"series": True, "series_age_s": 0}, "series_age_s"),
            ({"series": True, "series_age_s": 950_401}, "series_age_s"),
            ({"series_age_s": 60}, "series_age_s"),
            ({"series": True, "mode": "broker", "when_full": "newest_per_topic"}, "series"),
            ({"alarms": {"t": {"above": 1}}}, "alarms"),
            (
                {"alarms": {"t": {"above": 1}}, "mode": "broker", "when_full": "newest_per_topic"},
                "alarms",
            ),
            ({"series": True, "alarms": {}}, "alarms"),
            ({"series": True, "alarms": [1]}, "alarms"),
            ({"series": True, "alarms": {"t": 1}}, "alarms"),
            ({"series": True, "alarms": {"t": {}}}, "alarms"),
            ({"series": True, "alarms": {"t": {"over": 1}}}, "alarms"),
            ({"series": True, "alarms": {"t": {"above": "1"}}}, "alarms"),
            ({"series": True, "alarms": {"t": {"above": True}}}, "alarms"),
            ({"series": True, "alarms": {"t": {"above": float("inf")}}}, "alarms"),
            ({"series": True, "alarms": {"t": {"below": float("nan")}}}, "alarms"),
            ({"series": True, "alarms": {"t": {"above": 1, "below": 1}}}, "alarms"),
        ):
            given = dict(GOOD)
            given.update(change)
            with self.assertRaises(SettingsError) as caught:
                check(given)
            message = str(caught.exception)
            self.assertTrue("'" + key + "'" in message and "\n" not in message, message)

    def test_keys_of_wifi_are_optional_and_a_password_is_never_shown(self):
        settings = check(GOOD)
        self.assertEqual(
            (settings["wifi_ssid"], settings["wifi_country"], settings["ntp_host"]),
            ("", "", "pool.ntp.org"),
        )
        for key in ("wifi_password", "password"):
            for wrong in (31415926, "31415926" * 20):
                given = dict(GOOD)
                given[key] = wrong
                with self.assertRaises(SettingsError) as caught:
                    check(given)
                message = str(caught.exception)
                self.assertTrue("'" + key + "'" in message and "31415926" not in message, message)

    def test_missing_key_and_missing_file_are_named(self):
        for given, missing in (
            ({"device_id": "a"}, "broker_host"),
            ({"broker_host": "a"}, "device_id"),
        ):
            with self.assertRaises(SettingsError) as caught:
                check(given)
            self.assertTrue("'" + missing + "' is missing" in str(caught.exception))
        with self.assertRaises(SettingsError) as caught:
            load("no-such-settings.json")
        self.assertTrue("no-such-settings.json: not found" in str(caught.exception))


if __name__ == "__main__":
    unittest.main()
