// SPDX-License-Identifier: BSD-3-Clause
#include "umad/sa_notices.hpp"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace wireup::umad {
namespace {

/// Reports that wait for our user; more are not answered, so that the SA sends them again.
constexpr std::size_t kMaxWaiting = 1024;
constexpr int kMadsPerTurn = 64;
constexpr unsigned kJitterPercent = 50;
/// The kernel hands a request back when its time is over; this much later we stop waiting for that.
constexpr Duration kGrace = std::chrono::milliseconds(500);

}  // namespace

SaNotices::SaNotices(const Options& options, Instant now, const Ops& ops)
    : options_(options),
      ops_(&ops),
      rng_(options.seed),
      due_(now + rng_.jitter(options.first_wait, kJitterPercent)),
      wait_(options.first_retry) {}

void SaNotices::subscribe_again(const MadAddress& sm, Instant now) {
  options_.sm = sm;
  next_ = 0;
  tid_ = 0;
  wait_ = options_.first_retry;
  due_ = now + rng_.jitter(options_.first_wait, kJitterPercent);
}

void SaNotices::progress(Instant now) {
  if (port_.has_value()) {
    for (int i = 0; i < kMadsPerTurn; ++i) {
      const auto received = port_->receive();
      if (!received) {
        failed(received.error(), now);
        break;
      }
      if (!received->has_value()) {
        break;
      }
      handle(**received, now);
    }
  }
  if (due_ > now) {
    return;
  }
  if (tid_ != 0) {
    failed(Error::make(Errc::Timeout,
                       "subscription to trap %u on %s port %u: SM LID %u did not answer",
                       options_.traps[next_], options_.device.c_str(), options_.port,
                       options_.sm.lid.value()),
           now);
    return;
  }
  subscribe(now);
}

void SaNotices::subscribe(Instant now) {
  if (next_ >= options_.traps.size()) {
    due_ = Instant::max();
    return;
  }
  if (!port_.has_value()) {
    auto port = Port::open({.device = options_.device,
                            .port = options_.port,
                            .mgmt_class = mad::MgmtClass::SubnAdm,
                            .class_version = mad::kSaClassVersion,
                            .rmpp_version = 0,
                            .unsolicited = {mad::Method::Report},
                            .largest = mad::kMadSize},
                           *ops_);
    if (!port) {
      // Another program of this port has the reports, or the device is not ours to open.
      failed(port.error(), now);
      return;
    }
    port_.emplace(std::move(*port));
  }
  tid_ = ++last_tid_ == 0 ? ++last_tid_ : last_tid_;
  mad::Mad bytes;
  mad::serialize(mad::make_sa_request(mad::Method::Set, Tid(tid_),
                                      mad::subscription_to(options_.traps[next_])),
                 bytes);
  if (auto sent = port_->send(options_.sm, bytes, options_.timeout); !sent) {
    failed(sent.error(), now);
    return;
  }
  due_ = now + options_.timeout + kGrace;
}

void SaNotices::handle(const ReceivedMad& received, Instant now) {
  const auto sa = mad::parse_sa_mad(received.bytes);
  if (!sa) {
    ++ignored_;
    return;
  }
  if (sa->header.method == static_cast<std::uint8_t>(mad::Method::Report)) {
    handle_report(received, *sa);
    return;
  }
  // (An answer to a report that could not be sent comes back too, with the SA's own id.)
  const bool is_ours = sa->header.method != static_cast<std::uint8_t>(mad::Method::ReportResp) &&
                       tid_ != 0 && (sa->header.tid.value() & 0xFFFFFFFFU) == tid_;
  if (is_ours) {
    handle_answer(received, *sa, now);
  }
}

void SaNotices::handle_answer(const ReceivedMad& received, const mad::SaMad& sa, Instant now) {
  if (received.status != 0) {
    failed(
        Error::system(Errc::Timeout, received.status,
                      "subscription to trap %u on %s port %u at SM LID %u", options_.traps[next_],
                      options_.device.c_str(), options_.port, options_.sm.lid.value()),
        now);
    return;
  }
  if (sa.header.method != static_cast<std::uint8_t>(mad::Method::GetResp) ||
      sa.header.attribute_id != mad::kAttributeInformInfo) {
    return;
  }
  if (sa.header.status != 0) {
    failed(Error::make(Errc::Rejected,
                       "subscription to trap %u on %s port %u: SM LID %u answers status 0x%04x: %s",
                       options_.traps[next_], options_.device.c_str(), options_.port,
                       options_.sm.lid.value(), sa.header.status,
                       mad::sa_status_text(sa.header.status)),
           now);
    return;
  }
  tid_ = 0;
  ++next_;
  wait_ = options_.first_retry;
  fault_.reset();
  due_ = now;
}

void SaNotices::handle_report(const ReceivedMad& received, const mad::SaMad& sa) {
  const auto notice = mad::sa_notice(sa);
  // Anybody can send to QP 1; only our SM's word counts.
  const bool is_from_sm = received.status == 0 && received.from.lid == options_.sm.lid;
  if (!notice || !is_from_sm || sa.header.attribute_id != mad::kAttributeNotice) {
    ++ignored_;
    return;
  }
  if (notices_.size() >= kMaxWaiting) {
    return;
  }
  mad::SaMad answer = sa;
  answer.header.method = static_cast<std::uint8_t>(mad::Method::ReportResp);
  answer.header.status = 0;
  mad::Mad bytes;
  mad::serialize(answer, bytes);
  // An answer that is lost brings the report again.
  static_cast<void>(port_->send_once(received.from, bytes));
  notices_.push_back(*notice);
}

/// Goes on with the same trap, later.
void SaNotices::failed(const Error& error, Instant now) {
  fault_ = error;
  tid_ = 0;
  due_ = now + rng_.jitter(wait_, kJitterPercent);
  wait_ = std::min(wait_ * 2, options_.max_retry);
}

std::optional<mad::Notice> SaNotices::poll_notice() {
  if (notices_.empty()) {
    return std::nullopt;
  }
  const mad::Notice notice = notices_.front();
  notices_.pop_front();
  return notice;
}

}  // namespace wireup::umad
