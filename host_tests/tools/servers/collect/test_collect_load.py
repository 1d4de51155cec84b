# cpython-only: tests a desktop tool
"""The load of the collector's tests and benchmark is what boards send."""

from collector_load import fleet, topic_of
from outpost_tools.messages import message


def test_the_load_is_good_messages_of_many_lengths_in_order_with_duplicates():
    sent = list(fleet(100, 3000))
    decoded = [message.decode(topic_of(device).decode(), data) for device, _, data in sent]
    assert [(one.device, one.seq) for one in decoded] == [(device, seq) for device, seq, _ in sent]
    lengths = {len(data) for _, _, data in sent}
    assert min(lengths) >= 100 and max(lengths) <= 400 and len(lengths) > 100
    assert 0.03 < (len(sent) - 3000) / 3000 < 0.07 and len(set(sent)) == 3000
