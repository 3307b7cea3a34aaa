// SPDX-License-Identifier: BSD-3-Clause
#include "cm/engine/request.hpp"

#include "cm/engine/ack_timeout.hpp"

namespace wireup::cm {
namespace {

constexpr mad::CmRetryCount kMostCmRetries{mad::CmRetryCount::kMax};

}  // namespace

Duration iba_interval(const mad::PathRecord& path, IbTimeout response_timeout) noexcept {
  return 2 * path.lifetime().duration() + response_timeout.duration();
}

Result<mad::ReqPath> make_path(const mad::PathRecord& record, const Config& config) {
  const auto rate = mad::CmRate::make(record.rate);
  if (!rate) {
    return fail(Error::make(Errc::InvalidArgument, "path to LID %u has rate code %u, at most %u",
                            static_cast<unsigned>(record.dlid.value()),
                            static_cast<unsigned>(record.rate),
                            static_cast<unsigned>(mad::CmRate::kMax)));
  }
  mad::ReqPath path;
  path.local_lid = record.slid;
  path.remote_lid = record.dlid;
  path.local_gid = record.sgid;
  path.remote_gid = record.dgid;
  path.flow_label = record.flow_label;
  path.packet_rate = *rate;
  path.traffic_class = record.traffic_class;
  path.hop_limit = record.hop_limit;
  path.sl = record.sl;
  // A packet that may take more than one hop leaves the subnet.
  path.subnet_local = record.hop_limit <= 1;
  path.local_ack_timeout = ack_timeout(config.ca_ack_delay, record.lifetime());
  return path;
}

Result<mad::Req> make_req(const ConnectParams& params, const Config& config) {
  const auto mtu = mad::CmMtu::make(params.path.mtu);
  if (!mtu) {
    return fail(Error::make(Errc::InvalidArgument, "path to LID %u has MTU code %u, at most %u",
                            static_cast<unsigned>(params.path.dlid.value()),
                            static_cast<unsigned>(params.path.mtu),
                            static_cast<unsigned>(mad::CmMtu::kMax)));
  }
  const auto primary = make_path(params.path, config);
  if (!primary) {
    return fail(primary.error());
  }
  mad::Req req;
  req.service_id = params.service_id;
  req.local_ca_guid = params.local_ca_guid;
  req.local_qpn = params.qpn;
  req.responder_resources = params.responder_resources;
  req.initiator_depth = params.initiator_depth;
  req.ece_vendor = params.ece_vendor;
  req.ece_options = params.ece_options;
  req.remote_cm_response_timeout =
      params.remote_cm_response_timeout.value_or(config.cm_response_timeout);
  req.local_cm_response_timeout =
      params.local_cm_response_timeout.value_or(config.cm_response_timeout);
  req.transport_service = params.transport_service;
  req.extended_transport = params.extended_transport;
  req.end_to_end_flow_control = params.end_to_end_flow_control;
  req.starting_psn = params.starting_psn;
  req.retry_count = params.retry_count;
  req.rnr_retry_count = params.rnr_retry_count;
  req.max_cm_retries = params.max_cm_retries.value_or(kMostCmRetries);
  req.pkey = params.path.pkey;
  req.path_mtu = *mtu;
  req.srq = params.srq;
  req.primary = *primary;
  if (params.alternate_path.has_value()) {
    const mad::PathRecord& alternate = *params.alternate_path;
    if (alternate.pkey != params.path.pkey || alternate.mtu != params.path.mtu) {
      return fail(Error::make(Errc::InvalidArgument,
                              "alternate path to LID %u differs in P_Key or MTU from the primary, "
                              "which a REQ cannot say",
                              static_cast<unsigned>(alternate.dlid.value())));
    }
    if (alternate.slid.is_zero()) {
      return fail(Error::make(Errc::InvalidArgument,
                              "alternate path to LID %u has local LID 0, by which a REQ says that "
                              "there is none",
                              static_cast<unsigned>(alternate.dlid.value())));
    }
    const auto path = make_path(alternate, config);
    if (!path) {
      return fail(path.error());
    }
    req.alternate = *path;
  }
  req.private_data = mad::private_data<mad::Req::kPrivateSize>(params.private_data.span());
  return req;
}

}  // namespace wireup::cm
