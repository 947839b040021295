/* What ranks read from launchers: the text of an address, and node lists of Slurm. */
#include <string.h>

#include "bootstrap/launch/launch.h"
#include "fuzz.h"

static void use_address(const char *text) {
  rendezvous_address_t address, again;
  char written[LAUNCH_TEXT_BYTES];
  if (!launch_text_read(text, &address)) return;
  launch_text_write(&address, written);
  bool is_same = launch_text_read(written, &again) && memcmp(&address, &again, sizeof again) == 0;
  fuzz_require(is_same, "an address that is read and written is the same");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char text[512], host[64];
  if (bytes >= sizeof text) return 0;
  memcpy(text, data, bytes);
  text[bytes] = '\0';
  use_address(text);
  if (launch_slurm_first(text, host, sizeof host)) {
    fuzz_require(strlen(host) < sizeof host && host[0] != '\0', "a host's name fits");
    fuzz_require(strpbrk(host, ",[]") == NULL, "a host's name is one name");
  }
  return 0;
}
