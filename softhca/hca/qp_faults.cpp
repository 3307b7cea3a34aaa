// SPDX-License-Identifier: BSD-3-Clause
// What fault rules do to a request before it is executed.
#include <utility>

#include "softhca/hca/clock.hpp"
#include "softhca/hca/qp.hpp"
#include "softhca/hca/runtime.hpp"

namespace softhca::hca {
namespace {

constexpr std::uint64_t kStallLookNs = 2'000'000;

}  // namespace

/// Whether a rule breaks the way from this QP to its peer, or the way back.
bool Qp::path_broken(bool backwards) {
  Faults& faults = runtime_->faults();
  if (init_.type == IBV_QPT_UD || !faults.has(RuleKind::Break)) {
    return false;
  }
  const PortIndex here = record_->path.port_index;
  const PortIndex there =
      path_.there.resolve(runtime_->view(), here, attr_.ah_attr.dlid).value_or(kNoPort);
  Traffic traffic{.from = here, .to = there, .src_qpn = record_->qpn, .dst_qpn = attr_.dest_qp_num};
  if (backwards) {
    std::swap(traffic.from, traffic.to);
    std::swap(traffic.src_qpn, traffic.dst_qpn);
  }
  return faults.strike(RuleKind::Break, traffic).has_value();
}

/// What becomes of a try; nullopt when no rule is about it.
std::optional<Qp::Step> Qp::suffer_rules(const SendRequest& request, RetryState& retry) {
  Faults& faults = runtime_->faults();
  if (!faults.has(RuleKind::Error) && !faults.has(RuleKind::Stall) &&
      !faults.has(RuleKind::Break) && !retry.answer_lost) {
    return std::nullopt;
  }
  const bool datagram = init_.type == IBV_QPT_UD;
  const std::uint16_t dlid = datagram ? request.av->attr.dlid : attr_.ah_attr.dlid;
  RouteCache of_datagram;
  RouteCache& route = datagram ? of_datagram : path_.there;
  const Traffic traffic{
      .from = record_->path.port_index,
      .to = route.resolve(runtime_->view(), record_->path.port_index, dlid).value_or(kNoPort),
      .src_qpn = record_->qpn,
      .dst_qpn = datagram ? request.remote_qpn : attr_.dest_qp_num};
  if (faults.strike(RuleKind::Stall, traffic)) {
    return Step{monotonic_ns() + kStallLookNs, IBV_WC_SUCCESS, 0};
  }
  if (!retry.judged) {
    retry.judged = true;
    if (const auto rule = faults.strike(RuleKind::Error, traffic)) {
      return Step{std::nullopt, static_cast<ibv_wc_status>(rule->code), 0};
    }
  }
  const bool reliable = init_.type == IBV_QPT_RC;
  if (path_broken(false)) {
    // What is unreliable is sent and lost.
    return reliable
               ? no_answer(retry)
               : Step{std::nullopt, IBV_WC_SUCCESS, static_cast<std::uint32_t>(request.length())};
  }
  if (!reliable) {
    return std::nullopt;
  }
  const bool broken_back = path_broken(true);
  // The data of a read are its answer; without a way for them nothing is to be done.
  if (broken_back && (retry.answer_lost || request.opcode == IBV_WR_RDMA_READ)) {
    return no_answer(retry);
  }
  if (retry.answer_lost) {  // it gets through now: the peer repeats it
    return Step{std::nullopt, retry.answer, retry.answer_bytes};
  }
  return std::nullopt;
}

}  // namespace softhca::hca
