# micropython-only: runs on the emulated chip
"""main.py's own program connects eleven times; prints the longest piece of heap that is free while
it is connected, after each."""

import gc

import main


def longest():
    gc.collect()
    least, most = 0, gc.mem_free()
    while most - least > 64:
        size = (least + most) // 2
        try:
            bytearray(size)
            least = size
        except MemoryError:
            most = size
        gc.collect()
    return least


def turn(station, client):
    now_ms = board.ticks_ms()
    board.keep_time(station.clock, now_ms)
    station.step(now_ms)
    if not client.poll(now_ms):
        board.idle(client)


board = main.board
settings = main.load_settings()
board.open(settings)
station = main.build(settings)
client = station.client
for _ in range(11):
    acknowledged = client.session.acknowledged
    while not client.is_connected() or client.session.acknowledged == acknowledged:
        turn(station, client)
    print("HEAP", gc.mem_alloc(), gc.mem_alloc() + gc.mem_free(), longest())
    client.close()
print("END")
