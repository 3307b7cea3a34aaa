// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as datagrams to an ACM engine that has joined its groups, has a request in flight and
// answers for a name. The first byte chooses the route protocol. Each datagram begins with two
// bytes: its sender, and how it is made: all of its 256 bytes from the input, or a good request or
// answer with up to 15 changes of an offset and a value each.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "acm/engine_model.hpp"
#include "base/check.hpp"

namespace {

using namespace wireup;
using acm::test::ByteSource;

struct Target {
  explicit Target(acm::RouteProtocol protocol) {
    acm::Config config;
    config.route_protocol = protocol;
    config.max_entries = 32;
    config.announcements = 0;
    fabric.add(acm::test::node_port(0, mad::kRate40, mad::kMtu4096), config,
               {*mad::AcmAddress::name("fuzzed")});
    fabric.net.run_for(std::chrono::milliseconds(10));
    WIREUP_CHECK(fabric.resolve(0, 1, std::chrono::hours(1)).has_value());
    const acm::Transmit& sent = fabric.nodes[0]->sent.front();
    answer.tid = std::get<mad::AcmRequest>(*mad::parse_acm(sent.bytes)).tid;
    request.groups = std::get<mad::AcmRequest>(*mad::parse_acm(sent.bytes)).groups;
    answer.group = request.groups.gids[1];
  }

  acm::test::Fabric fabric{1};
  mad::AcmRequest request{Tid(1), *mad::AcmAddress::name("fuzzed"), acm::test::node_address(2), {}};
  mad::AcmResponse answer;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteSource in({data, size});
  Target target(in.below(2) == 0 ? acm::RouteProtocol::Acm : acm::RouteProtocol::Sa);
  acm::test::FabricNode& node = *target.fabric.nodes[0];
  const std::size_t before = node.sent.size();
  std::size_t datagrams = 0;
  while (!in.is_empty()) {
    const std::size_t peer = in.below(4);
    const std::uint8_t how = in.next();
    mad::Mad bytes{};
    if (how >= 0xF0) {
      std::generate(bytes.begin(), bytes.end(), [&] { return in.next(); });
    } else {
      if ((how & 0x80U) != 0) {
        mad::serialize(target.answer, bytes);
      } else {
        mad::serialize(target.request, bytes);
      }
      for (unsigned changes = how & 0x0FU; changes > 0; --changes) {
        bytes[in.next()] = in.next();
      }
    }
    node.engine.handle_mad(
        {acm::test::node_lid(peer), acm::test::node_qpn(peer),
         static_cast<std::uint8_t>(how & 0x10U), (how & 0x20U) == 0, acm::test::node_gid(peer)},
        bytes, target.fabric.now());
    node.drain(target.fabric.now());
    ++datagrams;
  }
  target.fabric.net.run_for(std::chrono::milliseconds(5));
  WIREUP_CHECK(node.sent.size() <= before + datagrams);
  WIREUP_CHECK(node.engine.entries() <= 32);
  WIREUP_CHECK(node.answers(acm::test::node_address(1)) <= 1);
  return 0;
}
