// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/mad/rmpp.hpp"

#include <algorithm>

#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

constexpr std::uint8_t kClassDeviceManagement = 0x06;
constexpr std::uint8_t kClassDeviceAdministration = 0x10;
constexpr std::uint8_t kClassBoardInformation = 0x12;
constexpr std::size_t kDeviceOffset = 64;
constexpr std::size_t kVendorOffset = 40;
// Without anything better known, as Linux.
constexpr std::chrono::milliseconds kAckTimeout{2000};

bool is_vendor2(std::uint8_t mgmt_class) {
  return mgmt_class >= kVendor2First && mgmt_class <= kVendor2Last;
}

bool is_device_class(std::uint8_t mgmt_class) {
  return mgmt_class == kClassDeviceManagement || mgmt_class == kClassDeviceAdministration ||
         mgmt_class == kClassBoardInformation;
}

/// A MAD back to the sender of `data`: same header, the direction turned round.
Mad make_reply(std::span<const std::uint8_t, kMadSize> data, const RmppHeader& rmpp) {
  Mad mad{};
  std::copy_n(data.begin(), mad_data_offset(data[1]), mad.begin());
  mad[3] ^= kMethodResponse;
  put_rmpp_header(mad, rmpp);
  return mad;
}

}  // namespace

std::size_t mad_data_offset(std::uint8_t mgmt_class) {
  if (mgmt_class == kClassSa) {
    return kSaHeaderSize;
  }
  if (is_device_class(mgmt_class)) {
    return kDeviceOffset;
  }
  return is_vendor2(mgmt_class) ? kVendorOffset : kMadHeaderSize;
}

bool class_has_rmpp(std::uint8_t mgmt_class) {
  return mgmt_class == kClassSa || is_device_class(mgmt_class) || is_vendor2(mgmt_class);
}

bool rmpp_active(std::span<const std::uint8_t> mad) {
  return class_has_rmpp(mad[1]) && (get_rmpp_header(mad).flags & kRmppFlagActive) != 0;
}

RmppSender::RmppSender(std::vector<std::uint8_t> message, std::chrono::milliseconds timeout,
                       std::uint32_t retries)
    : message_(std::move(message)),
      offset_(mad_data_offset(message_[1])),
      timeout_(timeout.count() == 0 ? kAckTimeout : std::min(timeout, kAckTimeout)),
      max_retries_(retries),
      retries_(retries) {
  const std::size_t per_segment = kMadSize - offset_;
  const std::size_t data = message_.size() - offset_;
  count_ = std::max<std::uint32_t>(
      1, static_cast<std::uint32_t>((data + per_segment - 1) / per_segment));
}

Mad RmppSender::segment(std::uint32_t number) const {
  Mad mad{};
  std::copy_n(message_.begin(), offset_, mad.begin());
  const std::size_t per_segment = kMadSize - offset_;
  const std::size_t from = offset_ + (number - 1) * per_segment;
  const std::size_t bytes = std::min(per_segment, message_.size() - from);
  std::copy_n(message_.begin() + static_cast<std::ptrdiff_t>(from), bytes,
              mad.begin() + static_cast<std::ptrdiff_t>(offset_));
  // The class header of each segment counts too; what the last segment does not fill does not.
  const auto padding = static_cast<std::uint32_t>(count_ * per_segment + offset_ - message_.size());
  RmppHeader rmpp = get_rmpp_header(mad);
  rmpp.version = 1;
  rmpp.type = kRmppTypeData;
  rmpp.status = 0;
  rmpp.segment = number;
  rmpp.flags = kRmppFlagActive;
  rmpp.payload_length = 0;
  if (number == 1) {
    rmpp.flags |= kRmppFlagFirst;
    rmpp.payload_length = count_ * kRmppData - padding;
  }
  if (number == count_) {
    rmpp.flags |= kRmppFlagLast;
    rmpp.payload_length = kRmppData - padding;
  }
  put_rmpp_header(mad, rmpp);
  return mad;
}

void RmppSender::poll(std::vector<Mad>& out, Instant now) {
  if (state_ != State::Sending) {
    return;
  }
  while (next_ <= count_ && next_ <= window_) {
    out.push_back(segment(next_++));
    deadline_ = now + timeout_;
  }
}

