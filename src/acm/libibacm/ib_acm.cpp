// SPDX-License-Identifier: BSD-3-Clause
#include <endian.h>
#include <infiniband/ib_acm.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "acm/client/local_port.hpp"
#include "acm/client/own_question.hpp"
#include "acm/client/service_call.hpp"
#include "base/clock.hpp"

namespace {

using namespace wireup;
using namespace wireup::acm;

static_assert(sizeof(ib_acm_dev_addr) == 16 && sizeof(ib_acm_resolve_data) == 16);
static_assert(sizeof(ib_path_record) == mad::PathRecord::kSize);

constexpr Duration kUsualTimeout = std::chrono::seconds(10);
constexpr const char* kUsualSocket = "/run/ibacm-unix.sock";

Instant deadline() {
  Duration timeout = kUsualTimeout;
  if (const char* text = std::getenv("IB_ACM_TIMEOUT")) {
    const std::string_view word(text);
    std::uint32_t milliseconds = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), milliseconds);
    if (parsed.ec == std::errc() && parsed.ptr == word.data() + word.size()) {
      timeout = std::chrono::milliseconds(milliseconds);
    }
  }
  return monotonic_now() + timeout;
}

std::string socket_path() {
  const char* path = std::getenv("IB_ACM_SOCKET");
  return path != nullptr && *path != '\0' ? path : kUsualSocket;
}

int errno_of(const Error& error) {
  if (error.is(Errc::InvalidArgument)) {
    return EINVAL;
  }
  if (error.is(Errc::NoDevice) || error.is(Errc::NoSubnetManager)) {
    return ENODEV;
  }
  if (error.is(Errc::NotFound)) {
    return EADDRNOTAVAIL;
  }
  if (error.is(Errc::Timeout) || error.is(Errc::PathUnresolved)) {
    return ETIMEDOUT;
  }
  if (error.is(Errc::NoPermission)) {
    return EACCES;
  }
  if (error.is(Errc::Malformed) || error.is(Errc::PeerGone)) {
    return EPROTO;
  }
  if (error.is(Errc::NoResources) || error.is(Errc::MemlockLimit)) {
    return ENOMEM;
  }
  return error.is(Errc::Busy) ? EBUSY : ENODATA;
}

/// Runs the body of a call: 0, or -1 and errno.
template <typename Body>
int call(Body body) {
  try {
    const int error = body();
    if (error == 0) {
      return 0;
    }
    errno = error;
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
  } catch (const std::exception&) {
    errno = EIO;
  }
  return -1;
}

/// What the service says, or what `otherwise` finds where there is no service.
template <typename Otherwise>
int ask(const ClientRequest::Body& body, Instant until, mad::PathRecord& found,
        Otherwise otherwise) {
  static std::atomic<std::uint64_t> calls{0};
  ClientRequest request;
  request.op = ClientOp::Resolve;
  request.tid = Tid(++calls);
  request.body = body;
  const auto reply = call_service(socket_path(), request, until);
  if (!reply && reply.error().is(Errc::NotFound)) {
    const Result<mad::PathRecord> own = otherwise();
    if (!own) {
      return errno_of(own.error());
    }
    found = *own;
    return 0;
  }
  if (!reply) {
    return errno_of(reply.error());
  }
  if (reply->status != ClientStatus::Success) {
    return status_errno(reply->status);
  }
  const auto* resolved = std::get_if<ResolveReply>(&reply->body);
  if (resolved == nullptr || resolved->paths.empty()) {
    return EPROTO;
  }
  found = resolved->paths.front().record;
  return 0;
}

std::uint8_t gid_index_of(const LocalPort& port, const Gid& gid) {
  const std::vector<Gid> gids = gids_of(port);
  const auto found = std::find(gids.begin(), gids.end(), gid);
  return found == gids.end() ? verbs::kIbGidIndex : static_cast<std::uint8_t>(found - gids.begin());
}

/// The reverse of ib_acm_convert_to_path().
int derive(const mad::PathRecord& path, ib_acm_dev_addr& dev_addr, ibv_ah_attr& ah,
           ib_acm_resolve_data& data) {
  const auto port = open_port_of(path);
  if (!port) {
    return errno_of(port.error());
  }
  const auto pkey_index = port->info.pkey_index(path.pkey);
  if (!pkey_index.has_value()) {
    return ENODATA;
  }
  dev_addr = {};
  dev_addr.guid = htobe64(port->info.node_guid.value());
  dev_addr.pkey_index = *pkey_index;
  dev_addr.port_num = port->info.port;
  ah = {};
  std::copy(path.dgid.bytes().begin(), path.dgid.bytes().end(), std::begin(ah.grh.dgid.raw));
  ah.grh.flow_label = path.flow_label.value();
  ah.grh.sgid_index = gid_index_of(*port, path.sgid);
  ah.grh.hop_limit = path.hop_limit;
  ah.grh.traffic_class = path.traffic_class;
  ah.dlid = path.dlid.value();
  ah.sl = path.sl.value();
  ah.src_path_bits = static_cast<std::uint8_t>(path.slid.value() - port->info.lid.value());
  ah.static_rate = path.rate;
  ah.is_global = 1;
  ah.port_num = port->info.port;
  data = {};
  data.init_depth = port->device.limits().max_qp_init_rd_atom;
  data.resp_resources = port->device.limits().max_qp_rd_atom;
  data.packet_lifetime = path.packet_lifetime;
  data.mtu = path.mtu;
  return 0;
}

