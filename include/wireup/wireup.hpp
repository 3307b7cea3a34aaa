// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "wireup/wireup.h"

/// C++ over wireup.h: the same calls, with ownership and types. Needs C++17. Nothing here throws
/// but std::bad_alloc from std::string.
namespace wireup {

/// Outcome of a call: what kind, and for a failure the sentence that tells where and what to do.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  /// Takes the text of this thread's last error when `code` is one.
  explicit Status(wireup_status_t code)
      : code_(code), text_(code == WIREUP_OK ? "" : wireup_last_error()) {}

  explicit operator bool() const noexcept { return code_ == WIREUP_OK; }
  wireup_status_t code() const noexcept { return code_; }
  const std::string& text() const noexcept { return text_; }

 private:
  wireup_status_t code_ = WIREUP_OK;
  std::string text_;
};

/// A configuration with the defaults in it.
struct Config : wireup_config_t {
  Config() noexcept : wireup_config_t{} {
    static_cast<void>(wireup_config_init(this, sizeof(wireup_config_t)));
  }
};

/// A rank of a namespace; empty is the caller's own job. A plain number is a rank of it.
struct Peer {
  std::uint32_t rank = 0;
  std::string nspace;

  Peer(std::uint32_t peer_rank) noexcept : rank(peer_rank) {}  // NOLINT: meant to convert
  Peer(std::string peer_nspace, std::uint32_t peer_rank)
      : rank(peer_rank), nspace(std::move(peer_nspace)) {}
};

/// A path that is wanted, from Context::resolve() on. Move-only; the destructor ends the watch. It
/// must die before its context.
class Path {
 public:
  Path() noexcept = default;
  Path(Path&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)), id_(std::exchange(other.id_, 0)) {}
  Path& operator=(Path&& other) noexcept {
    if (this != &other) {
      reset();
      context_ = std::exchange(other.context_, nullptr);
      id_ = std::exchange(other.id_, 0);
    }
    return *this;
  }
  ~Path() { reset(); }

  /// Compare it with wireup_event_t.path; 0 when empty.
  wireup_path_id_t id() const noexcept { return id_; }
  explicit operator bool() const noexcept { return id_ != 0; }
  /// Nothing after UNRESOLVED, or when empty.
  std::optional<wireup_path_t> info() const {
    wireup_path_t path{};
    path.struct_size = sizeof path;
    return context_ != nullptr && wireup_path_info(context_, id_, &path) == WIREUP_OK
               ? std::optional<wireup_path_t>(path)
               : std::nullopt;
  }
  bool is_resolved() const {
    const std::optional<wireup_path_t> path = info();
    return path.has_value() && path->state == WIREUP_PATH_STATE_RESOLVED;
  }
  /// It did not work; see wireup_path_failed().
  Status failed() { return Status(wireup_path_failed(context_, id_)); }
  /// Ends the watch.
  void reset() noexcept {
    if (context_ != nullptr) {
      static_cast<void>(wireup_unresolve(std::exchange(context_, nullptr), std::exchange(id_, 0)));
    }
  }

 private:
  friend class Context;
  Path(wireup_context_t* context, wireup_path_id_t id) noexcept : context_(context), id_(id) {}

  wireup_context_t* context_ = nullptr;
  wireup_path_id_t id_ = 0;
};

/// What is asked of a path: nothing, as long as nothing is set.
struct ResolveOptions : wireup_resolve_options_t {
  ResolveOptions() noexcept : wireup_resolve_options_t{} { struct_size = sizeof *this; }
  ResolveOptions& demand_sl(std::uint8_t level) noexcept {
    has_sl = 1;
    sl = level;
    return *this;
  }
};

/// Owns a context; see wireup.h for what each call does and who may call it when. Move-only. The
/// destructor closes with a bound of 5 seconds; call close() to choose it and to see the outcome.
class Context {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  /// Nothing when it failed; `status` then tells why.
  static std::optional<Context> open(const Config& config, Status& status) {
    wireup_context_t* raw = nullptr;
    status = Status(wireup_context_open(&config, &raw));
    return raw != nullptr ? std::optional<Context>(Context(raw)) : std::nullopt;
  }

