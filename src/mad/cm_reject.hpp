// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>

namespace wireup::mad {

/// Why a REJ was sent (IBTA vol 1, 12.6.7.2). X-macro columns: name, number, sentence.
#define WIREUP_REJ_REASONS(X)                                                                  \
  X(NoQp, 1, "no queue pair available")                                                        \
  X(NoEec, 2, "no end-to-end context available")                                               \
  X(NoResources, 3, "no resources available")                                                  \
  X(Timeout, 4, "an answer was waited for too long")                                           \
  X(UnsupportedRequest, 5, "the request is not supported")                                     \
  X(InvalidCommId, 6, "the communication id is not known")                                     \
  X(InvalidCommInstance, 7, "the communication ids, QPN and PSN do not belong together")       \
  X(InvalidServiceId, 8, "nobody listens on the service id")                                   \
  X(InvalidTransport, 9, "the transport service is not supported")                             \
  X(StaleConnection, 10, "an older connection still uses the queue pair number")               \
  X(RdcDoesNotExist, 11, "the reliable datagram channel does not exist")                       \
  X(PrimaryRemoteGid, 12, "the remote GID of the primary path is refused")                     \
  X(PrimaryRemoteLid, 13, "the remote LID of the primary path is refused")                     \
  X(PrimarySl, 14, "the service level of the primary path is refused")                         \
  X(PrimaryTrafficClass, 15, "the traffic class of the primary path is refused")               \
  X(PrimaryHopLimit, 16, "the hop limit of the primary path is refused")                       \
  X(PrimaryPacketRate, 17, "the packet rate of the primary path is refused")                   \
  X(AlternateRemoteGid, 18, "the remote GID of the alternate path is refused")                 \
  X(AlternateRemoteLid, 19, "the remote LID of the alternate path is refused")                 \
  X(AlternateSl, 20, "the service level of the alternate path is refused")                     \
  X(AlternateTrafficClass, 21, "the traffic class of the alternate path is refused")           \
  X(AlternateHopLimit, 22, "the hop limit of the alternate path is refused")                   \
  X(AlternatePacketRate, 23, "the packet rate of the alternate path is refused")               \
  X(PortAndCmRedirect, 24, "use the port and the CM named in the ARI")                         \
  X(PortRedirect, 25, "use the port named in the ARI")                                         \
  X(InvalidPathMtu, 26, "the path MTU is larger than supported")                               \
  X(InsufficientResponderResources, 27, "more responder resources are needed than are there")  \
  X(ConsumerReject, 28, "the consumer refuses; see the private data")                          \
  X(RnrRetryCountReject, 29, "the RNR retry count is refused")                                 \
  X(DuplicateLocalCommId, 30, "the communication id is in use by another request of the peer") \
  X(InvalidClassVersion, 31, "the class version is not supported")                             \
  X(PrimaryFlowLabel, 32, "the flow label of the primary path is refused")                     \
  X(AlternateFlowLabel, 33, "the flow label of the alternate path is refused")                 \
  X(VendorOptionNotSupported, 35, "the ECE vendor option is not supported")

enum class RejReason : std::uint16_t {
#define WIREUP_REJ_ENUMERATOR(name, number, sentence) name = (number),
  WIREUP_REJ_REASONS(WIREUP_REJ_ENUMERATOR)
#undef WIREUP_REJ_ENUMERATOR
};

/// Name and sentence of a reason as received; "unknown reason" for numbers outside the table.
[[nodiscard]] std::string_view rej_reason_name(std::uint16_t reason) noexcept;
[[nodiscard]] std::string_view rej_reason_sentence(std::uint16_t reason) noexcept;

}  // namespace wireup::mad
