// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.hpp"
#include "conn/engine/types.hpp"
#include "verbs/objects.hpp"
#include "verbs/rc_qp.hpp"

namespace wireup::conn {

/// The queue pairs of a context's connections. A queue pair dies when the engine has released it
/// (its number may be used again) and the user cannot hold it any more. A few are made ahead of
/// need, in INIT already, so that a connect finds one. Ended ones are never used again: the
/// completions that the user has not yet taken name their numbers.
class QpTable {
 public:
  struct Options {
    verbs::RcQpOptions qp;
    std::uint8_t port = 1;
    std::uint16_t pkey_index = 0;
    std::uint32_t spare = 4;
  };

  QpTable(const verbs::Pd& pd, ibv_cq* send_cq, ibv_cq* receive_cq, const Options& options)
      : pd_(&pd), send_cq_(send_cq), receive_cq_(receive_cq), options_(options) {}

  [[nodiscard]] Result<Qpn> create(ConnectionId id);
  [[nodiscard]] Result<> connect(ConnectionId id, const QpAttributes& attributes);
  void break_off(ConnectionId id);
  void release(ConnectionId id);

  /// The user has been told of it, and later that it is over.
  void lend(ConnectionId id);
  void take_back(ConnectionId id);
  /// Null when there is none.
  [[nodiscard]] ibv_qp* find(ConnectionId id) const noexcept;
  /// The connection of a queue pair; 0 when it is none of ours.
  [[nodiscard]] ConnectionId owner(const ibv_qp* qp) const noexcept;

  /// Makes one spare queue pair if one is wanted; true when it did. A failure ends the making of
  /// spare ones: create() will report it when one is needed.
  bool make_spare();
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size() + spare_.size(); }

 private:
  struct Entry {
    verbs::Qp qp;
    bool lent = false;
    bool released = false;
  };
  using Entries = std::map<ConnectionId, Entry>;

  [[nodiscard]] Result<verbs::Qp> make() const;
  void erase_if_unused(Entries::iterator entry);

  const verbs::Pd* pd_;
  ibv_cq* send_cq_;
  ibv_cq* receive_cq_;
  Options options_;
  Entries entries_;
  std::vector<verbs::Qp> spare_;
};

}  // namespace wireup::conn
