// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fake_ibsim.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace softhca_test {
namespace {

constexpr std::size_t kControlSize = 80;
constexpr std::size_t kPacketSize = 288;
constexpr std::size_t kMadAt = 32;

socklen_t name_of(sockaddr_un& address, const std::string& text) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + 2);
}

sockaddr* generic(sockaddr_un& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

int bound(const std::string& text) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address;
  const socklen_t length = name_of(address, text);
  return bind(fd, generic(address), length) == 0 ? fd : -1;
}

template <std::size_t N>
std::uint32_t word(const std::array<std::uint8_t, N>& bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <std::size_t N>
void set_word(std::array<std::uint8_t, N>& bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

FakeIbsim::FakeIbsim(std::string base, std::map<std::string, Node> nodes)
    : base_(std::move(base)), nodes_(std::move(nodes)) {
  control_ = bound(base_ + ":ctl");
  for (std::size_t i = 0; i < kSlots; ++i) {
    slots_[i].fd = bound(base_ + ":out" + std::to_string(i));
  }
  if (pipe(stop_) == 0) {
    thread_ = std::thread([this] { run(); });
  }
}

FakeIbsim::~FakeIbsim() {
  close(stop_[1]);
  thread_.join();
  close(stop_[0]);
  close(control_);
  for (const Slot& slot : slots_) {
    close(slot.fd);
  }
}

std::vector<std::uint16_t> FakeIbsim::requesters() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return requesters_;
}

void FakeIbsim::run() {
  for (;;) {
    std::array<pollfd, kSlots + 2> fds{};
    fds[0] = {stop_[0], POLLIN, 0};
    fds[1] = {control_, POLLIN, 0};
    for (std::size_t i = 0; i < kSlots; ++i) {
      fds[i + 2] = {slots_[i].used ? slots_[i].fd : -1, POLLIN, 0};
    }
    poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) {
      return;
    }
    if (fds[1].revents != 0) {
      serve_control();
    }
    for (std::size_t i = 0; i < kSlots; ++i) {
      if (fds[i + 2].revents != 0) {
        serve_slot(i);
      }
    }
  }
}

void FakeIbsim::serve_control() {
  std::array<std::uint8_t, kControlSize> message{};
  sockaddr_un from = {};
  socklen_t length = sizeof from;
  if (recvfrom(control_, message.data(), message.size(), 0, generic(from), &length) !=
      static_cast<ssize_t>(kControlSize)) {
    return;
  }
  const std::uint32_t type = word(message, 8);
  Slot& asked = slots_[word(message, 4) % kSlots];
  if (type == 1) {
    const auto free =
        std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.used; });
    std::array<char, 32> id{};
    std::copy_n(message.begin() + 28, id.size(), id.begin());
    const auto node = nodes_.find(std::string(id.data()));
    if (free == slots_.end() || node == nodes_.end()) {
      set_word(message, 8, 0);
    } else {
      free->used = true;
      free->node = node->second;
      free->peer = base_ + ":in" + std::to_string(word(message, 16));
      set_word(message, 16, static_cast<std::uint32_t>(free - slots_.begin()));
    }
  } else if (type == 2) {
    asked.used = false;
  } else if (type == 7) {
    for (std::size_t i = 0; i < 8; ++i) {
      message[16 + 12 + i] = static_cast<std::uint8_t>(asked.node.guid >> (8 * (7 - i)));
    }
  }
  sendto(control_, message.data(), message.size(), 0, generic(from), length);
}

void FakeIbsim::serve_slot(std::size_t index) {
  std::array<std::uint8_t, kPacketSize> packet{};
  while (recv(slots_[index].fd, packet.data(), packet.size(), 0) ==
         static_cast<ssize_t>(kPacketSize)) {
    const std::uint16_t lid = slots_[index].node.lid;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      requesters_.push_back(lid);
    }
    if (lose_.load() > 0) {
      --lose_;
      continue;
    }
    // The answer: response bit, the slot in the top bits of the transaction id, addresses swapped,
    // and the requester's LID in the data, so that a test sees whose request it was.
    packet[kMadAt + 3] |= 0x80;
    packet[kMadAt + 8] = 0;
    packet[kMadAt + 9] = static_cast<std::uint8_t>(index);
    packet[kMadAt + 60] = static_cast<std::uint8_t>(lid >> 8);
    packet[kMadAt + 61] = static_cast<std::uint8_t>(lid & 0xFF);
    std::copy_n(packet.begin(), 2, packet.begin() + 4);
    packet[0] = static_cast<std::uint8_t>(lid >> 8);
    packet[1] = static_cast<std::uint8_t>(lid & 0xFF);
    sockaddr_un to;
    const socklen_t length = name_of(to, slots_[index].peer);
    sendto(slots_[index].fd, packet.data(), packet.size(), 0, generic(to), length);
  }
}

}  // namespace softhca_test
