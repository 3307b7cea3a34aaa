// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/neighbour_table.hpp"

#include <sys/socket.h>
// Needs sa_family_t of the header above.
#include <linux/netlink.h>

#include <cerrno>
#include <span>
#include <vector>

#include "acm/identity/neighbours.hpp"

namespace wireup::acm {
namespace {

constexpr Duration kLife = std::chrono::seconds(1);
/// The kernel fills a datagram up to the size that it is read with, at most 32 KiB.
constexpr std::size_t kMaxDatagram = 65536;
/// Of more than a million neighbours; a kernel that never ends its table is none.
constexpr int kMaxDatagrams = 65536;

}  // namespace

Result<NeighbourTable> NeighbourTable::open() {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!fd.is_open()) {
    return fail(Error::system(errno == EPROTONOSUPPORT ? Errc::Unsupported : Errc::NoResources,
                              errno, "opening the kernel's neighbour table"));
  }
  return NeighbourTable(std::move(fd));
}

Result<std::optional<Gid>> NeighbourTable::find(const mad::AcmAddress& address, Instant now) {
  if (address.type() != mad::AcmAddressType::Ipv4 && address.type() != mad::AcmAddressType::Ipv6) {
    return std::nullopt;
  }
  if (!read_at_.has_value() || now - *read_at_ >= kLife) {
    entries_.clear();
    read_at_ = now;
    if (auto done = read(); !done) {
      return fail(done.error());
    }
  }
  const auto at = entries_.find(address);
  return at == entries_.end() ? std::nullopt : std::optional(at->second);
}

Result<> NeighbourTable::read() {
  // What an earlier, broken reading left is told apart by its number.
  const auto request = neighbour_request(++sequence_);
  if (ops_->send(socket_.value(), request.data(), request.size(), 0) < 0) {
    return wireup::fail(
        Error::system(Errc::NoResources, errno, "asking for the kernel's neighbour table"));
  }
  std::vector<std::uint8_t> buffer(kMaxDatagram);
  std::vector<Neighbour> found;
  for (int i = 0; i < kMaxDatagrams; ++i) {
    std::uint32_t sender = 0;
    const ssize_t length = ops_->receive(socket_.value(), buffer.data(), buffer.size(), &sender);
    if (length < 0 && errno == EINTR) {
      continue;
    }
    if (length < 0) {
      return wireup::fail(
          Error::system(Errc::NoResources, errno, "reading the kernel's neighbour table"));
    }
    if (sender != 0) {
      continue;  // port id 0 is the kernel's, others are processes
    }
    if (static_cast<std::size_t>(length) > buffer.size()) {
      return wireup::fail(Error::make(Errc::Malformed,
                                      "%zd bytes of the kernel's neighbour table at once", length));
    }
    const auto is_end = parse_neighbours(std::span(buffer).first(static_cast<std::size_t>(length)),
                                         sequence_, found);
    if (!is_end) {
      return wireup::fail(is_end.error());
    }
    if (*is_end) {
      for (const Neighbour& neighbour : found) {
        entries_.insert_or_assign(neighbour.address, neighbour.gid);
      }
      return {};
    }
  }
  return wireup::fail(
      Error::make(Errc::Malformed, "the kernel's neighbour table does not come to an end"));
}

}  // namespace wireup::acm
