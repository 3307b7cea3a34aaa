// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>
#include <infiniband/umad.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "mad/sa.hpp"
#include "umad/ops.hpp"

/// Stands in for the kernel's MAD layer: records what is sent, and hands out what a test queues.
/// One at a time, since the table has no place for an object.
namespace wireup::umad::test {

class FakeUmad {
 public:
  struct Sent {
    ib_mad_addr_t address{};
    mad::Mad bytes{};
    int timeout_ms = 0;
    int retries = 0;
  };
  struct Waiting {
    int status = 0;
    mad::Mad bytes{};
    int size = static_cast<int>(mad::kMadSize);
    /// Follows `bytes`, whatever `size` says: an answer of several segments.
    std::vector<std::uint8_t> rest;
    std::uint16_t from_lid = 0;
    /// The rest of where it came from; its LID is not used.
    ib_mad_addr_t from{};
  };

  FakeUmad() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { current = this; }
  ~FakeUmad() {
    current = nullptr;
    close(fd_);
  }
  FakeUmad(const FakeUmad&) = delete;
  FakeUmad& operator=(const FakeUmad&) = delete;

  [[nodiscard]] static const Ops& ops() {
    static const Ops table{open_port, close_port, register_agent, unregister_agent,
                           get_fd,    send,       receive};
    return table;
  }

  /// An answer to the n-th request sent, with the high half of its TID as the kernel makes it.
  void answer(std::size_t request, std::uint16_t status, const mad::McMemberRecord* record) {
    mad::SaMad sa = *mad::parse_sa_mad(sent.at(request).bytes);
    sa.header.method = 0x81;
    sa.header.status = status;
    sa.header.tid = Tid(0xABCD000000000000 | sa.header.tid.value());
    if (record != nullptr) {
      mad::serialize(*record, std::span(sa.data).first<mad::McMemberRecord::kSize>());
    }
    Waiting next;
    mad::serialize(sa, next.bytes);
    waiting.push_back(next);
  }
  /// The answer to the n-th request, a GetTable: `payload` behind the SA's header.
  void answer_table(std::size_t request, std::uint16_t status, std::size_t stride,
                    const std::vector<std::uint8_t>& payload) {
    mad::SaMad sa = *mad::parse_sa_mad(sent.at(request).bytes);
    sa.header.method = 0x92;
    sa.header.status = status;
    sa.header.tid = Tid(0xABCD000000000000 | sa.header.tid.value());
    sa.attribute_offset = static_cast<std::uint16_t>(stride / 8);
    const std::size_t first = std::min(payload.size(), sa.data.size());
    std::copy_n(payload.begin(), first, sa.data.begin());
    Waiting next;
    mad::serialize(sa, next.bytes);
    next.size = static_cast<int>(mad::SaMad::kDataOffset + payload.size());
    next.rest.assign(payload.begin() + static_cast<std::ptrdiff_t>(first), payload.end());
    waiting.push_back(next);
  }
  /// A report of a GID from a LID.
  void report(std::uint16_t trap_number, const Gid& gid, std::uint16_t from_lid,
              std::uint64_t tid) {
    mad::Notice notice;
    notice.is_generic = true;
    notice.trap_number = trap_number;
    std::copy(gid.bytes().begin(), gid.bytes().end(), notice.details.begin() + 6);
    mad::SaMad sa;
    sa.header.method = 0x06;
    sa.header.attribute_id = mad::kAttributeNotice;
    sa.header.tid = Tid(tid);
    mad::serialize(notice, std::span(sa.data).first<mad::Notice::kSize>());
    Waiting next;
    mad::serialize(sa, next.bytes);
    next.from_lid = from_lid;
    waiting.push_back(next);
  }
  /// The kernel hands the n-th request back: nobody answered.
  void time_out(std::size_t request) {
    Waiting next;
    next.status = ETIMEDOUT;
    next.bytes = sent.at(request).bytes;
    waiting.push_back(next);
  }

  int open_error = 0;
  int register_error = 0;
  int send_error = 0;
  int receive_error = 0;
  /// The next sends that fail as one of a transaction id that is on its way already.
  int sends_refused = 0;
  std::string opened;
  int registered_class = 0;
  int registered_version = 0;
  int ports_open = 0;
  int agents = 0;
  std::vector<Sent> sent;
  std::deque<Waiting> waiting;
  /// Methods of the last agent that are received unasked, as bits.
  unsigned long registered_methods = 0;
  /// Reads that found their buffer too short.
  int short_reads = 0;

 private:
  static int open_port(const char* device, int port) {
    current->opened = std::string(device) + ":" + std::to_string(port);
    if (current->open_error != 0) {
      // The library hides the reason of a refused open, and leaves it in errno.
      errno = current->open_error;
      return -EIO;
    }
    ++current->ports_open;
    return 7;
  }
  static int close_port(int) {
    --current->ports_open;
    return 0;
  }
  static int register_agent(int, int mgmt_class, int version, std::uint8_t, long* methods) {
    if (current->register_error != 0) {
      // Whatever the reason, as the library does.
      errno = current->register_error;
      return -EPERM;
    }
    current->registered_class = mgmt_class;
    current->registered_version = version;
    current->registered_methods = methods == nullptr ? 0 : static_cast<unsigned long>(*methods);
    ++current->agents;
    return 3;
  }
  static int unregister_agent(int, int) {
    --current->agents;
    return 0;
  }
  static int get_fd(int) { return current->fd_; }
  static int send(int, int agent, void* umad, int length, int timeout_ms, int retries) {
    if (current->send_error != 0) {
      errno = current->send_error;
      return -EIO;
    }
    if (current->sends_refused > 0) {
      --current->sends_refused;
      errno = EINVAL;
      return -EIO;
    }
    if (agent != 3 || length != static_cast<int>(mad::kMadSize)) {
      return -EINVAL;
    }
    Sent next;
    next.address = *umad_get_mad_addr(umad);
    std::memcpy(next.bytes.data(), umad_get_mad(umad), mad::kMadSize);
    next.timeout_ms = timeout_ms;
    next.retries = retries;
    current->sent.push_back(next);
    return 0;
  }
  static int receive(int, void* umad, int* length, int) {
    if (current->receive_error != 0) {
      return -current->receive_error;
    }
    if (current->waiting.empty()) {
      return -EAGAIN;
    }
    const Waiting next = current->waiting.front();
    if (next.size > *length) {
      // It stays with the kernel.
      *length = next.size;
      ++current->short_reads;
      return -ENOSPC;
    }
    current->waiting.pop_front();
    static_cast<ib_user_mad*>(umad)->status = static_cast<std::uint32_t>(next.status);
    *umad_get_mad_addr(umad) = next.from;
    umad_get_mad_addr(umad)->lid = htons(next.from_lid);
    auto* const to = static_cast<std::uint8_t*>(umad_get_mad(umad));
    const std::size_t whole = static_cast<std::size_t>(next.size);
    std::memcpy(to, next.bytes.data(), std::min(whole, mad::kMadSize));
    if (whole > mad::kMadSize) {
      std::copy_n(next.rest.begin(), whole - mad::kMadSize, to + mad::kMadSize);
    }
    *length = next.size;
    return 3;
  }

  inline static FakeUmad* current = nullptr;
  int fd_;
};

}  // namespace wireup::umad::test
