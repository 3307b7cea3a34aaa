// SPDX-License-Identifier: BSD-3-Clause
#include "conn/engine/identity.hpp"

#include "base/bytes.hpp"

namespace wireup::conn {
namespace {

constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kSizeAt = 6;
constexpr std::size_t kJobAt = 8;
constexpr std::size_t kRankAt = 16;
constexpr std::size_t kEpochAt = 20;
constexpr std::size_t kIncarnationAt = 24;
constexpr std::size_t kReceiverJobAt = 32;
constexpr std::size_t kReceiverRankAt = 40;
constexpr std::size_t kReceiverIncarnationAt = 48;
constexpr std::size_t kMtuAt = 32;
constexpr std::size_t kRefusalAt = 32;

void put_identity(std::span<std::uint8_t> to, const Identity& data) noexcept {
  store_be(to, kMagicAt, 4, Identity::kMagic);
  store_be(to, kVersionAt, 1, kWireVersion);
  store_be(to, kSizeAt, 2, to.size());
  store_be(to, kJobAt, 8, data.sender.job);
  store_be(to, kRankAt, 4, data.sender.rank);
  store_be(to, kEpochAt, 4, data.epoch);
  store_be(to, kIncarnationAt, 8, data.incarnation);
}

/// The head of private data of at least `size` bytes.
Result<Identity> take_identity(std::span<const std::uint8_t> bytes, std::size_t size) noexcept {
  if (bytes.size() < size) {
    return fail(Error::make(Errc::Malformed, "private data of %zu bytes, %zu are needed",
                            bytes.size(), size));
  }
  if (load_be(bytes, kMagicAt, 4) != Identity::kMagic) {
    return fail(Error::make(Errc::Malformed, "private data are not wireup's"));
  }
  if (const auto version = load_be(bytes, kVersionAt, 1); version != kWireVersion) {
    return fail(Error::make(Errc::Unsupported, "wire version %u of the peer, ours is %u",
                            static_cast<unsigned>(version), static_cast<unsigned>(kWireVersion)));
  }
  if (const auto stated = load_be(bytes, kSizeAt, 2); stated < size || stated > bytes.size()) {
    return fail(Error::make(Errc::Malformed, "private data state a size of %u, %zu to %zu can be",
                            static_cast<unsigned>(stated), size, bytes.size()));
  }
  Identity data;
  data.sender.job = load_be(bytes, kJobAt, 8);
  data.sender.rank = static_cast<std::uint32_t>(load_be(bytes, kRankAt, 4));
  data.epoch = static_cast<std::uint32_t>(load_be(bytes, kEpochAt, 4));
  data.incarnation = load_be(bytes, kIncarnationAt, 8);
  return data;
}

}  // namespace

std::string_view refusal_sentence(std::uint8_t refusal) noexcept {
  switch (static_cast<Refusal>(refusal)) {
#define WIREUP_REFUSAL_CASE(name, number, sentence) \
  case Refusal::name:                               \
    return sentence;
    WIREUP_REFUSALS(WIREUP_REFUSAL_CASE)
#undef WIREUP_REFUSAL_CASE
  }
  return "a reason that this version does not know";
}

std::array<std::uint8_t, Identity::kSize> serialize(const Identity& data) noexcept {
  std::array<std::uint8_t, Identity::kSize> bytes{};
  put_identity(bytes, data);
  return bytes;
}

std::array<std::uint8_t, RequestData::kSize> serialize(const RequestData& data) noexcept {
  std::array<std::uint8_t, RequestData::kSize> bytes{};
  put_identity(bytes, data.identity);
  store_be(bytes, kReceiverJobAt, 8, data.receiver.job);
  store_be(bytes, kReceiverRankAt, 4, data.receiver.rank);
  store_be(bytes, kReceiverIncarnationAt, 8, data.receiver_incarnation);
  return bytes;
}

std::array<std::uint8_t, ReplyData::kSize> serialize(const ReplyData& data) noexcept {
  std::array<std::uint8_t, ReplyData::kSize> bytes{};
  put_identity(bytes, data.identity);
  store_be(bytes, kMtuAt, 1, data.mtu);
  return bytes;
}

std::array<std::uint8_t, RefusalData::kSize> serialize(const RefusalData& data) noexcept {
  std::array<std::uint8_t, RefusalData::kSize> bytes{};
  put_identity(bytes, data.identity);
  store_be(bytes, kRefusalAt, 1, data.refusal);
  return bytes;
}

Result<Identity> parse_identity(std::span<const std::uint8_t> bytes) noexcept {
  return take_identity(bytes, Identity::kSize);
}

Result<RequestData> parse_request(std::span<const std::uint8_t> bytes) noexcept {
  auto identity = take_identity(bytes, RequestData::kSize);
  if (!identity) {
    return fail(identity.error());
  }
  RequestData data;
  data.identity = *identity;
  data.receiver.job = load_be(bytes, kReceiverJobAt, 8);
  data.receiver.rank = static_cast<std::uint32_t>(load_be(bytes, kReceiverRankAt, 4));
  data.receiver_incarnation = load_be(bytes, kReceiverIncarnationAt, 8);
  return data;
}

Result<ReplyData> parse_reply(std::span<const std::uint8_t> bytes) noexcept {
  auto identity = take_identity(bytes, ReplyData::kSize);
  if (!identity) {
    return fail(identity.error());
  }
  return ReplyData{*identity, static_cast<std::uint8_t>(load_be(bytes, kMtuAt, 1))};
}

Result<RefusalData> parse_refusal(std::span<const std::uint8_t> bytes) noexcept {
  auto identity = take_identity(bytes, RefusalData::kSize);
  if (!identity) {
    return fail(identity.error());
  }
  return RefusalData{*identity, static_cast<std::uint8_t>(load_be(bytes, kRefusalAt, 1))};
}

}  // namespace wireup::conn