void RmppSender::handle(std::span<const std::uint8_t, kMadSize> mad, Instant now) {
  if (state_ != State::Sending) {
    return;
  }
  const RmppHeader rmpp = get_rmpp_header(mad);
  if (rmpp.type == kRmppTypeStop || rmpp.type == kRmppTypeAbort) {
    state_ = State::Aborted;
    return;
  }
  // An ACK's PayloadLength is the new window.
  if (rmpp.type != kRmppTypeAck || rmpp.segment > count_ || rmpp.payload_length < rmpp.segment) {
    return;
  }
  if (rmpp.segment < acked_ || rmpp.payload_length < window_) {
    return;  // an old one
  }
  if (rmpp.segment > acked_) {
    acked_ = rmpp.segment;
    retries_ = max_retries_;
  }
  window_ = rmpp.payload_length;
  next_ = std::max(next_, acked_ + 1);
  deadline_ = now + timeout_;
  if (acked_ == count_) {
    state_ = State::Done;
  }
}

void RmppSender::handle_timeout(Instant now) {
  if (state_ != State::Sending || now < deadline_) {
    return;
  }
  if (retries_ == 0) {
    state_ = State::TimedOut;
    return;
  }
  --retries_;
  next_ = acked_ + 1;
  deadline_ = now + timeout_;
}

std::optional<Mad> RmppReceiver::handle(std::span<const std::uint8_t, kMadSize> mad) {
  const RmppHeader rmpp = get_rmpp_header(mad);
  if (rmpp.version != 1 || rmpp.segment == 0) {
    return make_rmpp_abort(mad, kRmppStatusBadType);
  }
  const bool first = (rmpp.flags & kRmppFlagFirst) != 0;
  const bool too_long = rmpp.segment * (kMadSize - mad_data_offset(mad[1])) > kMaxRmppMessage;
  if (first != (rmpp.segment == 1) || too_long) {
    return make_rmpp_abort(mad, kRmppStatusBadType);
  }
  const bool known = rmpp.segment <= in_order_;
  if (!known) {
    if (rmpp.segment > window_ || (last_ != 0 && rmpp.segment > last_)) {
      return std::nullopt;
    }
    Mad copy;
    std::copy(mad.begin(), mad.end(), copy.begin());
    segments_.emplace(rmpp.segment, copy);
    if ((rmpp.flags & kRmppFlagLast) != 0 && last_ == 0) {
      last_ = rmpp.segment;
      segments_.erase(segments_.upper_bound(last_), segments_.end());
    }
    while (segments_.count(in_order_ + 1) != 0) {
      ++in_order_;
    }
  }
  // Told are: the first segment, a filled window, the end, and who sends again what is here.
  if (!known && in_order_ != 1 && in_order_ != window_ && !complete()) {
    return std::nullopt;
  }
  window_ = in_order_ + kRmppWindow;
  RmppHeader ack = rmpp;
  ack.type = kRmppTypeAck;
  ack.flags = kRmppFlagActive;
  ack.status = 0;
  ack.segment = in_order_;
  ack.payload_length = window_;
  return make_reply(mad, ack);
}

std::vector<std::uint8_t> RmppReceiver::take() {
  const Mad& first = segments_.at(1);
  const std::size_t offset = mad_data_offset(first[1]);
  const std::size_t per_segment = kMadSize - offset;
  const std::uint32_t length = get_rmpp_header(segments_.at(last_)).payload_length;
  const std::uint32_t padding = length <= kRmppData ? kRmppData - length : 0;
  std::vector<std::uint8_t> message(first.begin(), first.begin() + static_cast<long>(offset));
  for (const auto& [number, mad] : segments_) {
    message.insert(message.end(), mad.begin() + static_cast<long>(offset), mad.end());
  }
  message.resize(message.size() - std::min<std::size_t>(padding, per_segment));
  segments_.clear();
  return message;
}

Mad make_rmpp_abort(std::span<const std::uint8_t, kMadSize> data, std::uint8_t status) {
  RmppHeader rmpp = get_rmpp_header(data);
  rmpp.type = kRmppTypeAbort;
  rmpp.flags = kRmppFlagActive;
  rmpp.status = status;
  rmpp.segment = 0;
  rmpp.payload_length = 0;
  return make_reply(data, rmpp);
}

}  // namespace softhca
