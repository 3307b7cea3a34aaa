// SPDX-License-Identifier: BSD-3-Clause
// What `softhca fault link`, `pkey`, `gid` and `reregister` order at a port of the fabric.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "softhca/agent/server.hpp"
#include "softhca/agent/sweep_loop.hpp"
#include "softhca/fabric/fabric_view.hpp"

namespace softhca {

/// Thread rule: as SweepLoop and FabricView.
class PortOrders {
 public:
  /// `console` is a FIFO that ibsim reads its commands from; "" when there is none.
  PortOrders(SweepLoop& loop, const FabricView& view, std::string console)
      : loop_(loop), view_(view), console_(std::move(console)) {}

  /// The words behind `fault`.
  CommandResult run(std::span<const std::string> words);

 private:
  CommandResult link(PortIndex port, const std::string& state);
  CommandResult pkey(PortIndex port, const std::string& index, const std::string& value);
  CommandResult gid(PortIndex port, const std::string& index, const std::string& guid);

  SweepLoop& loop_;
  const FabricView& view_;
  std::string console_;
};

}  // namespace softhca