  Context(Context&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Context& operator=(Context&& other) noexcept {
    if (this != &other) {
      reset();
      raw_ = std::exchange(other.raw_, nullptr);
    }
    return *this;
  }
  ~Context() { reset(); }

  Status close(Nanoseconds limit) {
    return Status(wireup_context_close(std::exchange(raw_, nullptr), count(limit)));
  }

  std::uint32_t rank() const noexcept { return wireup_rank(raw_); }
  std::uint32_t size() const noexcept { return wireup_size(raw_); }
  const char* nspace() const noexcept { return wireup_nspace(raw_); }

  Status connect(const Peer& peer, Nanoseconds limit) {
    const wireup_peer_t raw = to_raw(peer);
    return Status(wireup_connect(raw_, &raw, count(limit)));
  }
  Status disconnect(const Peer& peer) {
    const wireup_peer_t raw = to_raw(peer);
    return Status(wireup_close(raw_, &raw));
  }
  /// An empty Path when it failed at once. When it is not resolved yet, an event tells. There is to
  /// be one Path for the same peer and options: each ends the watch of all.
  Path resolve(const Peer& peer, Nanoseconds limit, Status& status,
               const ResolveOptions& options = {}) {
    const wireup_peer_t raw = to_raw(peer);
    wireup_path_t path{};
    path.struct_size = sizeof path;
    status = Status(wireup_resolve(raw_, &raw, &options, count(limit), &path));
    return status ? Path(raw_, path.id) : Path();
  }
  Path resolve_address(const char* address, Nanoseconds limit, Status& status,
                       const ResolveOptions& options = {}) {
    wireup_path_t path{};
    path.struct_size = sizeof path;
    status = Status(wireup_resolve_address(raw_, address, &options, count(limit), &path));
    return status ? Path(raw_, path.id) : Path();
  }
  Status progress() { return Status(wireup_progress(raw_)); }
  /// True in `came` when an event is there.
  Status wait(Nanoseconds limit, bool& came) {
    const wireup_status_t code = wireup_wait(raw_, count(limit));
    came = code == WIREUP_OK;
    return code == WIREUP_ERR_TIMEOUT ? Status() : Status(code);
  }
  int fd() const noexcept { return wireup_fd(raw_); }
  /// Nothing when progress() is not needed before fd() is readable.
  std::optional<Nanoseconds> next_timeout() {
    const std::uint64_t next = wireup_next_timeout_ns(raw_);
    if (next == UINT64_MAX) {
      return std::nullopt;
    }
    return Nanoseconds(static_cast<std::int64_t>(next));
  }
  std::optional<wireup_event_t> poll_event() {
    wireup_event_t event{};
    event.struct_size = sizeof event;
    return wireup_poll_event(raw_, &event) == 1 ? std::optional<wireup_event_t>(event)
                                                : std::nullopt;
  }

  /// Null when the peer is not connected.
  ibv_qp* qp(const Peer& peer) {
    const wireup_peer_t raw = to_raw(peer);
    ibv_qp* qp = nullptr;
    static_cast<void>(wireup_peer_qp(raw_, &raw, &qp));
    return qp;
  }
  std::optional<wireup_peer_info_t> peer_info(const Peer& peer) {
    const wireup_peer_t raw = to_raw(peer);
    wireup_peer_info_t info{};
    info.struct_size = sizeof info;
    return wireup_peer_info(raw_, &raw, &info) == WIREUP_OK
               ? std::optional<wireup_peer_info_t>(info)
               : std::nullopt;
  }
  wireup_stats_t stats() {
    wireup_stats_t stats{};
    stats.struct_size = sizeof stats;
    static_cast<void>(wireup_stats(raw_, &stats));
    return stats;
  }

  const char* carrier() const noexcept { return wireup_context_carrier(raw_); }
  ibv_context* verbs() const noexcept { return wireup_context_verbs(raw_); }
  ibv_pd* pd() const noexcept { return wireup_context_pd(raw_); }
  ibv_cq* send_cq() const noexcept { return wireup_context_send_cq(raw_); }
  ibv_cq* receive_cq() const noexcept { return wireup_context_recv_cq(raw_); }
  wireup_context_t* raw() const noexcept { return raw_; }

 private:
  explicit Context(wireup_context_t* raw) noexcept : raw_(raw) {}
  static std::uint64_t count(Nanoseconds limit) noexcept {
    return limit.count() > 0 ? static_cast<std::uint64_t>(limit.count()) : 0;
  }
  static wireup_peer_t to_raw(const Peer& peer) noexcept {
    return {peer.nspace.empty() ? nullptr : peer.nspace.c_str(), peer.rank};
  }
  void reset() noexcept {
    if (raw_ != nullptr) {
      static_cast<void>(
          wireup_context_close(std::exchange(raw_, nullptr), count(std::chrono::seconds(5))));
    }
  }

  wireup_context_t* raw_ = nullptr;
};

}  // namespace wireup
