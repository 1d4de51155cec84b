"""`outpost setup`: sets up a board in the browser, with the code behind `provision` and `flash`.

    browser → guard.py → app.py → desk.py → device/ (answers, settings_file), broker/ (members)
                                     └→ jobs.py → worker.py, a process → boards/flash/flashing.py

arguments.py  the subcommand
serve.py      listens only on this machine, until SIGTERM or SIGINT
guard.py      decides which requests are admitted: token, host, origin, size
app.py        the addresses
desk.py       what the page can ask for; knows no HTTP
places.py     the folder of settings files, and the broker of `outpost run`
fields.py     a form field for each key, made from the rules of the firmware and the drivers
form.py       converts what the page sends into settings, and back
page.py       the page (templates/), without what is plugged in
jobs.py       work on boards, one job at a time on each port
worker.py     the process that does the work
form.js       the form: entries, values, faults beside their fields
work.js       shows the work on a board, line by line
setup.js      what is plugged in, files, and the page's events; setup.css: its style
"""
