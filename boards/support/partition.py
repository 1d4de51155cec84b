"""The outbox's flash on an ESP32 that has a data partition for it.

Its label is `outbox`, in a custom partition table. An `esp32.Partition` is already a block device;
this finds it and returns the alignment that its flash needs. Knows nothing about records.
"""

from micropython import const

_BLOCK_BYTES = const(4096)
_PLAIN_ALIGN = const(4)
_ENCRYPTED_ALIGN = const(32)  # each 32-byte unit of encrypted flash is programmed once
_INFO_SIZE = const(3)
_INFO_ENCRYPTED = const(5)


def find(label="outbox"):
    """(partition, align, page_bytes) for Outbox, or None if there is no such partition.

    ValueError if it is too small. On encrypted flash, erased bytes do not read as FF: the first
    mount() returns FOREIGN, so call format(force=True), and each boot opens a new sector.
    """
    from esp32 import Partition  # pyright: ignore[reportMissingImports] - on that port alone

    found = Partition.find(Partition.TYPE_DATA, label=label)
    if not found:
        return None
    info = found[0].info()
    if info[_INFO_SIZE] < 2 * _BLOCK_BYTES:
        raise ValueError(
            "partition '"
            + label
            + "': an outbox needs at least 8,192 bytes; enlarge it in the partition table"
        )
    align = _ENCRYPTED_ALIGN if info[_INFO_ENCRYPTED] else _PLAIN_ALIGN
    return found[0], align, _ENCRYPTED_ALIGN
