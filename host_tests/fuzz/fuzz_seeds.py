"""The fuzzer's first inputs: programs (`fuzz_program.py`) named by what the server says."""

from __future__ import annotations

_ANY = {
    "connack_refused": "poll=1 say.20020005 time=1000 poll=2",
    "connack_session_present": "poll=1 say.20020100 pub=1 poll=4 finale=1",
    "connack_flags_and_code": "poll=1 say.20020105 time=5000 finale",
    "connack_never": "poll=1 time=10000 time=1000 poll=2",
    "publish_before_connack": "poll=1 say.3005000161ff32 poll=2 finale",
    "publish_qos0": "hello=2 say.30060003612f6278",
    "publish_qos1": "hello=2 say.320b0003612f62000a74657874 poll=2",
    "publish_qos1_handler_raises": "hello=2 handler=1 say.320b0003612f62000a74657874 handler "
    "say.3a0b0003612f62000a74657874",
    "publish_qos3": "hello=2 say.360b0003612f62000a74657874 finale",
    "publish_id_0": "hello=2 say.320b0003612f62000074657874 finale",
    "publish_topic_no_utf8": "hello=2 say.30050002c08078",
    "publish_topic_behind_packet": "hello=2 say.300500ff616263",
    "publish_too_long_qos1": "hello=2 say.326400016100" + "0b" + "78" * 95 + " poll=4",
    "publish_topic_too_long": "hello=2 say.3266005f" + "74" * 95 + "12347878787878 poll=4",
    "publish_qos2_of_an_old_session": "hello=2 say.34080001610007787979 poll=2 say.62020007 poll=2",
    "publish_in_pieces": "hello=2 chunk=1 say.320b0003612f62000a74657874 poll=16",
    "two_publishes_in_one_segment": "hello=2 "
    "say.320b0003612f62000a74657874320b0003612f62000b74657874 poll=4",
    "puback_unknown": "hello=2 say.40020005 near=4.40 poll=2",
    "puback_three_bytes": "hello=2 pub=1 poll=2 say.4003000100",
    "puback_out_of_order": "hello=2 pub=1 pub=1 pub=1 poll=6 near=4.40 drop hello=3 near=2.40 "
    "near=3.40 poll=4 finale",
    "puback_slides_over_one_acknowledged_before": "hello=2 burst=3.01 poll=6 near=4.40 drop "
    "hello=1 acks=2 poll=3 finale",
    "puback_twice": "hello=2 pub=1 pub=1 poll=4 near=2.40 near=1.40 near=2.40 poll=2 finale",
    "puback_window_over": "start=65525.10 hello=2 burst=20 poll=20 near=2.40 near=3.40 near=17.40 "
    "poll=9 finale",
    "suback_three_codes": "sub=0 sub=4 sub=2 hello=0 ask.000180 poll=2",
    "suback_of_another_request": "sub=1 hello=0 ask=1 finale",
    "suback_refused": "sub=1 hello=0 ask.80 finale",
    "suback_unasked": "hello=2 say.9003800000 finale",
    "unsuback": "sub=1 hello=2 unsub=1 poll=2 ask poll=1 finale",
    "length_five_bytes": "hello=2 say.308080808001 finale",
    "length_huge": "hello=2 say.30ffffff7f0001616263",
    "length_overlong_zero": "hello=2 say.d08000 poll=2",
    "reserved_type": "hello=2 say.f000 finale",
    "pingreq_and_silence": "hello=2 time=45000 time=10000 finale",
    "pingresp": "hello=2 time=45000 say.d000 time=45000",
    "link_refuses": "link=2 poll=2 time=1000 time=5000 hello=2 finale",
    "stream_takes_little": "room=3 hello=2 pub=1 poll=30 room pub=1 poll=3 near=2.40 time=10000 "
    "finale",
    "stream_takes_nothing_while_an_answer_waits": "room hello=2 say.32080001610009787978 say.d000 "
    "poll=3 time=10000 finale",
    "server_closes": "hello=2 pub=1 poll=2 drop=1 hello=3 finale=1",
    "handler_publishes": "hello=2 handler=3 say.320b0003612f62000a74657874 poll=4 near=2.40",
    "disconnect_and_back": "hello=2 pub=1 close hello=1 poll=2",
    "qos0_while_a_packet_goes_out": "hello=2 room=1 pub=0 pub=0 poll=30",
    "publish_too_long_handler_raises": "hello=2 handler=4 say.326400016100"
    + "0b"
    + "78" * 95
    + " poll=4",
    "qos0_and_full_outbox": "hello=2 pub=0 poll=1 burst=200 pub=0 poll=9 finale",
}
_STEADY = {
    "reset_with_messages_in_flight": "hello=2 pub=1 pub=1 pub=1 poll=6 near=3.40 reboot=1 hello=3 "
    "poll=6 finale=1",
    "reset_with_unsaved_acknowledgements": "burst=24.01 hello=2 poll=20 acks=16 poll=12 reboot=1 "
    "hello=3 poll=30 finale=1",
    "reset_before_connack": "pub=1 poll=1 reboot pub=1 finale",
    "flash_fails": "hello=2 fail=2 pub=1 pub=1 poll=4 finale",
}
_WORDS = {
    "word_after_puback": "hello=2 word=8 pub=1 poll=3 near=2.40 word=8 poll=2",
    "word_before_puback": "hello=2 word=7 time=1500 pub=1 pub=1 poll=4 word=8 near=2.40 near=2.40 "
    "poll=2 finale",
    "word_from_the_future": "hello=2 pub=1 time=1500 poll=3 word=9 near=2.40 word=9",
    "word_of_another_stream": "hello=2 pub=1 time=1500 poll=3 near=2.40 word=8.39 word=8.30 finale",
    "word_never_and_replay": "hello=2 pub=1 time=1500 poll=3 near=2.40 time=1000 time=1000 poll=3 "
    "near=1.40 time=5000 poll=3",
}
_TWO = {
    "publish_qos2_dup": "hello=2 say.34080001610007787979 poll=1 say.3c080001610007787979 poll=1 "
    "say.62020007 poll=2",
    "publish_qos2_over_reset": "hello=2 say.34080001610007787979 poll=1 reboot hello=3 "
    "say.3c080001610007787979 say.62020007",
    "publish_qos2_handler_raises": "hello=2 handler=1 say.34080001610007787979 handler "
    "say.3c080001610007787979 poll=2",
    "publish_qos2_note_fails": "hello=2 fail=1 say.34080001610007787979 poll=2 hello=3 "
    "say.3c080001610007787979 poll=1 finale",
    "pubrel_unknown": "hello=2 say.62020063 poll=2",
    "pubrel_id_0": "hello=2 say.62020000 finale",
    "pubrec_pubcomp": "hello=2 pub=2 poll=2 near=2.50 poll=2 near=2.70 finale",
    "pubcomp_before_pubrel": "hello=2 pub=2 poll=2 say.5002000170020001 poll=3 finale",
    "pubrec_note_fails_then_drop": "hello=2 pub=2 fail=5 poll=1 near=2.50 drop hello=3 poll=2 "
    "finale=1",
    "pubrec_then_drop": "hello=2 pub=2 pub=2 poll=4 near=2.50 poll=2 drop hello=3 poll=4 near=2.70 "
    "finale=1",
    "pubrec_then_reset": "hello=2 pub=2 pub=1 poll=4 near=2.50 poll=2 reboot hello=3 poll=4 "
    "near=2.70 finale=1",
    "pubrec_then_session_lost": "hello=2 pub=2 poll=2 near=2.50 poll=2 drop hello=2 poll=4 "
    "near=2.50 near=2.70 finale",
    "pubrec_note_fails": "hello=2 pub=2 poll=2 fail=2 near=2.50 poll=2 near=2.70 finale",
    "puback_for_qos2": "hello=2 pub=2 poll=2 near=2.40 near=2.70 poll=2 finale",
    "many_qos2_at_a_time": "hello=2 "
    + " ".join(f"say.340600016101{n:02x}78" for n in range(20))
    + " poll=4",
}
_CUTS = {
    "cut_in_append": "hello=2 cut=1 pub=1 hello=3 cut=2 pub=1 finale",
    "cut_in_save": "hello=2 burst=20 poll=20 near=2.40 near=2.40 cut=1 time=30000 poll=4 finale=1",
    "full_flash": "hello=2 burst=200 poll=10 finale",
}
_CUTS_TWO = {
    "cut_in_note": "hello=2 cut=1 say.34080001610007787979 hello=3 say.3c080001610007787979 poll=2 "
    "finale=1",
    "cut_before_pubrel": "hello=2 pub=2 poll=2 cut=1 near=2.50 poll=2 hello=3 finale=1",
    "full_flash_qos2_in_flight": "hello=2 burst=200 poll=30 near=2.50 near=3.50 poll=3 finale=1",
}
_READER = {
    "length_one_byte": "say.40020005",
    "length_two_bytes": "say.308101 say." + "00" * 129,
    "length_five_bytes": "say.308080808001",
    "length_overlong": "say.d08000d0808000c080808000",
    "several": "say.d00040020001 say.30060003612f6278 say.20020000",
    "cut_in_length": "say.3080 say.01 say." + "61" * 128,
    "longer_than_buffer": "say.3064" + "61" * 100 + "d000",
}
_SEGMENTS = {
    "subscriber": "start say.320b0003612f62000a74657874 say.40020002 say.4002000130",
    "streamer": "start=1 say.3264000161000b" + "78" * 95 + "30060003612f6278",
    "exactly_once": "start=2 say.34080001610007787979 say.62020007 say.50020001 say.70020001 "
    "say.500200025002000270020002",
    "error_between": "start say.320b0003612f62000a74657874 say.360500016100 say.01400200024002",
}
_MODES = {
    "reader": _READER,
    "segments": _SEGMENTS,
    "subscriber": _ANY,
    "streamer": _ANY,
    "durable": _ANY | _STEADY | _WORDS,
    "exactly_once": _ANY | _STEADY | _TWO,
    "durable_flash": _ANY | _WORDS | _CUTS,
    "exactly_once_flash": _ANY | _TWO | _CUTS | _CUTS_TWO,
}


def seeds_of(target: str) -> dict[str, str]:
    return _MODES[target]
