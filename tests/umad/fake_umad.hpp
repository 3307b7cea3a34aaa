// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/umad.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
  std::string opened;
  int registered_class = 0;
  int registered_version = 0;
  int ports_open = 0;
  int agents = 0;
  std::vector<Sent> sent;
  std::deque<Waiting> waiting;

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
  static int register_agent(int, int mgmt_class, int version, std::uint8_t, long*) {
    if (current->register_error != 0) {
      return -current->register_error;
    }
    current->registered_class = mgmt_class;
    current->registered_version = version;
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
      return -current->send_error;
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
    current->waiting.pop_front();
    static_cast<ib_user_mad*>(umad)->status = static_cast<std::uint32_t>(next.status);
    std::memcpy(umad_get_mad(umad), next.bytes.data(), static_cast<std::size_t>(next.size));
    *length = next.size;
    return 3;
  }

  inline static FakeUmad* current = nullptr;
  int fd_;
};

}  // namespace wireup::umad::test
