/* SPDX-License-Identifier: BSD-3-Clause */
/* Succeeds when the library that runs is the one of the header, and answers. Started without a
 * launcher or a device: opening a context must fail with a sentence. */
#include <stdio.h>
#include <string.h>
#include <wireup/wireup.h>

int main(void) {
  const uint32_t wanted =
      WIREUP_VERSION_MAJOR * 1000000u + WIREUP_VERSION_MINOR * 1000u + WIREUP_VERSION_PATCH;
  wireup_context_t* context = NULL;
  if (wireup_version() != wanted) {
    fprintf(stderr, "version %u, the header says %u\n", wireup_version(), wanted);
    return 1;
  }
  const wireup_status_t status = wireup_context_open(NULL, &context);
  if (status != WIREUP_ERR_NO_PMIX && status != WIREUP_ERR_NO_DEVICE) {
    fprintf(stderr, "opening a context gave %s\n", wireup_status_name(status));
    return 1;
  }
  if (context != NULL || strlen(wireup_last_error()) < 10) {
    fprintf(stderr, "no sentence about the error, or a context in spite of it\n");
    return 1;
  }
  printf("consumer: %s: %s\n", wireup_status_name(status), wireup_last_error());
  return 0;
}
