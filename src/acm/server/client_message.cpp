// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_message.hpp"

#include "acm/server/client_layout.hpp"

namespace wireup::acm {
namespace {

using layout::Entry;

constexpr std::size_t kOneEntry = kClientHeaderSize + kClientEntrySize;

/// Whether a request of the operation can be this long.
bool is_request_size(ClientOp op, std::size_t size) noexcept {
  switch (op) {
    case ClientOp::Resolve:
      return size >= kClientHeaderSize && size <= kMaxClientRequest &&
             (size - kClientHeaderSize) % kClientEntrySize == 0;
    case ClientOp::PerfQuery:
      return size == kClientHeaderSize || size == kOneEntry;
    case ClientOp::EndpointQuery:
      return size == kClientHeaderSize;
  }
  return false;
}

ClientRefusal refusal(ClientStatus status, const char* why) noexcept {
  return {status, Error::make(Errc::Malformed, "client's request: %s", why)};
}

ClientRequest::Body parse_path_question(const Entry& entry, std::size_t count) {
  PathQuestion question;
  question.path = std::get<mad::PathRecord>(entry.value);
  question.no_delay = (entry.flags & layout::kNoDelay) != 0;
  question.query_sa = (entry.flags & layout::kQuerySa) != 0;
  if (question.query_sa && count != 1) {
    return refusal(ClientStatus::Invalid, "a query of the SA holds more than its record");
  }
  if (!question.query_sa && question.path.dlid.is_zero() && question.path.dgid.is_zero()) {
    return refusal(ClientStatus::DestinationAddress, "the path has neither DLID nor DGID");
  }
  return question;
}

ClientRequest::Body parse_address_question(const std::vector<Entry>& entries) {
  std::optional<mad::AcmAddress> source;
  std::optional<mad::AcmAddress> destination;
  std::optional<mad::PathRecord> hints;
  bool no_delay = false;
  for (const Entry& entry : entries) {
    no_delay = no_delay || (entry.flags & layout::kNoDelay) != 0;
    if (const auto* path = std::get_if<mad::PathRecord>(&entry.value)) {
      hints = hints.value_or(*path);
      continue;
    }
    const auto& address = std::get<mad::AcmAddress>(entry.value);
    const bool is_source = (entry.flags & layout::kSource) != 0;
    const bool is_destination = (entry.flags & layout::kDestination) != 0;
    if (is_source && is_destination) {
      return refusal(ClientStatus::Invalid, "an address is source and destination");
    }
    if (is_source && source.has_value()) {
      return refusal(ClientStatus::SourceAddress, "two sources");
    }
    if (is_destination && destination.has_value()) {
      return refusal(ClientStatus::DestinationAddress, "two destinations");
    }
    if (is_source) {
      source = address;
    } else if (is_destination) {
      destination = address;
    }
  }
  if (!destination.has_value()) {
    return refusal(ClientStatus::DestinationAddress, "no destination");
  }
  return AddressQuestion{source, *destination, hints, no_delay};
}

ClientRequest::Body parse_resolve(std::span<const std::uint8_t> bytes) {
  const std::size_t count = (bytes.size() - kClientHeaderSize) / kClientEntrySize;
  std::vector<Entry> entries;
  entries.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = layout::parse_entry(layout::entry_bytes(bytes, i));
    if (!entry) {
      return entry.error();
    }
    entries.push_back(*entry);
  }
  // The first entry says what kind of question it is.
  if (!entries.empty() && std::holds_alternative<mad::PathRecord>(entries.front().value)) {
    return parse_path_question(entries.front(), count);
  }
  return parse_address_question(entries);
}

ClientRequest::Body parse_perf_query(std::span<const std::uint8_t> bytes) {
  if (bytes.size() == kClientHeaderSize) {
    return PerfQuery{bytes[layout::kData + 1], std::nullopt};
  }
  const auto entry = layout::parse_entry(layout::entry_bytes(bytes, 0));
  if (!entry) {
    return entry.error();
  }
  const auto* address = std::get_if<mad::AcmAddress>(&entry->value);
  if (address == nullptr || (entry->flags & layout::kSource) == 0) {
    return refusal(ClientStatus::SourceAddress, "counters of what is no source address");
  }
  return PerfQuery{0, *address};
}

std::vector<std::uint8_t> encode_body(const ClientRequest& request, const AddressQuestion& body) {
  const std::size_t count =
      1 + std::size_t{body.source.has_value()} + std::size_t{body.hints.has_value()};
  auto bytes =
      layout::begin_message(request.op, request.tid, kClientHeaderSize + count * kClientEntrySize);
  std::size_t at = 0;
  if (body.source.has_value()) {
    layout::put_entry(bytes, at++, layout::kSource, *body.source);
  }
  layout::put_entry(bytes, at++, layout::kDestination | (body.no_delay ? layout::kNoDelay : 0U),
                    body.destination);
  if (body.hints.has_value()) {
    layout::put_entry(bytes, at, 0, *body.hints);
  }
  return bytes;
}

std::vector<std::uint8_t> encode_body(const ClientRequest& request, const PathQuestion& body) {
  auto bytes = layout::begin_message(request.op, request.tid, kOneEntry);
  layout::put_entry(
      bytes, 0, (body.no_delay ? layout::kNoDelay : 0U) | (body.query_sa ? layout::kQuerySa : 0U),
      body.path);
  return bytes;
}

std::vector<std::uint8_t> encode_body(const ClientRequest& request, const PerfQuery& body) {
  auto bytes = layout::begin_message(request.op, request.tid,
                                     body.address.has_value() ? kOneEntry : kClientHeaderSize);
  if (body.address.has_value()) {
    layout::put_entry(bytes, 0, layout::kSource, *body.address);
  } else {
    bytes[layout::kData + 1] = body.endpoint;
  }
  return bytes;
}

std::vector<std::uint8_t> encode_body(const ClientRequest& request, const EndpointQuery& body) {
  auto bytes = layout::begin_message(request.op, request.tid, kClientHeaderSize);
  bytes[layout::kData] = body.index;
  bytes[layout::kData + 1] = body.port;
  return bytes;
}

std::vector<std::uint8_t> encode_body(const ClientRequest& /*request*/,
                                      const ClientRefusal& /*body*/) {
  return {};
}

/// The operation that asks for this.
ClientOp op_of_body(const ClientRequest::Body& body) noexcept {
  if (std::holds_alternative<PerfQuery>(body)) {
    return ClientOp::PerfQuery;
  }
  return std::holds_alternative<EndpointQuery>(body) ? ClientOp::EndpointQuery : ClientOp::Resolve;
}

}  // namespace

