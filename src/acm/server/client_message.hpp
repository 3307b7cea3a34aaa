// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "acm/server/client_status.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

// ibacm's protocol between a node's ACM service and its clients (librdmacm, ib_acme), both
// directions. Messages travel over a stream, one request and one reply at a time; each begins with
// a header of 16 bytes that holds its length. The integers of resolve messages are in host byte
// order, those of the others big-endian; path records and addresses always are as on the fabric.
// Nothing here does I/O.

inline constexpr std::size_t kClientHeaderSize = 16;
inline constexpr std::size_t kClientEntrySize = 72;
inline constexpr std::size_t kMaxClientEntries = 8;
/// The longest request, and the longest reply but for those to an endpoint query.
inline constexpr std::size_t kMaxClientRequest =
    kClientHeaderSize + kMaxClientEntries * kClientEntrySize;

enum class ClientOp : std::uint8_t { Resolve = 1, PerfQuery = 2, EndpointQuery = 3 };

/// Flags of a path in a reply, the same numbers as the kernel's (rdma/ib_user_sa.h).
namespace path_flag {
inline constexpr std::uint32_t kGmp = 1U << 0U;
inline constexpr std::uint32_t kPrimary = 1U << 1U;
inline constexpr std::uint32_t kAlternate = 1U << 2U;
inline constexpr std::uint32_t kOutbound = 1U << 3U;
inline constexpr std::uint32_t kInbound = 1U << 4U;
inline constexpr std::uint32_t kInboundReverse = 1U << 5U;
inline constexpr std::uint32_t kBidirectional = kOutbound | kInboundReverse;
/// A path for everything, both ways: what ibacm always says.
inline constexpr std::uint32_t kUniversal = kGmp | kPrimary | kBidirectional;
/// One way only, from here to there.
inline constexpr std::uint32_t kUnidirectional = kPrimary | kOutbound;
}  // namespace path_flag

/// "Which path leads to `destination`?" Without a source the service chooses one, and says which.
struct AddressQuestion {
  std::optional<mad::AcmAddress> source;
  mad::AcmAddress destination;
  /// What librdmacm wishes of the path, where its caller gave route hints.
  std::optional<mad::PathRecord> hints;
  /// Answer from the cache only; on a miss start the lookup and answer NoData.
  bool no_delay = false;
  friend bool operator==(const AddressQuestion&, const AddressQuestion&) noexcept = default;
};

/// "Complete this path", which has a DLID or a DGID, and often a source.
struct PathQuestion {
  mad::PathRecord path;
  bool no_delay = false;
  /// Ask the SA for exactly this record, not the cache.
  bool query_sa = false;
  friend bool operator==(const PathQuestion&, const PathQuestion&) noexcept = default;
};

/// Counters of the whole service, of endpoint number `endpoint` (from 1), or of the endpoint that
/// has `address` (then `endpoint` is 0).
struct PerfQuery {
  std::uint8_t endpoint = 0;
  std::optional<mad::AcmAddress> address;
  friend bool operator==(const PerfQuery&, const PerfQuery&) noexcept = default;
};

/// Endpoint number `index` (from 1) among those of port `port`, or of all ports when it is 0.
struct EndpointQuery {
  std::uint8_t index = 0;
  std::uint8_t port = 0;
  friend bool operator==(const EndpointQuery&, const EndpointQuery&) noexcept = default;
};

/// A well-framed request that asks for nothing that exists: to be answered with `status`. The
/// sentence is for the log.
struct ClientRefusal {
  ClientStatus status = ClientStatus::Invalid;
  Error why;
  friend bool operator==(const ClientRefusal&, const ClientRefusal&) noexcept = default;
};

struct ClientRequest {
  using Body = std::variant<ClientRefusal, AddressQuestion, PathQuestion, PerfQuery, EndpointQuery>;

  ClientOp op = ClientOp::Resolve;
  /// Opaque to the service, which sends it back.
  Tid tid;
  Body body;
  friend bool operator==(const ClientRequest&, const ClientRequest&) = default;
};

