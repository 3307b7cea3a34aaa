// SPDX-License-Identifier: BSD-3-Clause
// As consumer.c, through the C++ header.
#include <cstdio>
#include <wireup/wireup.hpp>

int main() {
  const wireup::Config config;
  wireup::Status status;
  const auto context = wireup::Context::open(config, status);
  if (context || status ||
      (status.code() != WIREUP_ERR_NO_PMIX && status.code() != WIREUP_ERR_NO_DEVICE)) {
    std::fprintf(stderr, "opening a context gave %s\n", wireup_status_name(status.code()));
    return 1;
  }
  std::printf("consumer: %s\n", status.text().c_str());
  return 0;
}
