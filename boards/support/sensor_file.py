"""A sensor that the settings name by its driver, which is one file of the folder `sensors`.

    {"driver": "bme280", "name": "attic", "scl": 5, "sda": 4}

The driver's file declares the settings that it takes (KEYS) and what it measures (READINGS). Board
and desktop tools check with the same check_options(). boards/PORTING.md has the contract. If
a driver is missing or its settings are wrong, only that sensor fails; the program continues.
"""

_COMMON = ("driver", "name")
_LEAST_EXPONENT, _MOST_EXPONENT = -9, 9


class Unusable(ValueError):
    """is_settings: distinguishes it from a fault of the chip."""

    is_settings = True


class SensorFile:
    """A sensor with a driver, as `station/guard.py` expects it. given: of the settings."""

    def __init__(self, given):
        self.name = given.get("name", given["driver"]).encode()
        self.readings = ()
        self.settle_ms = 0
        self._fault = ""
        try:
            self._module = load(given["driver"])
            self.options = check_options(getattr(self._module, "KEYS", {}), given)
            self.readings = readings_of(self._module.READINGS, self.options)
            self.settle_ms = int(getattr(self._module, "SETTLE_MS", 0))
        except MemoryError:
            raise
        except Unusable as error:
            self._fault = str(error)
        except (Exception, SystemExit) as error:  # whatever loading the file raises
            self._fault = type(error).__name__ + " " + str(error)

    def open(self):
        """A new driver. Raises what its construction raises."""
        if self._fault:
            raise Unusable(self._fault)
        return self._module.Driver(self.options)


def load(driver):
    """The module of /sensors/<driver>.py."""
    return __import__("sensors." + driver, None, None, ("Driver",))


def check_options(keys, given):
    """The driver's options, with defaults. Raises ValueError: one line that names the key.

    keys: {key: (least, most, default)}, or {key: "default text"}, or {key: ("one", "of", "these")}.
    A key whose default is None is required; the first of several texts is the default.
    """
    for key in given:
        if key not in keys and key not in _COMMON:
            known = ", ".join(sorted(keys))
            raise Unusable("unknown key '" + key + "'; known: " + (known or "none"))
    options = {}
    for key in keys:
        rule = keys[key]
        default = rule if isinstance(rule, str) else rule[0 if isinstance(rule[0], str) else 2]
        value = given.get(key, default)
        if value is None:
            raise Unusable("key '" + key + "' is missing; add it")
        fault = _fault(value, rule)
        if fault:
            raise Unusable("key '" + key + "' must be " + fault + ", not " + repr(value))
        options[key] = value
    return options


def _fault(value, rule):
    if isinstance(rule, str):
        return "" if isinstance(value, str) else "text"
    if isinstance(rule[0], str):
        return "" if value in rule else "one of " + ", ".join(rule)
    if isinstance(value, bool) or not isinstance(value, int):
        return "a whole number"
    least, most = rule[0], rule[1]
    return "" if least <= value <= most else str(least) + " to " + str(most)


def readings_of(readings, options):
    """READINGS, with unit and exponent from the options if the driver has such keys."""
    found = []
    for one in readings:
        unit, exponent = options.get("unit", one[1]), options.get("exponent", one[2])
        if not (_is_text(one[0] or "") and _is_text(unit) and len(one) in (3, 5)):
            raise Unusable("READINGS: not " + repr(one) + " with the unit " + repr(unit))
        if type(exponent) is not int or not _LEAST_EXPONENT <= exponent <= _MOST_EXPONENT:
            raise Unusable("READINGS: an exponent must be -9 to 9, not " + str(exponent))
        found.append((one[0], unit, exponent) + tuple(one[3:]))
    return found


def _is_text(text):
    """Whether it is text that needs no escape between the quotes of a message."""
    if not isinstance(text, str):
        return False
    for one in text:
        if one < " " or one in '"\\':
            return False
    return True
