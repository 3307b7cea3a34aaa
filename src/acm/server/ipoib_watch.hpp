// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acm/server/ipoib_addresses.hpp"
#include "acm/server/kernel_service.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// A socket on which the kernel tells of links and addresses, and of every change.
[[nodiscard]] Result<UniqueFd> open_route_netlink();

/// The addresses of this host's IPoIB interfaces, kept up: a dump of links and addresses at first,
/// then the changes; everything again where the kernel says that news were lost. Until a dump is
/// whole the addresses are those of the one before. Not thread-safe; never blocks.
class IpoibWatch {
 public:
  explicit IpoibWatch(UniqueFd socket, const NetlinkOps& ops = system_netlink()) noexcept
      : socket_(std::move(socket)), ops_(&ops) {}

  /// Readable when progress() has something to do.
  [[nodiscard]] int fd() const noexcept { return socket_.value(); }
  void progress(Instant now);
  /// When progress() has to be called although fd() is not readable.
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;

  [[nodiscard]] const IpoibAddresses& addresses() const noexcept { return addresses_; }
  /// Another number when the addresses may have changed; 0 before the first dump is whole.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

 private:
  enum class Stage : std::uint8_t { Waiting, Links, Addresses, Watching };

  void ask(std::uint16_t type, Stage stage, Instant now);
  void start_again(Instant now);
  void take(std::span<const std::uint8_t> datagram, Instant now);

  UniqueFd socket_;
  const NetlinkOps* ops_;
  Stage stage_ = Stage::Waiting;
  std::uint32_t sequence_ = 0;
  /// Waiting: when the next dump begins. Links, Addresses: when it is given up.
  Instant due_;
  IpoibAddresses addresses_;
  /// What the dump under way has told so far.
  IpoibAddresses coming_;
  std::uint64_t version_ = 0;
  std::vector<std::uint8_t> buffer_;
};

}  // namespace wireup::acm
