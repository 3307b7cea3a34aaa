// SPDX-License-Identifier: BSD-3-Clause
// In the place of kernel_paths.cpp and kernel_cm.cpp where librdmacm's headers were missing at
// build time.
#include "rdmacm/kernel_cm.hpp"
#include "rdmacm/kernel_paths.hpp"

namespace wireup::rdmacm {
namespace {

Error absent() noexcept {
  return Error::make(Errc::Unsupported, "this wireup was built without librdmacm's headers");
}

}  // namespace

struct KernelPaths::State {};

Result<KernelPaths> KernelPaths::open(const Options& /*options*/, const Ops* /*ops*/) {
  return fail(absent());
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

struct KernelCm::State {};

Result<KernelCm> KernelCm::open(const std::string& /*device*/, const Ops* /*ops*/) {
  return fail(absent());
}

KernelCm::KernelCm(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
KernelCm::KernelCm(KernelCm&&) noexcept = default;
KernelCm& KernelCm::operator=(KernelCm&&) noexcept = default;
KernelCm::~KernelCm() = default;
Result<IdNumber> KernelCm::create(Space /*space*/) {
  return fail(absent());
}
void KernelCm::destroy(IdNumber /*id*/) noexcept {}
Result<CmAddress> KernelCm::listen(IdNumber /*id*/, const CmAddress& /*address*/, int /*backlog*/) {
  return fail(absent());
}
Result<> KernelCm::resolve_address(IdNumber /*id*/, const CmAddress& /*source*/,
                                   const CmAddress& /*destination*/, Duration /*limit*/) {
  return fail(absent());
}
Result<> KernelCm::set_path(IdNumber /*id*/, const mad::PathRecord& /*path*/) {
  return fail(absent());
}
Result<> KernelCm::connect(IdNumber /*id*/, const ConnectionValues& /*values*/) {
  return fail(absent());
}
Result<> KernelCm::accept(IdNumber /*id*/, const ConnectionValues& /*values*/) {
  return fail(absent());
}
Result<> KernelCm::establish(IdNumber /*id*/) {
  return fail(absent());
}
Result<> KernelCm::reject(IdNumber /*id*/, std::span<const std::uint8_t> /*private_data*/,
                          bool /*ece*/) {
  return fail(absent());
}
Result<> KernelCm::notify_established(IdNumber /*id*/) {
  return fail(absent());
}
Result<> KernelCm::disconnect(IdNumber /*id*/) {
  return fail(absent());
}
Result<std::optional<CmEvent>> KernelCm::poll_event() {
  return fail(absent());
}
int KernelCm::fd() const noexcept {
  return -1;
}
std::size_t KernelCm::ids() const noexcept {
  return 0;
}
std::uint64_t KernelCm::odd_events() const noexcept {
  return 0;
}

}  // namespace wireup::rdmacm
