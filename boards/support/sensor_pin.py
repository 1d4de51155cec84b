"""What drivers for plain pins share: millivolts at a pin, with or without a divider, and pulls.

Allocation: construction only.
"""

# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
# The ports differ: the unix port has no pins, and each port reads an ADC in its own way.


class Millivolts:
    """The millivolts at the top of a divider of two resistors; top_ohm 0: at the pin itself.

    samples: how many are averaged.
    """

    def __init__(self, pin, top_ohm, bottom_ohm, samples):
        from machine import ADC, Pin

        self._adc = ADC(Pin(pin))
        self._in_microvolts = hasattr(self._adc, "read_uv")
        if self._in_microvolts:  # ESP32: the whole range of the pin, about 3 V
            self._adc.atten(ADC.ATTN_11DB)
        whole = top_ohm + bottom_ohm if top_ohm else 1
        part = bottom_ohm if top_ohm else 1
        common = _common_divisor(whole, part)  # the product stays within 30 bits
        self._whole, self._part, self._samples = whole // common, part // common, samples

    def read(self):
        left, total = self._samples, 0
        while left:
            total += self._adc.read_uv() // 1000 if self._in_microvolts else self._scaled()
            left -= 1
        return total // self._samples * self._whole // self._part

    def _scaled(self):
        return self._adc.read_u16() * 3300 // 65_535


def input_pin(number, pull):
    """A machine.Pin as input. pull: up, down or none."""
    from machine import Pin

    if pull == "none":
        return Pin(number, Pin.IN)
    return Pin(number, Pin.IN, Pin.PULL_UP if pull == "up" else Pin.PULL_DOWN)


def _common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a
