// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/ipoib_addresses.hpp"

#include <sys/socket.h>
// Needs sa_family_t of the header above.
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>

#include <algorithm>
#include <cstring>

#include "acm/identity/route_address.hpp"
#include "base/netlink.hpp"
#include "mad/gid_field.hpp"

namespace wireup::acm {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kPKeyAt = 8;
/// More than any host has: the tables come from outside.
constexpr std::size_t kMaxAddresses = 65536;

/// A structure of the kernel's at the beginning of the bytes.
template <typename T>
std::optional<T> head_of(Bytes bytes) noexcept {
  if (bytes.size() < sizeof(T)) {
    return std::nullopt;
  }
  T head{};
  std::memcpy(&head, bytes.data(), sizeof(T));
  return head;
}

Bytes behind(Bytes bytes, std::size_t size) noexcept {
  return bytes.subspan(std::min(netlink::align(size), bytes.size()));
}

/// The first attribute of a type; what is behind one that claims more than there is, is not there.
std::optional<Bytes> attribute(Bytes bytes, std::uint16_t wanted) noexcept {
  while (const auto head = head_of<rtattr>(bytes)) {
    if (head->rta_len < sizeof(rtattr) || head->rta_len > bytes.size()) {
      return std::nullopt;
    }
    // The top bits say how the value is made.
    if ((head->rta_type & 0x3FFFU) == wanted) {
      return bytes.subspan(sizeof(rtattr), head->rta_len - sizeof(rtattr));
    }
    bytes = behind(bytes, head->rta_len);
  }
  return std::nullopt;
}

}  // namespace

RouteNews IpoibAddresses::handle(Bytes datagram, std::uint32_t sequence) {
  while (!datagram.empty()) {
    const auto head = head_of<nlmsghdr>(datagram);
    if (!head.has_value() || head->nlmsg_len < sizeof(nlmsghdr) ||
        head->nlmsg_len > datagram.size()) {
      return RouteNews::Lost;
    }
    const Bytes body = datagram.subspan(sizeof(nlmsghdr), head->nlmsg_len - sizeof(nlmsghdr));
    const bool is_of_dump = head->nlmsg_seq == sequence;
    if (is_of_dump && (head->nlmsg_flags & NLM_F_DUMP_INTR) != 0) {
      return RouteNews::Lost;  // the tables changed while the kernel wrote them down
    }
    switch (head->nlmsg_type) {
      case NLMSG_OVERRUN:
        return RouteNews::Lost;
      case NLMSG_ERROR:
        if (is_of_dump) {
          return RouteNews::Lost;
        }
        break;
      case NLMSG_DONE:
        if (is_of_dump) {
          return RouteNews::Done;
        }
        break;
      case RTM_NEWLINK:
      case RTM_DELLINK:
        handle_link(head->nlmsg_type, body);
        break;
      case RTM_NEWADDR:
      case RTM_DELADDR:
        handle_address(head->nlmsg_type, body);
        break;
      default:
        break;
    }
    datagram = behind(datagram, head->nlmsg_len);
  }
  return RouteNews::None;
}

void IpoibAddresses::handle_link(std::uint16_t type, Bytes body) {
  const auto link = head_of<ifinfomsg>(body);
  // Bridges tell of their ports by the same message, with a family.
  if (!link.has_value() || link->ifi_family != AF_UNSPEC) {
    return;
  }
  const Bytes attributes = behind(body, sizeof(ifinfomsg));
  const auto address = attribute(attributes, IFLA_ADDRESS);
  const auto broadcast = attribute(attributes, IFLA_BROADCAST);
  if (type == RTM_DELLINK || link->ifi_type != ARPHRD_INFINIBAND || !address.has_value() ||
      address->size() != kIpoibAddressSize || !broadcast.has_value() ||
      broadcast->size() != kIpoibAddressSize) {
    links_.erase(link->ifi_index);
    return;
  }
  const Bytes pkey = broadcast->subspan(kPKeyAt, 2);
  links_[link->ifi_index] = {mad::load_gid(*address, kGidInIpoibAddress),
                             PKey(static_cast<std::uint16_t>(pkey[0] << 8U | pkey[1])),
                             (link->ifi_flags & IFF_UP) != 0};
}

void IpoibAddresses::handle_address(std::uint16_t type, Bytes body) {
  const auto head = head_of<ifaddrmsg>(body);
  if (!head.has_value()) {
    return;
  }
  const Bytes attributes = behind(body, sizeof(ifaddrmsg));
  // Where both are there IFA_ADDRESS is the other end of a point-to-point link.
  auto value = attribute(attributes, IFA_LOCAL);
  if (!value.has_value()) {
    value = attribute(attributes, IFA_ADDRESS);
  }
  const auto address = value.has_value() ? route_address(head->ifa_family, *value)
                                         : std::optional<mad::AcmAddress>();
  if (!address.has_value()) {
    return;
  }
  const std::pair key(static_cast<std::int32_t>(head->ifa_index), *address);
  std::uint32_t flags = head->ifa_flags;
  if (const auto wide = attribute(attributes, IFA_FLAGS)) {
    flags = head_of<std::uint32_t>(*wide).value_or(flags);
  }
  // Not ours, or not yet, when another host may have it.
  const bool is_ours = (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) == 0;
  if (type == RTM_DELADDR || !is_ours) {
    addresses_.erase(key);
  } else if (addresses_.size() < kMaxAddresses) {
    addresses_.insert(key);
  }
}

std::vector<mad::AcmAddress> IpoibAddresses::of(const Gid& gid, PKey pkey) const {
  std::vector<mad::AcmAddress> found;
  for (const auto& [index, address] : addresses_) {
    const auto link = links_.find(index);
    if (link != links_.end() && link->second.is_up && link->second.gid == gid &&
        link->second.pkey.partition() == pkey.partition() &&
        std::find(found.begin(), found.end(), address) == found.end()) {
      found.push_back(address);
    }
  }
  return found;
}

}  // namespace wireup::acm
