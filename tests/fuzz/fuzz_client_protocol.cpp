// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as what a client, the service or the kernel says: what is read is written back and
// reads as the same.
#include <cstddef>
#include <cstdint>
#include <span>

#include "acm/server/client_message.hpp"
#include "acm/server/netlink_message.hpp"
#include "base/check.hpp"

namespace {

using namespace wireup::acm;

void try_request(std::span<const std::uint8_t> bytes) {
  const auto request = decode_client_request(bytes);
  if (request && !std::holds_alternative<ClientRefusal>(request->body)) {
    WIREUP_CHECK(decode_client_request(encode_client_request(*request)) == request);
  } else if (request) {
    const auto reply = refuse(*request, std::get<ClientRefusal>(request->body).status);
    WIREUP_CHECK(decode_client_reply(encode_client_reply(reply)) == reply);
  }
}

void try_reply(std::span<const std::uint8_t> bytes) {
  const auto reply = decode_client_reply(bytes);
  if (!reply) {
    return;
  }
  const auto again = decode_client_reply(encode_client_reply(*reply));
  WIREUP_CHECK(again.has_value());
  // A text of 64 bytes without a NUL loses its last one: what is written always has one.
  if (reply->op != ClientOp::EndpointQuery) {
    WIREUP_CHECK(again == reply);
  }
}

void try_netlink(std::span<const std::uint8_t> bytes) {
  const auto request = decode_netlink(bytes);
  if (!request) {
    return;
  }
  WIREUP_CHECK(!decode_netlink(encode_netlink_failure(*request)).has_value());
  if (const auto* resolve = std::get_if<NetlinkResolve>(&request->body)) {
    const auto paths = netlink_paths(resolve->use, resolve->record, std::nullopt, std::nullopt);
    WIREUP_CHECK(encode_netlink_paths(*request, paths).size() == 92);
  }
  if (const auto* timeout = std::get_if<NetlinkSetTimeout>(&request->body)) {
    WIREUP_CHECK(decode_netlink(encode_netlink_set_timeout(request->sequence, *timeout)) ==
                 request);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  try_request(bytes);
  try_reply(bytes);
  try_netlink(bytes);
  return 0;
}
