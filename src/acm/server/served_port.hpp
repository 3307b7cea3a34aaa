// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acm/driver/node_lock.hpp"
#include "acm/driver/port_resolver.hpp"
#include "base/error.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"
#include "verbs/port_info.hpp"

namespace wireup::acm {

/// A port and partition of the node's service, whatever state it is in: a device that is not there
/// yet, a port without a subnet manager, a node whose resolver is still a rank. Tries again each
/// second. Another service on this node is left alone; resolvers of ranks are replaced, since a
/// service outlives jobs.
///
/// For everybody (Audience) it takes the node's public directory, and the resolvers of all users'
/// ranks step down when they see it beat. For its own user only it takes the user's directory, and
/// ends the epoch of the rank that has it.
///
/// Not thread-safe; never blocks.
class ServedPort {
 public:
  struct Options {
    std::string device;
    std::uint8_t port = 1;
    /// None: entry 0 of the port's table, which is what "default" means to ibacm.
    std::optional<PKey> pkey;
    Config engine;
    std::vector<mad::AcmAddress> locals;
    PreloadFiles preloads;
    std::uint32_t cache_entries = 16384;
    Audience audience = Audience::OwnUser;
    /// As NodeClientOptions; of a service for everybody only `public_directory` counts.
    std::string directory;
    std::string cache_directory = "/dev/shm";
    std::string public_directory = kPublicDirectory;
    RankServerLimits ranks;
    SourcePolicy sources = {};
  };
  [[nodiscard]] static Result<std::unique_ptr<ServedPort>> open(const Options& options);

  /// Readable when progress() has something to do; constant for life.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  void progress(Instant now);
  [[nodiscard]] Instant poll_timeout() const;

  /// IP addresses of the port's own interfaces, to be answered for besides the configured locals,
  /// in place of those of the call before. Returns the ones that are gone.
  std::vector<mad::AcmAddress> set_addresses(const std::vector<mad::AcmAddress>& addresses,
                                             Instant now);

  /// nullptr while the port cannot be served; fault() says why.
  [[nodiscard]] PortResolver* resolver() noexcept { return resolver_.get(); }
  [[nodiscard]] const PortResolver* resolver() const noexcept { return resolver_.get(); }
  /// What is wrong with the port now; nothing when it is served.
  [[nodiscard]] std::optional<Error> fault() const;
  /// Its locals are those that are answered for now.
  [[nodiscard]] const Options& options() const noexcept { return options_; }
  /// As of the last look; nothing before the device was seen.
  [[nodiscard]] const std::optional<verbs::PortInfo>& info() const noexcept { return info_; }
  /// The P_Key that was asked for, as it was written, or entry 0 of the port's table.
  [[nodiscard]] PKey wanted_pkey() const noexcept;
  /// How it stands in the table as of the last look, where the membership may differ.
  [[nodiscard]] std::optional<PKey> table_pkey() const noexcept;
  /// Ports of the device.
  [[nodiscard]] std::uint8_t device_ports() const noexcept { return device_ports_; }

 private:
  ServedPort(const Options& options, UniqueFd epoll) noexcept
      : options_(options), configured_(options.locals), epoll_(std::move(epoll)) {}
  [[nodiscard]] Result<> start(Instant now);
  [[nodiscard]] Result<> look_at_port();
  [[nodiscard]] Result<NodeDirectory> open_directory(PKey pkey, Instant now) const;

  Options options_;
  /// `options_.locals` without the addresses of interfaces.
  std::vector<mad::AcmAddress> configured_;
  UniqueFd epoll_;
  std::optional<verbs::PortInfo> info_;
  std::uint8_t device_ports_ = 0;
  // Destroyed from the bottom up: the resolver before the lock that it holds.
  std::optional<NodeLock> lock_;
  std::unique_ptr<PortResolver> resolver_;
  Error fault_{Errc::NoDevice};
  Instant next_start_;
};

}  // namespace wireup::acm
