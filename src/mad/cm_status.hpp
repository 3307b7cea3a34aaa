// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>

namespace wireup::mad {

/// What an APR answers (IBTA vol 1, 12.6.9.1). X-macro columns: name, number, sentence.
#define WIREUP_APR_STATUSES(X)                                                     \
  X(Loaded, 0, "the alternate path is loaded")                                     \
  X(InvalidCommId, 1, "the communication ids are not known")                       \
  X(Unsupported, 2, "alternate paths are not supported")                           \
  X(Rejected, 3, "the consumer refuses the alternate path")                        \
  X(Redirect, 4, "use the port named in the additional information")               \
  X(IsPrimary, 5, "the path proposed is the primary path")                         \
  X(WrongQpn, 6, "the queue pair is not the one of the connection")                \
  X(LidRefused, 7, "the LID of the alternate path is refused")                     \
  X(GidRefused, 8, "the GID of the alternate path is refused")                     \
  X(FlowLabelRefused, 9, "the flow label of the alternate path is refused")        \
  X(TrafficClassRefused, 10, "the traffic class of the alternate path is refused") \
  X(HopLimitRefused, 11, "the hop limit of the alternate path is refused")         \
  X(PacketRateRefused, 12, "the packet rate of the alternate path is refused")     \
  X(SlRefused, 13, "the service level of the alternate path is refused")

/// What a SIDR_REP answers (IBTA vol 1, 12.11.2.1). X-macro columns: name, number, sentence.
#define WIREUP_SIDR_STATUSES(X)                                    \
  X(Valid, 0, "the queue pair and its Q_Key are valid")            \
  X(UnsupportedService, 1, "nobody serves the service id")         \
  X(Rejected, 2, "the service refuses; see the private data")      \
  X(NoQp, 3, "no queue pair available")                            \
  X(Redirect, 4, "ask the CM named in the additional information") \
  X(UnsupportedVersion, 5, "the version is not supported")

enum class AprStatus : std::uint8_t {
#define WIREUP_APR_ENUMERATOR(name, number, sentence) name = (number),
  WIREUP_APR_STATUSES(WIREUP_APR_ENUMERATOR)
#undef WIREUP_APR_ENUMERATOR
};

enum class SidrStatus : std::uint8_t {
#define WIREUP_SIDR_ENUMERATOR(name, number, sentence) name = (number),
  WIREUP_SIDR_STATUSES(WIREUP_SIDR_ENUMERATOR)
#undef WIREUP_SIDR_ENUMERATOR
};

/// Name and sentence of a status as received; "Unknown" and "unknown status" outside the tables.
[[nodiscard]] std::string_view apr_status_name(std::uint8_t status) noexcept;
[[nodiscard]] std::string_view apr_status_sentence(std::uint8_t status) noexcept;
[[nodiscard]] std::string_view sidr_status_name(std::uint8_t status) noexcept;
[[nodiscard]] std::string_view sidr_status_sentence(std::uint8_t status) noexcept;

}  // namespace wireup::mad
