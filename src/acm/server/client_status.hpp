// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <cstdint>
#include <string_view>

namespace wireup::acm {

/// How the service answered a client, as numbered on the client protocol's wire (4 is not used).
/// X-macro columns: enumerator, number, errno value that clients return, name, sentence.
#define WIREUP_CLIENT_STATUSES(X)                                                               \
  X(Success, 0, 0, "SUCCESS", "done")                                                           \
  X(NoMemory, 1, ENOMEM, "ENOMEM", "the service is out of memory")                              \
  X(Invalid, 2, EINVAL, "EINVAL", "the service cannot make sense of the request")               \
  X(NoData, 3, ENODATA, "ENODATA", "no path or no endpoint is known")                           \
  X(NotConnected, 5, ENOTCONN, "ENOTCONN", "the endpoint is not connected to its fabric")       \
  X(TimedOut, 6, ETIMEDOUT, "ETIMEDOUT", "nobody answered for the destination")                 \
  X(SourceAddress, 7, EADDRNOTAVAIL, "ESRCADDR", "the source is no address of this node")       \
  X(SourceType, 8, EINVAL, "ESRCTYPE", "the source is of an unknown kind")                      \
  X(DestinationAddress, 9, EADDRNOTAVAIL, "EDESTADDR", "the destination is missing or invalid") \
  X(DestinationType, 10, EINVAL, "EDESTTYPE", "the destination is of an unknown kind")

/// A number outside the table is kept as it came.
enum class ClientStatus : std::uint8_t {
#define WIREUP_CLIENT_STATUS_ENUMERATOR(name, number, error, text, sentence) name = (number),
  WIREUP_CLIENT_STATUSES(WIREUP_CLIENT_STATUS_ENUMERATOR)
#undef WIREUP_CLIENT_STATUS_ENUMERATOR
};

/// "ENODATA" and so on; "unknown" for a number outside the table.
[[nodiscard]] std::string_view status_name(ClientStatus status) noexcept;
[[nodiscard]] std::string_view status_sentence(ClientStatus status) noexcept;
/// The errno value that a client makes of it: 0 for Success, EINVAL for an unknown number.
[[nodiscard]] int status_errno(ClientStatus status) noexcept;

}  // namespace wireup::acm
