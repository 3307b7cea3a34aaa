// SPDX-License-Identifier: BSD-3-Clause
// In the place of kernel_paths.cpp where librdmacm's headers were missing at build time.
#include "rdmacm/kernel_paths.hpp"

namespace wireup::rdmacm {

struct KernelPaths::State {};

Result<KernelPaths> KernelPaths::open(const Options& /*options*/, const Ops* /*ops*/) {
  return fail(Error::make(Errc::Unsupported, "this wireup was built without librdmacm's headers"));
}

KernelPaths::KernelPaths(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
KernelPaths::KernelPaths(KernelPaths&&) noexcept = default;
KernelPaths& KernelPaths::operator=(KernelPaths&&) noexcept = default;
KernelPaths::~KernelPaths() = default;
void KernelPaths::ask(QuestionId /*id*/, const mad::AcmAddress& /*destination*/,
                      ServiceId /*service*/, Instant /*deadline*/, Instant /*now*/) {}
std::optional<KernelPaths::Answer> KernelPaths::poll_answer() {
  return std::nullopt;
}
int KernelPaths::fd() const noexcept {
  return -1;
}
void KernelPaths::progress(Instant /*now*/) {}
std::optional<Instant> KernelPaths::poll_timeout() const {
  return std::nullopt;
}
std::size_t KernelPaths::pending() const noexcept {
  return 0;
}

}  // namespace wireup::rdmacm
