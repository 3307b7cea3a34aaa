// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/kernel_messages.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>

#include "cm/engine/derived_psn.hpp"

namespace wireup::cm {
namespace {

using rdmacm::CmEvent;
using rdmacm::ConnectionValues;

/// RoCE has one partition.
constexpr PKey kRocePKey{0xFFFF};
/// What the kernel puts into its REQs.
constexpr IbTimeout kKernelResponseTimeout{20};
constexpr mad::CmRetryCount kKernelRetries{15};
/// Of answers to a message that crossed routers, perhaps.
constexpr std::uint8_t kAnswerHopLimit = 0xFF;
/// The kernel does not tell the ACK delay in a REP; this is what adapters have.
constexpr IbTimeout kUsualAckDelay{15};
constexpr std::array<std::uint8_t, 16> kAbandoned{'w', 'i', 'r', 'e', 'u', 'p', ':', 'a',
                                                  'b', 'a', 'n', 'd', 'o', 'n', 'e', 'd'};

Result<> check_psn(const char* message, Psn psn, Qpn qpn,
                   std::span<const std::uint8_t> private_data) noexcept {
  const Psn derived = derived_psn(qpn, private_data);
  if (psn != derived) {
    return fail(Error::make(Errc::InvalidArgument,
                            "%s: starting PSN 0x%06x, but the kernel's CM carries none and both "
                            "ends take 0x%06x (derived_psn)",
                            message, static_cast<unsigned>(psn.value()),
                            static_cast<unsigned>(derived.value())));
  }
  return {};
}

Result<> check_service(ServiceId service, Medium medium) noexcept {
  const bool fits = medium == Medium::Infiniband
                        ? !service.is_zero()
                        : (service.value() & rdmacm::kPortSpaceMask) == rdmacm::kTcpPortSpace &&
                              (service.value() & ~rdmacm::kPortSpaceMask) != 0;
  if (!fits) {
    return fail(Error::make(Errc::InvalidArgument,
                            "REQ: service id 0x%016" PRIx64 " is none of the kernel's CM: on RoCE "
                            "it is 0x%016" PRIx64 " and a port",
                            service.value(), rdmacm::kTcpPortSpace));
  }
  return {};
}

template <std::size_t N>
BoundedBytes<ConnectionValues::kMaxPrivateData> sent(
    const std::array<std::uint8_t, N>& private_data) noexcept {
  static_assert(N <= ConnectionValues::kMaxPrivateData);
  return *BoundedBytes<ConnectionValues::kMaxPrivateData>::make(trimmed(private_data));
}

template <std::size_t N>
std::array<std::uint8_t, N> received(const ConnectionValues& values) noexcept {
  const auto bytes = values.private_data.span();
  return mad::private_data<N>(bytes.first(std::min(bytes.size(), N)));
}

std::uint16_t port_of(ServiceId service) noexcept {
  return static_cast<std::uint16_t>(service.value() & ~rdmacm::kPortSpaceMask);
}

Gid remote_gid_of(const CmEvent& event) noexcept {
  return event.path.has_value() ? event.path->dgid : event.remote_gid;
}

Gid local_gid_of(const CmEvent& event) noexcept {
  return event.path.has_value() ? event.path->sgid : event.local_gid;
}

}  // namespace

std::span<const std::uint8_t> trimmed(std::span<const std::uint8_t> bytes) noexcept {
  std::size_t size = bytes.size();
  while (size > 0 && bytes[size - 1] == 0) {
    --size;
  }
  return bytes.first(size);
}

Result<> check(const mad::Req& req, Medium medium) noexcept {
  if (req.transport_service != mad::TransportService::Rc) {
    return fail(Error::make(Errc::Unsupported, "REQ: transport service %u: the kernel's CM has RC",
                            static_cast<unsigned>(req.transport_service)));
  }
  if (req.alternate.has_value()) {
    return fail(Error::make(Errc::Unsupported, "REQ: the kernel's CM takes no alternate path"));
  }
  if (!req.ece_vendor.is_zero()) {
    return fail(
        Error::make(Errc::Unsupported, "REQ: ECE options are not passed to the kernel's CM"));
  }
  if (req.primary.remote_gid.is_zero() || req.primary.local_gid.is_zero()) {
    return fail(Error::make(Errc::InvalidArgument,
                            "REQ: the kernel's CM finds the ports by both GIDs of the path (%s to "
                            "%s)",
                            to_text(req.primary.local_gid).data(),
                            to_text(req.primary.remote_gid).data()));
  }
  const std::size_t size = trimmed(req.private_data).size();
  if (size > request_private_limit(medium)) {
    return fail(
        Error::make(Errc::InvalidArgument, "REQ: %zu bytes of private data, at most %zu%s", size,
                    request_private_limit(medium),
                    medium == Medium::Roce ? " on RoCE, where the kernel's header takes 36" : ""));
  }
  if (auto known = check_service(req.service_id, medium); !known) {
    return known;
  }
  return check_psn("REQ", req.starting_psn, req.local_qpn, req.private_data);
}

Result<> check(const mad::Rep& rep) noexcept {
  if (!rep.ece_vendor.is_zero()) {
    return fail(
        Error::make(Errc::Unsupported, "REP: ECE options are not passed to the kernel's CM"));
  }
  return check_psn("REP", rep.starting_psn, rep.local_qpn, rep.private_data);
}

KernelEnds ends_of(const mad::Req& req, Medium medium, std::uint32_t scope_id) {
  if (medium == Medium::Roce) {
    return {rdmacm::IpAddress{req.primary.local_gid, 0, scope_id},
            rdmacm::IpAddress{req.primary.remote_gid, port_of(req.service_id), scope_id}};
  }
  return {rdmacm::IbAddress{req.primary.local_gid, req.pkey, ServiceId()},
          rdmacm::IbAddress{req.primary.remote_gid, req.pkey, req.service_id}};
}

mad::PathRecord path_of(const mad::Req& req, Medium medium) noexcept {
  const mad::ReqPath& path = req.primary;
  mad::PathRecord record;
  record.dgid = path.remote_gid;
  record.sgid = path.local_gid;
  if (medium == Medium::Infiniband) {
    record.dlid = path.remote_lid;
    record.slid = path.local_lid;
  }
  record.flow_label = path.flow_label;
  record.hop_limit = path.hop_limit;
  record.traffic_class = path.traffic_class;
  record.reversible = true;
  record.numb_path = 1;
  record.pkey = medium == Medium::Infiniband ? req.pkey : kRocePKey;
  record.sl = path.sl;
  record.mtu_selector = mad::Selector::Exactly;
  record.mtu = req.path_mtu.value();
  record.rate_selector = mad::Selector::Exactly;
  record.rate = path.packet_rate.value();
  record.packet_lifetime_selector = mad::Selector::Exactly;
  const std::uint8_t timeout = path.local_ack_timeout.exponent();
  record.packet_lifetime = timeout > 0 ? static_cast<std::uint8_t>(timeout - 1) : timeout;
  return record;
}

ConnectionValues values_of(const mad::Req& req) noexcept {
  ConnectionValues values;
  values.qpn = req.local_qpn;
  values.responder_resources = req.responder_resources;
  values.initiator_depth = req.initiator_depth;
  values.retry_count = req.retry_count;
  values.rnr_retry_count = req.rnr_retry_count;
  values.flow_control = req.end_to_end_flow_control;
  values.srq = req.srq;
  values.private_data = sent(req.private_data);
  return values;
}

ConnectionValues values_of(const mad::Rep& rep) noexcept {
  ConnectionValues values;
  values.qpn = rep.local_qpn;
  values.responder_resources = rep.responder_resources;
  values.initiator_depth = rep.initiator_depth;
  values.rnr_retry_count = rep.rnr_retry_count;
  values.flow_control = rep.end_to_end_flow_control;
  values.srq = rep.srq;
  values.private_data = sent(rep.private_data);
  return values;
}

Address source_of(const CmEvent& event, Medium medium) noexcept {
  Address from;
  from.qpn = kKernelCmQpn;
  from.has_grh = true;
  from.dgid = remote_gid_of(event);
  from.hop_limit = kAnswerHopLimit;
  if (event.path.has_value()) {
    from.sl = event.path->sl;
    from.flow_label = event.path->flow_label;
    from.traffic_class = event.path->traffic_class;
    if (medium == Medium::Infiniband) {
      from.dlid = event.path->dlid;
    }
  }
  return from;
}

mad::Req req_of(const CmEvent& event, const KernelDefaults& defaults) noexcept {
  const ConnectionValues& values = event.values;
  mad::Req req;
  req.service_id = defaults.service_id;
  req.local_ca_guid = remote_gid_of(event).interface_id();
  req.local_qpn = values.qpn;
  req.responder_resources = values.responder_resources;
  req.initiator_depth = values.initiator_depth;
  req.remote_cm_response_timeout = kKernelResponseTimeout;
  req.local_cm_response_timeout = kKernelResponseTimeout;
  req.max_cm_retries = kKernelRetries;
  req.end_to_end_flow_control = values.flow_control;
  req.retry_count = values.retry_count;
  req.rnr_retry_count = values.rnr_retry_count;
  req.srq = values.srq;
  req.pkey = kRocePKey;
  req.path_mtu = defaults.mtu;
  req.private_data = received<mad::Req::kPrivateSize>(values);
  req.starting_psn = derived_psn(values.qpn, req.private_data);
  // The sender's view: its local end is our remote one.
  mad::ReqPath& path = req.primary;
  path.local_gid = remote_gid_of(event);
  path.remote_gid = local_gid_of(event);
  path.subnet_local = true;
  if (!event.path.has_value()) {
    return req;
  }
  const mad::PathRecord& record = *event.path;
  if (defaults.medium == Medium::Infiniband) {
    req.pkey = record.pkey;
    path.local_lid = record.dlid;
    path.remote_lid = record.slid;
  }
  if (record.mtu != 0) {
    req.path_mtu = mad::CmMtu::make(record.mtu).value_or(defaults.mtu);
  }
  path.flow_label = record.flow_label;
  // Six bits in a record as in a REQ.
  path.packet_rate = mad::CmRate(record.rate);
  path.traffic_class = record.traffic_class;
  path.hop_limit = record.hop_limit;
  path.sl = record.sl;
  path.subnet_local = record.hop_limit <= 1;
  path.local_ack_timeout = IbTimeout(static_cast<std::uint8_t>(record.packet_lifetime + 1));
  return req;
}

mad::Rep rep_of(const CmEvent& event, Guid ca_guid) noexcept {
  const ConnectionValues& values = event.values;
  mad::Rep rep;
  rep.local_qpn = values.qpn;
  rep.responder_resources = values.responder_resources;
  rep.initiator_depth = values.initiator_depth;
  rep.target_ack_delay = kUsualAckDelay;
  rep.end_to_end_flow_control = values.flow_control;
  rep.rnr_retry_count = values.rnr_retry_count;
  rep.srq = values.srq;
  rep.local_ca_guid = ca_guid;
  rep.private_data = received<mad::Rep::kPrivateSize>(values);
  rep.starting_psn = derived_psn(values.qpn, rep.private_data);
  return rep;
}

std::span<const std::uint8_t> abandoned_mark() noexcept {
  return kAbandoned;
}

bool is_abandoned(const CmEvent& rejected) noexcept {
  const auto text = trimmed(rejected.values.private_data.span());
  return rejected.status == static_cast<int>(mad::RejReason::ConsumerReject) &&
         std::equal(text.begin(), text.end(), kAbandoned.begin(), kAbandoned.end());
}

}  // namespace wireup::cm
