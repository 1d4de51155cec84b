"""An emulated RP2040 that runs the real MicroPython RP2 port with the files of `outpost flash`.

core (processor in C), clock, flash (the NOR chip), chip (all of these with rp2040py's peripherals,
boot and resets), usb, uart_link, littlefs (images of the file system), image (the firmware from the
cache). README.md has the drawing.
"""
