// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/umad/umad_socket.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "softhca/umad/passed_descriptor.hpp"

namespace softhca {
namespace {

bool write_all(int fd, std::span<const std::uint8_t> data) {
  while (!data.empty()) {
    const ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0 && errno != EINTR) {
      return false;
    }
    data = data.subspan(static_cast<std::size_t>(std::max<ssize_t>(put, 0)));
  }
  return true;
}

bool read_file(int fd, std::span<std::uint8_t> data) {
  std::size_t at = 0;
  while (at < data.size()) {
    const ssize_t got = ::pread(fd, data.data() + at, data.size() - at, static_cast<off_t>(at));
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return false;  // shorter than was said, or no file at all
    }
    at += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  return true;
}

}  // namespace

UmadMessage::UmadMessage(const UmadHeader& header, std::span<const std::uint8_t> data) {
  UmadHeader complete = header;
  complete.length = static_cast<std::uint32_t>(sizeof(UmadHeader) + data.size());
  const bool in_file = data.size() > kMaxInlineData;
  bytes_.resize(sizeof complete + (in_file ? 0 : data.size()));
  std::memcpy(bytes_.data(), &complete, sizeof complete);
  if (!in_file) {
    std::copy(data.begin(), data.end(), bytes_.begin() + sizeof complete);
    return;
  }
  file_ = memfd_create("softhca-umad", MFD_CLOEXEC);
  ok_ = file_ >= 0 && write_all(file_, data);
}

UmadMessage::UmadMessage(UmadMessage&& other) noexcept
    : bytes_(std::move(other.bytes_)), file_(other.file_), ok_(other.ok_) {
  other.file_ = -1;
}

UmadMessage::~UmadMessage() {
  if (file_ >= 0) {
    close(file_);
  }
}

bool UmadMessage::send(int fd) const {
  return send_with_descriptor(fd, std::as_bytes(std::span(bytes_)), file_,
                              MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes_.size());
}

UmadRead read_umad(int fd, UmadArrival& arrival) {
  std::array<std::uint8_t, kMaxInlineData> inline_data;
  std::array<iovec, 2> parts = {
      {{&arrival.header, sizeof arrival.header}, {inline_data.data(), inline_data.size()}}};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  DescriptorRoom room;
  message.msg_control = room.bytes.data();
  message.msg_controllen = room.bytes.size();
  const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    return errno == EAGAIN || errno == EINTR ? UmadRead::Nothing : UmadRead::End;
  }
  const int file = passed_descriptor(message);
  if (got == 0) {
    return UmadRead::End;
  }
  const auto size = static_cast<std::size_t>(got);
  bool good = size >= sizeof arrival.header && (message.msg_flags & MSG_TRUNC) == 0;
  if (good && file >= 0) {
    const std::size_t data = arrival.header.length - sizeof arrival.header;
    good = size == sizeof arrival.header && arrival.header.length > sizeof arrival.header &&
           data <= kMaxUmadData;
    if (good) {
      arrival.data.resize(data);
      good = read_file(file, arrival.data);
    }
  } else if (good) {
    arrival.data.assign(inline_data.begin(),
                        inline_data.begin() + static_cast<long>(size - sizeof arrival.header));
  }
  if (file >= 0) {
    close(file);
  }
  return good ? UmadRead::Message : UmadRead::Malformed;
}

UmadRead peek_umad(int fd, UmadHeader& header) {
  const ssize_t got = recv(fd, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) {
    return errno == EAGAIN || errno == EINTR ? UmadRead::Nothing : UmadRead::End;
  }
  if (got == 0) {
    return UmadRead::End;
  }
  return got == static_cast<ssize_t>(sizeof header) ? UmadRead::Message : UmadRead::Malformed;
}

}  // namespace softhca
