// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/ibsim_slot.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <span>
#include <sstream>

#include "softhca/agent/slot_journal.hpp"
#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

// Numbers of ibsim's control messages.
constexpr std::uint32_t kControlError = 0;
constexpr std::uint32_t kControlConnect = 1;
constexpr std::uint32_t kControlDisconnect = 2;
constexpr std::uint32_t kControlNodeInfo = 7;
constexpr std::uint32_t kControlSetIsSm = 9;
constexpr std::uint32_t kControlMagic = 0xdeadbeef;

// A control message is four 32-bit numbers in host order and 64 bytes: magic, slot, type, length.
constexpr std::size_t kControlSize = 80;
constexpr std::size_t kControlDataAt = 16;
// A data message is five 32-bit words, padding, a 64-bit length and the MAD; LIDs occupy the first
// two bytes of their word, all in network order.
constexpr std::size_t kDataSize = 288;
constexpr std::size_t kMadAt = 32;

constexpr int kControlTimeoutMs = 2000;
// ibsim's own clients use their process id here; these are beyond every process id.
constexpr std::uint32_t kFirstId = 0x10000000;
constexpr std::uint32_t kIdSpan = 0x60000000;

void put_host32(std::span<std::uint8_t> bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::uint32_t get_host32(std::span<const std::uint8_t> bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// An abstract name as ibsim makes it: a leading NUL, the text and a closing NUL.
socklen_t abstract_name(sockaddr_un& address, const std::string& text) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(text.size(), sizeof(address.sun_path) - 2);
  std::memcpy(address.sun_path + 1, text.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length + 1);
}

sockaddr* generic(sockaddr_un& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

bool bind_name(int fd, const std::string& text) {
  sockaddr_un address;
  const socklen_t length = abstract_name(address, text);
  return bind(fd, generic(address), length) == 0;
}

bool connect_name(int fd, const std::string& text) {
  sockaddr_un address;
  const socklen_t length = abstract_name(address, text);
  return connect(fd, generic(address), length) == 0;
}

std::string incoming_name(const std::string& base, std::uint32_t id) {
  return base + ":in" + std::to_string(id);
}

std::string control_name(const std::string& base, std::uint32_t id) {
  return base + ":ctl" + std::to_string(id);
}

int datagram_socket() {
  return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

}  // namespace

std::unique_ptr<IbsimSlot> IbsimSlot::open(const std::string& base, SlotJournal* journal) {
  const int control = datagram_socket();
  const int data = datagram_socket();
  const auto fail = [control, data](int error) {
    close(control);
    close(data);
    errno = error;
    return nullptr;
  };
  if (control < 0 || data < 0) {
    return fail(errno);
  }
  std::random_device random;
  std::uint32_t id = 0;
  for (int tries = 0; id == 0; ++tries) {
    const std::uint32_t candidate = kFirstId + random() % kIdSpan;
    if (bind_name(data, incoming_name(base, candidate))) {
      if (!bind_name(control, control_name(base, candidate))) {
        return fail(errno);
      }
      id = candidate;
    } else if (errno != EADDRINUSE || tries == 100) {
      return fail(errno);
    }
  }
  if (!connect_name(control, base + ":ctl")) {
    return fail(errno);
  }
  return std::unique_ptr<IbsimSlot>(new IbsimSlot(base, journal, control, data, id));
}

IbsimSlot::~IbsimSlot() {
  detach();
  close(control_);
  close(data_);
}

bool IbsimSlot::control(std::uint32_t type, ControlData& data) {
  std::array<std::uint8_t, kControlSize> message{};
  // An answer that came too late for an earlier request would be taken for this one's.
  while (recv(control_, message.data(), message.size(), 0) >= 0) {
  }
  message.fill(0);
  put_host32(message, 0, kControlMagic);
  put_host32(message, 4, slot_.value_or(0));
  put_host32(message, 8, type);
  put_host32(message, 12, kControlData);
  std::copy(data.begin(), data.end(), message.begin() + kControlDataAt);
  if (::send(control_, message.data(), message.size(), 0) != static_cast<ssize_t>(message.size())) {
    return false;
  }
  pollfd wait = {control_, POLLIN, 0};
  if (poll(&wait, 1, kControlTimeoutMs) <= 0) {
    errno = ETIMEDOUT;
    return false;
  }
  if (recv(control_, message.data(), message.size(), 0) != static_cast<ssize_t>(message.size()) ||
      get_host32(message, 0) != kControlMagic) {
    errno = EPROTO;
    return false;
  }
  if (get_host32(message, 8) == kControlError) {
    errno = ENOSPC;
    return false;
  }
  std::copy_n(message.begin() + kControlDataAt, kControlData, data.begin());
  return true;
}

bool IbsimSlot::attach(const std::string& node_id, std::uint64_t known_guid) {
  detach();
  ControlData data{};
  put_host32(data, 0, id_);
  constexpr std::size_t kNodeIdAt = 12;
  constexpr std::size_t kNodeIdMax = 31;
  if (node_id.size() > kNodeIdMax) {
    errno = ENAMETOOLONG;
    return false;
  }
  std::copy(node_id.begin(), node_id.end(), data.begin() + kNodeIdAt);
  if (!control(kControlConnect, data)) {
    return false;
  }
  slot_ = get_host32(data, 0);
  data.back() = 0;
  node_id_.clear();
  for (std::size_t i = kNodeIdAt; i <= kNodeIdAt + kNodeIdMax && data[i] != 0; ++i) {
    node_id_.push_back(static_cast<char>(data[i]));
  }
  if (journal_ != nullptr) {
    journal_->taken(*slot_, node_id_);
  }
  // The data socket stays unconnected: ibsim ends itself when it cannot connect to a client's
  // socket, and it cannot when that is still connected to the slot the client had before.
  peer_ = base_ + ":out" + std::to_string(*slot_);
  node_guid_ = known_guid;
  if (known_guid == 0) {
    ControlData info{};
    if (!control(kControlNodeInfo, info)) {
      const int error = errno;
      detach();
      errno = error;
      return false;
    }
    node_guid_ = get64(info, 12);
  }
  // Whatever was still under way to the port this slot was at before.
  SimPacket stale;
  while (receive(stale)) {
  }
  return true;
}

void IbsimSlot::detach() {
  if (slot_) {
    ControlData data{};
    control(kControlDisconnect, data);
    if (journal_ != nullptr) {
      journal_->released(*slot_);
    }
    slot_.reset();
    node_guid_ = 0;
  }
}

bool IbsimSlot::set_is_sm(bool is_sm) {
  ControlData data{};
  put_host32(data, 0, is_sm ? 1 : 0);
  return control(kControlSetIsSm, data);
}

bool IbsimSlot::send(const SimPacket& packet) {
  std::array<std::uint8_t, kDataSize> message{};
  put16(message, 0, packet.dlid);
  put16(message, 4, packet.slid);
  put32(message, 8, packet.dqp);
  put32(message, 12, packet.sqp);
  put64(message, 24, kMadSize);
  std::copy(packet.mad.begin(), packet.mad.end(), message.begin() + kMadAt);
  sockaddr_un address;
  const socklen_t length = abstract_name(address, peer_);
  return sendto(data_, message.data(), message.size(), MSG_DONTWAIT, generic(address), length) ==
         static_cast<ssize_t>(message.size());
}

bool IbsimSlot::receive(SimPacket& packet) {
  std::array<std::uint8_t, kDataSize> message{};
  for (;;) {
    sockaddr_un from = {};
    socklen_t from_length = sizeof from;
    const ssize_t got =
        recvfrom(data_, message.data(), message.size(), MSG_DONTWAIT, generic(from), &from_length);
    if (got < 0) {
      return false;
    }
    sockaddr_un expected;
    const socklen_t expected_length = abstract_name(expected, peer_);
    if (got == static_cast<ssize_t>(message.size()) && from_length == expected_length &&
        std::memcmp(&from, &expected, from_length) == 0) {
      break;
    }
  }
  packet.dlid = get16(message, 0);
  packet.slid = get16(message, 4);
  packet.dqp = get32(message, 8);
  packet.sqp = get32(message, 12);
  packet.status = get32(message, 16);
  packet.length = get64(message, 24);
  std::copy_n(message.begin() + kMadAt, kMadSize, packet.mad.begin());
  return true;
}

std::uint64_t ibsim_instance(const std::string& base) {
  // Lines of /proc/net/unix end in the inode and the name; abstract names begin with '@', and
  // ibsim's closing NUL shows as one more '@'.
  std::ifstream list("/proc/net/unix");
  const std::string wanted = "@" + base + ":ctl";
  for (std::string line; std::getline(list, line);) {
    std::istringstream fields(line);
    std::string word;
    std::uint64_t inode = 0;
    for (int i = 0; i < 6; ++i) {
      fields >> word;
    }
    std::string name;
    if (fields >> inode >> name) {
      while (!name.empty() && name.back() == '@') {
        name.pop_back();
      }
      if (name == wanted) {
        return inode;
      }
    }
  }
  return 0;
}

}  // namespace softhca
