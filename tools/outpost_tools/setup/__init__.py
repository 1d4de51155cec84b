"""`outpost setup`: sets up a board in the browser, with the code behind `provision` and `flash`.

    browser → guard.py → app.py → desk.py → device/ (answers, settings_file), broker/ (members)
                                     └→ jobs.py → worker.py, a process → device/flashing.py

arguments.py  the subcommand
serve.py      listens on this machine alone, until SIGTERM or SIGINT
guard.py      who may ask: token, host, origin, size
app.py        the addresses
desk.py       what the page can ask for; knows no HTTP
places.py     the folder of settings files, and the broker of `outpost run`
fields.py     a field for each key, made of the firmware's and the drivers' own rules
form.py       what the page sends ↔ settings
page.py       the page: HTML, complete but for what is plugged in
jobs.py       work on a board, one at a time on a port
worker.py     the process that does it
form.js       the form: entries, values, faults beside their fields
work.js       work on a board, line by line
setup.js      what is plugged in, files, and what happens when; setup.css
"""
