// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "acm/server/client_layout.hpp"
#include "acm/server/client_message.hpp"
#include "base/bytes.hpp"

namespace wireup::acm {
namespace {

// The reply to an endpoint query, behind the header.
constexpr std::size_t kDevice = kClientHeaderSize;
constexpr std::size_t kPort = kDevice + 8;
constexpr std::size_t kPorts = kDevice + 9;
constexpr std::size_t kPKey = kDevice + 12;
constexpr std::size_t kAddressCount = kDevice + 14;
constexpr std::size_t kProvider = kDevice + 16;
constexpr std::size_t kAddresses = kProvider + EndpointReply::kTextSize;
static_assert(kAddresses + EndpointReply::kMaxAddresses * EndpointReply::kTextSize <= UINT16_MAX);
static_assert(kAddresses + (EndpointReply::kMaxAddresses + 1) * EndpointReply::kTextSize >
              UINT16_MAX);

constexpr std::size_t kCounterSize = 8;

tl::unexpected<Error> wrong_size(const char* what, std::size_t size) noexcept {
  return fail(
      Error::make(Errc::Malformed, "service's reply to %s cannot have %zu bytes", what, size));
}

Result<ClientReply::Body> parse_resolve(std::span<const std::uint8_t> bytes) {
  const std::size_t payload = bytes.size() - kClientHeaderSize;
  if (payload % kClientEntrySize != 0 || payload > kMaxClientEntries * kClientEntrySize) {
    return wrong_size("a resolve request", bytes.size());
  }
  ResolveReply reply;
  for (std::size_t i = 0; i < payload / kClientEntrySize; ++i) {
    const auto entry = layout::parse_entry(layout::entry_bytes(bytes, i));
    if (!entry) {
      return fail(entry.error().why);
    }
    if (const auto* path = std::get_if<mad::PathRecord>(&entry->value)) {
      reply.paths.push_back({entry->flags, *path});
    } else if ((entry->flags & layout::kSource) != 0 && !reply.source.has_value()) {
      reply.source = std::get<mad::AcmAddress>(entry->value);
    } else {
      return fail(Error::make(Errc::Malformed,
                              "service's reply holds an address that is no source, or a second "
                              "source, in entry %zu",
                              i));
    }
  }
  if (reply.paths.empty()) {
    return fail(Error::make(Errc::Malformed, "service's good reply has no path"));
  }
  return reply;
}

Result<ClientReply::Body> parse_perf(std::span<const std::uint8_t> bytes) {
  const std::size_t count = bytes[layout::kData];
  if (bytes.size() != kClientHeaderSize + count * kCounterSize) {
    return wrong_size("a query of counters", bytes.size());
  }
  PerfReply reply;
  reply.endpoint = bytes[layout::kData + 1];
  for (std::size_t i = 0; i < count; ++i) {
    reply.counters.push_back(load_be(bytes, kClientHeaderSize + i * kCounterSize, kCounterSize));
  }
  return reply;
}

/// Up to the first NUL, printable: it goes to terminals.
std::string parse_text(std::span<const std::uint8_t> bytes, std::size_t at) {
  const auto field = bytes.subspan(at, EndpointReply::kTextSize);
  std::string text(field.begin(), std::find(field.begin(), field.end(), std::uint8_t{0}));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

Result<ClientReply::Body> parse_endpoint(std::span<const std::uint8_t> bytes) {
  const std::size_t count =
      bytes.size() >= kAddresses ? static_cast<std::size_t>(load_be(bytes, kAddressCount, 2)) : 0;
  if (bytes.size() != kAddresses + count * EndpointReply::kTextSize) {
    return wrong_size("an endpoint query", bytes.size());
  }
  EndpointReply reply;
  reply.query = {bytes[layout::kData], bytes[layout::kData + 1]};
  reply.device = Guid(load_be(bytes, kDevice, 8));
  reply.port = bytes[kPort];
  reply.ports = bytes[kPorts];
  reply.pkey = PKey(static_cast<std::uint16_t>(load_be(bytes, kPKey, 2)));
  reply.provider = parse_text(bytes, kProvider);
  for (std::size_t i = 0; i < count; ++i) {
    reply.addresses.push_back(parse_text(bytes, kAddresses + i * EndpointReply::kTextSize));
  }
  return reply;
}

Result<ClientReply::Body> parse_body(ClientOp op, std::span<const std::uint8_t> bytes) {
  switch (op) {
    case ClientOp::Resolve:
      return parse_resolve(bytes);
    case ClientOp::PerfQuery:
      return parse_perf(bytes);
    case ClientOp::EndpointQuery:
      return parse_endpoint(bytes);
  }
  return fail(Errc::Malformed);
}

std::vector<std::uint8_t> encode_body(const ClientReply& reply, const std::monostate& /*none*/) {
  WIREUP_CHECK(reply.status != ClientStatus::Success);
  return layout::begin_message(reply.op, reply.tid, kClientHeaderSize);
}

std::vector<std::uint8_t> encode_body(const ClientReply& reply, const ResolveReply& body) {
  const std::size_t count = body.paths.size() + std::size_t{body.source.has_value()};
  WIREUP_CHECK(reply.op == ClientOp::Resolve && !body.paths.empty() && count <= kMaxClientEntries);
  auto bytes =
      layout::begin_message(reply.op, reply.tid, kClientHeaderSize + count * kClientEntrySize);
  std::size_t at = 0;
  for (const ClientPath& path : body.paths) {
    layout::put_entry(bytes, at++, path.flags, path.record);
  }
  if (body.source.has_value()) {
    layout::put_entry(bytes, at, layout::kSource, *body.source);
  }
  return bytes;
}

std::vector<std::uint8_t> encode_body(const ClientReply& reply, const PerfReply& body) {
  WIREUP_CHECK(reply.op == ClientOp::PerfQuery && body.counters.size() <= UINT8_MAX);
  auto bytes = layout::begin_message(reply.op, reply.tid,
                                     kClientHeaderSize + body.counters.size() * kCounterSize);
  bytes[layout::kData] = static_cast<std::uint8_t>(body.counters.size());
  bytes[layout::kData + 1] = body.endpoint;
  for (std::size_t i = 0; i < body.counters.size(); ++i) {
    store_be(bytes, kClientHeaderSize + i * kCounterSize, kCounterSize, body.counters[i]);
  }
  return bytes;
}

void put_text(std::span<std::uint8_t> to, std::size_t at, const std::string& text) noexcept {
  // The bytes are zero already: what follows the text ends it.
  std::copy_n(text.begin(), std::min(text.size(), EndpointReply::kTextSize - 1),
              to.begin() + static_cast<std::ptrdiff_t>(at));
}

std::vector<std::uint8_t> encode_body(const ClientReply& reply, const EndpointReply& body) {
  WIREUP_CHECK(reply.op == ClientOp::EndpointQuery &&
               body.addresses.size() <= EndpointReply::kMaxAddresses);
  auto bytes = layout::begin_message(reply.op, reply.tid,
                                     kAddresses + body.addresses.size() * EndpointReply::kTextSize);
  bytes[layout::kData] = body.query.index;
  bytes[layout::kData + 1] = body.query.port;
  store_be(bytes, kDevice, 8, body.device.value());
  bytes[kPort] = body.port;
  bytes[kPorts] = body.ports;
  store_be(bytes, kPKey, 2, body.pkey.value());
  store_be(bytes, kAddressCount, 2, body.addresses.size());
  put_text(bytes, kProvider, body.provider);
  for (std::size_t i = 0; i < body.addresses.size(); ++i) {
    put_text(bytes, kAddresses + i * EndpointReply::kTextSize, body.addresses[i]);
  }
  return bytes;
}

}  // namespace

ClientReply refuse(const ClientRequest& request, ClientStatus status) noexcept {
  return {request.op, request.tid, status, std::monostate{}};
}

Result<std::size_t> client_reply_size(ClientHeaderBytes header) noexcept {
  const auto op = layout::op_of(header[layout::kOp]);
  const std::size_t size = op ? layout::length_of(*op, header) : 0;
  if (header[layout::kVersionAt] != layout::kVersion || size < kClientHeaderSize) {
    return fail(Error::make(Errc::Malformed,
                            "service's reply of version %u with operation 0x%02x and length %zu",
                            header[layout::kVersionAt], header[layout::kOp], size));
  }
  return size;
}

Result<ClientReply> decode_client_reply(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kClientHeaderSize) {
    return wrong_size("anything", bytes.size());
  }
  const auto size = client_reply_size(bytes.first<kClientHeaderSize>());
  if (!size) {
    return fail(size.error());
  }
  if (*size != bytes.size()) {
    return fail(Error::make(Errc::Malformed, "service's reply claims %zu bytes and has %zu", *size,
                            bytes.size()));
  }
  ClientReply reply;
  // client_reply_size() has seen that there is one.
  reply.op = layout::op_of(bytes[layout::kOp]).value_or(ClientOp::Resolve);
  reply.tid = layout::tid_of(bytes);
  reply.status = static_cast<ClientStatus>(bytes[layout::kStatus]);
  if (reply.status != ClientStatus::Success) {
    return reply;
  }
  auto body = parse_body(reply.op, bytes);
  if (!body) {
    return fail(body.error());
  }
  reply.body = std::move(*body);
  return reply;
}

std::vector<std::uint8_t> encode_client_reply(const ClientReply& reply) {
  WIREUP_CHECK(reply.status == ClientStatus::Success ||
               std::holds_alternative<std::monostate>(reply.body));
  auto bytes = std::visit([&](const auto& body) { return encode_body(reply, body); }, reply.body);
  bytes[layout::kStatus] = static_cast<std::uint8_t>(reply.status);
  // ibacm leaves the mark of a reply out of resolve replies, and with it their length would be
  // read in the wrong byte order by a client that goes by the whole byte.
  if (reply.op != ClientOp::Resolve) {
    bytes[layout::kOp] |= layout::kAck;
  }
  return bytes;
}

}  // namespace wireup::acm
