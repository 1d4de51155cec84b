// A Raspberry Pi Pico with the network stack of the Pico W (lwIP, mbedTLS), reached by PPP over a
// UART. lwIP's options are the port's own, the same as the Pico W's: MEM_SIZE 8000, TCP_MSS 800,
// TCP_SND_BUF 6400. So is the size of the filesystem.
#include "boards/RPI_PICO/mpconfigboard.h"

#undef MICROPY_HW_BOARD_NAME
#define MICROPY_HW_BOARD_NAME                   "Raspberry Pi Pico with PPP"

// as on a Pico W: the rest is for the interpreter
#undef MICROPY_HW_FLASH_STORAGE_BYTES
#define MICROPY_HW_FLASH_STORAGE_BYTES          (848 * 1024)

#define MICROPY_PY_NETWORK                      (1)
#define MICROPY_PY_NETWORK_PPP_LWIP             (1)
#define MICROPY_PY_NETWORK_HOSTNAME_DEFAULT     "PicoPPP"