Result<std::size_t> client_request_size(ClientHeaderBytes header) noexcept {
  const std::uint8_t byte = header[layout::kOp];
  const auto op = layout::op_of(byte);
  if (header[layout::kVersionAt] != layout::kVersion || !op || (byte & layout::kAck) != 0) {
    return fail(Error::make(Errc::Malformed,
                            "client's request of version %u with operation 0x%02x: version 1 with "
                            "1 to 3 is known",
                            header[layout::kVersionAt], byte));
  }
  const std::size_t size = layout::length_of(*op, header);
  if (!is_request_size(*op, size)) {
    return fail(Error::make(Errc::Malformed,
                            "client's request with operation %u claims %zu bytes: 16 and at most "
                            "%zu times 72 are possible",
                            byte, size,
                            *op == ClientOp::Resolve     ? kMaxClientEntries
                            : *op == ClientOp::PerfQuery ? std::size_t{1}
                                                         : std::size_t{0}));
  }
  return size;
}

Result<ClientRequest> decode_client_request(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kClientHeaderSize) {
    return fail(Error::make(Errc::Malformed, "client's request of %zu bytes: the header has %zu",
                            bytes.size(), kClientHeaderSize));
  }
  const auto size = client_request_size(bytes.first<kClientHeaderSize>());
  if (!size) {
    return fail(size.error());
  }
  if (*size != bytes.size()) {
    return fail(Error::make(Errc::Malformed, "client's request claims %zu bytes and has %zu", *size,
                            bytes.size()));
  }
  ClientRequest request;
  request.op = static_cast<ClientOp>(bytes[layout::kOp]);
  request.tid = layout::tid_of(bytes);
  switch (request.op) {
    case ClientOp::Resolve:
      request.body = parse_resolve(bytes);
      break;
    case ClientOp::PerfQuery:
      request.body = parse_perf_query(bytes);
      break;
    case ClientOp::EndpointQuery:
      request.body = EndpointQuery{bytes[layout::kData], bytes[layout::kData + 1]};
      break;
  }
  return request;
}

std::vector<std::uint8_t> encode_client_request(const ClientRequest& request) {
  WIREUP_CHECK(!std::holds_alternative<ClientRefusal>(request.body));
  WIREUP_CHECK(request.op == op_of_body(request.body));
  return std::visit([&](const auto& body) { return encode_body(request, body); }, request.body);
}

}  // namespace wireup::acm
