// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/service_message.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "mad/gid_field.hpp"

namespace wireup::acm {
namespace {

constexpr std::uint32_t kMagic = 0x574E5232;  // "WNR2"
constexpr std::uint8_t kNoSl = 0xFF;

// Both messages begin alike: magic 0, operation 4, SL 5, P_Key 6, SGID 8, DGID 24, service id 40,
// kind of the address 48 (0: none), number of the path 49, direction 50 and the address 56.
constexpr std::size_t kOp = 4;
constexpr std::size_t kSl = 5;
constexpr std::size_t kPKey = 6;
constexpr std::size_t kSgid = 8;
constexpr std::size_t kDgid = 24;
constexpr std::size_t kServiceId = 40;
constexpr std::size_t kAddressType = 48;
constexpr std::size_t kNumber = 49;
constexpr std::size_t kDirection = 50;
constexpr std::size_t kAddress = 56;
constexpr std::size_t kBody = kAddress + mad::AcmAddress::kSize;
// Request.
constexpr std::size_t kDeadline = kBody;
// Reply.
constexpr std::size_t kStatus = kBody;
constexpr std::size_t kOrigin = kBody + 4;
constexpr std::size_t kGeneration = kBody + 8;
constexpr std::size_t kAge = kBody + 16;
constexpr std::size_t kRecord = kBody + 24;
constexpr std::size_t kText = kRecord + mad::PathRecord::kSize;
static_assert(kDeadline + 8 == ServiceRequest::kSize);
static_assert(kText + Error::kDetailSize == ServiceReply::kSize);

void put_prefix(std::span<std::uint8_t> to, ServiceOp op, const RankQuestion& question) noexcept {
  const PathKey& key = question.key;
  store_be(to, 0, 4, kMagic);
  store_be(to, kOp, 1, static_cast<std::uint8_t>(op));
  store_be(to, kSl, 1, key.sl.has_value() ? key.sl->value() : kNoSl);
  store_be(to, kPKey, 2, key.pkey.value());
  mad::store_gid(key.sgid, to, kSgid);
  mad::store_gid(key.dgid, to, kDgid);
  store_be(to, kServiceId, 8, key.service_id.value());
  store_be(to, kNumber, 1, key.number);
  store_be(to, kDirection, 1, static_cast<std::uint8_t>(key.direction));
  if (question.address.has_value()) {
    store_be(to, kAddressType, 1, static_cast<std::uint8_t>(question.address->type()));
    std::memcpy(to.data() + kAddress, question.address->bytes().data(), mad::AcmAddress::kSize);
  }
}

/// The question of a message whose size has been checked.
Result<RankQuestion> parse_prefix(std::span<const std::uint8_t> bytes) noexcept {
  if (load_be(bytes, 0, 4) != kMagic) {
    return fail(Error::make(Errc::Malformed, "resolver message with magic 0x%08x",
                            static_cast<unsigned>(load_be(bytes, 0, 4))));
  }
  RankQuestion question;
  PathKey& key = question.key;
  const auto sl = static_cast<std::uint8_t>(load_be(bytes, kSl, 1));
  if (sl != kNoSl) {
    if (sl > Sl::kMax) {
      return fail(Error::make(Errc::Malformed, "resolver message with SL %u", sl));
    }
    key.sl = Sl(sl);
  }
  key.pkey = PKey(static_cast<std::uint16_t>(load_be(bytes, kPKey, 2)));
  key.sgid = mad::load_gid(bytes, kSgid);
  key.dgid = mad::load_gid(bytes, kDgid);
  key.service_id = ServiceId(load_be(bytes, kServiceId, 8));
  key.number = static_cast<std::uint8_t>(load_be(bytes, kNumber, 1));
  const std::uint64_t direction = load_be(bytes, kDirection, 1);
  if (key.number >= kMaxPathsPerPeer || direction > 1) {
    return fail(Error::make(Errc::Malformed,
                            "resolver message for path %u (below %u), direction %u (0 or 1)",
                            key.number, kMaxPathsPerPeer, static_cast<unsigned>(direction)));
  }
  key.direction = static_cast<PathDirection>(direction);
  if (const auto type = static_cast<std::uint8_t>(load_be(bytes, kAddressType, 1)); type != 0) {
    const auto address = mad::AcmAddress::parse(
        type, bytes.subspan<kAddress, mad::AcmAddress::kSize>(), "address of a resolver message");
    if (!address) {
      return fail(address.error());
    }
    question.address = *address;
  }
  return question;
}

Result<> check_size(std::span<const std::uint8_t> bytes, std::size_t size) noexcept {
  if (bytes.size() != size) {
    return fail(Error::make(Errc::Malformed, "resolver message of %zu bytes, expected %zu",
                            bytes.size(), size));
  }
  return {};
}

/// The sender's error with its text; a number that we do not know becomes Internal.
Error parse_error(std::span<const std::uint8_t> bytes, std::uint32_t status) noexcept {
  const auto number = static_cast<Errc>(status);
  const Errc kind = error_name(number) == "Unknown" ? Errc::Internal : number;
  std::array<char, Error::kDetailSize> text{};
  std::memcpy(text.data(), bytes.data() + kText, text.size() - 1);
  // The text goes to terminals and logs.
  std::replace_if(
      text.begin(), text.end() - 1, [](char c) { return c != '\0' && (c < ' ' || c > '~'); }, '?');
  return Error::make(kind, "%s", text.data());
}

}  // namespace

std::string to_text(const RankQuestion& question) {
  return mad::to_text(question.address.value_or(mad::AcmAddress::gid(question.key.dgid)));
}

ServiceRequestBytes encode(const ServiceRequest& request) noexcept {
  ServiceRequestBytes bytes{};
  put_prefix(bytes, request.op, request.question);
  store_be(bytes, kDeadline, 8,
           static_cast<std::uint64_t>(request.deadline.time_since_epoch().count()));
  return bytes;
}

ServiceReplyBytes encode(const ServiceReply& reply) noexcept {
  ServiceReplyBytes bytes{};
  const std::span<std::uint8_t> to = bytes;
  put_prefix(to, ServiceOp::Resolved, reply.question);
  if (!reply.path) {
    const Error& error = reply.path.error();
    const bool is_ours = error.code().category() == error_category();
    store_be(to, kStatus, 4,
             static_cast<std::uint32_t>(is_ours ? error.code().value()
                                                : static_cast<int>(Errc::Internal)));
    const std::string_view text = error.what();
    std::memcpy(to.data() + kText, text.data(), std::min(text.size(), Error::kDetailSize - 1));
    return bytes;
  }
  store_be(to, kOrigin, 1, static_cast<std::uint8_t>(reply.path->origin));
  store_be(to, kGeneration, 4, reply.path->generation);
  store_be(to, kAge, 8, static_cast<std::uint64_t>(reply.path->age.count()));
  mad::serialize(reply.path->record, to.subspan<kRecord, mad::PathRecord::kSize>());
  return bytes;
}

Result<ServiceRequest> decode_request(std::span<const std::uint8_t> bytes) noexcept {
  if (auto size = check_size(bytes, ServiceRequest::kSize); !size) {
    return fail(size.error());
  }
  const auto question = parse_prefix(bytes);
  if (!question) {
    return fail(question.error());
  }
  const auto op = static_cast<std::uint8_t>(load_be(bytes, kOp, 1));
  if (op != static_cast<std::uint8_t>(ServiceOp::Resolve) &&
      op != static_cast<std::uint8_t>(ServiceOp::PathFailed) &&
      op != static_cast<std::uint8_t>(ServiceOp::Flush)) {
    return fail(Error::make(Errc::Malformed, "request to the resolver with operation %u", op));
  }
  const std::uint64_t deadline = load_be(bytes, kDeadline, 8);
  if (deadline > static_cast<std::uint64_t>(INT64_MAX)) {
    return fail(Error::make(Errc::Malformed, "request to the resolver with a negative deadline"));
  }
  return ServiceRequest{static_cast<ServiceOp>(op), *question,
                        Instant(Duration(static_cast<std::int64_t>(deadline)))};
}

Result<ServiceReply> decode_reply(std::span<const std::uint8_t> bytes) noexcept {
  if (auto size = check_size(bytes, ServiceReply::kSize); !size) {
    return fail(size.error());
  }
  const auto question = parse_prefix(bytes);
  if (!question) {
    return fail(question.error());
  }
  if (load_be(bytes, kOp, 1) != static_cast<std::uint8_t>(ServiceOp::Resolved)) {
    return fail(
        Error::make(Errc::Malformed, "reply of the resolver with operation %u", bytes[kOp]));
  }
  const auto status = static_cast<std::uint32_t>(load_be(bytes, kStatus, 4));
  if (status != 0) {
    return ServiceReply{*question, fail(parse_error(bytes, status))};
  }
  const auto origin = static_cast<PathOrigin>(load_be(bytes, kOrigin, 1));
  const std::uint64_t age = load_be(bytes, kAge, 8);
  if (origin_name(origin) == "unknown" || age > static_cast<std::uint64_t>(INT64_MAX)) {
    return fail(
        Error::make(Errc::Malformed, "reply of the resolver with origin %u", bytes[kOrigin]));
  }
  ResolvedPath path;
  path.record = mad::read_path_record(bytes.subspan<kRecord, mad::PathRecord::kSize>());
  path.origin = origin;
  path.generation = static_cast<std::uint32_t>(load_be(bytes, kGeneration, 4));
  path.age = Duration(static_cast<std::int64_t>(age));
  return ServiceReply{*question, path};
}

}  // namespace wireup::acm
