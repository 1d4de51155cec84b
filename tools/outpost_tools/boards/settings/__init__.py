"""A board's settings: asked for, read, checked for its pins and memory. Touches no board.

settings_file.py   from a TOML file to what a board gets
wifi_settings.py   the part for Wi-Fi
broker_part.py     the part that comes from `outpost broker`
sensor_drivers.py  the drivers of sensors
sensor_words.py    a sensor in one line
pin_check.py       whether sensors fit the pins
memory_fit.py      whether all fits heap and flash
answers.py         what is wrong with the newest answer
ask.py             asks at the terminal
drafts.py          keeps answers until a board has them
"""