struct ClientPath {
  /// path_flag bits.
  std::uint32_t flags = path_flag::kUniversal;
  mad::PathRecord record;
  friend bool operator==(const ClientPath&, const ClientPath&) noexcept = default;
};

struct ResolveReply {
  /// At least one. ibacm and its clients know of one; the format has room for kMaxClientEntries,
  /// `source` included.
  std::vector<ClientPath> paths;
  /// The address that the service chose; only when the question had none.
  std::optional<mad::AcmAddress> source;
  friend bool operator==(const ResolveReply&, const ResolveReply&) noexcept = default;
};

/// The counters of PerfReply, in their order on the wire.
enum class ClientCounter : std::uint8_t {
  Errors = 0,
  Resolves = 1,
  NoData = 2,
  AddressQueries = 3,
  AddressCacheHits = 4,
  RouteQueries = 5,
  RouteCacheHits = 6,
};
inline constexpr std::size_t kClientCounters = 7;

struct PerfReply {
  /// The number that was asked for.
  std::uint8_t endpoint = 0;
  /// Indexed by ClientCounter; kClientCounters of them from us and from ibacm, at most 255.
  std::vector<std::uint64_t> counters;
  friend bool operator==(const PerfReply&, const PerfReply&) noexcept = default;
};

struct EndpointReply {
  /// Bytes of a text on the wire; the last one is a NUL.
  static constexpr std::size_t kTextSize = 64;
  /// As many as the header's length can say.
  static constexpr std::size_t kMaxAddresses = 1022;

  /// What was asked for.
  EndpointQuery query;
  Guid device;
  std::uint8_t port = 0;
  /// Of the device.
  std::uint8_t ports = 0;
  PKey pkey;
  /// "ibacmp" is ibacm's own. Longer texts than kTextSize - 1 bytes are cut when written.
  std::string provider;
  std::vector<std::string> addresses;
  friend bool operator==(const EndpointReply&, const EndpointReply&) noexcept = default;
};

struct ClientReply {
  /// Without a body when `status` is not Success.
  using Body = std::variant<std::monostate, ResolveReply, PerfReply, EndpointReply>;

  ClientOp op = ClientOp::Resolve;
  Tid tid;
  ClientStatus status = ClientStatus::Success;
  Body body;
  friend bool operator==(const ClientReply&, const ClientReply&) = default;
};

/// The reply without a body.
[[nodiscard]] ClientReply refuse(const ClientRequest& request, ClientStatus status) noexcept;

using ClientHeaderBytes = std::span<const std::uint8_t, kClientHeaderSize>;

/// Length of a request in bytes, header included, as its first 16 bytes say. Errc::Malformed when
/// no request begins like this (version, operation, a length that this operation cannot have): the
/// stream has no frame any more, so the client is to be disconnected.
[[nodiscard]] Result<std::size_t> client_request_size(ClientHeaderBytes header) noexcept;
/// The same of a reply; up to 65535.
[[nodiscard]] Result<std::size_t> client_reply_size(ClientHeaderBytes header) noexcept;

/// Reads a request of exactly the length that it claims. Errc::Malformed as client_request_size().
/// What stands behind an address's own bytes is not looked at (clients leave there what was on
/// their stack), nor are reserved fields; the values read have zero there. Addresses without a
/// flag and path entries after the first say nothing, as with ibacm.
[[nodiscard]] Result<ClientRequest> decode_client_request(std::span<const std::uint8_t> bytes);
/// Writes a request; `op` must fit the body, and a ClientRefusal is a defect.
[[nodiscard]] std::vector<std::uint8_t> encode_client_request(const ClientRequest& request);

/// Reads a reply of exactly the length that it claims. Errc::Malformed when it is none, or a good
/// one without what was asked for. Texts are printable afterwards, whatever was sent.
[[nodiscard]] Result<ClientReply> decode_client_reply(std::span<const std::uint8_t> bytes);
/// Writes a reply. A good status needs the body of `op`, within the bounds given above; a defect
/// otherwise.
[[nodiscard]] std::vector<std::uint8_t> encode_client_reply(const ClientReply& reply);

}  // namespace wireup::acm
