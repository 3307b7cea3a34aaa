// SPDX-License-Identifier: BSD-3-Clause
#include "rdmacm/event_values.hpp"

#include <algorithm>
#include <iterator>

#include "rdmacm/route_record.hpp"

namespace wireup::rdmacm {
namespace {

Gid to_gid(const ibv_gid& gid) noexcept {
  Gid::Bytes bytes{};
  std::copy(std::begin(gid.raw), std::end(gid.raw), bytes.begin());
  return Gid(bytes);
}

}  // namespace

CmEventKind event_kind(rdma_cm_event_type type) noexcept {
  switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return CmEventKind::AddressResolved;
    case RDMA_CM_EVENT_ADDR_ERROR:
      return CmEventKind::AddressError;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return CmEventKind::RouteResolved;
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return CmEventKind::RouteError;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return CmEventKind::ConnectRequest;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return CmEventKind::ConnectResponse;
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return CmEventKind::ConnectError;
    case RDMA_CM_EVENT_UNREACHABLE:
      return CmEventKind::Unreachable;
    case RDMA_CM_EVENT_REJECTED:
      return CmEventKind::Rejected;
    case RDMA_CM_EVENT_ESTABLISHED:
      return CmEventKind::Established;
    case RDMA_CM_EVENT_DISCONNECTED:
      return CmEventKind::Disconnected;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return CmEventKind::DeviceRemoval;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return CmEventKind::TimewaitExit;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
    case RDMA_CM_EVENT_ADDR_CHANGE:
      break;
  }
  return CmEventKind::Other;
}

bool has_values(CmEventKind kind) noexcept {
  return kind == CmEventKind::ConnectRequest || kind == CmEventKind::ConnectResponse;
}

std::optional<ConnectionValues> event_values(const rdma_conn_param& from) noexcept {
  const auto qpn = Qpn::make(from.qp_num);
  const auto retries = mad::RetryCount::make(from.retry_count);
  const auto rnr_retries = mad::RnrRetryCount::make(from.rnr_retry_count);
  if (!qpn.has_value() || !retries.has_value() || !rnr_retries.has_value()) {
    return std::nullopt;
  }
  ConnectionValues to;
  to.qpn = *qpn;
  to.responder_resources = from.initiator_depth;
  to.initiator_depth = from.responder_resources;
  to.retry_count = *retries;
  to.rnr_retry_count = *rnr_retries;
  to.flow_control = from.flow_control != 0;
  to.srq = from.srq != 0;
  to.private_data = event_private_data(from);
  return to;
}

BoundedBytes<ConnectionValues::kMaxPrivateData> event_private_data(
    const rdma_conn_param& from) noexcept {
  if (from.private_data == nullptr) {
    return {};
  }
  const auto* bytes = static_cast<const std::uint8_t*>(from.private_data);
  // The length has 8 bits: it fits.
  return *BoundedBytes<ConnectionValues::kMaxPrivateData>::make({bytes, from.private_data_len});
}

void take_route(const rdma_route& route, CmEvent& to) {
  if (route.num_paths > 0 && route.path_rec != nullptr) {
    if (auto path = to_record(route.path_rec[0])) {
      to.path = *path;
    }
  }
  to.local_gid = to_gid(route.addr.addr.ibaddr.sgid);
  to.remote_gid = to_gid(route.addr.addr.ibaddr.dgid);
}

}  // namespace wireup::rdmacm