int resolve(const std::optional<mad::AcmAddress>& source, const mad::AcmAddress& destination,
            ib_acm_dev_addr& dev_addr, ibv_ah_attr& ah, ib_acm_resolve_data& data) {
  const Instant until = deadline();
  mad::PathRecord path;
  const int error = ask(AddressQuestion{source, destination, std::nullopt, false}, until, path,
                        [&] { return ask_fabric(source, destination, until); });
  return error != 0 ? error : derive(path, dev_addr, ah, data);
}

std::optional<mad::AcmAddress> address_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, &address, sizeof(ipv4));
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &ipv4.sin_addr, bytes.size());
    return mad::AcmAddress::ipv4(bytes);
  }
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, &address, sizeof(ipv6));
    std::array<std::uint8_t, 16> bytes{};
    std::memcpy(bytes.data(), &ipv6.sin6_addr, bytes.size());
    return mad::AcmAddress::ipv6(bytes);
  }
  return std::nullopt;
}

int complete(ib_path_record* wire, bool query_sa) {
  if (wire == nullptr) {
    return EINVAL;
  }
  std::array<std::uint8_t, mad::PathRecord::kSize> bytes{};
  std::memcpy(bytes.data(), wire, bytes.size());
  const auto path = mad::parse_path_record(bytes);
  const bool has_destination = path && (path->dgid != Gid{} || !path->dlid.is_zero());
  const bool has_source = path && (path->sgid != Gid{} || !path->slid.is_zero());
  if (!has_destination || !has_source) {
    return EINVAL;
  }
  const Instant until = deadline();
  mad::PathRecord found;
  const int error = ask(PathQuestion{*path, false, query_sa}, until, found,
                        [&] { return ask_subnet(*path, until); });
  if (error == 0) {
    mad::serialize(found, bytes);
    std::memcpy(wire, bytes.data(), bytes.size());
  }
  return error;
}

}  // namespace

#define WIREUP_IBACM_EXPORT extern "C" __attribute__((visibility("default")))

WIREUP_IBACM_EXPORT int ib_acm_resolve_name(char* src, char* dest, ib_acm_dev_addr* dev_addr,
                                            ibv_ah_attr* ah, ib_acm_resolve_data* data) {
  return call([&] {
    if (dest == nullptr || dev_addr == nullptr || ah == nullptr || data == nullptr) {
      return EINVAL;
    }
    const auto destination = mad::AcmAddress::name(dest);
    std::optional<mad::AcmAddress> source;
    if (src != nullptr) {
      const auto name = mad::AcmAddress::name(src);
      if (!name) {
        return EINVAL;
      }
      source = *name;
    }
    return destination ? resolve(source, *destination, *dev_addr, *ah, *data) : EINVAL;
  });
}

WIREUP_IBACM_EXPORT int ib_acm_resolve_ip(sockaddr* src, sockaddr* dest, ib_acm_dev_addr* dev_addr,
                                          ibv_ah_attr* ah, ib_acm_resolve_data* data) {
  return call([&] {
    if (dest == nullptr || dev_addr == nullptr || ah == nullptr || data == nullptr ||
        (src != nullptr && src->sa_family != dest->sa_family)) {
      return EINVAL;
    }
    const auto destination = address_of(*dest);
    const auto source = src != nullptr ? address_of(*src) : std::nullopt;
    return destination.has_value() ? resolve(source, *destination, *dev_addr, *ah, *data) : EINVAL;
  });
}

WIREUP_IBACM_EXPORT int ib_acm_resolve_path(ib_path_record* path) {
  return call([&] { return complete(path, false); });
}

WIREUP_IBACM_EXPORT int ib_acm_query_path(ib_path_record* path) {
  return call([&] { return complete(path, true); });
}

WIREUP_IBACM_EXPORT int ib_acm_convert_to_path(ib_acm_dev_addr* dev_addr, ibv_ah_attr* ah,
                                               ib_acm_resolve_data* data, ib_path_record* path) {
  return call([&]() -> int {
    if (dev_addr == nullptr || ah == nullptr || data == nullptr || path == nullptr) {
      return EINVAL;
    }
    const auto device = open_device(Guid(be64toh(dev_addr->guid)));
    if (!device) {
      return ENODEV;
    }
    const auto info = device->query_port(dev_addr->port_num);
    if (!info) {
      return ENODEV;
    }
    if (dev_addr->pkey_index >= info->pkeys.size()) {
      return EINVAL;
    }
    constexpr std::uint8_t kExactly = 2U << 6U;
    if (ah->is_global != 0) {
      ibv_gid sgid{};
      if (ibv_query_gid(device->raw(), dev_addr->port_num, ah->grh.sgid_index, &sgid) != 0) {
        return EINVAL;
      }
      path->dgid = ah->grh.dgid;
      path->sgid = sgid;
      path->flowlabel_hoplimit = htobe32(ah->grh.flow_label << 8U | ah->grh.hop_limit);
      path->tclass = ah->grh.traffic_class;
    }
    path->dlid = htobe16(ah->dlid);
    path->slid = htobe16(static_cast<std::uint16_t>(info->lid.value() | ah->src_path_bits));
    path->reversible_numpath = IB_PATH_RECORD_REVERSIBLE | 1U;
    path->pkey = htobe16(info->pkeys[dev_addr->pkey_index].value());
    path->qosclass_sl = htobe16(ah->sl);
    path->mtu = kExactly | data->mtu;
    path->rate = kExactly | ah->static_rate;
    path->packetlifetime = kExactly | data->packet_lifetime;
    return 0;
  });
}
