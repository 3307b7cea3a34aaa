// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "acm/driver/ibacm_client.hpp"
#include "acm/driver/ibacm_source.hpp"
#include "acm/engine/path.hpp"
#include "base/error.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"
#include "mad/acm.hpp"
#include "rdmacm/kernel_paths.hpp"
#include "verbs/port_info.hpp"

namespace wireup::acm {

/// A port for a process that may look at it but not ask the fabric through it: neither CAP_NET_RAW
/// for the ACM's Q_Key nor the MAD device. Its paths come from those of the node who may: a running
/// ibacm, or `wireup serve` in its place, and where that has no path, the kernel's connection
/// manager.
///
/// The port is looked at each half second, since other addresses or another subnet manager void
/// what was learned. Not thread-safe; never blocks.
class UnprivilegedPort {
 public:
  struct Options {
    std::string device;
    std::uint8_t port = 1;
    PKey pkey{0xFFFF};
    IbacmClient::Options ibacm;
    /// Which of the two is asked.
    bool asks_ibacm = true;
    bool asks_kernel = true;
    std::string kernel_device = rdmacm::kKernelCm;
    /// nullptr: librdmacm itself.
    const rdmacm::Ops* kernel_ops = nullptr;
    /// What this process lacks: the other half of an error when nobody helps.
    Error lacks{Errc::NoPermission};
    /// Looks at the port; none: by opening the device.
    std::function<Result<verbs::PortInfo>()> look;
  };
  /// Errc::NoDevice, Errc::NoSubnetManager (the port is not ACTIVE), Errc::InvalidArgument (the
  /// port has no such P_Key).
  [[nodiscard]] static Result<std::unique_ptr<UnprivilegedPort>> open(const Options& options,
                                                                      Instant now);

  using QuestionId = IbacmSource::QuestionId;
  /// As IbacmSource::ask(). No two questions at a time have one id.
  void ask(QuestionId id, const PathKey& key, Instant deadline, Instant now);
  void ask(QuestionId id, const mad::AcmAddress& address, Instant deadline, Instant now);
  void path_failed(const Gid& dgid) { source_->path_failed(dgid); }

  struct Answer {
    QuestionId id = 0;
    Result<mad::PathRecord> path;
    /// Who told it.
    PathOrigin origin = PathOrigin::Ibacm;
  };
  /// Errc::NoPermission: nobody on this node tells paths; the error says what this process lacks
  /// and who is not there.
  [[nodiscard]] std::optional<Answer> poll_answer();
  /// Once after each change of the port: what was learned before is void.
  [[nodiscard]] bool poll_changed() noexcept;

  [[nodiscard]] const verbs::PortInfo& info() const noexcept { return source_->port(); }
  /// As it stands in the port's table.
  [[nodiscard]] PKey pkey() const noexcept { return source_->pkey(); }

  /// Readable when progress() has something to do; constant for life.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  void progress(Instant now);
  [[nodiscard]] Instant poll_timeout() const;

 private:
  struct Question {
    mad::AcmAddress destination;
    std::optional<Sl> sl;
    ServiceId service;
    Instant deadline;
    /// Why ibacm did not do.
    std::optional<Error> error;
  };

  explicit UnprivilegedPort(const Options& options) : options_(options) {}
  [[nodiscard]] Result<> watch(int fd) const;
  void open_kernel();
  void look_at_port();
  void ask_ibacm(QuestionId id, const std::variant<PathKey, mad::AcmAddress>& target,
                 Instant deadline, Instant now);
  void take_from_ibacm(const IbacmSource::Answer& answer, Instant now);
  void take_from_kernel(const rdmacm::KernelPaths::Answer& answer);
  [[nodiscard]] Error explain(const Error& error) const;

  Options options_;
  UniqueFd epoll_;
  std::optional<IbacmSource> source_;
  std::optional<rdmacm::KernelPaths> kernel_;
  std::map<QuestionId, Question> questions_;
  std::deque<Answer> answers_;
  Instant next_look_;
  bool has_changed_ = false;
};

}  // namespace wireup::acm
