# A Raspberry Pi Pico with the network stack of the Pico W (lwIP, mbedTLS), reached by PPP over a
# UART.
include(${MICROPY_PORT_DIR}/boards/RPI_PICO/mpconfigboard.cmake)
set(MICROPY_PY_LWIP ON)
