// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/ud_carrier.hpp"

namespace wireup::cm {

Result<UdCarrier> UdCarrier::open(const verbs::Device& device, const Options& options) {
  verbs::UdEndpoint::Options endpoint_options;
  endpoint_options.port = options.port;
  endpoint_options.pkey_index = options.pkey_index;
  endpoint_options.qkey = options.qkey;
  endpoint_options.send_depth = options.send_depth;
  endpoint_options.receive_depth = options.receive_depth;
  endpoint_options.message_size = mad::kMadSize;
  auto endpoint = verbs::UdEndpoint::open(device, endpoint_options);
  if (!endpoint) {
    return fail(endpoint.error());
  }
  return UdCarrier(std::move(*endpoint), options);
}

Result<> UdCarrier::send(const Transmit& transmit) {
  if (waiting_.empty()) {
    auto sent = send_now(transmit);
    if (sent || !sent.error().is(Errc::Busy)) {
      return sent;
    }
  }
  if (waiting_.size() >= options_.max_waiting) {
    ++overflows_;
    return {};
  }
  waiting_.push_back(transmit);
  return flush();
}

Result<> UdCarrier::flush() {
  while (!waiting_.empty()) {
    auto sent = send_now(waiting_.front());
    if (!sent && sent.error().is(Errc::Busy)) {
      return {};
    }
    // A message that the device refuses must not hold up those behind it.
    waiting_.pop_front();
    if (!sent) {
      return sent;
    }
  }
  return {};
}

Result<> UdCarrier::send_now(const Transmit& transmit) {
  const Address& to = transmit.to;
  verbs::UdDestination destination;
  destination.dlid = to.dlid;
  destination.qpn = to.qpn;
  destination.qkey = options_.qkey;
  destination.sl = to.sl;
  destination.static_rate = to.static_rate;
  destination.path_bits = to.path_bits;
  destination.global = to.has_grh;
  if (to.has_grh) {
    destination.dgid = to.dgid;
    destination.flow_label = to.flow_label;
    destination.hop_limit = to.hop_limit;
    destination.traffic_class = to.traffic_class;
  }
  return endpoint_.send(destination, transmit.bytes);
}

Address UdCarrier::source_of(const verbs::UdDatagram& datagram) noexcept {
  Address from;
  from.dlid = datagram.slid;
  from.qpn = datagram.source_qpn;
  from.sl = datagram.sl;
  from.path_bits = datagram.path_bits;
  from.has_grh = datagram.has_grh;
  if (datagram.has_grh) {
    from.dgid = datagram.sgid;
    from.flow_label = datagram.flow_label;
    from.hop_limit = Address::kAnswerHopLimit;
    from.traffic_class = datagram.traffic_class;
  }
  return from;
}

}  // namespace wireup::cm
